"""Settings of the experiment `domains`: a tied model goes on in another domain, tied or untied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field, model_validator

from tiebench.errors import SettingsError
from tiebench.schema import Settings, distinct
from tiebench.sources.settings import Source

if TYPE_CHECKING:
    from tiebench.training.settings import FamilySettings, TrainingSettings

Positive = Annotated[int, Field(gt=0)]
FAMILY = "decoders"
"""The family whose models go on."""
TIED, UNTIED = "tied", "untied"
ARMS = (TIED, UNTIED)
PARTS = ("train", "new", "old")
"""Where losses are measured: the text that is trained on, other text of its domain, and the
validation text of the model's own corpus."""
RAW = {
    "losses": ("arm", "share", "seed", "step", "epochs", "part", "loss"),
    "texts": ("part", "language", "metric", "value"),
}
"""Columns of the tables that the stage writes."""
TEXTS = (
    ("seen", "strings"), ("train", "strings"), ("valid", "strings"), ("train", "tokens"),
    ("valid", "tokens"),
)  # fmt: skip
"""What is told of each language of the texts: part and metric."""


class DomainsSettings(Settings):
    """Saved tied models go on training on another domain: with their one table, or with two that
    start with its values. The optimizer starts anew in both arms, with the same batches."""

    option: str
    """Name of the file in conf/task/ that this came from."""
    run: str
    """The run of the decoders whose models go on, with one table; its objective, windows and
    optimizer stay."""
    source: Source
    """Text of the other domain, in the languages of the decoders' corpus. What it trains or
    validates on is left out."""
    seed: Annotated[int, Field(ge=0)]
    """Of the split."""
    valid_share: Annotated[float, Field(gt=0, lt=0.5)]
    """Share of the groups of strings that is never trained on."""
    shares: Annotated[
        list[Annotated[float, Field(gt=0, le=1)]], Field(min_length=1), AfterValidator(distinct)
    ]
    """Shares of the training text that are used, each in a training of its own: the smaller, the
    more often its text is seen."""
    steps: Annotated[int, Field(ge=2)]
    batch_size: Positive
    learning_rate: Annotated[float, Field(gt=0)]
    """Peak; the decay is the family's."""
    warmup_steps: Annotated[int, Field(ge=0)]
    evaluate_every: Positive
    """Updates between measurements; the first is before any update, the last after all."""
    windows: Positive
    """Windows per language and part that losses are measured on."""

    @model_validator(mode="after")
    def _check(self) -> DomainsSettings:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps below steps ({self.warmup_steps} against {self.steps})")
        return self

    def training(self, group: FamilySettings, share: float) -> TrainingSettings:
        """The family's training of the run, with what is set here in its place."""
        return group.training_of(self.run).model_copy(
            update={
                "steps": self.steps,
                "batch_size": self.batch_size,
                "learning_rate": self.learning_rate,
                "warmup_steps": self.warmup_steps,
                "validate_every": self.evaluate_every,
                "validation_windows": self.windows,
                "data_share": share,
                "instruments": None,
            }
        )

    def check_model(self, group: FamilySettings | None) -> None:
        """Check that the run is one whose table can become two.

        Raises:
            SettingsError: no such run, one that is not trained or has two tables, or one whose
                training does to its table what two tables cannot have.
        """
        if group is None or self.run not in group.runs:
            raise SettingsError(
                "domains.run",
                found=repr(self.run),
                expected=f"one of {', '.join(group.runs) if group else f'{FAMILY} (none)'}",
                mend="name one of these",
            )
        training, coupling = group.training_of(self.run), group.final_coupling(self.run)
        scaled = training.input_gradient_scale != 1 or training.output_gradient_scale != 1
        if not (group.runs[self.run].trained and coupling.tied) or scaled:
            raise SettingsError(
                "domains.run",
                found=f"{self.run!r}{', with scaled gradients' if scaled else ''}",
                expected="a trained run with one table, without gradient scales",
                mend="name another run",
            )
