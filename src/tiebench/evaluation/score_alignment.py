"""The tables of the stage `tables`: each pair and seed, summaries over seeds, and which of its two
sides' tables the table of a tied run is more like."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tiebench.analysis.alignment import MAPS, chance
from tiebench.analysis.shapes import read_data
from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    correct,
    mean_interval,
    paired_difference,
    shared_seeds,
)
from tiebench.analysis.tables import read_numbers
from tiebench.errors import DataError
from tiebench.evaluation.summaries import grouped
from tiebench.experiments.saved_tables import compared
from tiebench.experiments.tables_settings import RAW
from tiebench.paths import evaluation_folder
from tiebench.published.figures import PUBLISHED_ALIGNMENT
from tiebench.settings import FamilySettings, Params, all_groups

Row = dict[str, Any]
NUMBERS = {"seed": int, "layer": int, "value": float, "floor": float}
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
LENS_METRIC = "divergence"
"""In DIFFERENCES, of the embedding read by the head: tied minus untied, farther above zero."""
GEOMETRY = ("family", "run", "table", "bin", "metric", *ESTIMATE, "p_adjusted")
"""`p_adjusted`: of a `norm_spearman` other than zero, corrected over the tables of a family."""
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
        "alignment_summary": (SUMMARY, list(summaries(raw["alignment"], PAIR))),
        "alignment_differences": (
            DIFFERENCES,
            _differences(raw["alignment"], raw["logit_lens"], correction),
        ),
        "alignment_published": (PUBLISHED_ROWS, list(_published()) if params.tables else []),
        "table_geometry": (RAW["table_geometry"], raw["table_geometry"]),
        "table_geometry_summary": (GEOMETRY, _shapes(raw["table_geometry"], correction)),
        "logit_lens": (RAW["logit_lens"], raw["logit_lens"]),
        "logit_lens_summary": (LENS, list(_estimates(raw["logit_lens"], LENS))),
    }


def _read(params: Params) -> dict[str, list[Row]]:
    """The raw tables with numbers, after a check that they are of these runs and seeds."""
    held: dict[str, list[Row]] = {name: [] for name in RAW}
    for family, group in all_groups(params).items():
        folder = evaluation_folder(params.name, "tables") / family
        mend = f"run `dvc repro tables_{family}`"
        expected = {(family, run, seed) for run in group.runs for seed in group.seeds}
        for name, columns in RAW.items():
            path = folder / f"{name}.csv"
            if name == "alignment" and not compared(group):
                continue  # one table in every run
            if name == "logit_lens" and not isinstance(group, FamilySettings):
                continue  # its layers are read along a stream
            rows = read_numbers(path, columns, NUMBERS, optional=("floor",), mend=mend)
            held[name] += rows
            present = {(x["family"], x["run" if "run" in x else "first"], x["seed"]) for x in rows}
            strays = present - expected if name == "alignment" else present ^ expected
            if strays:
                of, run, seed = one = min(strays)
                raise DataError(
                    path,
                    found=f"{'a' if one in present else 'no'} row of {of}.{run}, seed {seed}",
                    expected="the runs and seeds of params.yaml",
                    mend=mend,
                )
    return held


def _estimate(values: Sequence[float]) -> Row:
    found = mean_interval(values)
    return {"seeds": found.n, "mean": found.mean, "low": found.low, "high": found.high}


def _estimates(rows: list[Row], columns: Sequence[str]) -> Iterator[Row]:
    """Mean and t interval over seeds by all columns before those of the estimate."""
    keys = columns[: -len(ESTIMATE)]
    for key, held in grouped(rows, keys).items():
        yield {**dict(zip(keys, key, strict=True)), **_estimate([row["value"] for row in held])}


def summaries(rows: list[Row], keys: Sequence[str]) -> Iterator[Row]:
    """Mean and t interval over seeds by these columns, also of what is above the floor."""
    for key, held in grouped(rows, keys).items():
        found = {**dict(zip(keys, key, strict=True)), **_estimate([row["value"] for row in held])}
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


def _shapes(rows: list[Row], correction: Any) -> list[Row]:
    found: list[Row] = [{**row, "p_adjusted": None} for row in _estimates(rows, GEOMETRY[:-1])]
    tested = [x for x in found if (x["bin"], x["metric"]) == ("all", "norm_spearman")]
    values = grouped(rows, GEOMETRY[:5])
    for held in grouped(tested, ("family",)).values():
        seeds = ([x["value"] for x in values[tuple(r[k] for k in GEOMETRY[:5])]] for r in held)
        p_values = [paired_difference(x, [0.0] * len(x)).p for x in seeds]
        for row, p in zip(held, correct(p_values, correction), strict=True):
            row["p_adjusted"] = p
    return found


def _differences(rows: list[Row], lens: list[Row], correction: Any) -> list[Row]:
    """Corrected over the pairs of an untied and a tied run of a family, by metric."""
    held = grouped(rows, ("family", "first", "second", "initialization", "metric", "pair"))
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
            at = (family, first, second, initialization, metric, over)
            found.append(_difference(at, ours, theirs))
    found += _lens_differences(lens, dict.fromkeys(_runs_of(row) for row in found))
    for tested in grouped(found, ("family", "initialization", "metric", "over")).values():
        adjusted = correct([row["p"] for row in tested], correction)
        for row, p in zip(tested, adjusted, strict=True):
            row |= {"p_adjusted": p, **verdict_of(row, p)}
    return found


def _difference(at: Sequence[str], ours: Sequence[float], theirs: Sequence[float]) -> Row:
    found = paired_difference(ours, theirs)
    return {
        **dict(zip(DIFFERENCES[:6], at, strict=True)),
        "seeds": found.n, "mean": found.mean, "low": found.low, "high": found.high, "p": found.p,
    }  # fmt: skip


def _runs_of(row: Row) -> tuple[Any, ...]:
    return row["family"], row["untied"], row["tied"]


def _lens_differences(rows: list[Row], pairs: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    """How much farther the embedding of the tied run is from the final prediction."""
    held: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if (row["layer"], row["metric"]) == (0, LENS_METRIC):
            held[row["family"], row["run"]][row["seed"]] = row["value"]
    for family, untied, tied in pairs:
        ours, theirs = shared_seeds(held[family, tied], held[family, untied])
        if ours:
            yield _difference((family, untied, tied, "", LENS_METRIC, "nothing"), ours, theirs)


def verdict_of(row: Row, p: float | None) -> Row:
    """`verdict` and `reason` of a difference with its corrected p value."""
    if row["seeds"] < MINIMUM_SEEDS:
        return {"verdict": "undecided", "reason": f"fewer than {MINIMUM_SEEDS} seeds"}
    if p is None:
        return {"verdict": "undecided", "reason": "the difference is the same in every seed"}
    if p >= 1 - LEVEL:
        return {"verdict": "undecided", "reason": "no difference is shown"}
    words = ("farther", "nearer") if row.get("metric") == LENS_METRIC else ("output", "input")
    return {"verdict": words[row["mean"] <= 0], "reason": ""}


def _published() -> Iterator[Row]:
    """Published values, with what an in-sample fit would give by chance where that is known."""
    held = read_data(PUBLISHED_ALIGNMENT)
    for row in held["rows"]:
        for metric in MAPS:
            by_chance = chance(metric, row["tokens"], row["width"]) if row["tokens"] else None
            yield {
                "source": held["source"], "models": row["models"], "pair": row["pair"],
                "metric": metric, "value": row[metric], "chance": by_chance,
            }  # fmt: skip
