"""The tables of the gradient instruments: what each side of a table gets, and how they agree."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    Correction,
    correct,
    mean_interval,
    paired_difference,
)
from tiebench.analysis.tables import read_numbers
from tiebench.evaluation.cells import Cell
from tiebench.settings import Params, families
from tiebench.training.instruments import INSTRUMENTS, MEASURES

Row = dict[str, Any]
GRADIENTS = ("family", "run", "tied", "seed", *INSTRUMENTS)
SUMMARY = (
    "family", "run", "tied", "batch", "step", "tokens", "bin", "metric", "seeds", "mean", "low",
    "high",
)  # fmt: skip
NUMBERS = {"step": int, "tokens": int, **dict.fromkeys(MEASURES, float)}
CONFLICTS = (
    "family", "run", "batch", "seeds", "difference", "low", "high", "p_adjusted", "verdict",
)  # fmt: skip
"""Cosine less that of permuted rows, both in the mean over the steps measured, paired by seed."""
MEAN = "mean"
"""In place of a step: the mean over all steps that were measured."""


def tables(params: Params, cells: Iterable[Cell]) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of `gradients`, `gradients_summary` and `gradients_conflicts`, of the runs
    with instruments.

    Raises:
        DataError: a cell's instruments.csv is missing, damaged or without a column.
    """
    rows = [row for cell in cells for row in _rows(params, cell)]
    return {
        "gradients": (GRADIENTS, rows),
        "gradients_summary": (SUMMARY, list(_summary(rows))),
        "gradients_conflicts": (CONFLICTS, conflicts(rows, params.statistics.correction)),
    }


def conflicts(rows: Iterable[Row], correction: Correction) -> list[Row]:
    """Whether the sides of each shared table disagree more, or less, than permuted rows.

    `above` or `below` only with MINIMUM_SEEDS or more and a p value that holds after correction
    over the runs and batches of the family; else `undecided`.
    """
    held: dict[tuple[str, str, str], dict[int, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        if row["tied"] and row["bin"] == "all" and row["cosine"] is not None:
            pair = (row["cosine"], row["null_cosine"])
            held[row["family"], row["run"], row["batch"]][row["seed"]].append(pair)
    found = []
    for group, by_seed in held.items():
        cosines, nulls = (
            [sum(pair[side] for pair in pairs) / len(pairs) for pairs in by_seed.values()]
            for side in (0, 1)
        )
        found.append((group, paired_difference(cosines, nulls)))
    table: list[Row] = []
    for family in dict.fromkeys(group[0] for group, _ in found):
        own = [(group, paired) for group, paired in found if group[0] == family]
        adjusted = correct([paired.p for _, paired in own], correction)
        for (group, paired), p in zip(own, adjusted, strict=True):
            decided = paired.n >= MINIMUM_SEEDS and p is not None and p < 1 - LEVEL
            verdict = ("above" if paired.mean > 0 else "below") if decided else "undecided"
            table.append(
                {
                    **dict(zip(CONFLICTS[:3], group, strict=True)), "seeds": paired.n,
                    "difference": paired.mean, "low": paired.low, "high": paired.high,
                    "p_adjusted": p, "verdict": verdict,
                }
            )  # fmt: skip
    return table


def _rows(params: Params, cell: Cell) -> Iterator[Row]:
    group = families(params)[cell.family]
    settings = group.all_runs[cell.run]
    if not settings.trained or group.training_of(cell.run).instruments is None:
        return
    path = cell.folder / "instruments.csv"
    held = read_numbers(
        path, INSTRUMENTS, NUMBERS, optional=MEASURES, mend=f"run `{cell.pretrain}`"
    )
    for row in held:
        yield {
            "family": cell.family, "run": cell.run, "tied": settings.coupling.tied,
            "seed": cell.seed, **row,
        }  # fmt: skip


def derived(row: Mapping[str, Any]) -> dict[str, float | None]:
    """What follows from the measures of one row: the output side's share of both Frobenius norms
    and of both sums of row norms, and max(0, -cosine)."""
    cosine = row["cosine"]
    shares = []
    for given, sent in (("input_norm", "output_norm"), ("input_row_norms", "output_row_norms")):
        both = row[given] + row[sent]
        shares.append(row[sent] / both if both else None)
    return {
        "output_share": shares[0],
        "output_row_share": shares[1],
        "cancellation": None if cosine is None else max(0.0, -cosine),
    }


def _summary(rows: Sequence[Row]) -> Iterator[Row]:
    """Over seeds: each step for all rows of the table, and the mean over steps for each bin."""
    held: dict[tuple[Any, ...], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        values = {name: row[name] for name in MEASURES if name != "rows"} | derived(row)
        for metric, value in values.items():
            if value is None or not math.isfinite(value):
                continue
            of = (row["family"], row["run"], row["tied"], row["batch"])
            held[*of, MEAN, None, row["bin"], metric][row["seed"]].append(value)
            if row["bin"] == "all":
                held[*of, row["step"], row["tokens"], "all", metric][row["seed"]].append(value)
    for group, by_seed in held.items():
        estimate = mean_interval([sum(x) / len(x) for x in by_seed.values()])
        yield {
            **dict(zip(SUMMARY[:8], group, strict=True)),
            "seeds": estimate.n, "mean": estimate.mean, "low": estimate.low, "high": estimate.high,
        }  # fmt: skip
