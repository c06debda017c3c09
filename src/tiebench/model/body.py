"""The body between embedding and head: one configurable Transformer, or the identity.

Shapes: `batch`, `seq`, `hidden` (the residual stream), `heads`, `head` (hidden / heads).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tiebench.errors import DataError
from tiebench.model.settings import BodySettings, RotaryScaling


class Attention(nn.Module):
    """Multi-head self-attention on torch's scaled-dot-product kernel.

    The rows of `query_key_value` are those of the queries, the keys and the values, by head.
    """

    def __init__(self, settings: BodySettings) -> None:
        super().__init__()
        self.heads, self.causal = settings.heads, settings.causal
        self.shared = settings.key_value_heads or settings.heads
        rows = settings.width // settings.heads * (settings.heads + 2 * self.shared)
        self.query_key_value = nn.Linear(settings.width, rows, bias=settings.bias)
        self.output = nn.Linear(settings.width, settings.width, bias=settings.bias)

    def forward(self, states: Tensor, mask: Tensor | None, rotation: Tensor | None) -> Tensor:
        """`[batch, seq, hidden]` to the same; `mask` is True where attended."""
        batch, seq, hidden = states.shape
        # [batch, seq, all heads, head] -> [batch, all heads, seq, head]
        split = self.query_key_value(states).view(batch, seq, -1, hidden // self.heads)
        query, key, value = split.transpose(1, 2).split((self.heads, self.shared, self.shared), 1)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=self.causal and mask is None,
            enable_gqa=self.shared != self.heads,
        )  # fmt: skip
        return self.output(attended.transpose(1, 2).reshape(batch, seq, hidden))


class FeedForward(nn.Module):
    """Two maps with GELU, or the gated SwiGLU (Shazeer 2020)."""

    def __init__(self, settings: BodySettings) -> None:
        super().__init__()
        self.gated = settings.feedforward == "swiglu"
        inner = settings.feedforward_width
        self.up = nn.Linear(settings.width, inner * (2 if self.gated else 1), bias=settings.bias)
        self.down = nn.Linear(inner, settings.width, bias=settings.bias)

    def forward(self, states: Tensor) -> Tensor:
        """`[batch, seq, hidden]` to the same."""
        inner = self.up(states)
        if self.gated:
            gate, value = inner.chunk(2, dim=-1)
            return self.down(F.silu(gate) * value)
        return self.down(F.gelu(inner))


class Block(nn.Module):
    """Attention and feed-forward branches, normalized before (pre) or after (post) each; DeepNorm
    multiplies what passes beside a branch."""

    def __init__(self, settings: BodySettings) -> None:
        super().__init__()
        self.pre = settings.norm_placement == "pre"
        self.alpha = settings.deep_norm()[0] if settings.branch == "deep_norm" else None
        self.attention, self.feedforward = Attention(settings), FeedForward(settings)
        self.attention_norm, self.feedforward_norm = make_norm(settings), make_norm(settings)

    def forward(self, states: Tensor, mask: Tensor | None, rotation: Tensor | None) -> Tensor:
        """`[batch, seq, hidden]` to the same."""
        if self.pre:
            states = states + self.attention(self.attention_norm(states), mask, rotation)
            return states + self.feedforward(self.feedforward_norm(states))
        states = self.attention_norm(self._kept(states) + self.attention(states, mask, rotation))
        return self.feedforward_norm(self._kept(states) + self.feedforward(states))

    def _kept(self, states: Tensor) -> Tensor:
        return states if self.alpha is None else self.alpha * states


class Body(nn.Module):
    """Positions, blocks and the last norm; with kind `identity` the last norm alone.

    Args:
        settings: the shape.
        input_width: that of the input table, whose rows come in; the body's unless given.

    Raises:
        SettingsError: the width of the input table does not suit what stands there
            (`BodySettings.position_width`).
    """

    position_table: nn.Parameter | None

    def __init__(self, settings: BodySettings, input_width: int | None = None) -> None:
        super().__init__()
        self.settings = settings
        width = settings.position_width(input_width or settings.width)
        transformer = settings.kind == "transformer"
        learned = transformer and settings.positions == "learned"
        shape = (settings.maximum_length, width)
        self.position_table = nn.Parameter(torch.empty(shape)) if learned else None
        self.embedding_norm = (
            make_norm(settings, width) if settings.embedding_norm else nn.Identity()
        )
        self.blocks = nn.ModuleList(
            Block(settings) for _ in range(settings.layers if transformer else 0)
        )
        pre = settings.norm_placement == "pre"
        self.final_norm = make_norm(settings) if pre else nn.Identity()

    def forward(
        self,
        looked_up: Tensor,
        attended: Tensor | None = None,
        input_map: Callable[[Tensor], Tensor] | None = None,
    ) -> list[Tensor]:
        """States of every layer.

        Args:
            looked_up: rows of the input table, `[batch, seq, input_width]`.
            attended: `[batch, seq]`, True at real tokens; None when there is no padding.
            input_map: from the input table's width to the body's; None where they are equal.

        Returns:
            layers + 1 tensors `[batch, seq, hidden]`: after the embedding (with positions and
            embedding norm), after each block; the last one after the final norm.
        """
        settings, seq = self.settings, looked_up.shape[1]
        if seq > settings.maximum_length:
            raise DataError(
                "input",
                found=f"a sequence of {seq} tokens",
                expected=f"at most body.maximum_length = {settings.maximum_length}",
                mend="raise body.maximum_length or cut the input",
            )
        before = input_map is not None and settings.embedding_width == "input"
        state = looked_up if before or input_map is None else input_map(looked_up)
        rotation = None
        if self.position_table is not None:
            state = state + self.position_table[:seq]
        elif settings.kind == "transformer" and settings.positions == "sinusoidal":
            state = state + sinusoids(seq, state.shape[2]).to(state)
        elif settings.kind == "transformer":
            angles = rotary(
                seq, settings.width // settings.heads, settings.rotary_base, settings.rotary_scaling
            )
            rotation = angles.to(state.device)
        state = self.embedding_norm(state)
        if before and input_map is not None:
            state = input_map(state)
        mask = attention_mask(attended, settings.causal)
        states = [state]
        for block in self.blocks:
            state = block(state, mask, rotation)
            states.append(state)
        states[-1] = self.final_norm(states[-1])
        return states


def attention_mask(attended: Tensor | None, causal: bool) -> Tensor | None:
    """`[batch, seq]` to `[batch, 1, 1 or seq, seq]`, True where a query may look; None for all."""
    if attended is None:
        return None
    mask = attended[:, None, None, :]
    if causal:
        seq = attended.shape[1]
        mask = mask & torch.ones(seq, seq, dtype=torch.bool, device=attended.device).tril()
    return mask


def make_norm(settings: BodySettings, width: int | None = None) -> nn.Module:
    """The body's norm over the last dimension, with gain (and shift for layer norm)."""
    kind = nn.LayerNorm if settings.norm == "layer_norm" else nn.RMSNorm
    return kind(width or settings.width, eps=settings.norm_epsilon)


def sinusoids(seq: int, width: int) -> Tensor:
    """Fixed positions `[seq, width]` (Vaswani et al. 2017, section 3.5)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(seq)[:, None] * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).reshape(seq, width)


def rotary(
    seq: int, head: int, base: float = 10_000.0, scaling: RotaryScaling | None = None
) -> Tensor:
    """Angles `[seq, head / 2]` of rotary positions (Su et al. 2021, section 3.2.2)."""
    rates = base ** (-torch.arange(0, head, 2) / head)
    if scaling is not None:
        low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
        turns = scaling.original_length * rates / (2 * math.pi)  # in the original length
        kept = ((turns - low) / (high - low)).clamp(0, 1)
        rates = rates * (kept + (1 - kept) / scaling.factor)
    return torch.arange(seq)[:, None] * rates


def rotate(vectors: Tensor, angles: Tensor) -> Tensor:
    """Rotate the pairs (i, i + head/2) of `[batch, heads, seq, head]` by `[seq, head / 2]`."""
    first, second = vectors.chunk(2, dim=-1)
    cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
