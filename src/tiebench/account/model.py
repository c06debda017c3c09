"""A language model as it is accounted for: its parts, and the totals with one matrix or two."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from tiebench.account.parts import Parts
from tiebench.analysis.counting import count
from tiebench.analysis.shapes import Shape

DTYPES = {"float32": 4, "bfloat16": 2, "int8": 1}
"""Bytes of a number, by dtype."""
ADAM = {"moments": 8, "moments_and_master_weights": 12}
"""Bytes a parameter: two moments in float32, and a float32 copy of 16-bit weights beside them."""


@dataclass(frozen=True)
class Model:
    """A model as it is accounted for.

    Attributes:
        source: where the shape is from.
        tied: as it ships; None where nothing states it.
        statement: what states the tie, or that nothing does.
        default: what the class does where nothing is stated; None where there is no class.
        headless: whether it ships without language-model head.
        notes: what was taken as given, and what is worth knowing.
    """

    name: str
    source: str
    shape: Shape
    tied: bool | None
    statement: str
    default: bool | None = None
    headless: bool = False
    notes: list[str] = field(default_factory=list)

    @cached_property
    def parts(self) -> Parts:
        """Parameters by part, with two matrices."""
        return count(self.shape)

    @property
    def matrix(self) -> int | None:
        """Parameters of the matrix that a tie shares; None where the widths differ."""
        return self.parts.output_embedding if self.shape.tieable else None

    @property
    def untied_total(self) -> int:
        """Parameters with two matrices."""
        return self.parts.fine_tuning + self.parts.output_embedding + self.parts.head

    @property
    def tied_total(self) -> int | None:
        """Parameters with one matrix, each counted once."""
        return self.untied_total - self.matrix if self.matrix is not None else None

    @property
    def by_use_total(self) -> int:
        """Parameters with a matrix counted at each use: each stack's input, and the output."""
        stacks = len(self.shape.stacks)
        return self.untied_total + (stacks - 1) * self.parts.input_embedding

    @property
    def shipped_total(self) -> int | None:
        """Parameters as the model ships; None where no tie is stated of a head that it has."""
        if self.headless:
            return self.parts.fine_tuning
        if self.tied is None:
            return None
        return self.tied_total if self.tied else self.untied_total

    @property
    def head_flops(self) -> int:
        """Of the product with the output embedding in one token's forward pass, tied or not."""
        return 2 * self.shape.vocabulary * self.shape.widths[1]
