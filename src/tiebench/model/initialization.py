"""The initial value of every parameter, from (seed, its name): no module shifts another's draw."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from tiebench.model.coupling_settings import CUT
from tiebench.model.settings import BodySettings, CouplingSettings, Linear
from tiebench.model.tensors import generator_of

TABLES = ("coupling.input_table", "coupling.untied_output_table")
"""Names of the vocabulary tables."""
CUT_STD = math.sqrt(
    1 - 2 * CUT * math.exp(-(CUT**2) / 2) / math.sqrt(2 * math.pi) / math.erf(CUT / math.sqrt(2))
)
"""Standard deviation of a unit normal cut there."""


@torch.no_grad()
def initial(
    name: str, shape: torch.Size, coupling: CouplingSettings, body: BodySettings, seed: int
) -> Tensor:
    """What a parameter of a language model starts as.

    Tables, and what is to start as they do: by the coupling's `std` and `distribution`. Maps
    between widths and in the head's transform: normal with std 1/sqrt(inputs), which keeps the
    scale of what passes, or as the operation says. Operations on tables start as the identity: of
    their two factors the one that would move rows is zero. Body: by its `std` and `distribution`,
    the last map of each branch by `branch`. Norm gains 1, shifts and biases 0.
    """
    generator = generator_of(seed, name)
    if name in TABLES:
        std = coupling.table_std(*shape)
        if name == TABLES[1] and coupling.output_std is not None:
            std = coupling.output_std
        return draw(shape, std, coupling.distribution, generator)
    if _starts_as_tables(name, coupling):
        return draw(shape, float(coupling.std), coupling.distribution, generator)
    if len(shape) < 2:  # of the weights, only a norm's have one dimension
        return torch.full(shape, 1.0 if name.endswith(".weight") else 0.0)
    if name.startswith("body."):
        return _of_the_body(name, shape, body, generator)
    if name.endswith(("row_table", "up")):
        return torch.zeros(shape)
    if name.startswith("coupling.transform."):
        operation = coupling.transform[int(name.split(".")[2])]
        assert isinstance(operation, Linear), "the only operation with a matrix"
        if operation.initialization == "identity":
            return torch.eye(*shape)
        if operation.initialization == "orthogonal":
            return nn.init.orthogonal_(torch.empty(shape), generator=generator)
    inputs = shape[0] if name.endswith("down") else shape[1]
    return draw(shape, 1 / math.sqrt(inputs), "normal", generator)


def _starts_as_tables(name: str, coupling: CouplingSettings) -> bool:
    if name == "coupling.bias":
        return coupling.bias_initialization == "tables"
    if not name.startswith("coupling.transform."):
        return False
    operation = coupling.transform[int(name.split(".")[2])]
    return isinstance(operation, Linear) and operation.initialization == "tables"


def draw(shape: torch.Size, std: float, distribution: str, generator: torch.Generator) -> Tensor:
    """A tensor of independent values with mean 0 and standard deviation `std`."""
    drawn = torch.empty(shape)
    if distribution == "uniform":
        return drawn.uniform_(-1, 1, generator=generator).mul_(std * math.sqrt(3))
    if distribution == "truncated_normal":
        nn.init.trunc_normal_(drawn, 0.0, 1.0, -CUT, CUT, generator=generator)
        return drawn.mul_(std / CUT_STD)
    return drawn.normal_(0.0, std, generator=generator)


def _of_the_body(
    name: str, shape: torch.Size, body: BodySettings, generator: torch.Generator
) -> Tensor:
    last = name.endswith(("attention.output.weight", "feedforward.down.weight"))
    if body.branch == "deep_norm" and name != "body.position_table":
        return draw(shape, 1.0, "normal", generator) * _xavier_stds(name, shape, body)[:, None]
    factors = {"inverse_sqrt_depth": 1 / math.sqrt(2 * max(1, body.layers)), "zero": 0.0}
    std = body.std * factors.get(body.branch, 1.0) if last else body.std
    return draw(shape, std, body.distribution, generator)


def _xavier_stds(name: str, shape: torch.Size, body: BodySettings) -> Tensor:
    """`[rows]`: gain * sqrt(2 / (inputs + outputs)) of the map that each row of a matrix is of.

    Queries, keys and values stand in one matrix, and the two first maps of SwiGLU; DeepNorm's gain
    is beta, and 1 for queries and keys.
    """
    rows, inputs = shape
    beta = body.deep_norm()[1]
    maps = [(rows, beta)]
    if ".query_key_value." in name:
        shared = body.width // body.heads * (body.key_value_heads or body.heads)
        maps = [(body.width, 1.0), (shared, 1.0), (shared, beta)]
    elif name.endswith("feedforward.up.weight") and body.feedforward == "swiglu":
        maps = [(rows // 2, beta)] * 2
    stds = [torch.full((n,), gain * math.sqrt(2 / (inputs + n))) for n, gain in maps]
    return torch.cat(stds)
