"""Settings of pretraining: the optimization, and the family of runs that share it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tiebench.model.settings import BodySettings, MatchedRunSettings, RunSettings
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


class TrainingSettings(Settings):
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
    log_every: Positive = 10
    """Steps between rows of history.csv."""
    validate_every: Positive
    """Steps between validations; the last step is always validated."""
    validation_windows: Positive
    """Windows per language in a validation, at the fixed masks that all runs share."""

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


Seeds = list[Annotated[int, Field(ge=0)]]


class FamilySettings(Settings):
    """A family of runs that share corpus, body and training, and differ in their coupling."""

    study: str
    """Name of the file in conf/study/ that this came from."""
    corpus: str
    """Key of `corpora`."""
    widths: dict[Name, Positive] = {}
    """What the files in conf/coupling/ call `narrow` and `wide`. Used when conf/ is composed, and
    recorded: change it with `tiebench params encoders.widths.narrow=16`."""
    body: BodySettings
    """The body of every run that does not replace parts of it."""
    training: TrainingSettings
    runs: Annotated[dict[Name, RunSettings], Field(min_length=1)]
    """By name: what differs between the runs."""
    seeds: Annotated[Seeds, Field(min_length=1)]
    """Every run is trained once with each; the same seed gives all runs the same batches."""
    matched: dict[Name, MatchedRunSettings] = {}
    """By name, beside `runs`: runs with the parameter count of another run, by their feed-forward
    width."""
    matched_seeds: Seeds = []
    """Some of `seeds`: these runs only answer whether size explains a result."""
    baseline: str
    """The run that the others are compared with."""

    @field_validator("seeds")
    @classmethod
    def _distinct(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) != len(seeds):
            raise ValueError("distinct seeds")
        return seeds

    @model_validator(mode="after")
    def _check(self) -> FamilySettings:
        if self.baseline not in self.runs:
            known = ", ".join(self.runs)
            raise ValueError(f"baseline among the runs ({self.baseline!r} is none of {known})")
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

    def body_of(self, run: str) -> BodySettings:
        """The body of a run: the family's, with the run's replacements.

        Raises:
            SettingsError: the replacements are unknown, or impossible together.
        """
        replaced = {**self.body.model_dump(), **self.all_runs[run].body}
        return validate(BodySettings, replaced, f"runs.{run}.body")
