"""Settings of a label set: a treebank for probing, or purposes of strings for transfer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tiebench.corpus.settings import Language
from tiebench.schema import Name, Settings
from tiebench.sources.settings import Source

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(gt=0, lt=0.5)]


class LabelSettings(Settings):
    """What both kinds of label set have."""

    option: str
    """Name of the file in conf/labels/ that this came from."""
    source: Source
    languages: Annotated[list[Language], Field(min_length=1)]
    """Language codes; the first is the one that is trained on."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the split, of what a limit leaves, and of the labels of a control task."""
    development_share: Share
    """Share of the sentences that choose among epochs and learning rates."""
    test_share: Share
    """Share of the sentences that are scored."""
    minimum: Positive
    """Labels with fewer training examples are dropped from every part, and counted; what is past
    a limit is no training example."""

    @field_validator("languages")
    @classmethod
    def _distinct(cls, languages: list[str]) -> list[str]:
        if len(set(languages)) != len(languages):
            raise ValueError("distinct languages")
        return languages


class TreebankSettings(LabelSettings):
    """Labelled spans and pairs of spans, for probing (Tenney et al. 2019, edge probing)."""

    kind: Literal["treebank"]
    sentences: Positive | None = None
    """At most this many sentences, chosen by the seed; null for all."""
    targets: Positive | None = None
    """At most this many training targets a task, chosen by the seed; null for all."""
    maximum_bytes: Positive
    """Bytes of UTF-8 of a sentence that are kept, whole words of it. A byte-level tokenizer makes
    no more pieces than bytes, so that every model can read the same sentences; targets on words
    past the limit are dropped, and counted."""

    @model_validator(mode="after")
    def _check(self) -> TreebankSettings:
        if len(self.languages) > 1:
            raise ValueError("one language in a treebank: its results are not split by language")
        return self


class PurposeSettings(LabelSettings):
    """What an interface string is for: its label is the class that its JSON path matches."""

    kind: Literal["purposes"]
    classes: Annotated[dict[Name, list[str]], Field(min_length=2)]
    """By label, patterns of the path below the component (`*` stands for anything); the first
    class that matches counts, and what none matches is dropped."""
    examples: Positive | None = None
    """At most this many training examples, chosen by the seed; null for all."""

    @model_validator(mode="after")
    def _check(self) -> PurposeSettings:
        if len(self.languages) < 2:
            raise ValueError("two languages or more: one to train on, the others to transfer to")
        return self


Labels = Annotated[TreebankSettings | PurposeSettings, Field(discriminator="kind")]
"""Settings of either kind."""
