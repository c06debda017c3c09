"""Word forms: are the forms of a lemma close on the input side and apart on the output side, and
does one table make it harder to choose the right form?

The claim is a column's (Habr), which has no measurement: the input gains from bringing forms
together, the output must keep them apart, and one table cannot do both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebench import paths
from tiebench.analysis.tables import write_table
from tiebench.corpus.tokenizer import SPECIALS, UNKNOWN, load_corpus_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import DataError
from tiebench.experiments.form_choice import Forms, by_lemma, choices, forms_of, unigram_choices
from tiebench.experiments.form_geometry import closeness, frequency_bins, unit_rows
from tiebench.experiments.lemmas import Lexicon, lemma_table, lexicon
from tiebench.experiments.word_forms_settings import (
    CENTRINGS,
    FAMILY,
    RAW,
    SIDES,
    WordFormsSettings,
)
from tiebench.files import holding, replacing_folder
from tiebench.model.lm import LanguageModel, load_model
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.training.batches import Batch, used_tokens, validation_batches

if TYPE_CHECKING:
    from tiebench.settings import Params
    from tiebench.training.settings import FamilySettings

Row = dict[str, Any]


@dataclass(frozen=True)
class Language:
    """What all models of the family are asked in one language.

    Attributes:
        lexicon: its words and lemmas.
        bins: `[words]` frequency bins.
        forms: what competes with what.
        counts: `[vocabulary]` training occurrences in the language.
        batches: the whole validation text.
    """

    lexicon: Lexicon
    bins: np.ndarray
    forms: Forms
    counts: np.ndarray
    batches: list[Batch]


def run(params: Params) -> None:
    """Write evals/<name>/word_forms/*.csv, all or none: a table for each of RAW.

    Raises:
        DataError: corpus or model missing or damaged, a model of other settings, or no lemma with
            two forms, or none of them in the validation text.
        BusyError: another process is at work on the word forms of the same report.
    """
    folder = paths.evaluation_folder(params.name, "word_forms")
    lock = paths.SCRATCH / f"word_forms-{params.name}.lock"
    with holding(lock, f"the word forms of {params.name}"), replacing_folder(folder) as partial:
        for name, rows in _rows(params).items():
            write_table(partial / f"{name}.csv", RAW[name], rows)


def _rows(params: Params) -> dict[str, list[Row]]:
    family, settings, device = params.word_decoders, params.word_forms, prepare_runtime()
    assert family is not None and settings is not None, "checked when params.yaml was read"
    languages = read_languages(family, settings, params.corpora[family.corpus].languages)
    rows: dict[str, list[Row]] = {name: [] for name in RAW}
    for code, held in languages.items():
        rows["baseline"] += _choice_rows(
            {"language": code}, held, unigram_choices(held.counts, held.batches, held.forms)
        )
    cells = [(run, seed) for run in family.all_runs for seed in family.seeds_of(run)]
    for name, seed in progress(cells, desc="word forms", unit="model"):
        model = _model(params, family, name, seed).to(device).eval()
        for code, held in languages.items():
            at = {"run": name, "seed": seed, "language": code}
            rows["geometry"] += _geometry_rows(at, held, model)
            found = choices(model, held.batches, held.forms, device)
            rows["choices"] += _choice_rows(at, held, found)
    rows["coverage"] = list(_coverage_rows(languages, rows["geometry"]))
    return rows


def read_languages(
    family: FamilySettings, settings: WordFormsSettings, codes: list[str]
) -> dict[str, Language]:
    """The lexicon and validation text of each language of the family's corpus."""
    folder = paths.corpus_folder(family.corpus)
    path = folder / "tokenizer.json"
    tokenizer = load_corpus_tokenizer(path)
    names = [str(tokenizer.id_to_token(x)) for x in range(tokenizer.get_vocab_size())]
    tokens = used_tokens(read_tokens(folder / "train.safetensors", path, codes), family.training)
    counts = {code: np.bincount(ids, minlength=len(names)) for code, ids in tokens.items()}
    valid = read_tokens(folder / "valid.safetensors", path, codes)
    whole = family.training.model_copy(update={"validation_windows": max(map(len, valid.values()))})
    batches = validation_batches(valid, whole, len(names))
    total = np.sum(list(counts.values()), axis=0)
    languages = {}
    for code in codes:
        table = lemma_table(code)
        words = lexicon(names, counts[code], total - counts[code], table, settings.minimum)
        held = Language(
            words,
            frequency_bins(words.counts, settings.bin_ratio),
            forms_of(words, len(names)),
            counts[code],
            batches[code],
        )
        _check(code, held, settings.minimum)
        languages[code] = held
    return languages


def _check(code: str, held: Language, minimum: int) -> None:
    at = f"word forms of {code}"
    mend = "lower word_forms.minimum, raise the vocabulary, or take a larger corpus"
    if not held.lexicon.inflected():
        raise DataError(
            at,
            found="no lemma with two forms in the vocabulary",
            expected=f"forms with {minimum} training occurrences or more (word_forms.minimum)",
            mend=mend,
        )
    targets = np.concatenate([batch.targets for batch in held.batches])
    if not np.any(held.forms.lemma[targets] >= 0):
        raise DataError(
            at, found="no form in the validation text", expected="at least one", mend=mend
        )


def _model(params: Params, family: FamilySettings, run: str, seed: int) -> LanguageModel:
    """The model of a cell.

    Raises:
        DataError: missing or damaged, or of another coupling or body than params.yaml says.
    """
    folder = paths.run_folder(params.name, FAMILY, run, seed)
    model = load_model(folder)
    wanted = (family.final_coupling(run), family.body_of(run))
    if (model.settings.coupling, model.settings.body) != wanted:
        raise DataError(
            folder / "config.json",
            found="another coupling or body",
            expected=f"those of {FAMILY}.runs.{run}",
            mend=f"run `dvc repro pretrain_{FAMILY}@{family.corpus}-{run}-{seed}`",
        )
    return model


def _geometry_rows(at: Row, held: Language, model: LanguageModel) -> Iterator[Row]:
    import torch

    with torch.no_grad():
        matrices = (model.coupling.input_matrix(), model.coupling.output_matrix())
        tables = [x.cpu().numpy()[held.lexicon.words] for x in matrices]
    for side, table in zip(SIDES, tables, strict=True):
        for centring in CENTRINGS:
            rows = unit_rows(table, centred=centring == "centred")
            for lemma, found in closeness(rows, held.lexicon, held.bins).items():
                yield {
                    **at, "side": side, "centring": centring,
                    "lemma": held.lexicon.names[lemma], **vars(found),
                }  # fmt: skip


def _choice_rows(
    at: Row, held: Language, found: tuple[np.ndarray, Mapping[str, np.ndarray]]
) -> Iterator[Row]:
    for lemma, values in by_lemma(*found).items():
        yield {**at, "lemma": held.lexicon.names[lemma], **values}


def _coverage_rows(languages: Mapping[str, Language], geometry: list[Row]) -> Iterator[Row]:
    """How much of vocabulary and text the comparisons are about.

    `words` are those of letters in the vocabulary, `validation_tokens` all tokens but line ends;
    `types` and `positions` are those of them that are forms with other forms.
    """
    first = geometry[0]
    same = {key: first[key] for key in ("run", "seed", "side", "centring")}
    for code, held in languages.items():
        inflected = held.lexicon.inflected()
        sizes = [len(places) for places in inflected.values()]
        matched = [r for r in geometry if r["language"] == code and same.items() <= r.items()]
        targets = np.concatenate([batch.targets for batch in held.batches])
        ordinary = targets[targets >= SPECIALS]
        values: dict[str, float] = {
            **held.lexicon.coverage,
            "types": sum(sizes),
            "lemmas": len(sizes),
            "pairs": sum(size * (size - 1) // 2 for size in sizes),
            "matched_lemmas": len(matched),
            "matched_pairs": sum(row["pairs"] for row in matched),
            "validation_tokens": len(ordinary),
            "unknown": int(np.sum(ordinary == UNKNOWN)),
            "positions": int(np.sum(held.forms.lemma[ordinary] >= 0)),
        }
        for metric, value in values.items():
            yield {"language": code, "metric": metric, "value": value}
