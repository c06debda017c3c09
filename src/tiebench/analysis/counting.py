"""Parameter counts by arithmetic, from a shape alone: no model is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tiebench.analysis.shapes import Shape, own_shape
from tiebench.model.settings import (
    BodySettings,
    CouplingSettings,
    Linear,
    LowRankAddition,
    LowRankMultiplication,
    Norm,
    TableOperation,
)


@dataclass(frozen=True)
class Counts:
    """Parameters by part, each tied matrix once.

    `maps` is what leads from the input table to the body: operations on the table and the map
    between the widths; `head` is what only the logits need besides the output table (operations
    on it, transform with its maps, trained or not, and bias).
    """

    input_table: int
    output_table: int
    maps: int
    head: int
    positions: int
    body: int

    @property
    def pretraining(self) -> int:
        """All of them."""
        return sum(asdict(self).values())

    @property
    def fine_tuning(self) -> int:
        """Without output table and head, which fine-tuning drops (Chung et al. 2021, section 3)."""
        return self.pretraining - self.output_table - self.head

    def as_dict(self) -> dict[str, int]:
        """Totals and parts, in the order and under the names of a run's metrics.json."""
        return {
            "pretraining": self.pretraining,
            "fine_tuning": self.fine_tuning,
            **asdict(self),
        }


def count(shape: Shape) -> Counts:
    """Parameters of the graph with the language-model head, without a pooler."""
    input_width, output_width = shape.widths
    norm = 2 if shape.norm == "layer_norm" else 1
    table_width = shape.width if shape.positions_at == "body" else input_width
    embedding_norm = {"none": 0, "body": shape.width, "input": input_width}[shape.embedding_norm]
    blocks = shape.layers * (block(shape) + shape.block_norms * norm * shape.width)
    return Counts(
        input_table=shape.vocabulary * input_width,
        output_table=0 if shape.tied else shape.vocabulary * output_width,
        maps=_on_table(shape, shape.input_operations, input_width)
        + (0 if input_width == shape.width else affine(input_width, shape.width)),
        head=_on_table(shape, shape.output_operations, output_width)
        + _transform(shape)
        + (shape.vocabulary if shape.output_bias else 0),
        positions=(shape.positions + shape.token_types) * table_width,
        body=blocks + norm * (embedding_norm + (shape.width if shape.final_norm else 0)),
    )


def coupled_counts(coupling: CouplingSettings, body: BodySettings, vocabulary: int) -> Counts:
    """Parameters of one of our runs."""
    return count(own_shape(coupling, body, vocabulary))


def matching_feedforward_width(body: BodySettings, lacking: int) -> int:
    """The feed-forward width at which a body has (about) `lacking` more parameters."""
    maps, bias = (3, 2) if body.feedforward == "swiglu" else (2, 1)
    per_unit = body.layers * (maps * body.width + (bias if body.bias else 0))
    return body.feedforward_width + round(lacking / per_unit)


def affine(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Parameters of an affine map."""
    return inputs * outputs + (outputs if bias else 0)


def block(shape: Shape) -> int:
    """Parameters of one block without its norms: attention and feed-forward."""
    head = shape.head_width or shape.width // shape.heads
    queries = shape.heads * head
    keys = (shape.key_value_heads or shape.heads) * head
    attention = (
        affine(shape.width, queries, bias=shape.bias)
        + 2 * affine(shape.width, keys, bias=shape.bias)
        + affine(queries, shape.width, bias=shape.bias)
    )
    inner = shape.feedforward_width
    up = affine(shape.width, inner, bias=shape.bias)
    return attention + up * (2 if shape.gated else 1) + affine(inner, shape.width, bias=shape.bias)


def _on_table(shape: Shape, operations: Sequence[TableOperation], width: int) -> int:
    total = 0
    for operation in operations:
        if isinstance(operation, LowRankAddition):
            total += operation.rank * (shape.vocabulary + width)
        elif isinstance(operation, LowRankMultiplication):
            total += operation.rank * 2 * width
        else:
            total += width
    return total


def _transform(shape: Shape) -> int:
    total, width = 0, shape.width
    for operation in shape.transform:
        if isinstance(operation, Linear):
            reached = operation.width or shape.widths[1]
            total += affine(width, reached, bias=operation.bias)
            width = reached
        elif isinstance(operation, Norm):
            total += width * (2 if operation.kind == "layer_norm" else 1)
    return total
