"""The tables of the stage `tables`: each pair and seed, summaries over seeds, and which of its two
sides' tables the table of a tied run is more like."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiebench.analysis.alignment import MAPS, chance
from tiebench.analysis.shapes import read_data
from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    correct,
    mean_interval,
    paired_difference,
)
from tiebench.analysis.tables import read_table
from tiebench.errors import DataError
from tiebench.experiments.tables_settings import RAW
from tiebench.paths import evaluation_folder
from tiebench.settings import Params, families

Row = dict[str, Any]
MEND = "run `dvc repro tables`"
PUBLISHED = Path(__file__).parents[1] / "analysis" / "published_alignment.yaml"
PAIR = ("family", "first", "second", "pair", "initialization", "metric")
ESTIMATE = ("seeds", "mean", "low", "high")
SUMMARY = (*PAIR, *ESTIMATE, "floor", "excess", "excess_low", "excess_high")
"""`excess`: the value minus its floor."""
DIFFERENCES = (
    "family", "untied", "tied", "initialization", "metric", "over", *ESTIMATE, "p", "p_adjusted",
    "verdict", "reason",
)  # fmt: skip
"""Output-tied minus input-tied, `over` nothing or the floor, with the sign turned for metrics of
distance: above zero the tied table is more like the output table."""
GEOMETRY = ("family", "run", "table", "bin", "metric", *ESTIMATE)
LENS = ("family", "run", "layer", "metric", *ESTIMATE)
PUBLISHED_ROWS = ("source", "models", "pair", "metric", "value", "chance")
DISTANCES = frozenset({"subspace", "residual"})
"""Metrics that are small where tables are alike."""


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where the settings lack the stage.

    Raises:
        DataError: a table of the stage is missing, damaged, of other runs or seeds, or holds a
            number that is not finite.
    """
    raw = _read(params) if params.tables else {name: [] for name in RAW}
    correction = params.statistics.correction
    return {
        "alignment": (RAW["alignment"], raw["alignment"]),
        "alignment_summary": (SUMMARY, list(_summary(raw["alignment"]))),
        "alignment_differences": (DIFFERENCES, _differences(raw["alignment"], correction)),
        "alignment_published": (PUBLISHED_ROWS, list(_published()) if params.tables else []),
        "table_geometry": (RAW["table_geometry"], raw["table_geometry"]),
        "table_geometry_summary": (GEOMETRY, list(_estimates(raw["table_geometry"], GEOMETRY))),
        "logit_lens": (RAW["logit_lens"], raw["logit_lens"]),
        "logit_lens_summary": (LENS, list(_estimates(raw["logit_lens"], LENS))),
    }


def _read(params: Params) -> dict[str, list[Row]]:
    """The raw tables with numbers, after a check that they are of these runs and seeds."""
    folder = evaluation_folder(params.name, "tables")
    held: dict[str, list[Row]] = {}
    for name, columns in RAW.items():
        path = folder / f"{name}.csv"
        rows = read_table(path, mend=MEND)
        if not rows or tuple(rows[0]) != columns:
            found = f"columns {', '.join(rows[0])}" if rows else "no rows"
            raise DataError(path, found=found, expected=", ".join(columns), mend=MEND)
        held[name] = []
        for number, row in enumerate(rows, start=2):
            try:
                held[name].append(_numbers(row))
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number}", found=str(error), expected="finite numbers", mend=MEND
                ) from None
    expected = {
        (family, run, seed)
        for family, group in families(params).items()
        for run in group.runs
        for seed in group.seeds
    }
    for name in ("table_geometry", "logit_lens"):
        present = {(row["family"], row["run"], row["seed"]) for row in held[name]}
        if present != expected:
            family, run, seed = one = min(present ^ expected)
            raise DataError(
                folder / f"{name}.csv",
                found=f"{'a' if one in present else 'no'} row of {family}.{run}, seed {seed}",
                expected="the runs and seeds of params.yaml",
                mend=MEND,
            )
    return held


def _numbers(row: Mapping[str, str]) -> Row:
    held: Row = dict(row)
    for key in ("seed", "layer"):
        if key in row:
            held[key] = int(row[key])
    for key in ("value", "floor"):
        if row.get(key) or key == "value":
            held[key] = float(row[key])
            if not math.isfinite(held[key]):
                raise ValueError(f"{row[key]} in column {key}")
        elif key in row:
            held[key] = None
    return held


def _grouped(rows: Iterable[Row], keys: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    held: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        held[tuple(row[key] for key in keys)].append(row)
    return held


def _estimate(values: Sequence[float]) -> Row:
    found = mean_interval(values)
    return {"seeds": found.n, "mean": found.mean, "low": found.low, "high": found.high}


def _estimates(rows: list[Row], columns: Sequence[str]) -> Iterator[Row]:
    """Mean and t interval over seeds by all columns before those of the estimate."""
    keys = columns[: -len(ESTIMATE)]
    for key, held in _grouped(rows, keys).items():
        yield {**dict(zip(keys, key, strict=True)), **_estimate([row["value"] for row in held])}


def _summary(rows: list[Row]) -> Iterator[Row]:
    for key, held in _grouped(rows, PAIR).items():
        found = {**dict(zip(PAIR, key, strict=True)), **_estimate([row["value"] for row in held])}
        found |= dict.fromkeys(SUMMARY[-4:])
        if held[0]["floor"] is not None:
            excess = _estimate([row["value"] - row["floor"] for row in held])
            found["floor"] = math.fsum(row["floor"] for row in held) / len(held)
            found |= {
                "excess": excess["mean"],
                "excess_low": excess["low"],
                "excess_high": excess["high"],
            }
        yield found


def _differences(rows: list[Row], correction: Any) -> list[Row]:
    """Corrected over the pairs of an untied and a tied run of a family, by metric."""
    held = _grouped(rows, ("family", "first", "second", "initialization", "metric", "pair"))
    found: list[Row] = []
    for (family, first, second, initialization, metric, pair), outputs in held.items():
        inputs = held.get((family, first, second, initialization, metric, "input-tied"))
        if pair != "output-tied" or inputs is None:
            continue
        sign = -1 if metric in DISTANCES else 1
        for over in ("nothing", "floor"):
            ours, theirs = (
                [sign * (row["value"] - (row["floor"] if over == "floor" else 0)) for row in part]
                for part in (outputs, inputs)
            )
            difference = paired_difference(ours, theirs)
            found.append(
                {
                    "family": family, "untied": first, "tied": second,
                    "initialization": initialization, "metric": metric, "over": over,
                    "seeds": difference.n, "mean": difference.mean, "low": difference.low,
                    "high": difference.high, "p": difference.p,
                }
            )  # fmt: skip
    for tested in _grouped(found, ("family", "initialization", "metric", "over")).values():
        adjusted = correct([row["p"] for row in tested], correction)
        for row, p in zip(tested, adjusted, strict=True):
            row |= {"p_adjusted": p, **_verdict(row, p)}
    return found


def _verdict(row: Row, p: float | None) -> Row:
    if row["seeds"] < MINIMUM_SEEDS:
        return {"verdict": "undecided", "reason": f"fewer than {MINIMUM_SEEDS} seeds"}
    if p is None:
        return {"verdict": "undecided", "reason": "the difference is the same in every seed"}
    if p >= 1 - LEVEL:
        return {"verdict": "undecided", "reason": "no difference is shown"}
    return {"verdict": "output" if row["mean"] > 0 else "input", "reason": ""}


def _published() -> Iterator[Row]:
    """Published values, with what an in-sample fit would give by chance where that is known."""
    held = read_data(PUBLISHED)
    for row in held["rows"]:
        for metric in MAPS:
            by_chance = chance(metric, row["tokens"], row["width"]) if row["tokens"] else None
            yield {
                "source": held["source"], "models": row["models"], "pair": row["pair"],
                "metric": metric, "value": row[metric], "chance": by_chance,
            }  # fmt: skip
