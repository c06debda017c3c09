"""Published results beside ours: the direction of a difference, and a verdict on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tiebench.analysis.shapes import read_data
from tiebench.analysis.statistics import paired_difference

PUBLISHED_RESULTS = Path(__file__).with_name("published_results.yaml")

Row = dict[str, Any]

COMPARISONS = (
    "family", "first", "second", "first_run", "second_run",
    "measure", "source", "published_first", "published_second", "published_difference",
    "metric", "better", "seeds", "difference", "low", "high", "detectable", "verdict", "reason",
)  # fmt: skip
MINIMUM_SEEDS = 5
"""Fewer paired seeds decide nothing: at two the interval is 12.7 standard errors to each side."""

CURVES = ("output_width", "layer", "accuracy_percent")


def compare(runs: Iterable[Row], cells: Iterable[Row], retrieval: str | None) -> Iterator[Row]:
    """One row per published comparison that our trained runs can make.

    Args:
        runs: family, run, trained, other_body, objective, tied, input_width, output_width, width.
        cells: family, run, seed, metric, value.
        retrieval: start of the name of the retrieval metrics compared; None without any.

    Yields:
        Rows with COMPARISONS. `verdict` is about direction alone, at our scale: `agrees`,
        `disagrees at this scale`, or `inconclusive` with the reason.
    """
    held = read_data(PUBLISHED_RESULTS)
    values: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in cells:
        group = values.setdefault((row["family"], row["run"], row["metric"]), {})
        group[row["seed"]] = row["value"]
    for family, matched in _matched(runs, held["configurations"]).items():
        for first, second in held["comparisons"]:
            if first not in matched or second not in matched:
                continue
            for measure in held["measures"].values():
                printed = [measure["values"].get(key) for key in (first, second)]
                if None in printed:
                    continue
                for short in measure["ours"]:
                    metric = _metric(short, retrieval)
                    ours = [values.get((family, matched[key], metric)) for key in (first, second)]
                    if ours[0] is None or ours[1] is None:
                        continue
                    yield {
                        "family": family,
                        "first": held["names"][first],
                        "second": held["names"][second],
                        "first_run": matched[first],
                        "second_run": matched[second],
                        "measure": measure["label"],
                        "source": f"Chung et al. 2021, {measure['source']}",
                        "published_first": printed[0],
                        "published_second": printed[1],
                        "published_difference": round(printed[0] - printed[1], 6),
                        "metric": metric,
                        **_ours(
                            ours[0],
                            ours[1],
                            short in held["lower_is_better"],
                            printed,
                            all(_learned(values, family, matched[x]) for x in (first, second)),
                        ),
                    }


def published_curves() -> Iterator[Row]:
    """RemBERT's figure 2, one row per output width and layer, with CURVES."""
    for width, curve in read_data(PUBLISHED_RESULTS)["figure_2"].items():
        for layer, accuracy in enumerate(curve, start=1):
            yield dict(zip(CURVES, (width, layer, accuracy), strict=True))


def _metric(short: str, retrieval: str | None) -> str:
    return short.replace("retrieval", retrieval or "retrieval", 1)


def _learned(values: Mapping[tuple[str, str, str], Any], family: str, run: str) -> bool:
    """Whether a run predicts better than token frequencies do, in the mean over its seeds."""
    losses = (values[family, run, metric].values() for metric in ("loss", "unigram_loss"))
    loss, unigram = (sum(held) / len(held) for held in losses)
    return bool(loss < unigram)


def _ours(
    first: Mapping[int, float],
    second: Mapping[int, float],
    lower: bool,
    printed: list[float],
    learned: bool,
) -> Row:
    seeds = [seed for seed in first if seed in second]
    difference = paired_difference([first[s] for s in seeds], [second[s] for s in seeds])
    published = (printed[0] > printed[1]) - (printed[0] < printed[1])
    said, reason = verdict(
        -difference.sign if lower else difference.sign, published, difference.n, learned
    )
    return {
        "better": "lower" if lower else "higher",
        "seeds": difference.n,
        "difference": difference.mean,
        "low": difference.low,
        "high": difference.high,
        "detectable": difference.detectable,
        "verdict": said,
        "reason": reason,
    }


def verdict(ours: int, published: int, seeds: int, learned: bool) -> tuple[str, str]:
    """The verdict on a direction, and why there is none.

    Args:
        ours: 1 or -1 when the interval of our difference is above or below zero, else 0.
        published: sign of the published difference.
        seeds: pairs behind our interval.
        learned: both runs are below the unigram loss.
    """
    if not learned:
        return "inconclusive", "not below the unigram loss"
    if seeds < MINIMUM_SEEDS:
        return "inconclusive", f"fewer than {MINIMUM_SEEDS} seeds"
    if not ours or not published:
        return "inconclusive", "the interval includes zero"
    return ("agrees" if ours == published else "disagrees at this scale"), ""


def _matched(runs: Iterable[Row], configurations: Mapping[str, Row]) -> dict[str, dict[str, str]]:
    """By family, the first masked, trained run on the family's own body for each configuration."""
    matched: dict[str, dict[str, str]] = {}
    for row in runs:
        if not row["trained"] or row["other_body"] or row["objective"] != "masked":
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
