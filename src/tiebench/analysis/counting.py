"""Parameter counts by arithmetic, from a shape alone: no model is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tiebench.account.parts import Parts
from tiebench.analysis.shapes import Shape, own_shape
from tiebench.model.settings import (
    BodySettings,
    CouplingSettings,
    Linear,
    LowRankAddition,
    LowRankMultiplication,
    Norm,
    Shift,
    TableOperation,
)


@dataclass(frozen=True)
class Counts:
    """Parameters of a run by part, each tied matrix once.

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


def coupled_counts(coupling: CouplingSettings, body: BodySettings, vocabulary: int) -> Counts:
    """Parameters of one of our runs."""
    parts = count(own_shape(coupling, body, vocabulary))
    return Counts(
        input_table=parts.input_embedding,
        output_table=0 if coupling.tied else parts.output_embedding,
        maps=parts.maps,
        head=parts.head,
        positions=parts.positions,
        body=_lstm(body) if body.kind == "lstm" else parts.body,
    )


def _lstm(body: BodySettings) -> int:
    """Four gates a layer, each a map from input and state with one bias."""
    return body.layers * 4 * affine(2 * body.width, body.width)


def matching_feedforward_width(body: BodySettings, lacking: int) -> int:
    """The feed-forward width at which a body has (about) `lacking` more parameters."""
    maps, bias = (3, 2) if body.feedforward == "swiglu" else (2, 1)
    per_unit = body.layers * (maps * body.width + (bias if body.bias else 0))
    return body.feedforward_width + round(lacking / per_unit)


def count(shape: Shape) -> Parts:
    """Parameters of the graph with the language-model head, without a pooler, by part."""
    narrow, wide = shape.widths
    encoder, decoder = shape.shared_blocks or shape.layers, shape.decoder_layers or 0
    table_width = shape.width if shape.positions_at == "body" else narrow
    relative = (2 if decoder else 1) * shape.relative_positions * shape.heads
    mapped = narrow != shape.width if shape.input_map is None else shape.input_map
    attention = encoder + 2 * decoder  # a decoder's blocks attend to the encoder too
    dense = min(shape.experts.dense_layers, encoder + decoder) if shape.experts else 0
    return Parts(
        input_embedding=shape.vocabulary * narrow,
        output_embedding=shape.vocabulary * wide,
        maps=_on_table(shape, shape.input_operations, narrow)
        + (affine(narrow, shape.width, bias=shape.map_bias) if mapped else 0)
        + (affine(shape.width, wide, bias=shape.map_bias) if shape.output_map else 0),
        positions=(shape.positions + shape.token_types) * table_width + relative,
        attention=attention * (_latent_attention(shape) or _attention(shape)),
        feedforward=(encoder + decoder - dense) * _experts(shape) + dense * _feedforward(shape),
        norms=_norms(shape, encoder, decoder),
        head=_on_table(shape, shape.output_operations, wide)
        + _transform(shape)
        + (shape.vocabulary if shape.output_bias else 0),
    )


def affine(inputs: int, outputs: int, *, bias: bool = True) -> int:
    """Parameters of an affine map."""
    return inputs * outputs + (outputs if bias else 0)


def _biased(part: bool | None, shape: Shape) -> bool:
    return shape.bias if part is None else part


def _heads(shape: Shape) -> tuple[int, int, int]:
    """Width of a head, of all queries, of all keys."""
    head = shape.head_width or shape.width // shape.heads
    return head, shape.heads * head, (shape.key_value_heads or shape.heads) * head


def _attention(shape: Shape) -> int:
    _, queries, keys = _heads(shape)
    bias = _biased(shape.query_bias, shape)
    return (
        affine(shape.width, queries, bias=bias)
        + 2 * affine(shape.width, keys, bias=bias)
        + affine(queries, shape.width, bias=_biased(shape.attention_output_bias, shape))
    )


def _latent_attention(shape: Shape) -> int:
    """Without the norms on the latents; 0 where attention is an ordinary one."""
    latent = shape.latent_attention
    if latent is None:
        return 0
    bias, rank = _biased(shape.query_bias, shape), latent.key_value_rank
    queries = shape.heads * (latent.plain_width + latent.rotary_width)
    keys, values = shape.heads * latent.plain_width, shape.heads * latent.value_width
    return (
        (
            affine(shape.width, latent.query_rank, bias=bias) + latent.query_rank * queries
            if latent.query_rank
            else shape.width * queries
        )
        + affine(shape.width, rank + latent.rotary_width, bias=bias)
        + rank * (keys + values)
        + affine(values, shape.width, bias=_biased(shape.attention_output_bias, shape))
    )


def _feedforward(shape: Shape, inner: int | None = None) -> int:
    inner, bias = inner or shape.feedforward_width, _biased(shape.feedforward_bias, shape)
    up = affine(shape.width, inner, bias=bias)
    return (2 if shape.gated else 1) * up + affine(inner, shape.width, bias=bias)


def _experts(shape: Shape) -> int:
    """Router, experts and those that every token passes; an ordinary feed-forward without any."""
    experts = shape.experts
    if experts is None:
        return _feedforward(shape)
    number = experts.number + experts.shared
    return experts.number * shape.width + number * _feedforward(shape, experts.width)


def _norms(shape: Shape, encoder: int, decoder: int) -> int:
    size = {"layer_norm": 2, "rms_norm": 1, "fixed": 0}[shape.norm]
    head, queries, keys = _heads(shape)
    latent = shape.latent_attention
    within = {"none": 0, "head": 2 * head, "full": queries + keys}[shape.query_norm]
    within += (latent.query_rank or 0) + latent.key_value_rank if latent else 0
    last = (2 if decoder else 1) * shape.width if shape.final_norm else 0
    at = {"none": 0, "body": shape.width, "input": shape.widths[0]}[shape.embedding_norm]
    blocks = (encoder + decoder) * shape.block_norms + decoder
    return size * (blocks * shape.width + last + at) + (encoder + decoder) * within


def _on_table(shape: Shape, operations: Sequence[TableOperation], width: int) -> int:
    total = 0
    for operation in operations:
        if isinstance(operation, LowRankAddition):
            total += operation.rank * (shape.vocabulary + width)
        elif isinstance(operation, LowRankMultiplication):
            total += operation.rank * 2 * width
        elif isinstance(operation, Shift):
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
