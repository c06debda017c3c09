"""Tables of a report with some cells replaced, to see what the page then says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tiebench.reporting.results import Results, Row


def replaced(
    results: Results, table: str, where: Mapping[str, str], **cells: str | Callable[[Row], str]
) -> Results:
    """The results with these cells in the rows of a table that have the cells of `where`.

    A cell may be a function of the row it stands in.
    """
    rows = []
    for row in results[table]:
        if all(row[key] == value for key, value in where.items()):
            new = {key: x(row) if callable(x) else x for key, x in cells.items()}
            assert new.keys() <= row.keys()
            row = {**row, **new}
        rows.append(row)
    return Results(results.name, {**results.tables, table: rows})
