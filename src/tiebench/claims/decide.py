"""What a measurement says of a claim, from the rows of the tables that it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiebench.analysis.printed import agrees
from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.claims.evidence import Evidence, Row, Unmeasured, matching
from tiebench.claims.schema import (
    FLATTENED,
    Compare,
    Interval,
    Judged,
    Operand,
    Published,
    Rows,
    Selection,
)
from tiebench.claims.wording import cell_text, in_unit, row_names, short, with_interval
from tiebench.errors import DataError

HOLDS, FAILS, INCONCLUSIVE = "holds", "fails", "inconclusive"
DIFFERENT, EQUIVALENT, UNDECIDED = "different", "equivalent", "undecided"
SAID_OF = {
    "equal": "printed", "alike": "claimed", "above": "claimed above", "below": "claimed below",
}  # fmt: skip
"""What stands between a number and the one that it is compared with."""
POINTS = 100.0
"""The table of published differences has ours as shares, and theirs in points."""


@dataclass(frozen=True)
class Decision:
    """What rows say of a claim.

    Attributes:
        state: holds, fails or inconclusive.
        measured: the value with its interval, in words.
        detectable: the smallest difference that would be found, where that is known.
        reason: why nothing is decided, or what the state rests on; may be empty.
        spread: half the interval as a share of the effect, or of the margin of what is alike;
            infinite without an interval.
    """

    state: str
    measured: str
    detectable: float | None = None
    reason: str = ""
    spread: float = math.inf


def decide(measurement: Selection, evidence: Evidence) -> Decision:
    """Read a measurement from the tables of a report.

    Raises:
        Unmeasured: the report has nothing to read it from.
        DataError: a table lacks a column, or a cell is no number.
    """
    found = _decide(measurement, evidence)
    rows = evidence.select(measurement.table, measurement.where)
    if not measurement.counted and any(map(_few, rows)) and found.state != INCONCLUSIVE:
        reason = f"fewer than {MINIMUM_SEEDS} seeds"
        return replace(found, state=INCONCLUSIVE, reason=reason)
    if not measurement.flat or found.state == INCONCLUSIVE:
        return found
    rows = evidence.select(FLATTENED, measurement.flat, ["flat", "run"])
    falling = sorted({row["run"] for row in rows if row["flat"] != "true"})
    if not falling:
        return found
    reason = f"the learning curves of {' and '.join(falling)} have not flattened"
    return replace(found, state=INCONCLUSIVE, reason=reason)


def _few(row: Row) -> bool:
    return row.get("seeds", "").isdecimal() and int(row["seeds"]) < MINIMUM_SEEDS


def _decide(measurement: Selection, evidence: Evidence) -> Decision:
    if isinstance(measurement, Interval):
        return _interval(measurement, evidence)
    if isinstance(measurement, Judged):
        return _judged(measurement, evidence)
    if isinstance(measurement, Published):
        return _published(measurement, evidence)
    if isinstance(measurement, Rows):
        return _rows(measurement, evidence)
    assert isinstance(measurement, Compare)
    return _compare(measurement, evidence)


def is_published(measurement: Selection, evidence: Evidence) -> bool:
    """Whether the tables say that the measurement is at the published configuration.

    Raises:
        Unmeasured: the report has not the rows that would say so.
    """
    for condition in measurement.published_when:
        table = condition.table or measurement.table
        where = condition.where
        if table == measurement.table:
            where = measurement.where | where
        rows = evidence.select(table, where, condition.cells)
        if len(list(matching(rows, condition.cells))) < len(rows):
            return False
    return bool(measurement.published_when)


def number_of(row: Row, column: str, table: str) -> float:
    """A cell as a number.

    Raises:
        DataError: it is none.
    """
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"table {table}",
            found=f"{column} {row[column]!r}",
            expected="a finite number",
            mend="correct the claim that names the column, or make the table again",
        )
    return value


def _ends(row: Row, value: float, measurement: Interval | Judged) -> tuple[float, float, bool]:
    """The ends of an interval, and whether there is one: without any the value stands for both.

    Raises:
        DataError: one end alone, or ends the wrong way round.
    """
    columns = (measurement.low, measurement.high)
    if not any(row[x] for x in columns):
        return value, value, False
    low, high = (number_of(row, x, measurement.table) for x in columns)
    if low > high:
        raise DataError(
            f"table {measurement.table}",
            found=f"an interval from {low:g} to {high:g}",
            expected="its lower end first",
            mend="correct the claim that names the columns, or make the table again",
        )
    return low, high, True


def _interval(measurement: Interval, evidence: Evidence) -> Decision:
    columns = [measurement.value, measurement.low, measurement.high]
    reference = measurement.reference
    if isinstance(reference, str):
        columns.append(reference)
    rows = evidence.select(measurement.table, measurement.where, columns)
    if isinstance(reference, Operand):
        cells = {float(cell) for _, cell in _operand(reference, measurement, evidence)}
        if len(cells) > 1:
            raise DataError(
                f"table {reference.table or measurement.table}",
                found=f"{len(cells)} numbers in {reference.column}",
                expected="one to measure from",
                mend="give the reference a narrower `where`",
            )
        reference = cells.pop()
    decisions = [_interval_of(row, measurement, reference) for row in rows]
    return _together(rows, decisions, measurement)


def _interval_of(row: Row, measurement: Interval, reference: float | str) -> Decision:
    table = measurement.table
    value = number_of(row, measurement.value, table)
    at = number_of(row, reference, table) if isinstance(reference, str) else reference
    low, high, varies = _ends(row, value, measurement)
    measured = with_interval(value, low, high, measurement.unit, varies)
    if at:
        measured += f" beside {short(at)}"
    detectable = _optional(row, "detectable", table)
    spread = _spread(measurement.margin or value - at, low, high) if varies else math.inf
    if measurement.margin is not None:
        inside = at - measurement.margin <= low and high <= at + measurement.margin
        outside = high < at - measurement.margin or low > at + measurement.margin
        limit = f"a margin of {short(measurement.margin)}"
        if inside or outside:
            state = HOLDS if inside else FAILS
            reason = f"{'within' if inside else 'outside'} {limit}"
            return Decision(state, measured, detectable, reason, spread)
        reason = f"the interval reaches over {limit}"
        return Decision(INCONCLUSIVE, measured, detectable, reason, spread)
    above = low > at
    below = high < at if varies else high <= at
    if measurement.direction == "below":
        above, below = (low > at if varies else low >= at), high < at
    if not above and not below:
        reason = f"the interval holds {short(at)}"
        found = detectable if detectable is not None else (high - low) / 2
        return Decision(INCONCLUSIVE, measured, found, reason, spread)
    state = HOLDS if above == (measurement.direction == "above") else FAILS
    return Decision(state, measured, detectable, "", spread)


def _judged(measurement: Judged, evidence: Evidence) -> Decision:
    columns = (measurement.value, measurement.low, measurement.high, "verdict")
    rows = evidence.select(measurement.table, measurement.where, columns)
    return _together(rows, [_judged_of(row, measurement) for row in rows], measurement)


def _judged_of(row: Row, measurement: Judged) -> Decision:
    """Every verdict but equivalent and undecided says that two things differ."""
    table = measurement.table
    value = number_of(row, measurement.value, table)
    low, high, varies = _ends(row, value, measurement)
    measured = with_interval(value, low, high, measurement.unit, varies)
    detectable = _optional(row, "detectable", table)
    spread = _spread(value, low, high) if varies else math.inf
    verdict = row["verdict"]
    if verdict in ("", UNDECIDED):
        reason = row.get("reason") or "no difference is shown"
        found = detectable if detectable is not None else (high - low) / 2
        return Decision(INCONCLUSIVE, measured, found, reason, spread)
    if verdict == EQUIVALENT:
        margin = _optional(row, "margin", table)
        within = "" if margin is None else f", within the margin of {short(margin)}"
        state = HOLDS if measurement.direction == "alike" else FAILS
        return Decision(state, measured, detectable, f"equivalent{within}", spread)
    sides = {"above": value > 0, "below": value < 0, "alike": False}
    state = HOLDS if sides[measurement.direction] else FAILS
    return Decision(state, measured, detectable, "", spread)


def _published(measurement: Published, evidence: Evidence) -> Decision:
    columns = ("published_difference", "metric", "difference", "low", "high", "verdict", "reason")
    rows = evidence.select(measurement.table, measurement.where, columns)
    ours = [row for row in rows if row["metric"]]
    if not ours:
        raise Unmeasured(rows[0]["reason"])
    return _together(ours, [_published_of(row, measurement) for row in ours], measurement)


def _published_of(row: Row, measurement: Published) -> Decision:
    table = measurement.table
    value, low, high = (
        POINTS * number_of(row, column, table) if row[column] else math.nan
        for column in ("difference", "low", "high")
    )
    varies = math.isfinite(low)
    measured = with_interval(value, low, high, "points", varies)
    measured += f"; published {float(row['published_difference']):+g}"
    detectable = _optional(row, "detectable", table)
    states = {"agrees": HOLDS, "disagrees at this scale": FAILS}
    state = states.get(row["verdict"], INCONCLUSIVE)
    spread = _spread(value, low, high) if varies else math.inf
    found = None if detectable is None else POINTS * detectable
    return Decision(state, measured, found, row["reason"], spread)


def _rows(measurement: Rows, evidence: Evidence) -> Decision:
    columns = [measurement.column]
    columns += [x for x in (measurement.above, measurement.below) if isinstance(x, str)]
    rows = evidence.select(measurement.table, measurement.where, columns)
    if measurement.equals is None:  # what has no number there is not asked
        rows = [row for row in rows if all(row[column] for column in columns)]
    if not rows:
        raise Unmeasured(f"the column {measurement.column} of {measurement.table} is empty there")
    if isinstance(measurement.of, int) and len(rows) < measurement.of:
        raise Unmeasured(f"{len(rows)} rows, of which {measurement.of} would have to be so")
    met = [row for row in rows if _meets(row, measurement)]
    enough = {
        "all": len(met) == len(rows),
        "nearly all": 10 * len(met) >= 9 * len(rows),
        "most": 2 * len(met) > len(rows),
        "none": not met,
    }
    kind = measurement.of
    state = HOLDS if (len(met) >= kind if isinstance(kind, int) else enough[kind]) else FAILS
    measured = f"{len(met)} of {len(rows)} rows: {measurement.column} {_condition(measurement)}"
    if len(rows) == 1:
        cell = cell_text(rows[0][measurement.column])
        measured = f"{measurement.column}: {in_unit(cell, measurement.unit)}"
    others = [row for row in rows if row not in met]
    odd = {"none": met, "all": others}.get(str(kind), [])
    names = "; ".join(filter(None, row_names(odd, rows)[:4]))
    return Decision(state, measured, reason=f"not so: {names}" if names else "")


def _meets(row: Row, measurement: Rows) -> bool:
    if measurement.equals is not None:
        return any(matching([row], {measurement.column: measurement.equals}))
    limit = measurement.above if measurement.above is not None else measurement.below
    assert limit is not None
    table = measurement.table
    at = number_of(row, limit, table) if isinstance(limit, str) else limit
    value = number_of(row, measurement.column, table)
    return value > at if measurement.above is not None else value < at


def _condition(measurement: Rows) -> str:
    if measurement.equals is not None:
        held = measurement.equals
        return " or ".join(cell_text(x) for x in (held if isinstance(held, list) else [held]))
    above = measurement.above is not None
    return f"{'above' if above else 'below'} {measurement.above if above else measurement.below}"


def _compare(measurement: Compare, evidence: Evidence) -> Decision:
    first = _operand(measurement.first, measurement, evidence, measurement.by)
    if not isinstance(measurement.second, Operand):
        pairs = [(row, text, str(measurement.second)) for row, text in first]
        return _compared(pairs, measurement)
    second = _operand(measurement.second, measurement, evidence, measurement.by)
    if measurement.by:
        keyed = {tuple(row[x] for x in measurement.by): text for row, text in second}
        if len(keyed) < len(second):
            raise DataError(
                f"table {measurement.second.table or measurement.table}",
                found=f"several rows that are alike in {', '.join(measurement.by)}",
                expected="one of each to compare with",
                mend="give the measurement a narrower `where`, or more columns in `by`",
            )
        matched = [(row, text, tuple(row[x] for x in measurement.by)) for row, text in first]
        pairs = [(row, text, keyed[key]) for row, text, key in matched if key in keyed]
        if not pairs:
            raise Unmeasured(f"no rows that are alike in {', '.join(measurement.by)}")
    elif len(first) == 1:
        pairs = [(row, first[0][1], text) for row, text in second]
    elif len(second) == 1:
        pairs = [(row, text, second[0][1]) for row, text in first]
    else:
        raise DataError(
            f"table {measurement.table}",
            found=f"{len(first)} rows to compare with {len(second)}",
            expected="one row on one side, or columns that match them",
            mend="give the measurement the key `by`, or a narrower `where`",
        )
    return _compared(pairs, measurement)


def _operand(
    side: Operand, measurement: Selection, evidence: Evidence, by: Sequence[str] = ()
) -> list[tuple[Row, str]]:
    """Rows and the cells to compare, scaled."""
    table = side.table or measurement.table
    where = side.where if side.table else measurement.where | side.where
    columns = (side.column, *by)
    held = []
    for row in evidence.select(table, where, columns):
        if not row[side.column]:
            continue
        value = number_of(row, side.column, table)
        scaled = row[side.column] if side.scale == 1 else repr(value * side.scale)
        held.append((row, scaled))
    if not held:
        raise Unmeasured(f"the column {side.column} of the table {table} is empty there")
    return held


def _compared(pairs: Sequence[tuple[Row, str, str]], measurement: Compare) -> Decision:
    decisions = []
    for _, mine, other in pairs:
        value, at = float(mine), float(other) * measurement.factor
        if measurement.direction == "equal":
            held = agrees(other, value)
        elif measurement.margin is not None:
            held = abs(value - at) <= measurement.margin * abs(at)
        else:
            held = value > at if measurement.direction == "above" else value < at
        shown = other if measurement.factor == 1 else f"{measurement.factor:g} × {cell_text(other)}"
        beside = SAID_OF[measurement.direction]
        text = f"{in_unit(short(value), measurement.unit)}, {beside} {cell_text(shown)}"
        decisions.append(Decision(HOLDS if held else FAILS, text, spread=abs(value - at)))
    found = _together([row for row, _, _ in pairs], decisions, measurement)
    return replace(found, spread=math.inf)  # which told rows apart, and tells nothing of reports


def _together(rows: list[Row], decisions: list[Decision], measurement: Selection) -> Decision:
    """A claim about several rows: it holds for all, or fails for one.

    The value given is that of the row that is farthest from holding; of rows that all hold, the
    one that holds least clearly.
    """
    if len(rows) == 1:
        return decisions[0]
    counts = {x: sum(d.state == x for d in decisions) for x in (HOLDS, FAILS, INCONCLUSIVE)}
    # a claim about all fails with one, but not where most say nothing
    open_ = 2 * counts[INCONCLUSIVE] > len(rows)
    state = INCONCLUSIVE if open_ else next(x for x in (FAILS, INCONCLUSIVE, HOLDS) if counts[x])
    deciding = [i for i, decision in enumerate(decisions) if decision.state == state]
    plain = isinstance(measurement, Compare)
    clearest = max if (state == FAILS) == plain else min
    index = clearest(deciding, key=lambda i: decisions[i].spread)
    chosen = decisions[index]
    name = row_names([rows[index]], rows)[0]
    told = f"{counts[HOLDS]} of {len(rows)} rows as claimed, {counts[FAILS]} against"
    if counts[INCONCLUSIVE]:
        told += f", {counts[INCONCLUSIVE]} undecided"
    measured = f"{told}; {name + ': ' if name else ''}{chosen.measured}"
    return Decision(state, measured, chosen.detectable, chosen.reason, chosen.spread)


def _optional(row: Row, column: str, table: str) -> float | None:
    return number_of(row, column, table) if row.get(column) else None


def _spread(effect: float, low: float, high: float) -> float:
    return (high - low) / 2 / abs(effect) if effect else math.inf
