"""Settings of sweeps: runs of the decoders, trained anew at every point of a grid of settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tiebench.errors import SettingsError
from tiebench.model.joint import check_joint
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import Settings, validate
from tiebench.training.settings import PER_RUN, FamilySettings, TrainingSettings, check_coupled

FAMILY = "decoders"
"""The family whose runs are swept."""
RAW = ("run", "point", "seed", "metric", "value")
"""Columns of the table that a sweep writes. `point`: the values of the axes in words."""
UNSWEPT = {
    "training": ("objective", "masking", "betas", "augmented", "instruments", "log_every",
                 "validate_every", "validation_windows"),
    "body": ("option", "kind", "causal", "rotary_scaling"),
    "coupling": ("option", "transform", "input_operations", "output_operations"),
}  # fmt: skip
"""What no axis may be: names, what has no plain values, and how results are measured."""
NEEDS = {
    "stability": "training.learning_rate",
    "regularization": "training.data_share",
    "underflow": "coupling.std",
}
"""By purpose, the axis that its table is about."""

Value = float | int | str | bool | None
Values = Annotated[list[Value], Field(min_length=1)]
Point = dict[str, Value]
"""By axis (`training.learning_rate`), its value."""


MINIMUM_STEPS = 4


class AxesSettings(Settings):
    """Keys of a run's settings, each with its values; all combinations are trained."""

    training: dict[str, Values] = {}
    """Of the family's training: `learning_rate: [1.0e-3, 2.0e-3]`."""
    body: dict[str, Values] = {}
    """Of the run's body: `width: [128, 256]`."""
    coupling: dict[str, Values] = {}
    """Of the run's coupling: `std: [0.02, inverse_sqrt_width]`."""

    @model_validator(mode="after")
    def _check(self) -> AxesSettings:
        for section, unswept in UNSWEPT.items():
            axes = getattr(self, section)
            refused = [key for key in axes if key in unswept]
            if refused:
                raise ValueError(f"no axis {section}.{refused[0]}, which cannot be swept")
            for key, values in axes.items():
                if any(_shown(a) == _shown(b) for a, b in _pairs(values)):
                    raise ValueError(f"distinct values of {section}.{key} ({values})")
        if not any(getattr(self, section) for section in UNSWEPT):
            raise ValueError("at least one axis")
        return self

    def by_name(self) -> dict[str, list[Value]]:
        """The values of each axis, by `section.key`."""
        return {
            f"{section}.{key}": values
            for section in UNSWEPT
            for key, values in getattr(self, section).items()
        }


class SweepSettings(Settings):
    """Short trainings of some runs over a grid, in one process and without saved models."""

    option: str
    """Name of the file in conf/sweep/ that this came from."""
    purpose: Literal["pilot", "stability", "regularization", "underflow"]
    """What is made of it: the choice of a run's rates, how far a rate may rise, the gap between
    training and validation loss, gradients too small for half precision."""
    runs: Annotated[list[str], Field(min_length=1)]
    """Runs of the decoders; the others are compared with the first."""
    axes: AxesSettings
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    """Each point is trained with each. A pilot's are not among the family's."""
    steps: Annotated[int, Field(ge=MINIMUM_STEPS)] | None
    """Updates of a training; warm-up keeps the share that it has in the family. Null where
    training.steps is an axis."""

    @model_validator(mode="after")
    def _check(self) -> SweepSettings:
        for name in ("runs", "seeds"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"distinct {name} ({values})")
        axes = self.axes.by_name()
        if ("training.steps" in axes) != (self.steps is None):
            raise ValueError("steps, or the axis training.steps and steps null")
        needed = NEEDS.get(self.purpose)
        if needed and needed not in axes:
            raise ValueError(f"the axis {needed}, which purpose {self.purpose} is about")
        others = [x for x in axes if x.removeprefix("training.") not in PER_RUN]
        if self.purpose == "pilot" and others:
            raise ValueError(
                f"axes of a run's own training in a pilot, which chooses them ({others[0]} is none)"
            )
        return self

    def points(self) -> list[Point]:
        """The grid, the last axis fastest."""
        axes = self.axes.by_name()
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


@dataclass(frozen=True)
class Trial:
    """A run at a point."""

    coupling: CouplingSettings
    body: BodySettings
    training: TrainingSettings

    def dump(self) -> list[dict[str, Any]]:
        """Plain values of all that decides a training but seed and text."""
        names = {"option"}
        return [x.model_dump(exclude=names) for x in (self.coupling, self.body, self.training)]


def named(point: Point) -> str:
    """A point in words: `learning_rate 0.002, std 0.02`."""
    return ", ".join(f"{axis.partition('.')[2]} {_shown(value)}" for axis, value in point.items())


def trial(group: FamilySettings, sweep: SweepSettings, run: str, point: Point) -> Trial:
    """The settings of a run at a point.

    Training losses are recorded at every update, the validation at the start and the end.

    Raises:
        SettingsError: a key that is unknown, or a combination that is refused.
    """
    values: dict[str, dict[str, Value]] = {section: {} for section in UNSWEPT}
    for axis, value in point.items():
        section, _, key = axis.partition(".")
        values[section][key] = value
    training, held = group.training_of(run), group.runs[run]
    steps = values["training"].pop("steps", sweep.steps)
    if type(steps) is not int or steps < MINIMUM_STEPS:
        expected = f"a whole number, {MINIMUM_STEPS} or more"
        raise _refused("axes.training.steps", repr(steps), expected)
    warmup = min(steps - 1, round(training.warmup_steps / training.steps * steps))
    timing = {"steps": steps, "warmup_steps": warmup, "log_every": 1, "validate_every": steps}
    plain = training.model_dump(exclude={"instruments"})
    return Trial(
        validate(CouplingSettings, held.coupling.model_dump() | values["coupling"], "coupling"),
        validate(BodySettings, group.body_of(run).model_dump() | values["body"], "body"),
        validate(TrainingSettings, {**plain, **timing, **values["training"]}, "training"),
    )


def check_sweep(key: str, sweep: SweepSettings, group: FamilySettings | None) -> None:
    """Check a sweep against the family that it sweeps.

    Args:
        key: of the sweep in params.yaml.
        sweep: its settings.
        group: the decoders; None where there are none.

    Raises:
        SettingsError: no such run, an untrained one, a combination of values that is refused, a
            pilot on seeds that are reported, or two trainings that are the same.
    """
    known = {} if group is None else group.runs
    for run in sweep.runs:
        if group is None or run not in known or not known[run].trained:
            trained = [name for name, held in known.items() if held.trained]
            raise _refused(
                f"{key}.runs", repr(run), f"trained runs of {FAMILY}: {', '.join(trained)}"
            )
    assert group is not None, "there is a run"
    reported = sorted(set(sweep.seeds) & set(group.seeds))
    if sweep.purpose == "pilot" and reported:
        raise _refused(
            f"{key}.seeds",
            f"{reported[0]}, a seed of {FAMILY}.seeds",
            "seeds that are not reported",
        )
    seen: list[tuple[str, list[dict[str, Any]]]] = []
    for run in sweep.runs:
        for point in sweep.points():
            name = f"{run} at {named(point)}"
            try:
                held = trial(group, sweep, run, point)
                check_coupled(held.training, held.coupling, held.body.width)
                check_joint(held.coupling, held.body)
            except SettingsError as error:
                raise error.below(f"{key}: {name}") from None
            if held.training.sequence_length > held.body.maximum_length:
                raise _refused(
                    f"{key}: {name}: training.sequence_length",
                    f"{held.training.sequence_length}",
                    f"at most body.maximum_length ({held.body.maximum_length})",
                )
            same = [other for other, dumped in seen if dumped == held.dump()]
            if same:
                raise _refused(
                    key, f"the same training for {same[0]} and {name}", "trainings that differ"
                )
            seen.append((name, held.dump()))


def _refused(key: str, found: str, expected: str) -> SettingsError:
    mend = "edit conf/sweep/ or the size and run `tiebench params`, or edit params.yaml"
    return SettingsError(key, found=found, expected=expected, mend=mend)


def _pairs(values: list[Value]) -> Iterator[tuple[Value, Value]]:
    return ((a, b) for index, a in enumerate(values) for b in values[:index])


def _shown(value: Value) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)
