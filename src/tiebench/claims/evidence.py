"""The tables of a report as claims read them, and those of other reports set aside for that."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from tiebench import paths
from tiebench.analysis.tables import read_table, shown
from tiebench.claims.read import named_tables, read_sources
from tiebench.claims.schema import Cells
from tiebench.errors import DataError
from tiebench.files import holding, replacing_folder, writing

Row = dict[str, str]


class Unmeasured(Exception):
    """A report has nothing that a measurement could be read from; the text says what it lacks."""


class Evidence:
    """The tables of one report.

    Args:
        report: its name.
        folder: where its tables are.
    """

    def __init__(self, report: str, folder: Path) -> None:
        self.report, self.folder = report, folder
        self._tables: dict[str, list[Row]] = {}

    @cached_property
    def held(self) -> frozenset[str]:
        """Names of the tables that the report has."""
        return frozenset(path.stem for path in self.folder.glob("*.csv"))

    def rows(self, table: str) -> list[Row]:
        """All rows of a table.

        Raises:
            Unmeasured: the report has no such table, or it is empty.
            DataError: the table is damaged.
        """
        if table not in self.held:
            raise Unmeasured(f"the report has no table {table}")
        if table not in self._tables:
            path = self.folder / f"{table}.csv"
            self._tables[table] = read_table(path, mend="run `dvc repro score`")
        if not self._tables[table]:
            raise Unmeasured(f"the table {table} is empty")
        return self._tables[table]

    def select(self, table: str, where: Cells, columns: Iterable[str] = ()) -> list[Row]:
        """The rows of a table with some cells.

        Args:
            columns: those that are read beside the ones of `where`.

        Raises:
            Unmeasured: there is none.
            DataError: the table has no such column.
        """
        rows = self.rows(table)
        for column in (*where, *columns):
            if column not in rows[0]:
                raise DataError(
                    self.folder / f"{table}.csv",
                    found=f"no column {column}",
                    expected=f"one of {', '.join(rows[0])}",
                    mend="correct the claim that names it, or make the report again",
                )
        found = list(matching(rows, where))
        if not found:
            said = ", ".join(f"{column} {_said(cell)}" for column, cell in where.items())
            raise Unmeasured(f"the table {table} has no row with {said}")
        return found


def lacking(rows: Iterable[Row], where: Cells) -> list[str]:
    """What a selection names and no row has, as `width 768`."""
    held = list(rows)
    return [
        f"{column} {shown(x)}"
        for column, cell in where.items()
        if isinstance(cell, list)
        for x in cell
        if not any(row.get(column) == shown(x) for row in held)
    ]


def matching(rows: Iterable[Row], where: Cells) -> Iterator[Row]:
    """The rows that have the cells of `where`, a list of cells for any of them."""
    wanted = {
        column: {shown(x) for x in (cell if isinstance(cell, list) else [cell])}
        for column, cell in where.items()
    }
    for row in rows:
        if all(row.get(column) in cells for column, cells in wanted.items()):
            yield row


def _said(cell: object) -> str:
    return " or ".join(map(shown, cell)) if isinstance(cell, list) else shown(cell)


def selection_text(where: Cells) -> str:
    """`family decoders, first untied` from the cells of a selection."""
    return ", ".join(f"{column} {_said(cell)}" for column, cell in where.items())


def set_aside(name: str, report: str) -> None:
    """Copy the tables of another report that claims are decided from.

    Args:
        name: of this report.
        report: the other, a folder of reports/.

    Raises:
        DataError: the other report has no tables, or one is damaged; or a file of claims is wrong.
        BusyError: another process sets the same aside.
        WriteError: no room, or no permission.
    """
    tables = paths.report_folder(report) / "tables"
    if not tables.is_dir():
        raise DataError(
            tables,
            found="no such folder",
            expected="the tables of a committed report",
            mend=f"restore it with git, or leave {report} out of claims.reports",
        )
    target = paths.evidence_folder(name, report)
    named = [x for x in named_tables(read_sources()) if (tables / f"{x}.csv").is_file()]
    for table in named:
        read_table(tables / f"{table}.csv", mend="restore it with git, or make that report again")
    lock = paths.SCRATCH / f"evidence-{name}-{report}.lock"
    with (
        holding(lock, f"evidence of report {report}"),
        replacing_folder(target) as folder,
        writing(target),
    ):
        for table in named:
            shutil.copyfile(tables / f"{table}.csv", folder / f"{table}.csv")


def evidence_of(name: str, own: Path, reports: Iterable[str]) -> Mapping[str, Evidence]:
    """The tables of this report, then those set aside of others.

    Raises:
        DataError: the tables of a report have not been set aside.
    """
    held = {name: Evidence(name, own)}
    for report in reports:
        folder = paths.evidence_folder(name, report)
        if not folder.is_dir():
            raise DataError(
                folder,
                found="no such folder",
                expected=f"the tables of the report {report} that claims are decided from",
                mend=f"run `dvc repro evidence@{report}`",
            )
        held[report] = Evidence(report, folder)
    return held
