"""The tables on when a shared table becomes like the input or the output table of two: each pair,
update and seed, summaries over seeds, and which of the two it is more like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiebench.analysis.statistics import correct, paired_difference
from tiebench.analysis.tables import read_numbers
from tiebench.errors import DataError
from tiebench.evaluation.score_alignment import ESTIMATE, summaries, verdict_of
from tiebench.evaluation.summaries import grouped
from tiebench.experiments.alignment_by_step import has_snapshots, pairs_of
from tiebench.experiments.saved_tables import compared
from tiebench.experiments.tables_settings import BY_STEP
from tiebench.paths import evaluation_folder
from tiebench.settings import Params, RecurrentFamilySettings, all_groups

Row = dict[str, Any]
NAME = "alignment_by_step"
NUMBERS = {"seed": int, "step": int, "words": int, "value": float, "floor": float}
KEY = ("first", "second", "pair", "initialization", "seed", "step")
PAIR = ("family", "first", "second", "pair", "initialization", "step")
SUMMARY = (*PAIR, *ESTIMATE, "floor", "excess", "excess_low", "excess_high")
"""`excess`: the value minus its floor."""
AT = ("family", "untied", "tied", "initialization", "step", "over")
DIFFERENCES = (*AT, *ESTIMATE, "p", "p_adjusted", "verdict", "reason")
"""Output-tied minus input-tied, `over` nothing or the floor: above zero the tied table is more like
the output table. Corrected over the updates and pairs of runs of a family."""


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where no rows of tables were kept.

    Raises:
        DataError: the table of the stage is missing, damaged, of other runs or seeds, or holds a
            number that is not finite.
    """
    raw = _read(params) if params.tables else []
    return {
        NAME: (BY_STEP[NAME], raw),
        f"{NAME}_summary": (SUMMARY, list(summaries(raw, PAIR))),
        f"{NAME}_differences": (DIFFERENCES, _differences(raw, params.statistics.correction)),
    }


def _read(params: Params) -> list[Row]:
    held: list[Row] = []
    for family, group in all_groups(params).items():
        if not (has_snapshots(group) and compared(group)):
            continue
        assert isinstance(group, RecurrentFamilySettings), "only these keep rows"
        path = evaluation_folder(params.name, "tables") / family / f"{NAME}.csv"
        mend = f"run `dvc repro tables_{family}`"
        rows = read_numbers(path, BY_STEP[NAME], NUMBERS, mend=mend)
        _check(path, rows, group, mend)
        held += rows
    return held


def _check(path: Path, rows: list[Row], group: RecurrentFamilySettings, mend: str) -> None:
    """That there is one row of each pair, seed and update.

    Raises:
        DataError: there is none, or another.
    """
    kept = group.training.table_snapshots
    assert kept is not None, "only such families have the table"
    steps = {row["step"] for row in rows}
    expected = 1 + len(kept.updates) + len(kept.epochs)
    if len(steps) != expected:
        raise DataError(
            path,
            found=f"{len(steps)} updates",
            expected=f"{expected}, as training.table_snapshots keeps rows",
            mend=mend,
        )
    present = {tuple(row[x] for x in KEY) for row in rows}
    wanted = {(*told.values(), step) for told, _, _ in pairs_of(group) for step in steps}
    if present != wanted:
        one = min(present ^ wanted)
        raise DataError(
            path,
            found=f"{'a' if one in present else 'no'} row of {', '.join(map(str, one))}",
            expected="one of each pair of params.yaml's runs, seed and update",
            mend=mend,
        )


def _differences(rows: list[Row], correction: Any) -> list[Row]:
    held = grouped(rows, ("family", "first", "second", "initialization", "step", "pair"))
    found: list[Row] = []
    for (*runs, pair), outputs in held.items():
        if pair != "output-tied":
            continue
        inputs = held[(*runs, "input-tied")]
        for over in ("nothing", "floor"):
            ours, theirs = (
                [row["value"] - (row["floor"] if over == "floor" else 0) for row in part]
                for part in (outputs, inputs)
            )
            made = paired_difference(ours, theirs)
            found.append(
                {
                    **dict(zip(AT, (*runs, over), strict=True)),
                    "seeds": made.n, "mean": made.mean, "low": made.low, "high": made.high,
                    "p": made.p,
                }
            )  # fmt: skip
    for tested in grouped(found, ("family", "initialization", "over")).values():
        adjusted = correct([row["p"] for row in tested], correction)
        for row, p in zip(tested, adjusted, strict=True):
            row |= {"p_adjusted": p, **verdict_of(row, p)}
    return found
