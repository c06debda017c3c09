"""Settings of probing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tiebench.schema import Settings

Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, le=1e30)]


class ProbingSettings(Settings):
    """Edge probing of frozen encoders (Tenney et al. 2019; RemBERT, table 9)."""

    option: str = "probing"
    """Name of the file in conf/task/ that this came from."""
    labels: str
    """Label set (key of `labels`, of kind treebank)."""
    tasks: Annotated[list[str], Field(min_length=1)]
    """Tasks of the label set that are probed."""
    hidden: Positive
    """Width between the two dense layers."""
    learning_rate: Rate
    batch_size: Positive
    """Targets per update."""
    epochs: Positive
    """Passes over the training targets; the best by development accuracy counts."""
