"""Settings of a coupling: the vocabulary tables, what each side makes of them, and the head."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from tiebench.errors import SettingsError
from tiebench.schema import Settings

Positive = Annotated[int, Field(gt=0, le=1_000_000)]


class Linear(Settings):
    """An affine map of the head transform."""

    kind: Literal["linear"]
    width: Positive | None = None
    """Output width; null takes the output table's width."""
    bias: bool = True
    initialization: Literal["normal", "orthogonal", "identity", "tables"] = "normal"
    """Normal with std 1/sqrt(inputs); with orthonormal rows or columns (Su 2023); the identity; or
    map and bias drawn as the vocabulary tables are (Zaremba et al. 2014: one rule for all)."""
    trained: bool = True
    """False: stays as initialized, a control for what the map learns."""

    @model_validator(mode="after")
    def _check(self) -> Linear:
        if not self.trained and (self.bias or self.initialization == "identity"):
            raise ValueError(
                "no bias, and another initialization than identity, with trained false"
            )
        return self


class Activation(Settings):
    """A pointwise non-linearity of the head transform."""

    kind: Literal["gelu", "relu", "tanh", "silu"]


class Norm(Settings):
    """A normalization of the head transform, with a trained gain (and shift for layer norm)."""

    kind: Literal["layer_norm", "rms_norm"]
    epsilon: Annotated[float, Field(gt=0)] = 1e-12


class HalfSwap(Settings):
    """The second half of the dimensions before the first (Su 2023, "some countermeasures")."""

    kind: Literal["half_swap"]


class ChannelShuffle(Settings):
    """Dimensions read as `[groups, width / groups]` and written transposed (Zhang et al. 2018)."""

    kind: Literal["channel_shuffle"]
    groups: Annotated[int, Field(gt=1)]
    """Divides the width there; 1 and the width itself would leave every dimension in place."""


Operation = Annotated[
    Linear | Activation | Norm | HalfSwap | ChannelShuffle, Field(discriminator="kind")
]


class LowRankAddition(Settings):
    """A table E becomes E + A B, with A `[vocabulary, rank]` from zero and B `[rank, width]`."""

    kind: Literal["low_rank_addition"]
    rank: Positive


class LowRankMultiplication(Settings):
    """A table E becomes E (I + P Q), with P `[width, rank]` and Q `[rank, width]` from zero."""

    kind: Literal["low_rank_multiplication"]
    rank: Positive


class Shift(Settings):
    """A trained vector `[width]`, from zero, is added to every row of the input table.

    Refused on the output side, where it adds the same number to all logits of a prediction.
    """

    kind: Literal["shift"]


class UnitRows(Settings):
    """Every row is divided by its length (Inan et al. 2017, subspace experiment)."""

    kind: Literal["unit_rows"]


TableOperation = Annotated[
    LowRankAddition | LowRankMultiplication | Shift | UnitRows, Field(discriminator="kind")
]
Scale = Annotated[float, Field(gt=0, le=1e6)]
CUT = 3.0
"""Where a truncated normal is cut, in standard deviations of the normal (OLMo 2)."""


def transform_width(transform: list[Operation], width: int, output_width: int) -> int:
    """The width at which a transform ends that starts at `width`."""
    for operation in transform:
        if isinstance(operation, Linear):
            width = operation.width or output_width
    return width


class _Order:
    """Where each dimension comes from, since the last linear map."""

    def __init__(self, width: int) -> None:
        self.sources, self.permuted = list(range(width)), False

    def pass_through(self, operation: Operation) -> None:
        """Apply an operation that suits the width; all but permutations leave the order."""
        held, width = self.sources, len(self.sources)
        if isinstance(operation, HalfSwap):
            self.sources = held[width // 2 :] + held[: width // 2]
        elif isinstance(operation, ChannelShuffle):
            step = width // operation.groups
            self.sources = [held[i] for start in range(step) for i in range(start, width, step)]
        self.permuted |= isinstance(operation, HalfSwap | ChannelShuffle)

    def check(self, end: int) -> None:
        """Refuse permutations that cancel."""
        if self.permuted and self.sources == sorted(self.sources):
            raise SettingsError(
                "coupling.transform",
                found=f"permutations before operation {end} that put every dimension back",
                expected="permutations that do something together",
                mend="leave them out",
            )


class CouplingSettings(Settings):
    """How the input and output tables relate, and what stands between them and the body."""

    option: str
    """Name of the file in conf/coupling/ that this came from."""
    tied: bool
    """One table for both ends."""
    input_width: Positive | None = None
    """Width of the input table; null is the body's. Another width adds a linear map to the body."""
    output_width: Positive | None = None
    """Width of the output table; null is the body's. Another width needs a linear operation."""
    input_operations: list[TableOperation] = []
    """What makes the input side's table from the stored one, in this order (relaxed tying)."""
    output_operations: list[TableOperation] = []
    """The same for the output side."""
    transform: list[Operation] = []
    """What is applied to the body's last state before the product with the output table."""
    bias: bool = True
    """A bias per vocabulary entry on the logits."""
    bias_initialization: Literal["zero", "tables"] = "zero"
    """Drawn as the vocabulary tables are with `tables`."""
    std: Scale | Literal["inverse_sqrt_width", "log_vocabulary_over_width"] = 0.02
    """Standard deviation of the initial tables: a number, 1/sqrt(d) or ln(n)/d (Su 2023) for a
    table `[n, d]`."""
    output_std: Scale | None = Field(default=None, exclude_if=lambda value: value is None)
    """The same for the output table of two, as a number; null takes `std`."""
    distribution: Literal["normal", "uniform", "truncated_normal"] = "normal"
    """Shape of the initial tables, all with mean 0 and `std`; the truncated one is a normal cut at
    three of its own standard deviations (OLMo 2) and scaled to have `std`."""
    shared_initialization: bool = False
    """Two tables that start with the same values: what tying does to initialization alone."""
    input_scale: Scale | Literal["sqrt_width"] = 1.0
    """Multiplies the looked-up rows: a number, or sqrt(body width) (Vaswani et al. 2017, 3.4)."""
    logit_scale: Scale | Literal["inverse_sqrt_width", "log_vocabulary_over_sqrt_width"] = 1.0
    """Multiplies the product with the output table `[n, d]`: a number, 1/sqrt(d) (T5), or
    ln(n)/sqrt(d), with which a table of std 1/sqrt(d) starts at the loss of one of std ln(n)/d."""

    @model_validator(mode="after")
    def _check(self) -> CouplingSettings:
        for first, second in pairwise(self.transform):
            if type(first) is type(second):
                raise ValueError(f"another kind of operation between {first.kind}, {second.kind}")
        for side in ("input_operations", "output_operations"):
            kinds = [operation.kind for operation in getattr(self, side)]
            if len(set(kinds)) != len(kinds):
                raise ValueError(f"{side} of different kinds ({', '.join(kinds)})")
        if any(isinstance(operation, Shift) for operation in self.output_operations):
            raise ValueError(
                "no shift among output_operations, where it adds the same number to all logits"
            )
        if self.shared_initialization and self.tied:
            raise ValueError("shared_initialization false with tied, where there is one table")
        if self.output_std is not None and (self.tied or self.shared_initialization):
            raise ValueError("no output_std with one table, or two that start with the same values")
        drawn = self.bias_initialization == "tables"
        if drawn and not self.bias:
            raise ValueError("bias_initialization zero without a bias")
        drawn |= any(isinstance(x, Linear) and x.initialization == "tables" for x in self.transform)
        if drawn and isinstance(self.std, str):
            raise ValueError(f"a number for std where more than tables is drawn so ({self.std})")
        return self

    def widths(self, body: int) -> tuple[int, int]:
        """Widths of the input and the output table on a body of width `body`.

        Raises:
            SettingsError: unequal widths when tied, a transform that does not lead from the
                body's width to the output table's, or an operation that its width does not suit.
        """
        widths = self.input_width or body, self.output_width or body
        if widths[0] != widths[1] and (self.tied or self.shared_initialization):
            what = "tied" if self.tied else "shared_initialization"
            raise SettingsError(
                "coupling.output_width",
                found=f"{widths[1]} beside an input table of width {widths[0]}",
                expected=f"equal widths when {what}: tables of unequal width cannot be one matrix",
                mend=f"give both the same width, or set {what} to false",
            )
        reached = transform_width(self.transform, body, widths[1])
        if reached != widths[1]:
            raise SettingsError(
                "coupling.transform",
                found=f"a transform that leads from the body's width {body} to {reached}",
                expected=f"one that ends at the output table's width, {widths[1]}",
                mend="add {kind: linear} to the transform, or make output_width null",
            )
        self._check_operations(body, *widths)
        return widths

    def _check_operations(self, body: int, input_width: int, output_width: int) -> None:
        width, order = body, _Order(body)
        for index, operation in enumerate(self.transform):
            key, inputs = f"coupling.transform[{index}]", width
            if isinstance(operation, Linear):
                width = operation.width or output_width
                order.check(index)
                order = _Order(width)
                if operation.initialization == "identity" and inputs != width:
                    raise SettingsError(
                        f"{key}.initialization",
                        found=f"identity for a map from {inputs} to {width}",
                        expected="equal widths",
                        mend="initialize it orthogonal or normal, or make the widths equal",
                    )
            if isinstance(operation, HalfSwap) and width % 2:
                raise SettingsError(
                    key,
                    found=f"half_swap at width {width}",
                    expected="an even width",
                    mend="make the width even",
                )
            if isinstance(operation, ChannelShuffle) and (
                width % operation.groups or width == operation.groups
            ):
                divisor = next((g for g in range(2, width) if not width % g), None)
                raise SettingsError(
                    f"{key}.groups",
                    found=f"{operation.groups} at width {width}",
                    expected="a divisor of the width between 1 and the width itself",
                    mend=f"set it to {divisor}" if divisor else "choose a width with divisors",
                )
            order.pass_through(operation)
        order.check(len(self.transform))
        sides = {"input": (self.input_operations, input_width)}
        sides["output"] = (self.output_operations, output_width)
        for side, (operations, width) in sides.items():
            for index, made in enumerate(operations):
                rank = getattr(made, "rank", 0)
                if rank >= width:
                    raise SettingsError(
                        f"coupling.{side}_operations[{index}].rank",
                        found=f"{rank} on a table of width {width}",
                        expected="a rank below the width",
                        mend=f"set it to {max(1, width // 8)}, or take two tables (tied false)",
                    )

    def table_std(self, vocabulary: int, width: int) -> float:
        """Standard deviation of a table `[vocabulary, width]`."""
        if self.std == "inverse_sqrt_width":
            return 1 / math.sqrt(width)
        if self.std == "log_vocabulary_over_width":
            return math.log(vocabulary) / width
        return float(self.std)

    def input_factor(self, body: int) -> float:
        """What the looked-up rows are multiplied by on a body of width `body`."""
        given = self.input_scale
        return math.sqrt(body) if given == "sqrt_width" else float(given)

    def logit_factor(self, body: int, vocabulary: int) -> float:
        """What the logits are multiplied by on a body of width `body`."""
        given, width = self.logit_scale, self.widths(body)[1]
        if given == "inverse_sqrt_width":
            return 1 / math.sqrt(width)
        if given == "log_vocabulary_over_sqrt_width":
            return math.log(vocabulary) / math.sqrt(width)
        return float(given)
