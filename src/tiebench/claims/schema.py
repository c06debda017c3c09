"""A file of claims/: what a source claims, where, and which rows of which table decide it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tiebench.schema import Name, Settings

PRINTED = "printed_figures"
"""The table of the figures that the files themselves hold."""
FLATTENED = "flattened"
"""The table of learning curves, and whether each has flattened."""
LEDGER = "claims"
"""The table of verdicts, which no claim can be decided from."""

Cell = str | int | float | bool
Cells = dict[str, Cell | list[Cell]]
"""By column, the cell that a row must have, or some of which it must have one."""
Text = Annotated[str, Field(min_length=1)]
Digits = Annotated[str, Field(pattern=r"^-?\d{1,15}(\.\d{1,9})?$")]
"""A printed number."""
Direction = Literal["above", "below", "alike"]


class Condition(Settings):
    """What the rows of a table must hold for a measurement to be at the published configuration."""

    table: Name | None = None
    """The table; the one of the measurement if not given."""
    where: Cells = {}
    """The rows that are looked at; with the table of the measurement, of those it selects."""
    cells: Annotated[Cells, Field(min_length=1)]
    """What each of them must have."""


class Selection(Settings):
    """What every measurement has: rows of a table."""

    table: Name
    """A table of a report, by the name of its file."""
    where: Cells = {}
    """Cells of the rows that are looked at."""
    unit: str = ""
    """Of the values, as it is said."""
    published_when: list[Condition] = []
    """When all are met, the measurement is at the published configuration."""
    flat: Cells = {}
    """Cells of the rows of `flattened` that must be flat before anything is decided: the runs whose
    learning curves the measurement rests on."""
    counted: bool = False
    """The cells are counts, which no seed changes: fewer than five seeds decide too."""
    figure: Name | None = None
    """The figure that shows it; that of the claim if not given."""
    command: Text | None = None
    """The command that measures it; that of the claim if not given."""

    def tables(self) -> set[str]:
        """Names of the tables that are read."""
        flattened = {FLATTENED} if self.flat else set()
        return {self.table, *flattened, *(x.table for x in self.published_when if x.table)}


class Operand(Settings):
    """Cells that others are compared with, or that are compared."""

    table: Name | None = None
    """The table; the one of the measurement if not given."""
    where: Cells = {}
    """Cells of the rows beside those of the measurement."""
    column: str
    scale: float = 1.0
    """What the cells are multiplied with, as 1e-6 for millions."""


def elsewhere(*held: object) -> set[str]:
    """The tables that operands name."""
    return {x.table for x in held if isinstance(x, Operand) and x.table}


class Interval(Selection):
    """Whether intervals lie on the claimed side of a reference."""

    kind: Literal["interval"]
    direction: Direction
    value: str = "mean"
    """Columns of the estimate and the ends of its interval."""
    low: str = "low"
    high: str = "high"
    reference: float | str | Operand = 0.0
    """A number, the column that holds it, or a cell elsewhere."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """With `alike`: how far from the reference an interval may reach."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.direction == "alike") != (self.margin is not None):
            raise ValueError("a margin with direction alike, and none with another")
        return self

    def tables(self) -> set[str]:
        return super().tables() | elsewhere(self.reference)


class Judged(Selection):
    """Whether pairs that the report has judged differ in the claimed direction."""

    kind: Literal["judged"]
    direction: Direction
    value: str = "difference"
    """Columns of the difference, first minus second, and the ends of its interval."""
    low: str = "low"
    high: str = "high"


class Published(Selection):
    """The report's own comparison with published differences."""

    kind: Literal["published"]
    table: Name = "published"


class Rows(Selection):
    """How many rows meet a condition."""

    kind: Literal["rows"]
    column: str
    """The column that the condition is about."""
    equals: Cell | list[Cell] | None = None
    above: float | str | None = None
    """A number, or the column that holds it."""
    below: float | str | None = None
    of: Literal["all", "nearly all", "most", "none"] | Annotated[int, Field(gt=0)] = "all"
    """How many must meet it: nearly all are nine of ten, and a number is the least."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(x is not None for x in (self.equals, self.above, self.below)) != 1:
            raise ValueError("one of equals, above and below")
        return self


class Compare(Selection):
    """Whether cells are equal to the printed digits, ordered, or close."""

    kind: Literal["compare"]
    direction: Literal["above", "below", "alike", "equal"]
    first: Operand
    second: Operand | Annotated[float, Field(strict=True)] | Digits
    """Cells, a number, or printed digits."""
    by: list[str] = []
    """Columns by which rows of both are matched; without any, one of the two is a single row."""
    factor: float = 1.0
    """What the second is multiplied with."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """With `alike`: the largest difference, as a share of the second."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.direction == "alike") != (self.margin is not None):
            raise ValueError("a margin with direction alike, and none with another")
        if self.direction == "equal" and (self.factor != 1 or isinstance(self.second, float)):
            raise ValueError("with direction equal, a second in printed digits and no factor")
        return self

    def tables(self) -> set[str]:
        return super().tables() | elsewhere(self.first, self.second)


Measurement = Annotated[Interval | Judged | Published | Rows | Compare, Field(discriminator="kind")]


class Claim(Settings):
    """One claim, in our own words."""

    statement: Text
    place: Text
    """Where in the source."""
    published: Text | None = None
    """The value, with its unit, or the words that are printed, if there are any."""
    kind: Literal["measured", "arithmetic"]
    """Arithmetic claims follow from published shapes and printed figures."""
    decided_by: list[Measurement] = []
    """What decides it; of equally good ones the first."""
    needs: Text
    """What it takes to decide it."""
    command: Text | None = None
    """The command that measures it, or would."""
    figure: Name | None = None
    """The figure that shows it."""

    def tables(self) -> set[str]:
        """Names of the tables that decide it."""
        return {table for measurement in self.decided_by for table in measurement.tables()}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if LEDGER in self.tables():
            raise ValueError(f"tables other than {LEDGER}, which holds the verdicts")
        if self.kind == "arithmetic" and any(x.counted for x in self.decided_by):
            raise ValueError("counted only in what is measured: printed figures have no seeds")
        return self


class Printed(Settings):
    """A table that a source prints, as far as claims are about it."""

    place: Text
    unit: str = ""
    rows: Annotated[dict[str, dict[str, float | int | str]], Field(min_length=1)]
    """By row and column, the figure; in quotes where a last zero is printed."""


class Source(Settings):
    """A file of claims/."""

    name: Text
    """As it is cited: author and year."""
    reference: Text
    """Title and where it appeared."""
    kind: Literal["post", "paper", "own"]
    """Posts come first in the ledger, and what we conclude ourselves last."""
    printed: dict[Name, Printed] = {}
    """Figures that the source prints, by name."""
    claims: Annotated[dict[Name, Claim], Field(min_length=1)]
    """By id, which no other file has."""
