"""Settings of the recurrent family: gradient descent over one stream of text, in epochs."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from tiebench.errors import SettingsError
from tiebench.schema import Settings
from tiebench.training.settings import (
    AddedSettings,
    GroupSettings,
    Positive,
    check_added,
    check_untrained,
    replaced_training,
)

LARGEST_LOSS = 700.0
"""Nats per word; the perplexity of more is beyond what a number can hold."""
Dropped = Annotated[float, Field(ge=0, lt=1)]


class DropoutSettings(Settings):
    """Shares that are dropped in training, between the parts of a recurrent model."""

    kind: Literal["step", "sequence"]
    """What is dropped is drawn for every step (Zaremba et al. 2014), or once for all steps of a
    chunk (variational: Gal & Ghahramani 2016)."""
    input: Dropped = 0.0
    """Of the looked-up rows."""
    between: Dropped = 0.0
    """Of what a layer gives the next one."""
    recurrent: Dropped = 0.0
    """Of what a layer gives its own next step, one draw for its four gates; with kind `sequence`
    only."""
    output: Dropped = 0.0
    """Of what the last layer gives the head."""

    @model_validator(mode="after")
    def _check(self) -> DropoutSettings:
        if self.kind == "step" and self.recurrent:
            raise ValueError("recurrent 0 with kind step, which drops nothing that is carried")
        if not (self.input or self.between or self.recurrent or self.output):
            raise ValueError("a share above 0, or no dropout at all (null)")
        return self


def _rising(values: list[int]) -> list[int]:
    if any(second <= first for first, second in pairwise(values)):
        raise ValueError(f"rising values ({values})")
    return values


Rising = Annotated[list[Positive], AfterValidator(_rising)]


class TableSnapshotsSettings(Settings):
    """Rows of the vocabulary tables that are kept in training, to see when tables become alike:
    those before training, and as follows."""

    words: Annotated[int, Field(ge=20)]
    """At most so many of the words in the training text, evenly spread by frequency rank. A word is
    kept in 4 bytes a column, of each table and time."""
    updates: Rising = []
    """Updates of the first epoch after which they are kept."""
    epochs: Rising = []
    """Epochs after which they are kept, counted from 1."""

    @model_validator(mode="after")
    def _check(self) -> TableSnapshotsSettings:
        if not (self.updates or self.epochs):
            raise ValueError("updates or epochs to keep rows after, or no snapshots at all (null)")
        return self


class RecurrentTrainingSettings(AddedSettings):
    """Plain gradient descent as in Zaremba et al. 2014, section 4: the stream is cut into
    `batch_size` parts, which are read side by side in chunks of `sequence_length` steps, and the
    state is carried from one chunk to the next. The loss of an update is the sum over the steps of
    its chunk, averaged over the parts."""

    epochs: Positive
    """Passes over the text."""
    batch_size: Positive
    """Parts of the text that are read side by side; what does not fill them is left out."""
    sequence_length: Positive
    """Steps of an update, through which gradients are propagated back."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Of the first epochs."""
    constant_epochs: Positive
    """How many epochs have it; each later one has `decay` times that of the one before."""
    decay: Annotated[float, Field(gt=0, le=1)]
    clip: Annotated[float, Field(gt=0)] | None
    """Largest global norm of the gradient of an update's loss; null for none."""
    dropout: DropoutSettings | None = None
    data_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the training text that is used, from its start."""
    log_every: Positive
    """Updates between rows of history.csv; the end of an epoch has a row in any case."""
    table_snapshots: TableSnapshotsSettings | None = Field(
        default=None, exclude_if=lambda value: value is None
    )
    """Rows of the tables to keep; null for none."""

    @model_validator(mode="after")
    def _check(self) -> RecurrentTrainingSettings:
        if self.constant_epochs > self.epochs:
            raise ValueError(
                f"constant_epochs of at most epochs ({self.constant_epochs}, {self.epochs})"
            )
        if (self.constant_epochs < self.epochs) == (self.decay == 1):
            raise ValueError("decay below 1 where epochs come after constant_epochs, and 1 if not")
        kept = self.table_snapshots
        if kept is not None and kept.epochs and kept.epochs[-1] > self.epochs:
            raise ValueError(
                f"table_snapshots.epochs of at most epochs ({kept.epochs[-1]}, {self.epochs})"
            )
        return self

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        return self.learning_rate * self.decay ** max(epoch + 1 - self.constant_epochs, 0)


PER_RUN = frozenset(
    {
        "learning_rate", "constant_epochs", "decay", "clip", "dropout", "tie_penalty",
        "projection_penalty", "augmented",
    }
)  # fmt: skip
"""What a run may replace of its family's training: all runs see the same batches."""


class RecurrentFamilySettings(GroupSettings):
    """A family of recurrent models of one stream of words."""

    training: RecurrentTrainingSettings

    def training_of(self, run: str) -> RecurrentTrainingSettings:
        """The training of a run: the family's, with the run's replacements.

        Raises:
            SettingsError: the replacements are unknown, not a run's to make, or impossible
                together.
        """
        return replaced_training(self, self.training, run, PER_RUN)

    def check_training(self, run: str) -> None:
        """Check a run's body and training, and that both do something with its coupling.

        Raises:
            SettingsError: another body than an LSTM; dropout between the layers of one layer; as
                `training_of` and `check_added`, or replacements where nothing is trained.
        """
        held, training, body = self.all_runs[run], self.training_of(run), self.body_of(run)
        key = f"runs.{run}"
        if body.kind != "lstm":
            raise _refused(f"{key}.body.kind", repr(body.kind), "lstm")
        if training.dropout is not None and training.dropout.between and body.layers == 1:
            raise _refused(f"{key}.training.dropout.between", "a share with one layer", "0")
        if not held.trained:
            check_untrained(self, run)
            return
        try:
            check_added(training, held.coupling, body.width)
        except SettingsError as error:
            raise error.below(key) from None


def _refused(key: str, found: str, expected: str) -> SettingsError:
    return SettingsError(
        key, found=found, expected=expected, mend="edit conf/ and run `tiebench params`"
    )
