"""Settings of the statistics that every number goes through."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tiebench.schema import Settings

Rate = Annotated[float, Field(gt=0)]


class MarginSettings(Settings):
    """Differences smaller than these are of no interest (Schuirmann 1987)."""

    loss: Rate
    """Nats per predicted token; the others are shares of 1."""
    accuracy: Rate
    """Of masked predictions."""
    retrieval: Rate
    probing: Rate
    transfer: Rate


class FlattenedSettings(Settings):
    """When a learning curve counts as flat."""

    share: Annotated[float, Field(gt=0, lt=1)]
    """The last share of the training tokens that is looked at."""
    nats: Rate
    """Over it the validation loss changed by less than this, in the mean over seeds."""


class StatisticsSettings(Settings):
    """How differences between runs are judged."""

    option: str = "default"
    """Name of the file in conf/statistics/ that this came from."""
    correction: Literal["holm", "bonferroni", "fdr_bh", "none"]
    """Of the p values of the pairs of runs that one metric compares."""
    margins: MarginSettings
    flattened: FlattenedSettings
