"""Shapes of language models, published and our own, as far as their parameters are concerned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tiebench.model.settings import (
    BodySettings,
    CouplingSettings,
    Operation,
    TableOperation,
    transform_width,
)
from tiebench.schema import Settings

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]


class LatentAttention(Settings):
    """Queries, keys and values from narrow latents (DeepSeek-AI 2024, section 2.1.1)."""

    query_rank: Positive | None
    """Null: queries from the body's width, as usual."""
    key_value_rank: Positive
    rotary_width: Positive
    """Of a head's queries; of its keys all heads share one."""
    plain_width: Positive
    """Of a head's queries and keys, without position."""
    value_width: Positive


class Experts(Settings):
    """Feed-forward maps that a router chooses from, in place of one."""

    number: Positive
    width: Positive
    shared: NonNegative = 0
    """Experts that every token passes."""
    dense_layers: NonNegative = 0
    """First blocks, whose feed-forward is an ordinary one."""


class Shape(Settings):
    """What decides how many parameters a language model has, tied or not.

    Published models get theirs from the keys of a config.json (`tiebench.account.families`); only
    a part that none of these fields describes needs a new one here.
    """

    vocabulary: Positive
    width: Positive
    """Width of the residual stream."""
    input_width: Positive | None = None
    """Width of the input table; null is the body's."""
    output_width: Positive | None = None
    """Width of the output table; null is the body's."""
    input_map: bool | None = None
    """An affine map from the input table to the body; null is where their widths differ."""
    output_map: bool = False
    """A map to the output table's width that belongs to the body, which fine-tuning keeps."""
    map_bias: bool = True
    """Biases in these two maps."""
    layers: NonNegative
    shared_blocks: Positive | None = None
    """Blocks that are stored, where layers share them; null is `layers`."""
    decoder_layers: Positive | None = None
    """Blocks of a second stack with cross-attention; both read the input table."""
    heads: Positive = 1
    key_value_heads: Positive | None = None
    """Heads of keys and values (grouped-query attention); null is `heads`."""
    head_width: Positive | None = None
    """Width of a head; null is width / heads."""
    latent_attention: LatentAttention | None = None
    feedforward_width: Positive = 1
    experts: Experts | None = None
    positions: NonNegative = 0
    """Rows of a learned position table; 0 for rotary, sinusoidal or relative positions."""
    positions_at: Literal["body", "input"] = "body"
    """Width of the position and token-type tables: the body's, or the input table's."""
    token_types: NonNegative = 0
    """Rows of the token-type table."""
    relative_positions: NonNegative = 0
    """Rows of each stack's table of relative positions, one number a head."""
    embedding_norm: Literal["none", "body", "input"] = "none"
    """A norm on the embedding, at the body's width or the input table's."""
    norm: Literal["layer_norm", "rms_norm", "fixed"] = "layer_norm"
    """With gain and bias, with gain alone, or without parameters."""
    block_norms: NonNegative = 2
    """Norms per block; a decoder with cross-attention has one more."""
    query_norm: Literal["none", "head", "full"] = "none"
    """RMS norms on queries and keys: on each head's with one gain for all, or on all at once."""
    final_norm: bool = False
    bias: bool = True
    """Biases in the attention and feed-forward maps."""
    query_bias: bool | None = None
    """Biases of queries, keys and values; null is `bias`, as in the next two."""
    attention_output_bias: bool | None = None
    feedforward_bias: bool | None = None
    gated: bool = False
    """Three feed-forward maps (SwiGLU, GeGLU) in place of two."""
    input_operations: list[TableOperation] = []
    """What makes the input side's table from the stored one."""
    output_operations: list[TableOperation] = []
    """The same for the output side."""
    transform: list[Operation] = []
    """What stands between the body and the output table, and fine-tuning drops."""
    output_bias: bool = False
    """A bias per vocabulary entry on the logits."""

    @model_validator(mode="after")
    def _check(self) -> Shape:
        if self.head_width is None and self.width % self.heads:
            raise ValueError(f"heads that divide the width ({self.width} / {self.heads})")
        start, end = self.widths[1] if self.output_map else self.width, self.widths[1]
        if transform_width(self.transform, start, end) != end:
            raise ValueError(f"a transform that ends at the output width {end}")
        return self

    @property
    def widths(self) -> tuple[int, int]:
        """Widths of the input and the output table."""
        return self.input_width or self.width, self.output_width or self.width

    @property
    def stacks(self) -> tuple[int, ...]:
        """Layers of each stack; an encoder-decoder has two."""
        return (self.layers, *([self.decoder_layers] if self.decoder_layers else []))

    @property
    def tieable(self) -> bool:
        """Whether the two tables could be one matrix."""
        return self.widths[0] == self.widths[1]


def own_shape(coupling: CouplingSettings, body: BodySettings, vocabulary: int) -> Shape:
    """The shape of one of our runs."""
    blocks: dict[str, Any] = {"layers": 0}
    if body.kind == "transformer":
        blocks = {
            "layers": body.layers,
            "heads": body.heads,
            "key_value_heads": body.key_value_heads,
            "feedforward_width": body.feedforward_width,
            "positions": body.maximum_length if body.positions == "learned" else 0,
        }
    return Shape(
        vocabulary=vocabulary,
        width=body.width,
        input_width=coupling.input_width,
        output_width=coupling.output_width,
        positions_at=body.embedding_width,
        embedding_norm=body.embedding_width if body.embedding_norm else "none",
        norm=body.norm,
        final_norm=body.norm_placement == "pre",
        bias=body.bias,
        gated=body.feedforward == "swiglu",
        input_operations=coupling.input_operations,
        output_operations=coupling.output_operations,
        transform=coupling.transform,
        output_bias=coupling.bias,
        **blocks,
    )


def read_data(path: Path) -> Any:
    """The plain values of a YAML file of this package."""
    import yaml

    return yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
