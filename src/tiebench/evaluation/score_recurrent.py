"""The tables of the recurrent family: perplexities, curves, verdicts, and published figures."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from tiebench.analysis.learning_curves import Unflattened
from tiebench.analysis.recurrent_published import BIASED, NONE, PLAIN, flattened, published_rows
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell
from tiebench.evaluation.score_recurrent_published import (
    PUBLISHED,
    SPLITS,
    Losses,
    beside,
    exponential,
    published_beside,
)
from tiebench.evaluation.score_tables import Metrics, Row, vocabulary_of
from tiebench.evaluation.scoring import finite
from tiebench.evaluation.summaries import ESTIMATES, summarize
from tiebench.evaluation.verdicts import Contest, Judgement, judge
from tiebench.model.settings import CouplingSettings, Linear
from tiebench.paths import RECURRENT
from tiebench.settings import Params, RecurrentFamilySettings

RUNS = (
    "family", "study", "run", "baseline", "corpus", "coupling", "tied", "projection",
    "projection_penalty", "augmented", "augmented_weight", "augmented_share",
    "augmented_temperature", "dropout", "dropout_input", "dropout_between", "dropout_recurrent",
    "dropout_output", "units", "layers", "vocabulary", "epochs", "constant_epochs", "decay",
    "learning_rate", "clip", "batch_size",
    "sequence_length", "seeds", "parameters", "published_table", "published_row",
    "published_parameters", "parameters_agree", "as_published", "reason",
)  # fmt: skip
"""`published_table` and `published_row`: the printed row of the same coupling whose settings are
nearest. `parameters_agree`: whether ours round to its digits, at its settings. `as_published`:
`true`, `as far as printed` where the source leaves settings out, or `false`, with the settings that
differ as the reason."""
PERPLEXITY = ("run", "seed", "split", "epoch", "loss", "perplexity", "best_epoch", "at_best_epoch")
"""After the last epoch; the best epoch is that of the lowest validation loss. The test text is read
once, after the last."""
CURVES = ("run", "seed", "epoch", "learning_rate", "split", "loss", "perplexity")
SUMMARY = ("run", "split", *ESTIMATES, "perplexity", "perplexity_low", "perplexity_high")
"""Means and differences of the loss, which is log perplexity; `perplexity`: their exponentials."""
PAIRS = (
    "split", "first", "second", "differs", "tied", "projection", "augmented", "dropout", "seeds",
    "difference", "low", "high", "ratio", "ratio_low", "ratio_high", "p", "p_adjusted",
    "detectable", "margin", "p_equivalence_adjusted", "verdict", "reason",
)  # fmt: skip
"""Of log perplexity, first minus second; `ratio`: of perplexities. `differs`: what the first has
and the second has not, where they are alike but for that; what both share is told beside it."""
RATES = ("learning_rate", "constant_epochs", "decay", "clip")
FEATURES = ("tied", "projection", "augmented", "dropout")
ADDED = {"tied": "tying", "augmented": "augmented loss", "dropout": "dropout"}
PROJECTIONS = {
    (PLAIN, NONE): "projection",
    (BIASED, NONE): "projection with bias",
    (BIASED, PLAIN): "bias of the projection",
}


def tables(
    params: Params, metrics: Metrics, unflattened: Unflattened
) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where the settings lack the family.

    Args:
        params: all settings.
        metrics: of the family's cells.
        unflattened: the learning curves that are not flat.

    Raises:
        DataError: a cell's history or metrics are damaged, or hold a number that is not finite.
    """
    group = params.recurrent
    if group is None:
        names = {
            "runs": RUNS, "perplexity": PERPLEXITY, "curves": CURVES, "summary": SUMMARY,
            "pairs": PAIRS, "published": PUBLISHED,
        }  # fmt: skip
        return {f"recurrent_{name}": (columns, []) for name, columns in names.items()}
    runs = list(_run_rows(params, group, metrics))
    curves = [row for cell in metrics for row in _curve_rows(cell)]
    perplexities = list(_perplexity_rows(metrics, curves))
    losses: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in perplexities:
        losses[row["run"], row["split"]][row["seed"]] = row["loss"]
    return {
        "recurrent_runs": (RUNS, runs),
        "recurrent_perplexity": (PERPLEXITY, perplexities),
        "recurrent_curves": (CURVES, curves),
        "recurrent_summary": (SUMMARY, list(_summary_rows(group, perplexities))),
        "recurrent_pairs": (PAIRS, list(_pair_rows(params, group, runs, losses, unflattened))),
        "recurrent_published": (PUBLISHED, list(published_beside(runs, losses))),
    }


def language_modeling_rows(metrics: Metrics) -> Iterator[Row]:
    """One row for each cell and split, with the columns of `language_modeling`."""
    for cell, held in metrics.items():
        for split, loss in _losses(cell, held).items():
            yield {
                "family": cell.family, "run": cell.run, "seed": cell.seed, "split": split,
                "language": "all", "bin": "all", "metric": "loss", "value": loss,
                "perplexity": math.exp(loss),
            }  # fmt: skip


def headline_rows(summary: Iterable[Row]) -> Iterator[Row]:
    """Perplexities of the summary by family, run and metric, for metrics.json."""
    for row in summary:
        metric = f"perplexity_{row['split']}"
        yield {
            "family": RECURRENT, "run": row["run"], "metric": metric, "mean": row["perplexity"]
        }  # fmt: skip


def _losses(cell: Cell, held: Mapping[str, Any]) -> dict[str, float]:
    """Nats per word by split; an untrained run has none of training.

    Raises:
        DataError: metrics.json has none of a split, or one that is not finite.
    """
    said = {"train": held["train_loss"], "valid": held["validation"]["loss"]}
    test = held["test"]
    said["test"] = test.get("loss") if isinstance(test, Mapping) else None
    if not held["steps"]:
        del said["train"]
    rows = ({"metric": f"{split} loss", "value": value} for split, value in said.items())
    return dict(
        zip(said, (x["value"] for x in finite(rows, cell, "pretrain", cell.corpus)), strict=True)
    )


def _features(coupling: CouplingSettings, training: Any) -> Row:
    """What runs differ in."""
    maps = [x for x in coupling.transform if isinstance(x, Linear)]
    projection = NONE
    if maps:
        projection = BIASED if any(x.bias for x in maps) else PLAIN
    return {
        "tied": coupling.tied,
        "projection": projection,
        "augmented": training.augmented is not None,
        "dropout": training.dropout.kind if training.dropout else NONE,
    }


def _run_rows(params: Params, group: RecurrentFamilySettings, metrics: Metrics) -> Iterator[Row]:
    corpus, vocabulary = params.corpora[group.corpus], vocabulary_of(params, group.corpus)
    sizes: dict[str, Any] = {"corpus.vocabulary": vocabulary}
    if corpus.published is not None:
        sizes |= {f"corpus.{x}": getattr(corpus.published, x).tokens for x in SPLITS}
    printed = list(published_rows())
    for run, settings in group.all_runs.items():
        coupling, training, body = (
            settings.coupling, group.training_of(run), group.body_of(run)
        )  # fmt: skip
        features, dropout, augmented = (
            _features(coupling, training), training.dropout, training.augmented
        )  # fmt: skip
        held = flattened({"body": body.model_dump(), "training": training.model_dump()})
        about = {**held, **sizes, **features, "training.dropout": dropout and dropout.kind}
        cell = Cell(params.name, RECURRENT, group.corpus, run, group.seeds[0])
        count = metrics[cell]["parameters"]["pretraining"]
        yield {
            "family": RECURRENT,
            "study": group.study,
            "run": run,
            "baseline": run == group.baseline,
            "corpus": group.corpus,
            "coupling": coupling.option,
            **features,
            "projection_penalty": training.projection_penalty or None,
            "augmented_weight": augmented and augmented.weight,
            "augmented_share": augmented and augmented.share,
            "augmented_temperature": augmented and augmented.temperature,
            **{
                f"dropout_{x}": dropout and getattr(dropout, x)
                for x in ("input", "between", "recurrent", "output")
            },
            "units": body.width,
            "layers": body.layers,
            "vocabulary": vocabulary,
            "epochs": metrics[cell]["epochs"],
            **{x: getattr(training, x) for x in (*RATES, "batch_size", "sequence_length")},
            "seeds": len(group.seeds),
            "parameters": count,
            **beside(about, printed, count),
        }  # fmt: skip


def _curve_rows(cell: Cell) -> Iterator[Row]:
    """Training loss in the mean of an epoch, of the model as it was at each update, and the
    validation loss after it."""
    for row in cell.history():
        if not row["validation_loss"]:
            continue
        for split, column in (("train", "train_loss"), ("valid", "validation_loss")):
            if row[column]:
                loss = float(row[column])
                rate = float(row["learning_rate"]) if row["learning_rate"] else None
                yield {
                    "run": cell.run, "seed": cell.seed, "epoch": int(row["epoch"]),
                    "learning_rate": rate, "split": split, "loss": loss,
                    "perplexity": math.exp(loss),
                }  # fmt: skip


def _perplexity_rows(metrics: Metrics, curves: Sequence[Row]) -> Iterator[Row]:
    by_cell: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for row in curves:
        found = by_cell.setdefault((row["run"], row["seed"]), {"train": {}, "valid": {}})
        found[row["split"]][row["epoch"]] = row["loss"]
    for cell, held in metrics.items():
        curve = by_cell.get((cell.run, cell.seed), {"train": {}, "valid": {}})
        last, losses = held["epochs"], _losses(cell, held)
        if last not in curve["valid"]:
            raise DataError(
                cell.folder / "history.csv",
                found=f"no validation after epoch {last}",
                expected="one after each epoch",
                mend=f"run `{cell.again('pretrain', cell.corpus)}`",
            )
        best = min(curve["valid"], key=lambda epoch: (curve["valid"][epoch], epoch))
        for split, loss in losses.items():
            at_best = curve.get(split, {}).get(best)
            yield {
                "run": cell.run, "seed": cell.seed, "split": split, "epoch": last, "loss": loss,
                "perplexity": math.exp(loss), "best_epoch": best,
                "at_best_epoch": None if at_best is None else math.exp(at_best),
            }  # fmt: skip


def _summary_rows(group: RecurrentFamilySettings, perplexities: Iterable[Row]) -> Iterator[Row]:
    rows = (
        {**row, "family": RECURRENT, "metric": "loss", "value": row["loss"]} for row in perplexities
    )
    for row in summarize(rows, ("split",), {RECURRENT: group.baseline}):
        kept = {x: row[x] for x in ("run", "split", *ESTIMATES)}
        ends = {f"perplexity_{x}": exponential(row[x]) for x in ("low", "high")}
        yield {**kept, "perplexity": math.exp(row["mean"]), **ends}


def _pair_rows(
    params: Params,
    group: RecurrentFamilySettings,
    runs: Iterable[Row],
    losses: Losses,
    unflattened: Unflattened,
) -> Iterator[Row]:
    """Verdicts on all pairs of trained runs; p values are corrected over the pairs of a split."""
    about = {row["run"]: row for row in runs}
    trained = [run for run, settings in group.runs.items() if settings.trained]
    pairs = [_oriented(about, group.baseline, *pair) for pair in combinations(trained, 2)]
    for split in SPLITS:
        contests = [
            Contest(RECURRENT, "loss", first, second, (losses[first, split], losses[second, split]))
            for first, second in pairs
        ]
        for judgement in judge(contests, params.statistics, unflattened):
            yield _pair_row(split, about, judgement)


def _oriented(about: Mapping[str, Row], baseline: str, one: str, other: str) -> tuple[str, str]:
    """First and second: the second is the baseline, or what lacks something, or what comes
    first."""
    if baseline in (one, other):
        return (other, one) if one == baseline else (one, other)
    lacking = _differs(about[one], about[other]) and not _differs(about[other], about[one])
    return (one, other) if lacking else (other, one)


def _differs(first: Row, second: Row) -> str:
    """What the first has and the second has not; empty where the second has something too, where
    they differ in numbers alone, and where their learning rates, clips or penalties differ."""
    said = []
    penalties = {x["projection_penalty"] for x in (first, second) if x["projection"] != NONE}
    if len(penalties) > 1 or any(first[x] != second[x] for x in RATES):
        return ""
    for feature in FEATURES:
        mine, other = first[feature], second[feature]
        if mine == other:
            continue
        if feature == "projection":
            said.append(PROJECTIONS.get((mine, other), ""))
        else:
            said.append(ADDED[feature] if other in (False, NONE) else "")
    return " and ".join(said) if all(said) else ""


def _pair_row(split: str, about: Mapping[str, Row], judgement: Judgement) -> Row:
    contest, found = judgement.contest, judgement.difference
    first, second = about[contest.first], about[contest.second]
    shared = {x: first[x] if first[x] == second[x] else None for x in FEATURES}
    return {
        "split": split,
        "first": contest.first,
        "second": contest.second,
        "differs": _differs(first, second),
        **shared,
        "seeds": found.n,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "ratio": math.exp(found.mean),
        "ratio_low": exponential(found.low),
        "ratio_high": exponential(found.high),
        "p": found.p,
        "p_adjusted": judgement.p_adjusted,
        "detectable": judgement.detectable,
        "margin": judgement.margin,
        "p_equivalence_adjusted": judgement.p_equivalence_adjusted,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }
