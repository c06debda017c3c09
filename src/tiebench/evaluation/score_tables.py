"""The long-format tables of a report, from the artefacts of the cells that params.yaml names."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from tiebench import paths
from tiebench.analysis.counting import coupled_counts
from tiebench.analysis.shapes import own_shape
from tiebench.digests import locked_versions, stage_digest
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell
from tiebench.evaluation.scoring import finite
from tiebench.evaluation.statistics_settings import StatisticsSettings
from tiebench.files import digest_of, read_json, sha256_of
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.model.words import head_words, table_words
from tiebench.settings import FamilySettings, Params, all_groups

Row = dict[str, Any]
Metrics = Mapping[Cell, Mapping[str, Any]]

RUNS = (
    "family", "study", "run", "baseline", "trained", "control", "tied",
    "input_width", "output_width", "width", "layers", "feedforward_width",
    "other_body", "head", "other_head", "coupling", "input_std", "output_std", "tables",
    "other_tables", "corpus",
    "objective", "masking", "vocabulary", "steps", "batch_size", "sequence_length", "tokens",
    "train_flops", "learning_rate", "data_share", "replaced", "seeds", "matches", "matched_in",
)  # fmt: skip
PARAMETERS = ("family", "run", "metric", "value")
LANGUAGE_MODELING = (
    "family", "run", "seed", "split", "language", "bin", "metric", "value", "perplexity"
)  # fmt: skip
"""`split` is `valid` but for recurrent runs, which have `train` and `test` too; `perplexity` is
that of the loss of a causal model, per predicted token."""
LEARNING_CURVES = ("family", "run", "seed", "step", "tokens", "metric", "value")
CORPUS = ("corpus", "language", "part", "metric", "value")
PROVENANCE = ("item", "value")
HEADLINES = ("loss", "accuracy", "bits_per_byte", "initial_loss", "unigram_loss")
"""Metrics of the whole validation that a run is judged by."""

STAGES = (
    "prepare", "labels", "pretrain", "retrieval", "probing", "transfer", "accounting",
    "initial_loss", "bigram", "sweep", "tables", "domains", "word_forms", "evidence", "score",
)  # fmt: skip
LIBRARIES = (
    "torch", "tokenizers", "numpy", "scipy", "scikit-learn", "statsmodels", "datasets", "evaluate",
    "pyarrow", "matplotlib",
)  # fmt: skip


def run_rows(params: Params, metrics: Metrics) -> list[Row]:
    """What each run is: one row, the same for all its seeds."""
    rows: list[Row] = []
    for family, group in all_groups(params).items():
        common = group.runs[group.baseline].coupling
        windows = group if isinstance(group, FamilySettings) else None
        masking = windows and windows.training.masking
        described: list[Row] = []
        for run, settings in group.all_runs.items():
            coupling, training = group.final_coupling(run), group.training_of(run)
            body, vocabulary = group.body_of(run), vocabulary_of(params, group.corpus)
            shape = own_shape(coupling, body, vocabulary)
            seeds, matched = group.seeds_of(run), windows and windows.matched.get(run)
            cell = Cell(params.name, family, group.corpus, run, seeds[0], matched is not None)
            described.append(
                {
                    "family": family,
                    "study": group.study,
                    "run": run,
                    "baseline": run == group.baseline,
                    "trained": settings.trained,
                    "tied": coupling.tied,
                    "input_width": shape.widths[0],
                    "output_width": shape.widths[1],
                    "width": body.width,
                    "layers": _layers(body),
                    "feedforward_width": shape.feedforward_width if shape.layers else None,
                    "other_body": bool(settings.body),
                    "head": head_words(coupling, body.width, vocabulary),
                    "other_head": _differ(HEAD, coupling, common),
                    "coupling": coupling.option,
                    "input_std": coupling.table_std(vocabulary, shape.widths[0]),
                    "output_std": coupling.table_std(vocabulary, shape.widths[1]),
                    "tables": table_words(coupling, body.width, vocabulary),
                    "other_tables": _differ(TABLES, coupling, common),
                    "corpus": group.corpus,
                    "objective": metrics[cell]["objective"],
                    "masking": masking.probability if masking and settings.trained else None,
                    "vocabulary": vocabulary,
                    "steps": metrics[cell]["steps"],
                    "batch_size": training.batch_size,
                    "sequence_length": training.sequence_length,
                    "tokens": metrics[cell]["tokens"],
                    "train_flops": metrics[cell]["train_flops"],
                    "learning_rate": training.learning_rate if settings.trained else None,
                    "data_share": training.data_share if settings.trained else None,
                    "replaced": replacements(settings.training),
                    "seeds": " ".join(map(str, seeds)),
                    "matches": matched and matched.matches.run,
                    "matched_in": matched and matched.matches.parameters,
                }
            )
        rows += ({**row, "control": control_of(row, described)} for row in described)
    return rows


def _layers(body: BodySettings) -> int:
    return 0 if body.kind == "identity" else body.layers


def control_of(run: Row, runs: list[Row]) -> str | None:
    """The untrained run that a trained one of the same family is held against.

    One whose input table is as wide, of these the one most like it; without any, the tied one,
    else any. None for a run that is itself untrained, and in a family without untrained runs.
    """
    untrained = [row for row in runs if not row["trained"]]
    if not run["trained"] or not untrained:
        return None
    alike = [row for row in untrained if row["input_width"] == run["input_width"]]
    alike = alike or [row for row in untrained if row["tied"]] or untrained
    kept = ("layers", "output_width", "tied")
    return str(max(alike, key=lambda row: [row[key] == run[key] for key in kept])["run"])


HEAD = ("transform", "bias", "logit_scale")
TABLES = (
    "std", "distribution", "shared_initialization", "input_operations", "output_operations",
    "input_scale",
)  # fmt: skip
"""The fields of a coupling besides widths and tie: of its head, and of its tables."""


def _differ(fields: tuple[str, ...], one: CouplingSettings, other: CouplingSettings) -> bool:
    return any(getattr(one, field) != getattr(other, field) for field in fields)


def replacements(training: Mapping[str, Any], prefix: str = "") -> str:
    """What a run replaces of its family's training, as `key=value key=value`."""
    said = [
        replacements(value, f"{prefix}{key}.")
        if isinstance(value, Mapping)
        else f"{prefix}{key}={json.dumps(value)}"
        for key, value in training.items()
    ]
    return " ".join(said)


def vocabulary_of(params: Params, corpus: str) -> int:
    """Entries of the vocabulary of a corpus that is trained on."""
    tokenizer = params.corpora[corpus].tokenizer
    assert tokenizer is not None, "checked when params.yaml was read"
    return tokenizer.vocabulary


def parameter_rows(params: Params, metrics: Metrics) -> list[Row]:
    """Parameters by part of each run.

    Raises:
        DataError: a run folder holds a model of another shape than params.yaml says.
    """
    rows: list[Row] = []
    for cell, held in metrics.items():
        group = all_groups(params)[cell.family]
        expected = coupled_counts(
            group.final_coupling(cell.run),
            group.body_of(cell.run),
            vocabulary_of(params, cell.corpus),
        ).as_dict()
        if held["parameters"] != expected:
            raise DataError(
                cell.folder / "metrics.json",
                found=f"parameters {held['parameters']}",
                expected=f"{expected}, as params.yaml gives",
                mend=f"run `{cell.pretrain}`",
            )
        if cell.seed == group.seeds_of(cell.run)[0]:
            rows += (
                {"family": cell.family, "run": cell.run, "metric": metric, "value": value}
                for metric, value in expected.items()
            )
    return rows


def language_modeling_rows(metrics: Metrics) -> Iterator[Row]:
    """Loss and accuracy of each cell: overall, by language, by token-frequency bin."""
    for cell, held in metrics.items():
        causal = held["objective"] == "causal"
        rows = _validation(cell, held["validation"], causal=causal)
        yield from finite(rows, cell, "pretrain", cell.corpus)


def _validation(cell: Cell, validation: Mapping[str, Any], *, causal: bool) -> Iterator[Row]:
    parts = [("all", "all", validation)]
    parts += [(name, "all", part) for name, part in validation["by_language"].items()]
    parts += [("all", part["bin"], part) for part in validation["by_frequency"]]
    for language, bin_, part in parts:
        for metric, value in part.items():
            if isinstance(value, int | float):
                yield {
                    "family": cell.family, "run": cell.run, "seed": cell.seed, "split": "valid",
                    "language": language, "bin": bin_, "metric": metric, "value": value,
                    "perplexity": math.exp(value) if causal and metric == "loss" else None,
                }  # fmt: skip


def headline_rows(language_modeling: list[Row]) -> Iterator[Row]:
    """The few numbers of each cell's validation that a run is judged by."""
    for row in language_modeling:
        if (row["language"], row["bin"]) == ("all", "all") and row["metric"] in HEADLINES:
            yield {key: row[key] for key in ("family", "run", "seed", "metric", "value")}


def learning_curve_rows(metrics: Metrics) -> Iterator[Row]:
    """The training history of each cell, one row per number; losses in nats per prediction."""
    for cell in metrics:
        yield from finite(_history(cell), cell, "pretrain", cell.corpus)


def _history(cell: Cell) -> Iterator[Row]:
    names = {
        "train_loss" if cell.family == paths.RECURRENT else "loss": "training_loss",
        "validation_loss": "validation_loss",
        "learning_rate": "learning_rate",
        "gradient_norm": "gradient_norm",
    }
    for row in cell.history():
        for column, metric in names.items():
            if row[column]:
                yield {
                    "family": cell.family, "run": cell.run, "seed": cell.seed,
                    "step": int(row["step"]), "tokens": int(row["tokens"]),
                    "metric": metric, "value": float(row[column]),
                }  # fmt: skip


def corpus_rows(params: Params) -> Iterator[Row]:
    """Sizes of every corpus, what was dropped and why, and the share of repeated tokens."""
    for name in params.corpora:
        meta = corpus_meta(name)
        for language, strings in _read(meta).items():
            yield _corpus_row(name, language, "read", "strings", strings)
        for item in meta.get("dropped", ()):
            yield _corpus_row(name, item["lang"], "dropped", item["reason"], item["strings"])
        heldout = meta.get("heldout", {"sentences": 0})["sentences"]
        yield _corpus_row(name, "all", "heldout", "strings", heldout)
        for part in ("train", "valid", "test"):
            for language, sizes in meta.get(part, {}).items():
                for metric, value in sizes.items():
                    yield _corpus_row(name, language, part, metric, value)
        for language, share in meta.get("repeated_token_share", {}).items():
            yield _corpus_row(name, language, "train", "repeated_token_share", share)


def _read(meta: Mapping[str, Any]) -> dict[str, int]:
    """Strings that were read, by language; a text published in parts is kept whole."""
    held: dict[str, int] | None = meta.get("read")
    if held is None:
        parts = [meta[part] for part in ("train", "valid", "test")]
        held = {x: sum(part[x]["strings"] for part in parts) for x in meta["languages"]}
    return held


def _corpus_row(corpus: str, language: str, part: str, metric: str, value: float) -> Row:
    return dict(zip(CORPUS, (corpus, language, part, metric, value), strict=True))


def corpus_meta(corpus: str) -> dict[str, Any]:
    """meta.json of a prepared corpus.

    Raises:
        DataError: missing or damaged.
    """
    path = paths.corpus_folder(corpus) / "meta.json"
    meta: dict[str, Any] = read_json(path, mend=f"run `dvc repro prepare@{corpus}`")
    return meta


def provenance_rows(params: Params, metrics: Metrics) -> Iterator[Row]:
    """Where the numbers come from: command, settings, rules, data, versions; no clock."""
    yield {"item": "command", "value": f"make repro REPORT={params.name}"}
    yield {"item": "size", "value": params.size}
    yield {"item": "settings, sha256", "value": digest_of(params.model_dump(mode="json"))}
    for item, value in _rules(params.statistics).items():
        yield {"item": item, "value": value}
    for name in params.corpora:
        source = corpus_meta(name)["source"]
        if params.corpora[name].published is None:
            described = _described(source)
        else:
            described = "; ".join(f"{part}: {_described(held)}" for part, held in source.items())
        yield {"item": f"corpus {name}, source", "value": described}
        digest = sha256_of(paths.corpus_folder(name) / "meta.json")
        yield {"item": f"corpus {name}, meta.json sha256", "value": digest}
    for name in params.labels:
        path = paths.labels_folder(name) / "meta.json"
        yield {"item": f"labels {name}, meta.json sha256", "value": sha256_of(path)}
    for family, corpus in {cell.family: cell.corpus for cell in metrics}.items():
        first = next(cell for cell in metrics if cell.family == family)
        digest = sha256_of(first.folder / "tokenizer.json")
        yield {"item": f"tokenizer of {corpus}, sha256", "value": digest}
    for stage in STAGES:
        yield {"item": f"code of {stage}, sha256", "value": stage_digest(stage)}
    for library, version in locked_versions(LIBRARIES).items():
        yield {"item": f"version of {library}", "value": version}


def _described(source: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in source.items() if value is not None)


def _rules(statistics: StatisticsSettings) -> dict[str, str]:
    """What differences are judged by, in words."""
    corrections = {
        "holm": "Holm's method",
        "bonferroni": "Bonferroni's method",
        "fdr_bh": "false discovery rate by Benjamini and Hochberg's method",
        "none": "none",
    }
    margins, flat = statistics.margins, statistics.flattened
    shares = ("accuracy", "retrieval", "probing", "transfer")
    points = ", ".join(f"{name} {100 * getattr(margins, name):g}" for name in shares)
    return {
        "correction of p values": corrections[statistics.correction],
        "margins of equivalence": f"loss {margins.loss:g} nats; in points of 100: {points}",
        "rule of flat learning curves": (
            f"the validation loss changes by less than {flat.nats:g} nats over the last "
            f"{100 * flat.share:g}% of the training tokens, in the mean over seeds"
        ),
    }
