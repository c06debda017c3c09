"""The long-format tables of a report, from the artefacts of the cells that params.yaml names."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tiebench import paths
from tiebench.analysis.counting import coupled_counts
from tiebench.analysis.shapes import own_shape
from tiebench.digests import locked_versions, stage_digest
from tiebench.errors import DataError
from tiebench.evaluation.cells import SEARCHED, Cell, read_outcomes
from tiebench.files import digest_of, read_json, sha256_of
from tiebench.model.settings import CouplingSettings, Linear
from tiebench.progress import progress
from tiebench.settings import Params, families

Row = dict[str, Any]
Metrics = Mapping[Cell, Mapping[str, Any]]

RETRIEVAL_SETS = ("family", "run", "seed", "set", "metric", "value")
RUNS = (
    "family", "study", "run", "baseline", "trained", "tied",
    "input_width", "output_width", "width", "layers", "other_body", "head", "corpus", "objective",
    "vocabulary", "steps", "batch_size", "sequence_length", "tokens", "train_flops",
    "learning_rate", "seeds",
)  # fmt: skip
PARAMETERS = ("family", "run", "metric", "value")
LANGUAGE_MODELING = ("family", "run", "seed", "language", "bin", "metric", "value")
LEARNING_CURVES = ("family", "run", "seed", "step", "tokens", "metric", "value")
RETRIEVAL_KEYS = ("set", "source", "target", "layer", "distance", "offset", "subset")
RETRIEVAL = ("family", "run", "seed", *RETRIEVAL_KEYS, "metric", "value", "n")
CORPUS = ("corpus", "language", "part", "metric", "value")
PROVENANCE = ("item", "value")

STAGES = ("prepare", "pretrain", "retrieval", "accounting", "score")
LIBRARIES = (
    "torch", "tokenizers", "numpy", "scipy", "datasets", "evaluate", "pyarrow", "matplotlib",
)  # fmt: skip


def run_rows(params: Params, metrics: Metrics) -> list[Row]:
    """What each run is: one row, the same for all its seeds."""
    rows = []
    for family, group in families(params).items():
        for run, settings in group.runs.items():
            body, vocabulary = group.body_of(run), _vocabulary(params, group.corpus)
            shape = own_shape(settings.coupling, body, vocabulary)
            cell = Cell(params.name, family, group.corpus, run, group.seeds[0])
            rows.append(
                {
                    "family": family,
                    "study": group.study,
                    "run": run,
                    "baseline": run == group.baseline,
                    "trained": settings.trained,
                    "tied": settings.coupling.tied,
                    "input_width": shape.widths[0],
                    "output_width": shape.widths[1],
                    "width": body.width,
                    "layers": shape.layers,
                    "other_body": bool(settings.body),
                    "head": _head(settings.coupling, shape.widths[1]),
                    "corpus": group.corpus,
                    "objective": group.training.objective,
                    "vocabulary": vocabulary,
                    "steps": metrics[cell]["steps"],
                    "batch_size": group.training.batch_size,
                    "sequence_length": group.training.sequence_length,
                    "tokens": metrics[cell]["tokens"],
                    "train_flops": metrics[cell]["train_flops"],
                    "learning_rate": group.training.learning_rate if settings.trained else None,
                    "seeds": " ".join(map(str, group.seeds)),
                }
            )
    return rows


def _head(coupling: CouplingSettings, output_width: int) -> str:
    names = [
        f"linear to {operation.width or output_width}"
        if isinstance(operation, Linear)
        else operation.kind
        for operation in coupling.transform
    ]
    return ", ".join([*names, "bias"] if coupling.bias else names) or "none"


def _vocabulary(params: Params, corpus: str) -> int:
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
        group = families(params)[cell.family]
        expected = coupled_counts(
            group.runs[cell.run].coupling,
            group.body_of(cell.run),
            _vocabulary(params, cell.corpus),
        ).as_dict()
        if held["parameters"] != expected:
            raise DataError(
                cell.folder / "metrics.json",
                found=f"parameters {held['parameters']}",
                expected=f"{expected}, as params.yaml gives",
                mend=f"run `{cell.pretrain}`",
            )
        if cell.seed == group.seeds[0]:
            rows += (
                {"family": cell.family, "run": cell.run, "metric": metric, "value": value}
                for metric, value in expected.items()
            )
    return rows


def language_modeling_rows(metrics: Metrics) -> Iterator[Row]:
    """Loss and accuracy of each cell: overall, by language, by token-frequency bin."""
    for cell, held in metrics.items():
        validation = held["validation"]
        parts = [("all", "all", validation)]
        parts += [(name, "all", part) for name, part in validation["by_language"].items()]
        parts += [("all", part["bin"], part) for part in validation["by_frequency"]]
        for language, bin_, part in parts:
            for metric, value in part.items():
                if isinstance(value, int | float):
                    yield {
                        "family": cell.family, "run": cell.run, "seed": cell.seed,
                        "language": language, "bin": bin_, "metric": metric, "value": value,
                    }  # fmt: skip


def learning_curve_rows(metrics: Metrics) -> Iterator[Row]:
    """The training history of each cell, one row per number; losses in nats per prediction."""
    names = {
        "loss": "training_loss",
        "validation_loss": "validation_loss",
        "learning_rate": "learning_rate",
        "gradient_norm": "gradient_norm",
    }
    for cell in metrics:
        for row in cell.history():
            for column, metric in names.items():
                if row[column]:
                    yield {
                        "family": cell.family, "run": cell.run, "seed": cell.seed,
                        "step": int(row["step"]), "tokens": int(row["tokens"]),
                        "metric": metric, "value": float(row[column]),
                    }  # fmt: skip


def retrieval_rows(params: Params, metrics: Metrics) -> list[Row]:
    """Accuracy and mean reciprocal rank by set, languages, layer, distance, offset and subset.

    A subset without any sentence has no row.
    """
    # `evaluate` reads this once, when it is imported
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    from tiebench.evaluation.metrics.retrieval_accuracy import RetrievalAccuracy

    rows: list[Row] = []
    encoders = [cell for cell in metrics if cell.family in SEARCHED]
    with tempfile.TemporaryDirectory() as cache:
        metric = RetrievalAccuracy(cache_dir=cache)
        for cell in progress(encoders, desc="score retrieval", unit="cell"):
            for name in params.retrieval.sets:
                rows += _retrieval_of(cell, name, metric)
    return rows


def retrieval_set_rows(params: Params, metrics: Metrics) -> Iterator[Row]:
    """Per cell and set: pool, sentences equal to another, zero vectors, texts trained on."""
    for cell in metrics:
        for name in params.retrieval.sets if cell.family in SEARCHED else ():
            for metric, value in cell.search(name).items():
                yield {
                    "family": cell.family, "run": cell.run, "seed": cell.seed,
                    "set": name, "metric": metric, "value": value,
                }  # fmt: skip


def _retrieval_of(cell: Cell, name: str, metric: Any) -> Iterator[Row]:
    table = read_outcomes(cell, name)
    levels, codes = [], []
    for column in RETRIEVAL_KEYS[:-1]:
        encoded = table[column].combine_chunks().cast("string").dictionary_encode()
        levels.append(encoded.dictionary.to_pylist())
        codes.append(encoded.indices.to_numpy(zero_copy_only=False))
    if levels[0] != [name]:
        raise DataError(
            cell.outcomes(name),
            found=f"set {', '.join(levels[0])}",
            expected=name,
            mend=f"run `dvc repro -f -s retrieval_{cell.family}@{name}-{cell.run}-{cell.seed}`",
        )
    shape = tuple(map(len, levels))
    groups = np.ravel_multi_index(codes, shape)
    separate, unseen = (~table[x].to_numpy() for x in ("shares_token", "seen_in_training"))
    subsets = {"all": np.ones_like(separate), "no_shared_token": separate}
    if not unseen.all():
        subsets["not_in_training"] = unseen
    scored = metric.compute(
        credits=table["credit"].to_numpy(),
        ranks=table["rank"].to_numpy(),
        groups=groups,
        group_count=math.prod(shape),
        subsets=subsets,
    )
    for subset, values in scored.items():
        for group in np.flatnonzero(values["n"]):
            at = [level[i] for level, i in zip(levels, np.unravel_index(group, shape), strict=True)]
            for measure in ("accuracy", "reciprocal_rank"):
                yield {
                    "family": cell.family, "run": cell.run, "seed": cell.seed,
                    **dict(zip(RETRIEVAL_KEYS, (*at, subset), strict=True)),
                    "metric": measure,
                    "value": float(values[measure][group]),
                    "n": int(values["n"][group]),
                }  # fmt: skip


def corpus_rows(params: Params) -> Iterator[Row]:
    """Sizes of every corpus, what was dropped and why, and the share of repeated tokens."""
    for name in params.corpora:
        meta = corpus_meta(name)
        for language, strings in meta["read"].items():
            yield _corpus_row(name, language, "read", "strings", strings)
        for item in meta["dropped"]:
            yield _corpus_row(name, item["lang"], "dropped", item["reason"], item["strings"])
        yield _corpus_row(name, "all", "heldout", "strings", meta["heldout"]["sentences"])
        for part in ("train", "valid"):
            for language, sizes in meta.get(part, {}).items():
                for metric, value in sizes.items():
                    yield _corpus_row(name, language, part, metric, value)
        for language, share in meta.get("repeated_token_share", {}).items():
            yield _corpus_row(name, language, "train", "repeated_token_share", share)


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
    """Where the numbers come from: command, settings, data, tokenizers, versions; no clock."""
    yield {"item": "command", "value": f"make repro REPORT={params.name}"}
    yield {"item": "size", "value": params.size}
    yield {"item": "settings, sha256", "value": digest_of(params.model_dump(mode="json"))}
    for name in params.corpora:
        source = {k: v for k, v in corpus_meta(name)["source"].items() if v is not None}
        described = ", ".join(f"{key} {value}" for key, value in source.items())
        yield {"item": f"corpus {name}, source", "value": described}
        digest = sha256_of(paths.corpus_folder(name) / "meta.json")
        yield {"item": f"corpus {name}, meta.json sha256", "value": digest}
    for family, corpus in {cell.family: cell.corpus for cell in metrics}.items():
        first = next(cell for cell in metrics if cell.family == family)
        digest = sha256_of(first.folder / "tokenizer.json")
        yield {"item": f"tokenizer of {corpus}, sha256", "value": digest}
    for stage in STAGES:
        yield {"item": f"code of {stage}, sha256", "value": stage_digest(stage)}
    for library, version in locked_versions(LIBRARIES).items():
        yield {"item": f"version of {library}", "value": version}
