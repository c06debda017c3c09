"""Rows and numbers in words."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tiebench.claims.evidence import Row
from tiebench.claims.schema import Cell

TELLING = 3
"""How many cells name a row at most."""
UNTOLD = ("verdict", "reason", "statement", "place", "seeds", "agrees")
"""Columns that name no row."""


def row_names(chosen: Iterable[Row], rows: list[Row]) -> list[str]:
    """Rows by the cells that tell them apart: words first, then whole numbers."""
    kinds: dict[bool, list[str]] = {True: [], False: []}
    for column in rows[0]:
        cells = {row[column] for row in rows}
        words = not all(map(_numeric, cells))
        if len(cells) > 1 and column not in UNTOLD and (words or all(map(_whole, cells))):
            kinds[words].append(column)
    telling: list[str] = []
    apart = 1
    for column in kinds[True] + kinds[False]:
        found = len({tuple(row[x] for x in (*telling, column)) for row in rows})
        if found > apart and len(telling) < TELLING:
            telling.append(column)
            apart = found
    return [", ".join(_named(x, row[x]) for x in telling if row[x]) for row in chosen]


def _named(column: str, cell: str) -> str:
    """A cell, with its column where it is a number."""
    return f"{column} {cell}" if _numeric(cell) else cell


def _whole(cell: str) -> bool:
    return cell.lstrip("-").isdecimal()


def _numeric(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True


def with_interval(value: float, low: float, high: float, unit: str, varies: bool) -> str:
    """A value with the ends of its interval, if it has one."""
    if math.isnan(value):
        return "no value"
    text = in_unit(short(value), unit)
    return f"{text} ({short(low)} to {short(high)})" if varies else text


def in_unit(number: str, unit: str) -> str:
    """A number with its unit, joined where that is short."""
    return number + (unit if unit in ("", "%", "M") else f" {unit}")


def short(value: float) -> str:
    """Four significant digits, whole numbers in full."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if 1e-4 <= abs(value) < 1e6 else f"{value:.3g}"


def cell_text(cell: Cell) -> str:
    """A cell, long numbers with four digits."""
    text = str(cell).lower() if isinstance(cell, bool) else str(cell)
    return short(float(text)) if _numeric(text) and len(text) > 6 else text or "nothing"
