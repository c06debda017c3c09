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
from tiebench.schema import Settings, validate

PUBLISHED_MODELS = Path(__file__).with_name("published_models.yaml")

Positive = Annotated[int, Field(gt=0)]
NonNegative = Annotated[int, Field(ge=0)]


class Shape(Settings):
    """What decides how many parameters a language model has.

    A new architecture is a new entry of published_models.yaml as long as these fields tell it
    apart; only a part that none of them describes needs a new field here.
    """

    name: str
    source: str
    """Where the shape is published."""
    architecture: str
    """Key of `architectures`."""
    group: Literal["released", "ablation", "own"] = "released"
    """Ablation: a configuration of a paper's table that was not released; own: a run of ours."""
    vocabulary: Positive
    width: Positive
    """Width of the residual stream."""
    input_width: Positive | None = None
    """Width of the input table; null is the body's. Another width adds an affine map."""
    output_width: Positive | None = None
    """Width of the output table; null is the body's."""
    layers: NonNegative
    heads: Positive = 1
    key_value_heads: Positive | None = None
    """Heads of keys and values (grouped-query attention); null is `heads`."""
    head_width: Positive | None = None
    """Width of a head; null is width / heads."""
    feedforward_width: Positive = 1
    tied: bool
    """As shipped."""
    positions: NonNegative = 0
    """Rows of a learned position table; 0 for rotary, sinusoidal or relative positions."""
    positions_at: Literal["body", "input"] = "body"
    """Width of the position and token-type tables: the body's, or the input table's."""
    token_types: NonNegative = 0
    """Rows of the token-type table."""
    embedding_norm: Literal["none", "body", "input"] = "none"
    """A norm on the embedding, at the body's width or the input table's."""
    norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    block_norms: NonNegative = 2
    """Norms per block."""
    final_norm: bool = False
    bias: bool = True
    """Biases in the attention and feed-forward maps."""
    gated: bool = False
    """Three feed-forward maps (SwiGLU, GeGLU) in place of two."""
    input_operations: list[TableOperation] = []
    """What makes the input side's table from the stored one."""
    output_operations: list[TableOperation] = []
    """The same for the output side."""
    transform: list[Operation] = []
    """What stands between the body and the output table."""
    output_bias: bool = False
    """A bias per vocabulary entry on the logits."""

    @model_validator(mode="after")
    def _check(self) -> Shape:
        if self.tied and not self.tieable:
            raise ValueError("input and output tables of equal width when tied")
        if self.head_width is None and self.width % self.heads:
            raise ValueError(f"heads that divide the width ({self.width} / {self.heads})")
        if transform_width(self.transform, self.width, self.widths[1]) != self.widths[1]:
            raise ValueError(f"a transform that ends at the output width {self.widths[1]}")
        return self

    @property
    def widths(self) -> tuple[int, int]:
        """Widths of the input and the output table."""
        return self.input_width or self.width, self.output_width or self.width

    @property
    def tieable(self) -> bool:
        """Whether the two tables could be one matrix."""
        return self.widths[0] == self.widths[1]

    def with_tables(self, *, tied: bool) -> Shape:
        """The same model with one table or two.

        Raises:
            SettingsError: the tables differ in width and cannot be one.
        """
        return validate(Shape, {**self.model_dump(), "tied": tied}, self.name)


def published_models() -> dict[str, Shape]:
    """The registry, in the file's order.

    Raises:
        SettingsError: an entry with an unknown key, a wrong type or an impossible combination.
    """
    held = read_data(PUBLISHED_MODELS)
    return {
        key: validate(
            Shape,
            {**held["architectures"][model["architecture"]], **model},
            f"{PUBLISHED_MODELS.name}: {key}",
        )
        for key, model in held["models"].items()
    }


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
        name=coupling.option,
        source="own run",
        architecture="own",
        group="own",
        vocabulary=vocabulary,
        width=body.width,
        input_width=coupling.input_width,
        output_width=coupling.output_width,
        tied=coupling.tied,
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
    from omegaconf import OmegaConf

    return OmegaConf.to_container(OmegaConf.load(path))
