"""Every kind of measurement: what rows say, and that other rows say the opposite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from tiebench.analysis.tables import write_table
from tiebench.claims.decide import Decision, decide, is_published
from tiebench.claims.evidence import Evidence, Unmeasured
from tiebench.claims.schema import Measurement
from tiebench.errors import DataError


def evidence(folder: Path, **tables: list[dict[str, Any]]) -> Evidence:
    for name, rows in tables.items():
        write_table(folder / f"{name}.csv", list(rows[0]), rows)
    return Evidence("small", folder)


def measurement(kind: str, table: str = "t", **keys: Any) -> Any:
    return TypeAdapter(Measurement).validate_python({"kind": kind, "table": table, **keys})


def said(folder: Path, rows: list[dict[str, Any]], kind: str, **keys: Any) -> Decision:
    return decide(measurement(kind, **keys), evidence(folder, t=rows))


def estimate(mean: float, half: float | None, seeds: int = 5, **cells: Any) -> dict[str, Any]:
    ends = (None, None) if half is None else (mean - half, mean + half)
    return {**cells, "seeds": seeds, "mean": mean, "low": ends[0], "high": ends[1]}


@pytest.mark.parametrize(
    ("mean", "half", "direction", "state"),
    [
        (0.3, 0.1, "above", "holds"),
        (-0.3, 0.1, "above", "fails"),
        (0.05, 0.1, "above", "inconclusive"),
        (0.3, 0.1, "below", "fails"),
        (-0.3, 0.1, "below", "holds"),
        (0.3, None, "above", "holds"),
        (0.0, None, "above", "fails"),
        (0.0, None, "below", "fails"),
    ],
)
def test_an_interval_lies_on_a_side(tmp_path, mean, half, direction, state) -> None:
    decision = said(tmp_path, [estimate(mean, half)], "interval", direction=direction)
    assert decision.state == state
    if state == "inconclusive":
        assert decision.detectable == pytest.approx(half)
        assert decision.reason == "the interval holds 0"


@pytest.mark.parametrize(
    ("mean", "state"), [(2.05, "holds"), (2.15, "inconclusive"), (2.4, "fails"), (1.6, "fails")]
)
def test_an_interval_within_a_margin(tmp_path, mean, state) -> None:
    rows = [estimate(mean, 0.1, theory=2.0)]
    keys = {"direction": "alike", "margin": 0.2}
    assert said(tmp_path, rows, "interval", reference="theory", **keys).state == state
    assert said(tmp_path, rows, "interval", reference=2.0, **keys).state == state
    tables = evidence(tmp_path, t=rows, other=[{"run": "a", "at": 2}, {"run": "b", "at": 9}])
    cell = {"table": "other", "where": {"run": "a"}, "column": "at"}
    assert decide(measurement("interval", reference=cell, **keys), tables).state == state
    with pytest.raises(DataError, match="2 numbers in at"):
        decide(
            measurement("interval", reference={"table": "other", "column": "at"}, **keys), tables
        )


def test_few_seeds_decide_nothing(tmp_path) -> None:
    decision = said(tmp_path, [estimate(0.3, 0.1, seeds=2)], "interval", direction="above")
    assert (decision.state, decision.reason) == ("inconclusive", "fewer than 5 seeds")


def test_counts_need_one_seed(tmp_path) -> None:
    rows = [{"seeds": 1, "agree": "true"}, {"seeds": 1, "agree": "true"}]
    keys: dict[str, Any] = {"column": "agree", "equals": True}
    assert said(tmp_path, rows, "rows", **keys).reason == "fewer than 5 seeds"
    assert said(tmp_path, rows, "rows", counted=True, **keys).state == "holds"


def pair(difference: float, verdict: str, reason: str = "", **cells: Any) -> dict[str, Any]:
    return {
        "first": "a", "second": "b", **cells, "difference": difference, "low": difference - 0.1,
        "high": difference + 0.1, "detectable": 0.2, "margin": 0.5, "verdict": verdict,
        "reason": reason,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("difference", "verdict", "states"),
    [
        (0.3, "different", {"above": "holds", "below": "fails", "alike": "fails"}),
        (-0.3, "different", {"above": "fails", "below": "holds", "alike": "fails"}),
        (-0.3, "below", {"above": "fails", "below": "holds", "alike": "fails"}),
        (0.01, "equivalent", {"above": "fails", "below": "fails", "alike": "holds"}),
        (0.3, "undecided", dict.fromkeys(("above", "below", "alike"), "inconclusive")),
    ],
)
def test_a_judged_pair_has_a_direction(tmp_path, difference, verdict, states) -> None:
    rows = [pair(difference, verdict, "curves fall" if verdict == "undecided" else "")]
    for direction, state in states.items():
        decision = said(tmp_path, rows, "judged", direction=direction)
        assert decision.state == state
        if state == "inconclusive":
            assert (decision.reason, decision.detectable) == ("curves fall", 0.2)


def test_a_claim_about_several_rows_holds_for_all_or_fails_for_one(tmp_path) -> None:
    rows = [pair(0.3, "different", first=name) for name in ("x", "y")]
    assert said(tmp_path, rows, "judged", direction="above").state == "holds"
    rows.append(pair(0.05, "undecided", first="z"))
    decision = said(tmp_path, rows, "judged", direction="above")
    assert decision.state == "inconclusive"
    assert decision.measured == (
        "2 of 3 rows as claimed, 0 against, 1 undecided; z: 0.05 (-0.05 to 0.15)"
    )
    rows.append(pair(-0.4, "different", first="w"))
    decision = said(tmp_path, rows, "judged", direction="above")
    assert decision.state == "fails"
    assert decision.measured.endswith("1 against, 1 undecided; w: -0.4 (-0.5 to -0.3)")


def compared(verdict: str | None, metric: str | None = "accuracy") -> dict[str, Any]:
    numbers = (0.02, 0.01, 0.03, 0.015) if metric else (None,) * 4
    return {
        "metric": metric, "published_difference": 1.5,
        **dict(zip(("difference", "low", "high", "detectable"), numbers, strict=True)),
        "verdict": verdict, "reason": "" if verdict else "why not",
    }  # fmt: skip


def test_a_published_comparison_has_its_verdict(tmp_path) -> None:
    for verdict, state in (
        ("agrees", "holds"), ("disagrees at this scale", "fails"), ("inconclusive", "inconclusive"), (None, "inconclusive"),
    ):  # fmt: skip
        decision = said(tmp_path, [compared(verdict)], "published")
        assert decision.state == state and decision.detectable == pytest.approx(1.5)
        assert decision.measured == "2 points (1 to 3); published +1.5"
    with pytest.raises(Unmeasured, match="why not"):
        said(tmp_path, [compared(None, metric=None)], "published")


def test_rows_are_counted(tmp_path) -> None:
    rows = [{"model": name, "tied": tied, "share": share, "limit": 10}
            for name, tied, share in (("x", True, 30), ("y", True, 5), ("z", False, 2))]  # fmt: skip
    for keys, state in (
        ({"column": "tied", "equals": True}, "fails"),
        ({"column": "tied", "equals": True, "of": "most"}, "holds"),
        ({"column": "tied", "equals": True, "of": "nearly all"}, "fails"),
        ({"column": "tied", "equals": True, "of": 2}, "holds"),
        ({"column": "tied", "equals": True, "of": 3}, "fails"),
        ({"column": "tied", "equals": False, "of": "none"}, "fails"),
        ({"column": "tied", "equals": [True, False]}, "holds"),
        ({"column": "share", "below": 40.0}, "holds"),
        ({"column": "share", "below": "limit"}, "fails"),
        ({"column": "share", "above": "limit", "of": 1}, "holds"),
        ({"column": "share", "above": 20.0, "where": {"tied": True}}, "fails"),
    ):
        assert said(tmp_path, rows, "rows", **keys).state == state, keys
    assert said(tmp_path, rows, "rows", column="tied", equals=True).reason == "not so: z"
    rows[2]["tied"] = True
    assert said(tmp_path, rows, "rows", column="tied", equals=True).state == "holds"


def test_cells_are_compared(tmp_path) -> None:
    rows = [
        {"row": name, "column": column, "value": value}
        for column, values in (("wide", (3, 5)), ("narrow", (2, 4)))
        for name, value in zip(("a", "b"), values, strict=True)
    ]
    sides = {
        "first": {"where": {"column": "wide"}, "column": "value"},
        "second": {"where": {"column": "narrow"}, "column": "value"},
    }
    assert said(tmp_path, rows, "compare", direction="above", by=["row"], **sides).state == "holds"
    assert said(tmp_path, rows, "compare", direction="below", by=["row"], **sides).state == "fails"
    near = {"direction": "alike", "margin": 0.2, "by": ["row"]}
    assert said(tmp_path, rows, "compare", factor=1.4, **near, **sides).state == "holds"
    assert said(tmp_path, rows, "compare", **near, **sides).state == "fails"
    rows[3]["value"] = 6
    decision = said(tmp_path, rows, "compare", direction="above", by=["row"], **sides)
    assert decision.state == "fails"
    assert decision.measured == "1 of 2 rows as claimed, 1 against; b: 5, claimed above 6"
    with pytest.raises(DataError, match="2 rows to compare with 2.*`by`"):
        said(tmp_path, rows, "compare", direction="above", **sides)


def test_printed_digits_decide_what_is_equal(tmp_path) -> None:
    rows = [{"model": "XL", "matrix": 80411200, "share": 5.162469, "printed": "6.9"}]
    for first, second, state in (
        ({"column": "matrix", "scale": 1e-6}, "80.4", "holds"),
        ({"column": "matrix", "scale": 1e-6}, "103", "fails"),
        ({"column": "share"}, "5.2", "holds"),
        ({"column": "share"}, "5", "holds"),
        ({"column": "share"}, {"column": "printed"}, "fails"),
    ):
        keys = {"direction": "equal", "first": first, "second": second}
        assert said(tmp_path, rows, "compare", **keys).state == state, (first, second)


def test_the_published_configuration_is_read_from_cells(tmp_path) -> None:
    tables = evidence(
        tmp_path,
        t=[estimate(1, 0.1, size=9, run="a"), estimate(1, 0.1, size=7, run="b")],
        runs=[{"run": "a", "layers": 12}, {"run": "b", "layers": 2}],
    )
    for run, conditions, met in (
        ("a", [{"cells": {"size": 9}}], True),
        ("b", [{"cells": {"size": 9}}], False),
        (["a", "b"], [{"cells": {"size": 9}}], False),
        (["a", "b"], [{"cells": {"size": [7, 9]}}], True),
        ("a", [{"table": "runs", "where": {"run": "a"}, "cells": {"layers": 12}}], True),
        ("a", [{"cells": {"size": 9}}, {"table": "runs", "where": {"run": "b"}, "cells": {"layers": 12}}], False),
        ("a", [], False),
    ):  # fmt: skip
        held = measurement("interval", direction="above", where={"run": run}, published_when=conditions)  # fmt: skip
        assert is_published(held, tables) is met, (run, conditions)


def test_what_is_lacking_is_said(tmp_path) -> None:
    rows = [estimate(1, 0.1, run="a")]
    with pytest.raises(Unmeasured, match="no row with run b or c"):
        said(tmp_path, rows, "interval", direction="above", where={"run": ["b", "c"]})
    with pytest.raises(Unmeasured, match="no table gone"):
        decide(measurement("interval", "gone", direction="above"), Evidence("small", tmp_path))
    with pytest.raises(
        DataError, match=r"t\.csv: found no column size; expected one of run, seeds"
    ):
        said(tmp_path, rows, "interval", direction="above", value="size")
    with pytest.raises(DataError, match="found run 'a'; expected a finite number"):
        said(tmp_path, rows, "interval", direction="above", value="run")
    write_table(tmp_path / "empty.csv", ["mean"], [])
    with pytest.raises(Unmeasured, match="the table empty is empty"):
        decide(measurement("interval", "empty", direction="above"), Evidence("small", tmp_path))
