"""Summaries over seeds: mean and interval of every run, and its paired difference from another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import (
    PairedDifference,
    mean_interval,
    paired_difference,
    shared_seeds,
)

Row = dict[str, Any]

ESTIMATES = (
    "seeds", "mean", "low", "high", "varies",
    "baseline", "difference", "difference_low", "difference_high", "detectable",
)  # fmt: skip
"""Columns of a summary after family, run, the table's own keys and metric."""


def grouped(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by their cells in these columns."""
    held: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        held[tuple(row[key] for key in keys)].append(row)
    return held


def summary_columns(keys: Sequence[str]) -> tuple[str, ...]:
    """The header of `summarize`."""
    return ("family", "run", *keys, "metric", *ESTIMATES)


def summarize(
    rows: Iterable[Mapping[str, Any]], keys: Sequence[str], baselines: Mapping[str, str]
) -> list[Row]:
    """One row per run and metric.

    Args:
        rows: long format with family, run, seed, metric, value and `keys`.
        keys: what a value is about besides its run, seed and metric.
        baselines: by family, the run that the others are paired with, seed by seed. Imported
            models have none: they differ in more than a coupling.

    Returns:
        Rows with `summary_columns(keys)`. One seed, and a value that is the same for all seeds,
        has no interval: nothing `varies`. The baseline itself, and what the baseline lacks, has
        no difference.
    """
    values: dict[tuple[Any, ...], dict[int, float]] = defaultdict(dict)
    for row in rows:
        group = (row["family"], row["run"], *(row[key] for key in keys), row["metric"])
        values[group][row["seed"]] = row["value"]
    summary = []
    for group, by_seed in values.items():
        family, run, *rest = group
        estimate = mean_interval(list(by_seed.values()))
        baseline = baselines.get(family)
        difference = None
        if baseline not in (None, run):
            difference = paired(by_seed, values.get((family, baseline, *rest), {}))
        summary.append(
            {
                **dict(zip(("family", "run", *keys, "metric"), group, strict=True)),
                "seeds": estimate.n,
                "mean": estimate.mean,
                "low": estimate.low,
                "high": estimate.high,
                "varies": estimate.varies,
                "baseline": baseline if difference else None,
                "difference": difference and difference.mean,
                "difference_low": difference and difference.low,
                "difference_high": difference and difference.high,
                "detectable": difference and difference.detectable,
            }
        )
    return summary


def paired(values: Mapping[int, float], baseline: Mapping[int, float]) -> PairedDifference | None:
    """The difference over the seeds that both have; None when they share none."""
    pairs = shared_seeds(values, baseline)
    return paired_difference(*pairs) if pairs[0] else None
