"""What the page consists of: sections with findings, figures and tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table as it is shown. `long` ones are collapsed on the page."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[str]]
    long: bool = False

    def numeric(self, column: int) -> bool:
        """Whether a column is set flush right."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(column and cells) and all(cell.lstrip("+-")[:1].isdigit() for cell in cells)

    @staticmethod
    def kind(cell: str) -> str:
        """How much room a cell of words needs on the page."""
        return "long" if len(cell) > 60 else "medium" if len(cell) > 16 else ""

    @staticmethod
    def unbroken(cell: str) -> str:
        """A cell of numbers that breaks before a bracket only."""
        return re.sub(r" (?![\[(])", "\N{NO-BREAK SPACE}", cell)


@dataclass(frozen=True)
class Figure:
    """A figure: how it is drawn, and what is said below it. `small` ones stand in rows."""

    name: str
    caption: str
    draw: Callable[[], Any]
    small: bool = False


@dataclass(frozen=True)
class Link:
    """A file beside the page, and what it is called."""

    file: str
    words: str


@dataclass(frozen=True)
class Section:
    """A part of the page: findings first, then figures, then tables, then `notes`, collapsed."""

    anchor: str
    title: str
    findings: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    link: Link | None = None
