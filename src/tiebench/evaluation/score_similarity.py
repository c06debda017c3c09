"""Word similarity of the vocabulary tables: summaries over seeds, and which of a run's two tables
is closer to the scores that people gave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    correct,
    corrected_over,
    mean_interval,
    paired_difference,
    smallest_detectable,
)
from tiebench.analysis.tables import check_seeds, read_numbers
from tiebench.errors import DataError
from tiebench.evaluation.summaries import grouped
from tiebench.experiments.saved_tables import BOTH, INPUT, OUTPUT, has_two_tables
from tiebench.experiments.word_similarity_settings import DIFFERENCE, RAW
from tiebench.paths import evaluation_folder
from tiebench.settings import Group, Params, all_groups

Row = dict[str, Any]
COUNTS = ("pairs", "repeated", "used", "words", "known_words")
NUMBERS = {**dict.fromkeys(("seed", *COUNTS), int),
           **dict.fromkeys(("value", "low", "high", "pieces"), float)}  # fmt: skip
OPTIONAL = ("low", "high", "pieces")
TOLD = ("family", "run", "table", "set", "similarity")
SETS = (*RAW["similarity_sets"], "coverage")
"""`coverage`: share of the pairs of which both words are known."""
INTERVALS = ("seeds", "mean", "low", "high", "pair_low", "pair_high")
SUMMARY = (*TOLD, "used", "coverage", *INTERVALS)
"""`low` and `high`: t interval over seeds; `pair_low` and `pair_high`: over pairs, by bootstrap, of
the mean over seeds."""
DIFFERENCES = (
    "family", "run", "set", "similarity", "used", "coverage", "seeds", "output", "input",
    "difference", "low", "high", "pair_low", "pair_high", "p", "p_adjusted", "detectable",
    "verdict", "reason",
)  # fmt: skip
"""Output minus input table, paired by seed. `p_adjusted`: over the runs and sets of a family, by
similarity. `verdict`: the better table, or undecided."""


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where the settings have no sets.

    Raises:
        DataError: a table of the stage is missing, damaged, of other sets, runs or seeds, or holds
            a number that is not finite.
    """
    held: dict[str, list[Row]] = {name: [] for name in RAW}
    differences: list[Row] = []
    for family, group in all_groups(params).items():
        read = _read(params, family, group)
        for name, rows in read.items():
            held[name] += rows
        differences += _differences(group, read, params.statistics.correction)
    sets = [{**row, "coverage": row["used"] / row["pairs"]} for row in held["similarity_sets"]]
    return {
        "similarity_sets": (SETS, sets),
        "word_similarity": (RAW["word_similarity"], held["word_similarity"]),
        "word_similarity_summary": (SUMMARY, list(_summary(held))),
        "word_similarity_differences": (DIFFERENCES, differences),
    }


def _read(params: Params, family: str, group: Group) -> dict[str, list[Row]]:
    """The raw tables of a family, after a check that they are of these sets, runs and seeds."""
    empty: dict[str, list[Row]] = {name: [] for name in RAW}
    settings = params.tables.similarity if params.tables else None
    if settings is None or not settings.sets:
        return empty
    folder = evaluation_folder(params.name, "tables") / family
    mend = f"run `dvc repro tables_{family}`"

    def read(name: str) -> list[Row]:
        path = folder / f"{name}.csv"
        return read_numbers(path, RAW[name], NUMBERS, optional=OPTIONAL, mend=mend)

    sets = read("similarity_sets")
    _check(folder / "similarity_sets.csv", {row["set"] for row in sets}, {*settings.sets}, mend)
    for row in sets:
        if not 0 < row["pairs"] >= row["used"] >= 0:
            raise DataError(
                folder / "similarity_sets.csv",
                found=f"{row['used']} of {row['pairs']} pairs used of {row['set']}",
                expected="a number of pairs above zero, and no more of them used",
                mend=mend,
            )
    used = {row["set"] for row in sets if not row["reason"]}
    if not used:
        return {**empty, "similarity_sets": sets}
    found = {name: read(name) for name in ("word_similarity", "word_similarity_pairs")}
    sides = {run: (INPUT, OUTPUT) if has_two_tables(group, run) else (BOTH,) for run in group.runs}
    path = folder / "word_similarity.csv"
    rows = found["word_similarity"]
    expected = {
        (run, table, seed, name)
        for run in group.runs for table in sides[run] for seed in group.seeds for name in used
    }  # fmt: skip
    _check(path, {(x["run"], x["table"], x["seed"], x["set"]) for x in rows}, expected, mend)
    check_seeds(path, rows, ("run", "table"), ("set", "similarity"), mend=mend)
    similarities = {row["similarity"] for row in rows}
    over = {(r, table, name, similarity) for r in group.runs for name in used
            for table in (*sides[r], *((DIFFERENCE,) if len(sides[r]) > 1 else ()))
            for similarity in similarities}  # fmt: skip
    path = folder / "word_similarity_pairs.csv"
    rows = found["word_similarity_pairs"]
    _check(path, {(x["run"], x["table"], x["set"], x["similarity"]) for x in rows}, over, mend)
    return {"similarity_sets": sets, **found}


def _check(path: Path, found: set[Any], expected: set[Any], mend: str) -> None:
    if found != expected:
        one = min(found ^ expected, key=str)
        told = ", ".join(map(str, one)) if isinstance(one, tuple) else one
        raise DataError(
            path,
            found=f"{'a' if one in found else 'no'} row of {told}",
            expected="the sets, runs and seeds of params.yaml",
            mend=mend,
        )


def _over_pairs(rows: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    """The ends of the intervals over pairs."""
    return {
        tuple(row[key] for key in TOLD): {"pair_low": row["low"], "pair_high": row["high"]}
        for row in rows
    }


def _sizes(rows: Iterable[Row]) -> dict[tuple[str, str], Row]:
    """By family and set, the pairs that count."""
    return {
        (row["family"], row["set"]): {"used": row["used"], "coverage": row["used"] / row["pairs"]}
        for row in rows
    }


def _summary(held: Mapping[str, list[Row]]) -> Iterator[Row]:
    over, sizes = _over_pairs(held["word_similarity_pairs"]), _sizes(held["similarity_sets"])
    for key, rows in grouped(held["word_similarity"], TOLD).items():
        found = mean_interval([row["value"] for row in rows])
        told = dict(zip(TOLD, key, strict=True))
        yield {
            **told, **sizes[told["family"], told["set"]], "seeds": found.n, "mean": found.mean,
            "low": found.low, "high": found.high, **over[key],
        }  # fmt: skip


def _differences(group: Group, held: Mapping[str, list[Row]], correction: Any) -> list[Row]:
    """Of the trained runs of one family."""
    over, sizes = _over_pairs(held["word_similarity_pairs"]), _sizes(held["similarity_sets"])
    rows = [row for row in held["word_similarity"] if group.runs[row["run"]].trained]
    values = {
        key: {row["seed"]: row["value"] for row in found}
        for key, found in grouped(rows, TOLD).items()
    }
    found: dict[str, list[Row]] = defaultdict(list)
    pairs: dict[str, list[tuple[list[float], list[float]]]] = defaultdict(list)
    for (family, run, table, name, similarity), ours in values.items():
        if table != OUTPUT:
            continue
        theirs = values[family, run, INPUT, name, similarity]
        pair = [ours[seed] for seed in ours], [theirs[seed] for seed in ours]
        pairs[similarity].append(pair)
        paired = paired_difference(*pair)
        means = [sum(side) / paired.n for side in pair]
        found[similarity].append(
            {
                "family": family, "run": run, "set": name, "similarity": similarity,
                **sizes[family, name], "seeds": paired.n, "output": means[0], "input": means[1],
                "difference": paired.mean, "low": paired.low, "high": paired.high,
                **over[family, run, DIFFERENCE, name, similarity], "p": paired.p,
            }
        )  # fmt: skip
    for similarity, several in found.items():
        raw = [row["p"] for row in several]
        tests = corrected_over(raw, correction)
        for row, pair, p in zip(several, pairs[similarity], correct(raw, correction), strict=True):
            detectable = smallest_detectable(*pair, tests)
            row |= {"p_adjusted": p, "detectable": detectable, **_verdict(row, p)}
    return [row for several in found.values() for row in several]


def _verdict(row: Row, p: float | None) -> Row:
    """The better table, where seeds and pairs both show it."""
    reason = ""
    if row["seeds"] < MINIMUM_SEEDS:
        reason = f"fewer than {MINIMUM_SEEDS} seeds"
    elif p is None:
        reason = "the difference is the same in every seed"
    elif p >= 1 - LEVEL:
        reason = "no difference is shown"
    elif row["pair_low"] is None or row["pair_low"] <= 0 <= row["pair_high"]:
        reason = "the interval over pairs holds zero"
    verdict = (INPUT, OUTPUT)[row["difference"] > 0]
    return {"verdict": "undecided" if reason else verdict, "reason": reason}
