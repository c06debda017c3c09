"""Settings of the experiment `initial_loss`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from tiebench.model.settings import BodySettings, RunSettings
from tiebench.schema import Name, Settings, distinct
from tiebench.training.settings import Seeds

Positive = Annotated[int, Field(gt=0)]
Width = Annotated[int, Field(ge=8, multiple_of=8)]
RAW = {
    "losses": (
        "run", "body", "branch", "layers", "vocabulary", "width", "seed", "metric", "value",
    ),
    "moments": ("distribution", "width", "seed", "quantity", "metric", "value"),
}  # fmt: skip
"""Columns of the tables that the stage writes."""
DISTRIBUTIONS = ("normal", "uniform", "truncated_normal")
QUANTITIES = ("squared_norm", "product")
METRICS = ("loss", "own_logit")
"""Of a model: its mean loss in nats, and the mean logit that it gives the input token itself."""


EPSILON = 1e-12
"""Of the identity body's norm: none is in the theory."""


@dataclass(frozen=True)
class Point:
    """One model: a run on a body over a vocabulary."""

    run: str
    body: BodySettings
    branch: str
    """Empty on the identity body."""
    vocabulary: int


def identity(width: int) -> BodySettings:
    """Su's premise: between the tables only the norm, without its epsilon."""
    return BodySettings(
        option="identity", kind="identity", width=width, norm="rms_norm", norm_epsilon=EPSILON
    )


class GridSettings(Settings):
    """Models on the identity body: each run at every width."""

    vocabulary: Annotated[int, Field(ge=3)]
    widths: Annotated[list[Width], Field(min_length=1), AfterValidator(distinct)]
    runs: Annotated[list[str], AfterValidator(distinct)] = []
    """Names of runs; empty for all."""


class DeepSettings(Settings):
    """Models with a Transformer body, as the reply to Su 2023 looks at them."""

    body: BodySettings
    """Width, heads and feed-forward width are replaced at each width."""
    head_width: Positive
    """Width of an attention head; the body has width / head_width of them."""
    vocabulary: Annotated[int, Field(ge=3)]
    widths: Annotated[list[Width], Field(min_length=1), AfterValidator(distinct)]
    branches: Annotated[list[str], Field(min_length=1), AfterValidator(distinct)]
    """Initializations of the residual branches (`body.branch`); deep_norm on the post-norm."""
    sequences: Positive
    """Sequences that are drawn for each of these models."""
    runs: Annotated[list[str], Field(min_length=1)]
    """Names of runs."""

    @model_validator(mode="after")
    def _check(self) -> DeepSettings:
        for width in self.widths:
            if width % self.head_width:
                raise ValueError(f"widths that head_width divides ({width} / {self.head_width})")
        if self.body.kind != "transformer":
            raise ValueError("a Transformer body; the identity is measured in any case")
        for branch in self.branches:
            self.shaped(self.widths[0], branch)
        return self

    def shaped(self, width: int, branch: str) -> BodySettings:
        """The body at a width, with a feed-forward width of 8/3 of it (Touvron et al. 2023)."""
        values = {
            **self.body.model_dump(), "width": width, "heads": width // self.head_width,
            "feedforward_width": -(-8 * width // 24) * 8, "branch": branch,
        }  # fmt: skip
        if branch == "deep_norm":
            values["norm_placement"] = "post"
        return BodySettings.model_validate(values)


class InitialLossSettings(Settings):
    """The loss before the first update, measured and by theory, on tokens drawn at random."""

    option: str
    """Name of the file in conf/task/ that this came from."""
    runs: Annotated[dict[Name, RunSettings], Field(min_length=1)]
    """By name: the couplings."""
    grids: Annotated[list[GridSettings], Field(min_length=1)]
    deep: DeepSettings
    sequences: Positive
    """Sequences that are drawn for each model on the identity body."""
    sequence_length: Annotated[int, Field(ge=2)]
    """Tokens of each; every one is an input, with a target that is another token."""
    moments: Annotated[int, Field(ge=100)]
    """Vectors that are drawn for the moments of Su's equations."""
    moment_widths: Annotated[list[Width], Field(min_length=1), AfterValidator(distinct)]
    tolerance: Annotated[float, Field(gt=0, lt=1)]
    """Largest relative difference between measurement and theory that is called agreement."""
    seeds: Annotated[Seeds, Field(min_length=1), AfterValidator(distinct)]

    @model_validator(mode="after")
    def _check(self) -> InitialLossSettings:
        named = {f"grids[{index}]": grid.runs for index, grid in enumerate(self.grids)}
        for key, runs in {**named, "deep": self.deep.runs}.items():
            unknown = sorted(set(runs) - set(self.runs))
            if unknown:
                raise ValueError(f"{key}.runs among the runs ({unknown[0]!r} is none)")
            if len(set(runs)) != len(runs):
                raise ValueError(f"each of {key}.runs once")
        for name, run in self.runs.items():
            if run.body or run.training or not run.trained:
                raise ValueError(f"of a run its coupling alone ({name})")
            if run.coupling.input_operations or run.coupling.output_operations:
                raise ValueError(
                    f"couplings without operations on their tables, which start at zero ({name})"
                )
        sizes = [grid.vocabulary for grid in self.grids]
        if len(set(sizes)) != len(sizes):
            raise ValueError(f"one grid for each vocabulary ({sizes})")
        if self.sequence_length > self.deep.body.maximum_length:
            raise ValueError("sequence_length of at most deep.body.maximum_length")
        return self

    def points(self) -> list[Point]:
        """Every model that is measured."""
        found = [
            Point(name, identity(width), "", grid.vocabulary)
            for grid in self.grids
            for width in grid.widths
            for name in grid.runs or self.runs
        ]
        deep = self.deep
        return found + [
            Point(name, deep.shaped(width, branch), branch, deep.vocabulary)
            for width in deep.widths
            for branch in deep.branches
            for name in deep.runs
        ]
