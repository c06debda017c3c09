"""Published results beside ours: the direction of a difference, and a verdict on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiebench.analysis.learning_curves import Unflattened, unsettled
from tiebench.analysis.shapes import read_data
from tiebench.analysis.statistics import (
    MINIMUM_SEEDS,
    PairedDifference,
    paired_difference,
    shared_seeds,
)
from tiebench.published.figures import PUBLISHED_RESULTS

Row = dict[str, Any]
Values = Mapping[tuple[str, str, str], Mapping[int, float]]
"""(family, run, metric) -> seed -> value."""

OURS = ("better", "seeds", "difference", "low", "high", "detectable", "verdict", "reason")
COMPARISONS = (
    "family", "first", "second", "first_run", "second_run", "measure", "source",
    "published_first", "published_second", "published_difference", "metric", *OURS,
)  # fmt: skip
CURVES = ("output_width", "layer", "accuracy_percent")
ABLATION = {"layers": 12, "width": 768, "vocabulary": 120_000, "languages": 104}
"""What all rows of the published ablation share (Chung et al. 2021, section 3)."""
CONTROLLED = ("retrieval", "probing", "transfer")
"""Starts of the metrics in which a run that learned nothing may do well too."""


def compare(
    runs: Iterable[Row],
    cells: Iterable[Row],
    retrieval: str | None,
    unflattened: Unflattened,
    judged: Iterable[Row],
) -> Iterator[Row]:
    """One row per published difference between two configurations that both are runs of ours.

    Args:
        runs: family, run, trained, control, other_body, other_head, other_tables, replaced,
            objective, tied, input_width, output_width, width.
        cells: family, run, seed, metric, value.
        retrieval: start of the name of the retrieval metrics of the published pair and protocol;
            None when they were not run.
        unflattened: the learning curves that are not flat.
        judged: family, metric, first, second, verdict, reason of every pair that was judged.

    Yields:
        Rows with COMPARISONS. `verdict` is about direction alone, at our scale: `agrees`,
        `disagrees at this scale`, or `inconclusive` with the reason. A direction is given to a
        pair that was judged where it was found different: after the correction, and over
        sentences too. To another (retrieval at the best layer, the drop after it) it is given by
        the interval over seeds, at the level of a single test. It is empty, with the reason,
        while the curve of one of the two runs is not flat; and, as all that is ours, where we
        have no measure of the same kind.
    """
    held, rows = read_data(PUBLISHED_RESULTS), list(runs)
    controls = {(row["family"], row["run"]): row["control"] for row in rows}
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in cells:
        group = values.setdefault((row["family"], row["run"], row["metric"]), {})
        group[row["seed"]] = row["value"]
    pairs = {
        (row["family"], row["metric"], _pair(row["first"], row["second"])): row for row in judged
    }
    for family, matched in _matched(rows, held["configurations"]).items():
        for first, second in held["comparisons"]:
            if first not in matched or second not in matched:
                continue
            pair = {key: matched[key] for key in (first, second)}
            for measure in held["measures"].values():
                printed = [measure["values"].get(key) for key in pair]
                if None in printed:
                    continue
                metric = _metric(measure["ours"], retrieval)
                if metric and any((family, run, metric) not in values for run in pair.values()):
                    continue
                if metric is None and measure["ours"]:
                    continue
                published = round(printed[0] - printed[1], 6)
                ours: Row = dict.fromkeys(OURS) | {"reason": measure.get("reason")}
                if metric:
                    held_to = {run: controls[family, run] for run in pair.values()}
                    ours = _ours(values, family, held_to, metric, published)
                    ours |= _held_to(pairs.get((family, metric, _pair(*pair.values()))), ours)
                    reason = unsettled(family, list(pair.values()), unflattened)
                    if reason:
                        ours |= {"verdict": None, "reason": reason}
                yield {
                    "family": family,
                    "first": held["names"][first],
                    "second": held["names"][second],
                    "first_run": pair[first],
                    "second_run": pair[second],
                    "measure": measure["label"],
                    "source": f"Chung et al. 2021, {measure['source']}",
                    "published_first": printed[0],
                    "published_second": printed[1],
                    "published_difference": published,
                    "metric": metric,
                    **ours,
                }


def published_curves() -> Iterator[Row]:
    """RemBERT's figure 2, one row per output width and layer, with CURVES."""
    for width, curve in read_data(PUBLISHED_RESULTS)["figure_2"].items():
        for layer, accuracy in enumerate(curve, start=1):
            yield dict(zip(CURVES, (width, layer, accuracy), strict=True))


def _pair(first: str, second: str) -> frozenset[str]:
    return frozenset((first, second))


def _held_to(judged: Row | None, ours: Row) -> Row:
    """No direction for two runs that were judged and not found different."""
    if judged is None or judged["verdict"] == "different" or ours["verdict"] == "inconclusive":
        return {}
    reason = judged["reason"] or "the two runs are equivalent, within the margin"
    return {"verdict": "inconclusive", "reason": reason}


def _metric(ours: str | None, retrieval: str | None) -> str | None:
    if ours is None or not ours.startswith("retrieval"):
        return ours
    return ours.replace("retrieval", retrieval, 1) if retrieval else None


def _ours(
    values: Values, family: str, controls: Mapping[str, str | None], metric: str, published: float
) -> Row:
    """Our side of a comparison between the two runs that `controls` maps to their controls."""
    found = _difference(values, *((family, run, metric) for run in controls))
    hindrance = ""
    if not all(_learned(values, family, run) for run in controls):
        hindrance = "not below the unigram loss"
    elif metric.startswith(CONTROLLED) and found.n >= MINIMUM_SEEDS:
        if any((family, str(control), metric) not in values for control in controls.values()):
            hindrance = "no untrained control"
        elif any(
            _difference(values, (family, run, metric), (family, str(control), metric)).sign < 1
            for run, control in controls.items()
        ):
            hindrance = "not above the untrained control"
    said, reason = verdict(found.sign, published, found.n, hindrance)
    return {
        "better": "higher",
        "seeds": found.n,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "detectable": found.detectable,
        "verdict": said,
        "reason": reason,
    }


def _difference(
    values: Values, first: tuple[str, str, str], second: tuple[str, str, str]
) -> PairedDifference:
    return paired_difference(*shared_seeds(values[first], values[second]))


def _learned(values: Values, family: str, run: str) -> bool:
    """Whether a run predicts better than token frequencies do, in the mean over its seeds."""
    losses = (values[family, run, metric].values() for metric in ("loss", "unigram_loss"))
    loss, unigram = (sum(held) / len(held) for held in losses)
    return bool(loss < unigram)


def verdict(ours: int, published: float, seeds: int, hindrance: str = "") -> tuple[str, str]:
    """The verdict on a direction, and why there is none.

    Args:
        ours: 1 or -1 when the interval of our difference is above or below zero, else 0.
        published: the published difference, of the same sign where it agrees.
        seeds: pairs behind our interval.
        hindrance: why the two runs decide nothing whatever their difference; empty if they may.
    """
    if hindrance:
        return "inconclusive", hindrance
    if seeds < MINIMUM_SEEDS:
        return "inconclusive", f"fewer than {MINIMUM_SEEDS} seeds"
    if not published:
        return "inconclusive", "the published difference is zero"
    if not ours:
        return "inconclusive", "the interval includes zero"
    return ("agrees" if ours * published > 0 else "disagrees at this scale"), ""


def _matched(runs: Iterable[Row], configurations: Mapping[str, Row]) -> dict[str, dict[str, str]]:
    """By family and configuration, the first trained, masked run of the common body, head,
    training, and start of the tables."""
    matched: dict[str, dict[str, str]] = {}
    for row in runs:
        if not row["trained"] or row["objective"] != "masked":
            continue
        if any(row[key] for key in ("other_body", "other_head", "other_tables", "replaced")):
            continue
        found = {
            "tied": row["tied"],
            "input": relative(row["input_width"], row["width"]),
            "output": relative(row["output_width"], row["width"]),
        }
        for key, configuration in configurations.items():
            if configuration == found:
                matched.setdefault(row["family"], {}).setdefault(key, row["run"])
    return matched


def relative(width: int, body: int) -> str:
    """A table's width against the body's: narrow, body or wide."""
    return "narrow" if width < body else "wide" if width > body else "body"
