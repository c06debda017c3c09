"""Settings of pretraining: the optimization, and the family of runs that share it."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeVar

from pydantic import Field, field_validator, model_validator

from tiebench.errors import SettingsError
from tiebench.model.settings import (
    BodySettings,
    CouplingSettings,
    Linear,
    MatchedRunSettings,
    RunSettings,
)
from tiebench.schema import Name, Settings, validate

Positive = Annotated[int, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class MaskingSettings(Settings):
    """BERT's masking (Devlin et al. 2019, section 3.1)."""

    probability: Annotated[float, Field(gt=0, lt=1)]
    """Share of the positions of a window that are predicted (an exact count per window)."""
    mask_share: Share = 0.8
    """Of these, the share replaced by the mask token."""
    random_share: Share = 0.1
    """Of these, the share replaced by a random token; the rest stays as it is."""

    @model_validator(mode="after")
    def _check(self) -> MaskingSettings:
        if self.mask_share + self.random_share > 1:
            raise ValueError("mask_share + random_share of at most 1")
        return self


class AugmentedSettings(Settings):
    """The augmented loss (Inan et al. 2017, section 3): the divergence of the prediction from
    targets softened by the similarity of the input table's rows. Either `weight` or `share`."""

    weight: Annotated[float, Field(gt=0)] | None = None
    """Multiplies the augmented loss, which is added to the cross-entropy."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """The augmented loss times temperature^2 times vocabulary, which makes its gradient as large at
    any temperature, takes this share of what is minimized, and the cross-entropy the rest (the
    paper's subspace experiment)."""
    temperature: Annotated[float, Field(gt=0)]
    """Divides the logits of both distributions."""

    @model_validator(mode="after")
    def _check(self) -> AugmentedSettings:
        if (self.weight is None) == (self.share is None):
            raise ValueError("either weight or share")
        return self

    def factor(self, vocabulary: int) -> float:
        """What the augmented loss over a vocabulary is multiplied by."""
        if self.weight is not None:
            return self.weight
        assert self.share is not None, "one of both is given"
        return self.share * self.temperature**2 * vocabulary


class InstrumentSettings(Settings):
    """What is measured of the gradients of the vocabulary tables on the way (no result changes)."""

    every: Positive
    """Updates between measurements on the batch of the next update."""
    large_batches: Annotated[int, Field(ge=0)] = 0
    """Batches of the schedule that together make a large one, measured before the first update and
    after each quarter of the steps but the last; 0 for none."""

    @model_validator(mode="after")
    def _check(self) -> InstrumentSettings:
        if self.large_batches == 1:
            raise ValueError("large_batches of 2 or more, or 0 for none")
        return self


def updates_before_untying(share: float | None, steps: int) -> int | None:
    """The whole number of updates in a share of the steps, at least one."""
    return None if share is None else max(1, math.floor(share * steps))


class AddedSettings(Settings):
    """What a training adds to the cross-entropy."""

    tie_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Adds this times |E - W|^2, the squared Frobenius distance of two tables, to the loss."""
    projection_penalty: Annotated[float, Field(ge=0)] = 0.0
    """Adds this times the squared Frobenius norm of the transform's linear maps to the loss (Press
    & Wolf 2017, section 3.2)."""
    augmented: AugmentedSettings | None = None

    @property
    def cross_entropy_share(self) -> float:
        """What the cross-entropy is multiplied by in what is minimized."""
        return 1.0 - ((self.augmented and self.augmented.share) or 0.0)


class TrainingSettings(AddedSettings):
    """AdamW with linear warm-up and decay, the same for every run of a family."""

    objective: Literal["masked", "causal"]
    masking: MaskingSettings | None = None
    """Needed by the masked objective, refused by the causal one."""
    steps: Positive
    """Optimizer updates."""
    batch_size: Positive
    """Windows per update."""
    sequence_length: Annotated[int, Field(ge=8)]
    """Tokens per window, special tokens included."""
    sampling_exponent: Annotated[float, Field(ge=0, le=1)]
    """A language is drawn in proportion to its tokens to this power (RemBERT, table 14: 0.5)."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Peak."""
    table_learning_rate: Annotated[float, Field(gt=0)] = 1.0
    """Multiplier of the learning rate for the vocabulary tables."""
    warmup_steps: Annotated[int, Field(ge=0)]
    decay: Literal["linear", "cosine", "constant"] = "linear"
    """Shape after warm-up: towards zero, which is reached where a step after the last would be;
    or constant."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled; on the matrices of body and maps, never on tables, positions, biases or norms."""
    betas: Annotated[
        list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)
    ] = [0.9, 0.98]
    epsilon: Annotated[float, Field(gt=0)] = 1e-6
    clip: Annotated[float, Field(gt=0)] | None = 1.0
    """Largest global gradient norm; null for none."""
    data_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of each language's training tokens that is used, from the start of the file."""
    input_gradient_scale: Annotated[float, Field(ge=0)] = 1.0
    """Multiplies the gradient that a shared table gets from the input side; 0 stops it."""
    output_gradient_scale: Annotated[float, Field(ge=0)] = 1.0
    """The same for the output side."""
    untie_after: Annotated[float, Field(gt=0, lt=1)] | None = None
    """After this share of the steps a shared table becomes two, each with its values and a copy
    of the optimizer's state."""
    instruments: InstrumentSettings | None = None
    log_every: Positive = 10
    """Steps between rows of history.csv."""
    validate_every: Positive
    """Steps between validations; the last step is always validated."""
    validation_windows: Positive
    """Windows per language in a validation, at the fixed masks that all runs share."""

    @property
    def untied_at(self) -> int | None:
        """Updates after which a shared table becomes two; None for never."""
        return updates_before_untying(self.untie_after, self.steps)

    @model_validator(mode="after")
    def _check(self) -> TrainingSettings:
        if (self.masking is None) != (self.objective == "causal"):
            given = "null" if self.masking is None else "given"
            raise ValueError(
                "masking with objective masked, and null with objective causal (objective is "
                f"{self.objective}, masking {given})"
            )
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps below steps ({self.warmup_steps} against {self.steps})")
        return self


PER_RUN = frozenset(
    {
        "learning_rate", "table_learning_rate", "warmup_steps", "decay", "weight_decay", "betas",
        "epsilon", "clip", "input_gradient_scale", "output_gradient_scale", "untie_after",
        "tie_penalty", "projection_penalty", "augmented",
    }
)  # fmt: skip
"""What a run may replace of its family's training: all runs of a seed see the same batches."""


def check_coupled(training: TrainingSettings, coupling: CouplingSettings, body_width: int) -> None:
    """Check that what a run's training does to its tables does something.

    Raises:
        SettingsError: the field of the training that does nothing with this coupling.
    """
    if training.input_gradient_scale == training.output_gradient_scale == 0 and coupling.tied:
        _refuse(
            "input_gradient_scale", "0 beside output_gradient_scale 0", "a table that is trained"
        )
    for side in ("input_gradient_scale", "output_gradient_scale", "untie_after"):
        value = getattr(training, side)
        if not coupling.tied and value != TrainingSettings.model_fields[side].default:
            _refuse(side, f"{value} with two tables", "a coupling with tied true")
    check_added(training, coupling, body_width)


def check_added(training: AddedSettings, coupling: CouplingSettings, body_width: int) -> None:
    """Check that what is added to a run's loss does something.

    Raises:
        SettingsError: the field of the training that does nothing with this coupling.
    """
    widths = coupling.widths(body_width)
    if training.tie_penalty and (coupling.tied or widths[0] != widths[1]):
        what = "one table" if coupling.tied else f"tables of widths {widths[0]} and {widths[1]}"
        _refuse("tie_penalty", f"{training.tie_penalty} with {what}", "two tables of equal width")
    linear = [x for x in coupling.transform if isinstance(x, Linear) and x.trained]
    if training.projection_penalty and not linear:
        _refuse(
            "projection_penalty", f"{training.projection_penalty} without a trained linear map",
            "a transform with one",
        )  # fmt: skip


def _refuse(field: str, found: str, expected: str) -> None:
    raise SettingsError(
        f"training.{field}",
        found=found,
        expected=expected,
        mend="leave it out, or take another coupling",
    )


Seeds = list[Annotated[int, Field(ge=0)]]
Training = TypeVar("Training", bound=AddedSettings)


class GroupSettings(Settings):
    """Runs that share corpus and body, and differ in their coupling: what all families have."""

    study: str
    """Name of the file in conf/study/ that this came from."""
    corpus: str
    """Key of `corpora`."""
    widths: dict[Name, Positive] = {}
    """What the files in conf/coupling/ call `narrow` and `wide`. Used when conf/ is composed, and
    recorded: change it with `tiebench params encoders.widths.narrow=16`."""
    body: BodySettings
    """The body of every run that does not replace parts of it."""
    runs: Annotated[dict[Name, RunSettings], Field(min_length=1)]
    """By name: what differs between the runs."""
    seeds: Annotated[Seeds, Field(min_length=1)]
    """Every run is trained once with each; the same seed gives all runs the same batches."""
    baseline: str
    """The run that the others are compared with."""

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("distinct seeds")
        return seeds

    @model_validator(mode="after")
    def _check_baseline(self) -> GroupSettings:
        if self.baseline not in self.runs:
            known = ", ".join(self.runs)
            raise ValueError(f"baseline among the runs ({self.baseline!r} is none of {known})")
        return self

    @property
    def all_runs(self) -> dict[str, RunSettings]:
        """The runs by name."""
        return self.runs

    def seeds_of(self, run: str) -> list[int]:
        """The seeds that a run is trained with."""
        return self.seeds

    def final_coupling(self, run: str) -> CouplingSettings:
        """The coupling of a run's saved model."""
        return self.all_runs[run].coupling

    def body_of(self, run: str) -> BodySettings:
        """The body of a run: the family's, with the run's replacements.

        Raises:
            SettingsError: the replacements are unknown, or impossible together.
        """
        replaced = {**self.body.model_dump(), **self.all_runs[run].body}
        return validate(BodySettings, replaced, f"runs.{run}.body")


class FamilySettings(GroupSettings):
    """A family of runs that are trained on windows of text."""

    training: TrainingSettings
    matched: dict[Name, MatchedRunSettings] = {}
    """By name, beside `runs`: runs with the parameter count of another run, by their feed-forward
    width."""
    matched_seeds: Seeds = []
    """Some of `seeds`: these runs only answer whether size explains a result."""

    @model_validator(mode="after")
    def _check(self) -> FamilySettings:
        twice = sorted(set(self.runs) & set(self.matched))
        if twice:
            raise ValueError(f"other names for matched runs than for runs ({', '.join(twice)})")
        seeds = self.matched_seeds
        if len(set(seeds)) != len(seeds) or not set(seeds) <= set(self.seeds):
            raise ValueError(f"matched_seeds distinct and among seeds ({seeds}, {self.seeds})")
        if bool(seeds) != bool(self.matched):
            raise ValueError("matched_seeds with matched runs, and none without")
        return self

    @property
    def all_runs(self) -> dict[str, RunSettings]:
        """`runs` and the matched ones."""
        return {**self.runs, **self.matched}

    def seeds_of(self, run: str) -> list[int]:
        """The seeds that a run is trained with."""
        return self.matched_seeds if run in self.matched else self.seeds

    def final_coupling(self, run: str) -> CouplingSettings:
        """The coupling of a run's saved model: with two tables where training untied them."""
        held = self.all_runs[run]
        untied = held.trained and self.training_of(run).untie_after is not None
        return held.coupling.model_copy(update={"tied": False}) if untied else held.coupling

    def training_of(self, run: str) -> TrainingSettings:
        """The training of a run: the family's, with the run's replacements.

        Raises:
            SettingsError: the replacements are unknown, not a run's to make, or impossible
                together.
        """
        return replaced_training(self, self.training, run, PER_RUN)

    def check_training(self, run: str, body_width: int) -> None:
        """Check that a run's training is possible, and does something with its coupling.

        Raises:
            SettingsError: as `training_of` and `check_coupled`, or replacements where nothing is
                trained.
        """
        held, training = self.all_runs[run], self.training_of(run)
        if held.trained:
            try:
                check_coupled(training, held.coupling, body_width)
            except SettingsError as error:
                raise error.below(f"runs.{run}") from None
        else:
            check_untrained(self, run)


def replaced_training(
    group: GroupSettings, training: Training, run: str, replaceable: frozenset[str]
) -> Training:
    """The training of a run: its family's, with the run's replacements.

    Raises:
        SettingsError: the replacements are unknown, not among those that a run may make, or
            impossible together.
    """
    replacements = group.all_runs[run].training
    others = sorted(set(replacements) - replaceable)
    if others:
        raise SettingsError(
            f"runs.{run}.training.{others[0]}",
            found=f"{replacements[others[0]]!r}",
            expected=f"replacements of {', '.join(sorted(replaceable))}: all runs of a family see "
            "the same batches",
            mend="set it for the family",
        )
    replaced = {**training.model_dump(), **replacements}
    return validate(type(training), replaced, f"runs.{run}.training")


def check_untrained(group: GroupSettings, run: str) -> None:
    """Check that nothing is replaced in the training of a run that has none.

    Raises:
        SettingsError: something is.
    """
    held = group.all_runs[run]
    if held.training:
        raise SettingsError(
            f"runs.{run}.training",
            found=f"{', '.join(held.training)} with trained false",
            expected="nothing",
            mend="leave it out, or train the run",
        )
