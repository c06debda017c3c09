"""A language model split into its parts."""

from __future__ import annotations

from dataclasses import dataclass


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
