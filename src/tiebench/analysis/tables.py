"""CSV tables with fixed bytes: one number format, one line end, absent values empty."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiebench.errors import DataError
from tiebench.files import write_text

DIGITS = 7
"""Significant digits of a number that is not whole."""


def shown(value: Any) -> str:
    """A cell: whole numbers in full, others with 7 significant digits, None and NaN empty."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return str(value).lower()
    number = float(value)
    if math.isnan(number):
        return ""
    if number.is_integer() and abs(number) < 2**53:
        return str(int(number))
    return format(number, f".{DIGITS}g")


def rounded(value: float) -> float:
    """The number that `shown` prints."""
    return float(shown(value))


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table.

    Args:
        path: the CSV file.
        columns: header, in order; every row has exactly these keys.
        rows: one mapping per line.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        assert len(row) == len(columns), (sorted(row), columns)
        writer.writerow([shown(row[column]) for column in columns])
    write_text(path, text.getvalue())


def read_table(path: Path, *, mend: str) -> list[dict[str, str]]:
    """Rows of a table, all cells as text.

    Raises:
        DataError: the file is missing or damaged, or a line has not as many cells as the header.
    """
    try:
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        raise DataError(path, found="no such file", expected="a CSV table", mend=mend) from None
    except (UnicodeDecodeError, csv.Error) as error:
        found = f"a damaged file ({error})"
        raise DataError(path, found=found, expected="a CSV table", mend=mend) from None
    if not lines:
        raise DataError(path, found="an empty file", expected="a CSV table", mend=mend)
    header, *rows = lines
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {number}",
                found=f"{len(row)} cells",
                expected=f"{len(header)}, as in the header",
                mend=mend,
            )
    return [dict(zip(header, row, strict=True)) for row in rows]


def read_numbers(
    path: Path,
    columns: Sequence[str],
    numbers: Mapping[str, type],
    *,
    optional: Collection[str] = (),
    keys: Collection[str] = (),
    mend: str,
) -> list[dict[str, Any]]:
    """Rows of a table that a stage wrote, cells of some columns as numbers.

    Args:
        path: the CSV file.
        columns: the header that it must have, in order.
        numbers: by column, `int` or `float`; the other cells stay text.
        optional: columns of which a cell may be empty, which is then None.
        keys: columns of `float` that tell rows apart, as all columns of other kinds do.
        mend: what makes the file anew.

    Raises:
        DataError: as `read_table`; no rows, another header, a row that is there twice, or a number
            that is none or not finite, with its line.
    """
    rows: list[dict[str, Any]] = list(read_table(path, mend=mend))
    if not rows or tuple(rows[0]) != tuple(columns):
        found = f"columns {', '.join(rows[0])}" if rows else "no rows"
        raise DataError(path, found=found, expected=", ".join(columns), mend=mend)
    telling = [x for x in columns if numbers.get(x) is not float or x in keys]
    known: set[tuple[str, ...]] = set()
    for line, row in enumerate(rows, start=2):
        told = tuple(row[column] for column in telling)
        if told in known:
            found = f"a second row {', '.join(told)}"
            expected = "one row of each"
            raise DataError(f"{path}, line {line}", found=found, expected=expected, mend=mend)
        known.add(told)
        for column in numbers.keys() & row.keys():
            cell = row[column]
            try:
                row[column] = None if column in optional and not cell else numbers[column](cell)
                finite = row[column] is None or math.isfinite(row[column])
            except ValueError:
                finite = False
            if not finite:
                raise DataError(
                    f"{path}, line {line}",
                    found=f"{column} {cell!r}",
                    expected="a finite number",
                    mend=mend,
                )
    return rows


def check_seeds(
    path: Path,
    rows: Iterable[Mapping[str, Any]],
    of: Sequence[str],
    parts: Sequence[str],
    *,
    mend: str,
) -> None:
    """Check that every seed has the rows that the other seeds of the same thing have.

    Args:
        path: the CSV file.
        rows: of `read_numbers`, with a column `seed`.
        of: columns that name what has several seeds.
        parts: columns that tell apart the rows of one seed.
        mend: what makes the file anew.

    Raises:
        DataError: a row is lacking.
    """
    held: dict[tuple[Any, ...], dict[int, set[tuple[Any, ...]]]] = {}
    for row in rows:
        seeds = held.setdefault(tuple(row[x] for x in of), {})
        seeds.setdefault(row["seed"], set()).add(tuple(row[x] for x in parts))
    for name, seeds in held.items():
        whole = set[tuple[Any, ...]]().union(*seeds.values())
        for seed, found in seeds.items():
            if found != whole:
                lacking = ", ".join(map(str, min(whole - found, key=str)))
                raise DataError(
                    path,
                    found=f"no row {lacking} of {', '.join(map(str, name))}, seed {seed}",
                    expected="the rows that other seeds have",
                    mend=mend,
                )
