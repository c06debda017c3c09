"""The registry of published models: configuration, tie of the checkpoint, totals as printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tiebench.account.families import DEFAULTS, READERS
from tiebench.account.model import Model
from tiebench.account.reader import Reader
from tiebench.analysis.shapes import Shape, read_data
from tiebench.errors import SettingsError
from tiebench.schema import Settings, validate

PUBLISHED_MODELS = Path(__file__).with_name("published_models.yaml")
TOTAL = r"^\d+(\.\d+)?[MB]$"
"""Millions or billions, with the digits that are printed."""

Total = Annotated[str, Field(pattern=TOTAL)]


class Printed(Settings):
    """A total as it is published."""

    figure: Total
    source: str


class Entry(Settings):
    """One released model of a family."""

    name: str
    source: str | None = None
    """What is the model's own; beside the family's."""
    year: int | None = None
    """Of its release; null is the family's."""
    config: dict[str, int | bool | str | None]
    """Keys of its config.json, laid over the family's."""
    tied: bool
    """What the checkpoint does, which is not what its class does by default."""
    printed: list[Printed] = []
    nominal: Total | None = None
    """The size that its name states."""
    disagreement: str | None = None
    """Why the count does not round to a printed total, or to the name where none is printed."""


class Family(Settings):
    """Models that share a source and keys of config.json."""

    source: str | None = None
    """Where the shapes are published: paper and table, or configurations."""
    year: int
    config: dict[str, int | bool | str | None] = {}
    models: dict[str, Entry]


@dataclass(frozen=True)
class PublishedModel:
    """A released model.

    Attributes:
        key: its name in the registry's file.
        config: keys of config.json; the tie is not among them.
        tied: what the checkpoint does.
        printed: totals as they are published.
        nominal: the size that the name states.
        disagreement: why the count does not agree with one of `figures`.
        notes: what is worth knowing of the count.
    """

    key: str
    name: str
    family: str
    year: int
    source: str
    config: dict[str, Any]
    shape: Shape
    tied: bool
    printed: tuple[Printed, ...]
    nominal: str | None
    disagreement: str | None
    notes: tuple[str, ...]

    @property
    def figures(self) -> tuple[str, ...]:
        """Totals as printed; without any, the size that the name states."""
        if self.printed or self.nominal is None:
            return tuple(printed.figure for printed in self.printed)
        return (self.nominal,)

    @property
    def model_type(self) -> str:
        """The class of transformers by whose form it is counted."""
        return str(self.config["model_type"])

    @property
    def class_ties(self) -> bool:
        """What that class does where nothing is stated."""
        return DEFAULTS[self.model_type]


def published_models() -> dict[str, PublishedModel]:
    """The registry, in the file's order.

    Raises:
        SettingsError: an entry with an unknown key or a wrong type, or a tie of two widths.
        DataError: a config that is none of its model_type.
    """
    models = {}
    for name, values in read_data(PUBLISHED_MODELS).items():
        family = validate(Family, values, f"{PUBLISHED_MODELS.name}: {name}")
        for key, entry in family.models.items():
            models[key] = _published(key, entry, name, family)
    return models


def _published(key: str, entry: Entry, name: str, family: Family) -> PublishedModel:
    reader = Reader({**family.config, **entry.config}, f"{PUBLISHED_MODELS.name}: {key}")
    shape = READERS[reader.text("model_type")](reader)
    if entry.tied and not shape.tieable:
        raise SettingsError(
            f"{PUBLISHED_MODELS.name}: {key}.tied",
            found="true",
            expected=f"false, with embeddings of widths {shape.widths[0]} and {shape.widths[1]}",
            mend="correct it in the file, or restore it with git",
        )
    return PublishedModel(
        key=key,
        name=entry.name,
        family=name,
        year=entry.year or family.year,
        source="; ".join(filter(None, (family.source, entry.source))),
        config=dict(reader.values),
        shape=shape,
        tied=entry.tied,
        printed=tuple(entry.printed),
        nominal=entry.nominal,
        disagreement=entry.disagreement,
        notes=tuple(reader.notes),
    )


def as_model(model: PublishedModel) -> Model:
    """A model of the registry, as it is accounted for."""
    notes = list(model.notes)
    if model.class_ties != model.tied:
        does = "ties" if model.class_ties else "does not tie"
        notes.append(f"the class of {model.model_type} {does} by default, unlike the checkpoint")
    return Model(
        name=model.name,
        source=f"{PUBLISHED_MODELS.name}: {model.key}",
        shape=model.shape,
        tied=model.tied,
        statement=f"{'one matrix' if model.tied else 'two matrices'}: {model.source}",
        default=model.class_ties,
        notes=notes,
    )
