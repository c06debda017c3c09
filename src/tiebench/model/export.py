"""Writing a run as a native checkpoint of the transformers library, and comparing the two."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from tiebench.corpus.tokenizer import MASK, NAMES, OWN_ENDS, PAD, Ends, load_tokenizer, special_ends
from tiebench.errors import DataError, SettingsError
from tiebench.files import replacing, replacing_folder, write_json, write_text
from tiebench.model.architectures import (
    ARCHITECTURES,
    Architecture,
    common_config,
    obstacles,
    row_counts,
)
from tiebench.model.folders import new_folder
from tiebench.model.lm import LanguageModel, load_model
from tiebench.model.settings import Norm
from tiebench.model.tensors import save_tensors
from tiebench.paths import cell_name, run_folder
from tiebench.settings import families, load_params

LIMIT = 1e-4
"""Largest difference between a run and its export, as `differences` measures it."""
EPSILON_LIMIT = 1e-5
"""The same where the head's norm takes the body's epsilon for its own."""
ROWS, LENGTH = 3, 128
"""Sentences of random tokens that are compared, and the length of the longest."""
PADDING, MASKING = ("[PAD]", "<pad>", "<|pad|>"), ("[MASK]", "<mask>", "<|mask|>")
"""Usual spellings in tokenizers that were trained elsewhere."""


@dataclass
class Exported:
    """What `export_run` wrote."""

    architecture: str
    parameters: int
    differences: dict[str, float] = field(default_factory=dict)
    """By layer, and of the logits."""
    notes: list[str] = field(default_factory=list)


def export_run(run: Path, target: Path) -> Exported:
    """Write config.json, model.safetensors, a tokenizer and a card that transformers loads.

    Args:
        run: model folder with config.json, model.safetensors and tokenizer.json.
        target: missing, or an empty folder.

    Raises:
        SettingsError: no class of transformers computes this model.
        DataError: `target` holds something, the run is damaged, transformers is missing, or what
            it computes from the export is something else; nothing is written then.
        BusyError: another process writes `target`.
    """
    with new_folder(target) as folder:
        return _export(run, folder)


def _export(run: Path, target: Path) -> Exported:
    model, tokenizer = load_model(run), load_tokenizer(run / "tokenizer.json")
    architecture = find_native(model)
    special = _special(tokenizer)
    exported = Exported(architecture.name, model.parameter_counts()["pretraining"])
    limit = _epsilon_limit(model, exported)
    config = {
        "architectures": [architecture.name],
        "model_type": architecture.model_type,
        **common_config(model.settings, model.vocabulary),
        **(architecture.writes(model.settings) if architecture.writes else {}),
        **{f"{name}_token_id": special.get(name) for name in ("pad", "bos", "eos")},
        **({"mask_token_id": special["mask"]} if "mask" in special else {}),
    }
    with replacing_folder(target) as partial:
        write_json(partial / "config.json", config)
        save_tensors(
            partial / "model.safetensors", native_tensors(architecture, model), {"format": "pt"}
        )
        _write_tokenizer(run / "tokenizer.json", tokenizer, special, model, partial)
        exported.differences = differences(partial, architecture, model, special)
        beyond = [name for name, value in exported.differences.items() if not value <= limit]
        if beyond:  # or not a number
            raise DataError(
                f"{run} as {architecture.name}",
                found=f"a difference of {exported.differences[beyond[0]]:.2g} in {beyond[0]}"
                + "".join(f"; {note}" for note in exported.notes),
                expected=f"at most {limit:g}",
                mend="nothing was written; export with the versions of requirements.lock, or load "
                "the run with tiebench.model.lm.load_model",
            )
        write_text(partial / "README.md", _card(run, exported))
    return exported


def resolve_run(run: str) -> Path:
    """The model folder of RUN: itself, or a cell of the report in params.yaml.

    `decoders/tied-s0` names the family; `tied-s0` is that of the first family with such a run.

    Raises:
        SettingsError: neither a folder nor a cell; or a cell that has not been trained yet.
    """
    if (Path(run) / "config.json").is_file():
        return Path(run)
    params = load_params()
    cells: dict[str, Path] = {}
    for family, group in families(params).items():
        for name, seed in ((x, seed) for x in group.all_runs for seed in group.seeds_of(x)):
            folder = run_folder(params.name, family, name, seed)
            cells[f"{family}/{cell_name(name, seed)}"] = folder
            cells.setdefault(cell_name(name, seed), folder)
    if run in cells and (cells[run] / "config.json").is_file():
        return cells[run]
    known = ", ".join(
        f"{family}/{cell_name(name, group.seeds_of(name)[0])}"
        for family, group in families(params).items()
        for name in group.all_runs
    )
    raise SettingsError(
        run,
        found=f"no model in {cells[run]}" if run in cells else "no model folder, and no run",
        expected=f"a model folder, or a run and its seed: {known}, or another seed of these; the "
        "family may be left out",
        mend="run `dvc repro`" if run in cells else "name one of these",
    )


def find_native(model: LanguageModel) -> Architecture:
    """The class of transformers that computes this model.

    Raises:
        SettingsError: none does; the settings in the way of the nearest one.
    """
    writable = [architecture for architecture in ARCHITECTURES if architecture.writes]
    in_the_way = {x.name: obstacles(x, model.settings) for x in writable}
    nearest = min(writable, key=lambda x: len(in_the_way[x.name]))
    if not in_the_way[nearest.name]:
        return nearest
    raise SettingsError(
        "export",
        found=f"a model that no class of transformers computes; the nearest is {nearest.name}, but "
        + "; ".join(in_the_way[nearest.name]),
        expected=f"the settings of one of {', '.join(x.name for x in writable)}",
        mend="load it with tiebench.model.lm.load_model, or train a run with those settings "
        "(`tiebench params body@encoders.body=bert`)",
    )


def native_tensors(architecture: Architecture, model: LanguageModel) -> dict[str, Tensor]:
    """The tensors of a model by the names of an architecture; a tied table once."""
    tensors = architecture.extra(model.settings)
    for name, parameter in model.named_parameters():
        held = parameter.detach().cpu()
        theirs = architecture.theirs(name, architecture.prefix)
        counts = row_counts(name, len(held), len(theirs), model.settings.body)
        tensors |= {x: part.clone() for x, part in zip(theirs, held.split(counts), strict=True)}
    if model.settings.coupling.bias and not model.settings.coupling.tied:
        held = tensors[architecture.biases[0]]
        tensors |= {name: held.clone() for name in architecture.biases[1:]}
    return tensors


def _epsilon_limit(model: LanguageModel, exported: Exported) -> float:
    """The limit on differences; these classes have one epsilon for body and head."""
    body = model.settings.body.norm_epsilon
    other = {
        operation.epsilon
        for operation in model.settings.coupling.transform
        if isinstance(operation, Norm) and operation.epsilon != body
    }
    if not other:
        return LIMIT
    exported.notes.append(
        f"the epsilon of the head's norm, {other.pop():g}, is {body:g} in the export, that of the "
        "body, since the class has one for both"
    )
    return EPSILON_LIMIT


def _special(tokenizer: Tokenizer) -> dict[str, int]:
    """Ids of the special tokens, by what transformers calls them."""
    ends = special_ends(tokenizer)
    if _is_own(tokenizer, ends):
        return {"pad": PAD, "mask": MASK, "bos": ends.prefix[0], "eos": ends.suffix[0]}
    vocabulary = tokenizer.get_vocab()
    found = {
        "pad": [vocabulary[name] for name in PADDING if name in vocabulary],
        "mask": [vocabulary[name] for name in MASKING if name in vocabulary],
        "bos": ends.prefix[:1],
        "eos": ends.suffix[-1:],
    }
    return {name: values[0] for name, values in found.items() if values}


def _is_own(tokenizer: Tokenizer, ends: Ends) -> bool:
    first = tuple(tokenizer.id_to_token(index) for index in range(len(NAMES)))
    return ends == OWN_ENDS and first == NAMES


def _write_tokenizer(
    path: Path, tokenizer: Tokenizer, special: dict[str, int], model: LanguageModel, folder: Path
) -> None:
    """tokenizer.json with what stands around a sentence, and tokenizer_config.json."""
    if _is_own(tokenizer, special_ends(tokenizer)):
        from tokenizers.processors import TemplateProcessing

        _, cls, sep, _ = NAMES
        tokenizer.post_processor = TemplateProcessing(
            single=f"{cls} $A {sep}",
            pair=f"{cls} $A {sep} $B {sep}",
            special_tokens=[(name, NAMES.index(name)) for name in (cls, sep)],
        )
        write_text(folder / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
    else:
        with replacing(folder / "tokenizer.json") as temporary:
            shutil.copyfile(path, temporary)
    spelled = {name: tokenizer.id_to_token(index) for name, index in special.items()}
    if not model.settings.body.causal:
        spelled |= {
            name: spelled[of] for name, of in (("cls", "bos"), ("sep", "eos")) if of in spelled
        }
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": model.settings.body.maximum_length,
            "model_input_names": ["input_ids", "attention_mask"],
            "clean_up_tokenization_spaces": False,
            **{f"{name}_token": token for name, token in spelled.items()},
        },
    )


@torch.no_grad()
def differences(
    folder: Path, architecture: Architecture, model: LanguageModel, special: dict[str, int]
) -> dict[str, float]:
    """How far logits and states of transformers are from ours, on random tokens with padding.

    Args:
        folder: the export, loaded without network and from safetensors only.
        model: the run.
        special: ids of special tokens; "pad" fills the padding.

    Returns:
        The largest absolute difference in each layer's states and in the logits; divided by the
        largest absolute value of ours where that is above 1.

    Raises:
        DataError: transformers is missing, cannot load the export, or finds tensors missing or
            left over.
    """
    native = _load_native(folder, architecture)
    length = min(LENGTH, model.settings.body.maximum_length)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(model.vocabulary, (ROWS, length), generator=generator)
    lengths = torch.tensor([length - length * row // (ROWS + 1) for row in range(ROWS)])
    attended = torch.arange(length) < lengths[:, None]
    ids[~attended] = special.get("pad", 0)
    out = native(input_ids=ids, attention_mask=attended.long(), output_hidden_states=True)
    states = model.eval().states(ids, attended)
    pairs = {
        f"layer {i}": pair for i, pair in enumerate(zip(out.hidden_states, states, strict=True))
    }
    pairs["logits"] = (out.logits, model.coupling.logits(states[-1]))
    return {
        name: float((theirs - ours)[attended].abs().max() / ours[attended].abs().max().clamp(min=1))
        for name, (theirs, ours) in pairs.items()
    }


def _load_native(folder: Path, architecture: Architecture) -> Any:
    try:
        import transformers
    except ImportError:
        raise DataError(
            "transformers",
            found="not installed",
            expected="the library, to compare the export with the run",
            mend="`make setup`, or `pip install transformers`",
        ) from None
    transformers.utils.logging.disable_progress_bar()
    loaded, info = getattr(transformers, architecture.name).from_pretrained(
        folder, local_files_only=True, use_safetensors=True, dtype=torch.float32,
        output_loading_info=True,
    )  # fmt: skip
    wrong = {key: sorted(map(str, info[key])) for key in ("missing_keys", "unexpected_keys")}
    if any(wrong.values()):
        raise DataError(
            folder,
            found="; ".join(f"{key}: {', '.join(names)}" for key, names in wrong.items() if names),
            expected=f"those of {architecture.name} in transformers {transformers.__version__}",
            mend="export with the version in requirements.lock",
        )
    return loaded.eval()


def _card(run: Path, exported: Exported) -> str:
    """README.md of an export, with the table of the run's own card."""
    own = run / "README.md"
    held = own.read_text("utf-8").splitlines() if own.is_file() else []
    title = next((line.removeprefix("# ") for line in held if line.startswith("# ")), run.name)
    table = "\n".join(line for line in held if line.startswith("|"))
    largest = max(exported.differences.values())
    auto = re.sub(r".*For", "AutoModelFor", exported.architecture)
    parts = [
        "---\nlibrary_name: transformers\n---",
        f"# {title}",
        f"Written by `tiebench export` as {exported.architecture}. On random tokens, its logits "
        f"and the states of each layer differ from the run's by {largest:.2g} at most.",
        table,
        "".join(f"- {note}\n" for note in exported.notes).rstrip(),
        f"```python\nfrom transformers import {auto}, AutoTokenizer\n\n"
        f'model, tokenizer = {auto}.from_pretrained("."), AutoTokenizer.from_pretrained(".")\n```',
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
