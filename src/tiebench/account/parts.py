"""A language model split into its parts, and the totals with one embedding matrix or two."""

from __future__ import annotations

from dataclasses import dataclass, field

DTYPES = {"float32": 4, "bfloat16": 2, "int8": 1}
"""Bytes of a number, by dtype."""
ADAM = {"moments": 8, "moments_and_master_weights": 12}
"""Bytes a parameter: two moments in float32, and a float32 copy of 16-bit weights beside them."""


@dataclass(frozen=True)
class Parts:
    """Parameters by part, with two matrices.

    Attributes:
        output_embedding: as a matrix of its own; a tied model has it once, as the input embedding.
        maps: what leads between an embedding's width and the body's inside the model without head.
        positions: tables of positions, of relative positions and of token types.
        head: what only the logits need besides the output embedding.
    """

    input_embedding: int
    output_embedding: int
    maps: int
    positions: int
    attention: int
    feedforward: int
    norms: int
    head: int

    @property
    def body(self) -> int:
        """Attention, feed-forward and norms."""
        return self.attention + self.feedforward + self.norms

    @property
    def fine_tuning(self) -> int:
        """Without output embedding and head."""
        return self.input_embedding + self.maps + self.positions + self.body


@dataclass(frozen=True)
class Model:
    """A model as it is accounted for.

    Attributes:
        source: where the shape is from.
        layers: of each stack; an encoder-decoder has two.
        tied: as it ships; None where nothing states it.
        statement: what states the tie, or that nothing does.
        default: what the class does where nothing is stated; None where there is no class.
        headless: whether it ships without language-model head.
        notes: what was taken as given, and what is worth knowing.
    """

    name: str
    source: str
    vocabulary: int
    width: int
    layers: tuple[int, ...]
    widths: tuple[int, int]
    parts: Parts
    tied: bool | None
    statement: str
    default: bool | None = None
    headless: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def tieable(self) -> bool:
        """Whether input and output embedding could be one matrix."""
        return self.widths[0] == self.widths[1]

    @property
    def matrix(self) -> int | None:
        """Parameters of the matrix that a tie shares; None where the widths differ."""
        return self.parts.output_embedding if self.tieable else None

    @property
    def untied_total(self) -> int:
        """Parameters with two matrices, which is a count by use where there is one."""
        return self.parts.fine_tuning + self.parts.output_embedding + self.parts.head

    @property
    def tied_total(self) -> int | None:
        """Parameters with one matrix, each counted once."""
        return self.untied_total - self.matrix if self.matrix is not None else None

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
        return 2 * self.vocabulary * self.widths[1]
