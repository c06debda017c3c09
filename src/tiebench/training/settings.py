"""Settings of pretraining."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tiebench.schema import Settings

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
    """Shape of the decay after warm-up, to zero at the last step."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled; on the matrices of body and maps, never on tables, positions, biases or norms."""
    betas: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)] = [0.9, 0.98]
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
            raise ValueError("masking with objective masked, and null with objective causal")
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps below steps ({self.warmup_steps} against {self.steps})")
        return self
