"""The tables of a report as the page reads them, with the look-ups that figures and text share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tiebench.analysis.tables import read_table

Row = dict[str, str]

TABLES = (
    "runs", "parameters", "language_modeling", "learning_curves", "retrieval",
    "retrieval_sets", "corpus", "provenance", "summary", "language_modeling_summary",
    "retrieval_summary", "published", "published_curves", "parameter_savings",
    "savings_by_scale", "published_counts", "rembert_parameters", "rembert_conventions",
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """All tables of a report by name; every cell is text."""

    name: str
    tables: dict[str, list[Row]]

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables[table]

    def where(self, table: str, **cells: str) -> Iterator[Row]:
        """Rows of a table with these cells."""
        for row in self.tables[table]:
            if all(row[column] == cell for column, cell in cells.items()):
                yield row

    @cached_property
    def families(self) -> list[str]:
        """Families of runs, in order."""
        return list(dict.fromkeys(row["family"] for row in self["runs"]))

    def runs(self, family: str) -> list[Row]:
        """What each run of a family is, the baseline first and what is untrained last."""
        rows = list(self.where("runs", family=family))
        return sorted(rows, key=lambda r: (r["trained"] != "true", r["baseline"] != "true"))

    def baseline(self, family: str) -> str:
        """The run that the others are compared with."""
        return next(self.where("runs", family=family, baseline="true"))["run"]

    def summary(self, family: str, run: str, metric: str) -> Row | None:
        """A row of the summary, None when the run has no such metric."""
        return next(self.where("summary", family=family, run=run, metric=metric), None)

    @cached_property
    def pairs(self) -> list[tuple[str, str, str]]:
        """(set, source, target) of the retrieval, the one set beside RemBERT's first."""
        found = dict.fromkeys((r["set"], r["source"], r["target"]) for r in self["retrieval"])
        return sorted(found, key=lambda p: (p[0] != next(iter(found))[0], p[1:] != ("en", "de")))

    @cached_property
    def protocol(self) -> tuple[str, str]:
        """Distance and offset of the headline: RemBERT's where they were run, else the first."""
        found = dict.fromkeys((r["distance"], r["offset"]) for r in self["retrieval"])
        return ("l2", "scored_pairs") if ("l2", "scored_pairs") in found else next(iter(found))

    def layers(self, family: str) -> list[str]:
        """Layers that were searched, `0` first, without the bag of tokens."""
        found = {r["layer"] for r in self.where("retrieval_summary", family=family)}
        return sorted(found - {"tokens"}, key=int)

    def retrieval(
        self, family: str, run: str, pair: tuple[str, str, str], **cells: str
    ) -> dict[str, Row]:
        """Summaries of accuracy by layer, for the headline's distance and offset unless given."""
        distance, offset = self.protocol
        wanted = {"distance": distance, "offset": offset, "subset": "all", **cells}
        name, source, target = pair
        rows = self.where(
            "retrieval_summary", family=family, run=run, metric="accuracy",
            set=name, source=source, target=target, **wanted,
        )  # fmt: skip
        return {row["layer"]: row for row in rows}


def read_results(folder: Path, name: str) -> Results:
    """Read every table.

    Raises:
        DataError: a table is missing or damaged.
    """
    mend = "run `dvc repro score`"
    return Results(
        name, {table: read_table(folder / f"{table}.csv", mend=mend) for table in TABLES}
    )
