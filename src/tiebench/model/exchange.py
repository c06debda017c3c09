"""Reading checkpoints of the transformers library into model folders of ours.

Nothing of a checkpoint is run. Sizes must stand in config.json; another key that it lacks has the
default of its class, except the tie: that is taken from the tensors and `tie_word_embeddings`
together, and the import is refused where they disagree. Two equal tables are read as one whatever
the flag says, and it is noted.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tiebench.corpus.tokenizer import id_count, load_tokenizer, special_ends
from tiebench.errors import DataError
from tiebench.files import (
    read_json,
    replacing,
    replacing_folder,
    sha256_of,
    write_json,
    write_text,
)
from tiebench.model.architectures import ARCHITECTURES, Architecture, row_counts
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.native_configs import ANOTHER, Config, Reading
from tiebench.model.settings import CouplingSettings
from tiebench.model.weight_files import INDEX, WEIGHTS, WHOLE, weight_files
from tiebench.schema import validate

NUMBERS = ("F32", "F16", "BF16", "F64")
RENAMED = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Ends of names in BERT's oldest files."""


class Tensors:
    """The tensors of a checkpoint, of one file or of several with an index; read one at a time.

    Attributes:
        files: the files they are in.
        kinds: number formats met so far.

    Raises:
        DataError: no such file, a damaged one, or none but pickled ones.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kinds = folder, set[str]()
        names = weight_files(folder)
        self.files = [folder / name for name in names]
        self.open: dict[str, Any] = {}
        self.where: dict[str, tuple[str, str]] = {}
        for name in names:
            try:
                self.open[name] = safe_open(folder / name, framework="pt")
            except (OSError, SafetensorError) as error:
                expected = "a whole safetensors file"
                raise DataError(
                    folder / name, found=str(error), expected=expected, mend=WHOLE
                ) from None
            for key in self.open[name].keys():  # noqa: SIM118
                end = next((old for old in RENAMED if key.endswith(old)), None)
                read_as = key.removesuffix(end) + RENAMED[end] if end else key
                if read_as in self.where:
                    found = f"a tensor that {self.where[read_as][0]} holds too"
                    raise DataError(
                        f"{folder / name}: {key}", found=found, expected="one", mend=WHOLE
                    )
                self.where[read_as] = (name, key)

    def subject(self, name: str) -> str:
        """File and name of a tensor, for an error."""
        file, stored = self.where.get(name, (self.files[0].name, name))
        return f"{self.folder / file}: {stored}"

    def check(self, name: str, shape: list[int]) -> None:
        """Whether a tensor is there.

        Raises:
            DataError: no such tensor, another shape, or not floating-point numbers.
        """
        if name not in self.where:
            raise DataError(
                self.subject(name),
                found="no such tensor",
                expected=f"shape {shape}, as config.json has it",
                mend=f"{WHOLE}; a checkpoint without a language-model head is read when "
                "`architectures` in config.json names the class without one",
            )
        file, stored = self.where[name]
        held = self.open[file].get_slice(stored)
        kind, found = held.get_dtype(), held.get_shape()
        if kind not in NUMBERS or found != shape:
            raise DataError(
                self.subject(name),
                found=f"shape {found} of {kind}",
                expected=f"shape {shape} of {', '.join(NUMBERS)}, as config.json has it",
                mend="restore config.json and the tensors from one and the same checkpoint, not "
                "quantized",
            )

    def read(self, name: str, shape: list[int]) -> Tensor:
        """One tensor in float32.

        Raises:
            DataError: as `check`, or a number that is not finite in float32.
        """
        self.check(name, shape)
        file, stored = self.where[name]
        held = self.open[file].get_tensor(stored)
        self.kinds.add(str(held.dtype).removeprefix("torch."))
        held = held.to(torch.float32)
        finite = torch.isfinite(held)
        if not finite.all():
            raise DataError(
                self.subject(name),
                found=f"numbers that are not finite, {int((~finite).sum())} of {held.numel()}",
                expected="finite numbers in float32",
                mend=f"{WHOLE}; if its source has them too, take another checkpoint",
            )
        return held

    def shape(self, name: str) -> list[int]:
        """The shape of a tensor that is there."""
        file, stored = self.where[name]
        return self.open[file].get_slice(stored).get_shape()


def import_checkpoint(source: Path, target: Path, told: str | None = None) -> dict[str, Any]:
    """Write a model folder of ours from a checkpoint of transformers, whole or not at all.

    Args:
        source: folder with config.json, the tensors and tokenizer.json.
        target: gets config.json, model.safetensors, tokenizer.json, README.md and imported.json;
            what was there is replaced. One process at a time (see `replacing_folder`).
        told: what the record calls `source`; the folder's name unless given.

    Returns:
        What imported.json says: `architecture`, `files` (sha256 by name), `tie` (found in
        `tensors` and in `config`), `parameters`, `notes`, `folder` (`told`).

    Raises:
        DataError: a class that we cannot read, a value of config.json that our models do not
            have, a tie on which config.json and the tensors disagree, tensors that are missing,
            left over, of another shape or not finite, or a tokenizer that is missing or does not
            fit.
    """
    path = source / "config.json"
    config = Config(read_json(path, mend="name a folder with a checkpoint of transformers"), path)
    architecture, name = find_architecture(config)
    reading, tensors = architecture.read(config), Tensors(source)
    ends = _told_ends(source / "tokenizer.json", reading.vocabulary)
    importing = _Import(architecture, name == architecture.bare, config, reading, tensors)
    model = importing.model()
    files = {
        x.name: sha256_of(x)
        for x in (
            path,
            *([source / INDEX] if tensors.files[0].name != WEIGHTS else []),
            *tensors.files,
            source / "tokenizer.json",
        )
    }
    said: dict[str, Any] = {
        "architecture": name,
        "files": files,
        "tie": importing.tie,
        "parameters": model.parameter_counts(),
        "notes": [*importing.notes, ends],
        "folder": source.resolve().name if told is None else told,
    }
    with replacing_folder(target) as partial:
        save_model(model, partial)
        with replacing(partial / "tokenizer.json") as temporary:
            shutil.copyfile(source / "tokenizer.json", temporary)
        write_text(partial / "README.md", import_card(said))
        write_json(partial / "imported.json", said)
    return said


def find_architecture(config: Config) -> tuple[Architecture, str]:
    """The architecture that reads a checkpoint, and the name of its class.

    Raises:
        DataError: a class that none reads.
    """
    names = config.get("architectures", list, [])
    for architecture in ARCHITECTURES:
        for name in names:
            if name in architecture.classes:
                config.only("model_type", architecture.model_type)
                return architecture, str(name)
    for architecture in ARCHITECTURES:
        if architecture.unread and architecture.unread in names:
            raise config.error(
                "architectures",
                f"{architecture.unread}, which has no language-model head, whose table has "
                "another width",
                architecture.name,
                f"take a checkpoint of {architecture.name}",
            )
    known = ", ".join(name for architecture in ARCHITECTURES for name in architecture.classes)
    raise config.error("architectures", json.dumps(names), f"one of {known}")


class _Import:
    """One import: its model, and what is to be said about it."""

    def __init__(
        self,
        architecture: Architecture,
        bare: bool,
        config: Config,
        reading: Reading,
        tensors: Tensors,
    ) -> None:
        self.architecture, self.bare, self.config = architecture, bare, config
        self.reading, self.tensors = reading, tensors
        self.notes: list[str] = []
        self.tie: dict[str, object] = {}
        named = any(name.startswith(architecture.prefix) for name in tensors.where)
        self.prefix = architecture.prefix if named else ""
        self.read: set[str] = set()
        self.kept: dict[str, Tensor] = {}
        """Tables that were compared, until they are taken."""

    def model(self) -> LanguageModel:
        """The model, with its tensors."""
        reading = self.reading
        self._check_sizes()
        coupling = validate(
            CouplingSettings,
            {
                "option": "tied" if self._tied() else "untied",
                "tied": self._tied(),
                "input_width": reading.input_width,
                "output_width": reading.output_width,
                "transform": [] if self.bare else reading.transform,
                "bias": reading.bias and not self.bare,
                "std": reading.std,
            },
            str(self.config.path),
        )
        with torch.device("meta"):
            model = LanguageModel(coupling, reading.body, reading.vocabulary)
        model.load_state_dict(
            {name: self._parameter(name, p) for name, p in model.named_parameters()}, assign=True
        )
        self._leftovers(model)
        self._say(model)
        return model

    def _check_sizes(self) -> None:
        """Every size in config.json is that of a stored tensor, before anything is made of it."""
        body, prefix, held = self.reading.body, self.prefix, len(self.tensors.where)
        if body.layers > held:
            found, expected = f"{body.layers}", f"no more than there are tensors, {held}"
            raise self.config.error("num_hidden_layers", found, expected, WHOLE)
        architecture, vocabulary = self.architecture, self.reading.vocabulary
        decoder, stored = architecture.decoder, architecture.decoder in self.tensors.where
        narrow = self.reading.input_width or body.width
        wide = self.reading.output_width or body.width
        self.tensors.check(f"{prefix}{architecture.table}", [vocabulary, narrow])
        if not (stored or self.bare or narrow == wide):
            raise DataError(
                self.tensors.subject(decoder),
                found="no such tensor",
                expected=f"shape {[vocabulary, wide]}, since an input table of width {narrow} "
                "cannot be the output table",
                mend=WHOLE,
            )
        if stored and not self.bare:
            self.tensors.check(decoder, [vocabulary, wide])
        if architecture.positions:
            rows = body.maximum_length + self.reading.first_position
            width = body.position_width(narrow)
            self.tensors.check(f"{prefix}{architecture.positions}", [rows, width])
        up = architecture.theirs("body.blocks.0.feedforward.up.weight", prefix)[0]
        self.tensors.check(up, [body.feedforward_width, body.width])

    def _take(self, name: str, shape: list[int]) -> Tensor:
        self.read.add(name)
        if name in self.kept:
            return self.kept.pop(name)
        return self.tensors.read(name, shape)

    def _parameter(self, name: str, parameter: Tensor) -> Tensor:
        shape, body = list(parameter.shape), self.reading.body
        if name == "body.position_table":
            return self._positions(shape)
        if name == "coupling.bias":
            return self._bias(shape)
        theirs = self.architecture.theirs(name, self.prefix)
        counts = row_counts(name, shape[0], len(theirs), body)
        parts = [self._take(x, [n, *shape[1:]]) for x, n in zip(theirs, counts, strict=True)]
        return torch.cat(parts) if len(parts) > 1 else parts[0]

    def _tied(self) -> bool:
        """Whether there is one table: by the tensors and the config together."""
        if self.tie:
            return bool(self.tie["tied"])
        table = f"{self.prefix}{self.architecture.table}"
        decoder, flag = self.architecture.decoder, self.config.values.get("tie_word_embeddings")
        if not (flag is None or isinstance(flag, bool)):
            raise self.config.error("tie_word_embeddings", repr(flag), "true or false")
        said = "nothing" if flag is None else str(flag).lower()
        stored = not self.bare and {table, decoder} <= self.tensors.where.keys()
        if not stored:
            found, tied = "one table", True
        else:
            shapes = self.tensors.shape(table), self.tensors.shape(decoder)
            tied = shapes[0] == shapes[1]
            if tied:
                self.kept = {x: self.tensors.read(x, shapes[0]) for x in (table, decoder)}
                tied = torch.equal(*self.kept.values())
            found = "two equal tables" if tied else "two different tables"
        unheld = flag is False and not stored and not self.bare
        if unheld or (flag is True and not tied):
            raise DataError(
                f"{self.config.path}: tie_word_embeddings",
                found=f"{said}, beside {found} in the tensors "
                f"({table}{f' and {decoder}' if stored else f', and no {decoder}'})",
                expected="a tie on which config.json and the tensors agree",
                mend="find out how the checkpoint was trained, and set tie_word_embeddings to "
                f"{'false' if flag else 'true'} if the tensors are right",
            )
        if stored and tied:
            self._take(decoder, shapes[1])
            despite = ", though tie_word_embeddings is false" if flag is False else ""
            self.notes.append(f"{decoder} equals {table}: read as one table{despite}")
        self.tie = {"tied": tied, "tensors": found, "config": said}
        return tied

    def _bias(self, shape: list[int]) -> Tensor:
        """The head's bias, of which a file may hold two copies."""
        held = [name for name in self.architecture.biases if name in self.tensors.where]
        first = self._take(held[0] if held else self.architecture.biases[0], shape)
        last = self._take(held[-1], shape) if len(held) > 1 else first
        if torch.equal(first, last):
            return first
        if self._tied():
            raise DataError(
                self.tensors.subject(held[-1]),
                found=f"other values than in {held[0]}",
                expected="the same, in a tied head",
                mend="remove the one that the model was not trained with",
            )
        self.notes.append(f"the bias of the head is {held[-1]}, not {held[0]}, which differs")
        return last

    def _positions(self, shape: list[int]) -> Tensor:
        """The position table, with the type of the first sentence added to every row."""
        start, width = self.reading.first_position, shape[1]
        name = f"{self.prefix}{self.architecture.positions}"
        table = self._take(name, [start + shape[0], width])[start:].clone()
        if start:
            self.notes.append(
                f"positions start at row {start} of {name}; the rows before are not kept"
            )
        types = f"{self.prefix}{self.architecture.types}"
        stored = self.tensors.shape(types)[:1] if types in self.tensors.where else []
        first = self._take(types, [max([1, *stored]), width])[0]
        if first.any():
            self.notes.append(
                f"row 0 of {types} is added to the positions; other rows are not kept"
            )
        return table + first

    def _leftovers(self, model: LanguageModel) -> None:
        """Every tensor is read, or stands where it takes no part, or is what ours computes."""
        architecture, left_out = self.architecture, set()
        constants = architecture.extra(model.settings)
        for name in sorted(self.tensors.where.keys() - self.read):
            if re.search(architecture.ignored, name):
                left_out.add(name.rpartition(".")[0])
                continue
            full = name if self.prefix else f"{architecture.prefix}{name}"
            constant = constants.get(re.sub(architecture.copies, "", full))
            if constant is None:
                raise DataError(
                    self.tensors.subject(name),
                    found="a tensor that has no place in the model",
                    expected=f"those of {architecture.bare if self.bare else architecture.name} "
                    "with the shape in config.json",
                    mend="name the class that the tensors belong to under `architectures` in "
                    f"config.json, or {ANOTHER}",
                )
            held = self.tensors.read(name, list(constant.shape))
            rounding = 1e-5 if self.tensors.kinds <= {"float32", "float64"} else 1e-2
            if not torch.allclose(held, constant, rtol=rounding, atol=0.0):
                raise DataError(
                    self.tensors.subject(name),
                    found=f"{held.flatten()[:4].tolist()}...",
                    expected=f"{constant.flatten()[:4].tolist()}..., which our models compute",
                    mend=ANOTHER,
                )
        if left_out:
            self.notes.append(
                f"not read, since no state or logit needs it: {', '.join(sorted(left_out))}"
            )

    def _say(self, model: LanguageModel) -> None:
        if self.bare:
            self.notes.insert(
                0,
                f"{self.architecture.bare} has no language-model head: one table, no transform and "
                "no bias; only its states mean something",
            )
        kinds = self.tensors.kinds - {"float32"}
        if kinds:
            self.notes.append(f"converted from {' and '.join(sorted(kinds))} to float32")
        rates = {
            key: self.config.values[key]
            for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout")
            if self.config.values.get(key)
        }
        if rates:
            told = ", ".join(f"{key} {rate}" for key, rate in rates.items())
            self.notes.append(f"our models have no dropout; the source was trained with {told}")


def _told_ends(path: Path, vocabulary: int) -> str:
    """What the tokenizer puts around a sentence, in words.

    Raises:
        DataError: no such file, a damaged one, or one of a larger vocabulary.
    """
    if not path.is_file():
        raise DataError(
            path,
            found="no such file",
            expected="a fast tokenizer beside the model",
            mend="write one with transformers: "
            "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        )
    tokenizer = load_tokenizer(path)
    rows = id_count(tokenizer)
    if rows > vocabulary:
        raise DataError(
            path,
            found=f"token ids up to {rows - 1}",
            expected=f"ids below vocab_size = {vocabulary}, the rows of the table",
            mend="restore the tokenizer that the model was trained with",
        )
    before, after = (
        " ".join(str(tokenizer.id_to_token(index)) for index in ids) or "nothing"
        for ids in special_ends(tokenizer)
    )
    return f"the tokenizer puts {before} before a sentence and {after} after it"


def import_card(said: dict[str, Any]) -> str:
    """README.md of an imported model."""
    tie, counts = said["tie"], said["parameters"]
    rows = {
        "source": f"a checkpoint of transformers, class {said['architecture']}",
        "tables": f"{tie['tensors']} in the file; tie_word_embeddings in config.json says "
        f"{tie['config']}",
        "parameters": f"{counts['pretraining']:,} in pretraining, {counts['fine_tuning']:,} in "
        "fine-tuning",
        **{f"sha256 of {name}": f"`{digest}`" for name, digest in said["files"].items()},
    }
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    notes = "".join(f"- {note}\n" for note in said["notes"])
    return (
        "# Imported model\n\nTrained elsewhere, and read into this format without training; its "
        f"licence is that of its source.\n\n| | |\n|---|---|\n{table}\n\n{notes}\n"
        "Load it with `tiebench.model.lm.load_model(folder)`.\n"
    )
