"""Settings of transfer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tiebench.schema import Settings

Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0, le=1e30)]


class TransferSettings(Settings):
    """Fine-tuning on one language and testing on the others (RemBERT, section 3)."""

    option: str = "transfer"
    """Name of the file in conf/task/ that this came from."""
    labels: str
    """Label set (key of `labels`, of kind purposes)."""
    learning_rates: Annotated[list[Rate], Field(min_length=1)]
    """Tried in every cell; the best by development accuracy of the trained language counts."""
    batch_size: Positive
    """Examples per update."""
    epochs: Positive
    warmup_share: Annotated[float, Field(ge=0, lt=1)]
    """Share of the updates with a rising learning rate; it falls linearly afterwards."""
