"""Published perplexities of recurrent models, and whether a run of ours has their settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tiebench.analysis.shapes import read_data
from tiebench.published.figures import PUBLISHED_RECURRENT

NONE, PLAIN, BIASED = "none", "without bias", "with bias"
"""What a projection before the output table is."""


@dataclass(frozen=True)
class PublishedRow:
    """A printed row.

    Attributes:
        source: author and year.
        place: table and size.
        complete: whether all settings are printed.
        settings: by dotted name, what a run must have.
        features: tied, projection and augmented, by name, each with the values that stand for it.
        row: its name.
        printed: perplexity by split.
        parameters: in millions, as printed; None if not.
        reproduction: test perplexity of an independent reproduction; None without one.
        released: perplexity by split at the head of the authors' released code.
    """

    source: str
    place: str
    complete: bool
    settings: Mapping[str, Any]
    features: Mapping[str, tuple[Any, ...]]
    row: str
    printed: Mapping[str, float]
    parameters: str | None
    reproduction: float | None
    released: Mapping[str, float]

    @property
    def table(self) -> str:
        """`Press and Wolf 2017, table 6, small`."""
        return f"{self.source}, {self.place}"

    def others(self, about: Mapping[str, Any]) -> list[str] | None:
        """The settings in which a run differs; None where it is another coupling.

        Args:
            about: of the run, by dotted name, and its features.
        """
        if any(about[name] not in values for name, values in self.features.items()):
            return None
        return [name for name, value in self.settings.items() if not _same(about.get(name), value)]


def tolerance() -> float:
    """The largest difference in percent that is called a reproduction."""
    return float(read_data(PUBLISHED_RECURRENT)["tolerance"])


def published_rows() -> Iterator[PublishedRow]:
    """Every printed row."""
    held = read_data(PUBLISHED_RECURRENT)
    corpus = {f"corpus.{name}": value for name, value in held["corpus"].items()}
    for table in held["tables"]:
        settings = corpus | flattened({x: table[x] for x in ("body", "training")})
        for row in table["rows"]:
            penalized = NONE not in row["projection"]
            penalty = {"training.projection_penalty": table["penalty"]} if penalized else {}
            yield PublishedRow(
                source=table["source"],
                place=table["place"],
                complete=table["complete"],
                settings=settings | penalty,
                features={
                    "tied": (row["tied"],),
                    "projection": tuple(row["projection"]),
                    "augmented": (row["augmented"],),
                },
                row=row["row"],
                printed={x: row[x] for x in ("train", "valid", "test") if x in row},
                parameters=row.get("parameters"),
                reproduction=row.get("reproduction"),
                released=row.get("released", {}),
            )


def flattened(held: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name."""
    found: dict[str, Any] = {}
    for key, value in held.items():
        if isinstance(value, Mapping):
            found |= flattened(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _same(mine: Any, other: Any) -> bool:
    if isinstance(other, float) and isinstance(mine, int | float):
        return math.isclose(mine, other, rel_tol=1e-9)
    return bool(mine == other)
