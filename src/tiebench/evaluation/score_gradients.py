"""The tables of the gradient instruments: what each side of a table gets, and how they agree."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.analysis.tables import read_table
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell
from tiebench.settings import Params, families
from tiebench.training.instruments import INSTRUMENTS, MEASURES

Row = dict[str, Any]
GRADIENTS = ("family", "run", "tied", "seed", *INSTRUMENTS)
SUMMARY = (
    "family", "run", "tied", "batch", "step", "tokens", "bin", "metric", "seeds", "mean", "low",
    "high",
)  # fmt: skip
MEAN = "mean"
"""In place of a step: the mean over all steps that were measured."""
DERIVED = ("output_share", "output_row_share", "cancellation", "conflict")
"""The output side's share of both Frobenius norms and of both sums of row norms; max(0, -cosine);
and the cosine less that of the permuted rows."""


def tables(params: Params, cells: Iterable[Cell]) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of `gradients` and `gradients_summary`, of the runs with instruments.

    Raises:
        DataError: a cell's instruments.csv is missing, damaged or without a column.
    """
    rows = [row for cell in cells for row in _rows(params, cell)]
    return {"gradients": (GRADIENTS, rows), "gradients_summary": (SUMMARY, list(_summary(rows)))}


def _rows(params: Params, cell: Cell) -> Iterator[Row]:
    group = families(params)[cell.family]
    settings = group.all_runs[cell.run]
    if not settings.trained or group.training_of(cell.run).instruments is None:
        return
    path = cell.folder / "instruments.csv"
    held = read_table(path, mend=f"run `{cell.pretrain}`")
    if not held or set(held[0]) != set(INSTRUMENTS):
        raise DataError(
            path,
            found=f"columns {', '.join(held[0])}" if held else "no rows",
            expected=f"rows with {', '.join(INSTRUMENTS)}",
            mend=f"run `{cell.again('pretrain', cell.corpus)}`",
        )
    for row in held:
        yield {
            "family": cell.family, "run": cell.run, "tied": settings.coupling.tied,
            "seed": cell.seed, "step": int(row["step"]), "tokens": int(row["tokens"]),
            "batch": row["batch"], "bin": row["bin"],
            **{name: float(row[name]) if row[name] else None for name in MEASURES},
        }  # fmt: skip


def derived(row: Mapping[str, Any]) -> dict[str, float | None]:
    """What follows from the measures of one row."""
    cosine, null = row["cosine"], row["null_cosine"]
    shares = []
    for given, sent in (("input_norm", "output_norm"), ("input_row_norms", "output_row_norms")):
        both = row[given] + row[sent]
        shares.append(row[sent] / both if both else None)
    return {
        "output_share": shares[0],
        "output_row_share": shares[1],
        "cancellation": None if cosine is None else max(0.0, -cosine),
        "conflict": None if cosine is None or null is None else cosine - null,
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
