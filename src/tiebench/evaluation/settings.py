"""Settings of the evaluations, and of the statistics that their numbers go through."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tiebench.schema import Settings


class RetrievalSettings(Settings):
    """Nearest-neighbour translation by layer (Pires et al. 2019; RemBERT, appendix A.9)."""

    option: str = "retrieval"
    """Name of the file in conf/task/ that this came from."""
    sets: Annotated[list[str], Field(min_length=1)]
    """Corpora (keys of `corpora`) whose held-out sentences are searched."""
    pool: Annotated[int, Field(ge=2)]
    """Sentences searched; at most as many as the set has."""
    distances: Annotated[list[Literal["l2", "cosine"]], Field(min_length=1)]
    offsets: Annotated[list[Literal["none", "scored_pairs", "other_half"]], Field(min_length=1)]
    """The mean difference added to a source: none; fitted on the scored pairs, as published;
    fitted on the half that is not scored."""


Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0)]


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
    training_targets: Positive | None = None
    """At most this many training targets a task, the same for all runs; null for all."""


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
    """Over it the validation loss fell by less than this, in the mean over seeds."""


class StatisticsSettings(Settings):
    """How differences between runs are judged."""

    option: str = "default"
    """Name of the file in conf/statistics/ that this came from."""
    correction: Literal["holm", "bonferroni", "fdr_bh", "none"]
    """Of the p values of the pairs of runs that one metric compares."""
    margins: MarginSettings
    flattened: FlattenedSettings
