"""The coupling: the vocabulary tables, what each side makes of them, and the head's transform.

A language model is `embed -> body -> head`. This module is the first and the last of these and
knows nothing of the second. One `Parameter` when tied: `output_table` is then a view of
`input_table`'s attribute and not a second entry, so that there is one optimizer state, one count
and one tensor in a checkpoint, also after `load_state_dict(assign=True)`.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tiebench.model.settings import (
    Activation,
    ChannelShuffle,
    CouplingSettings,
    HalfSwap,
    Linear,
    LowRankAddition,
    LowRankMultiplication,
    Norm,
    Operation,
    Shift,
    TableOperation,
)

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}


class Coupling(nn.Module):
    """Both ends of a language model.

    Args:
        settings: tables, operations, widths, transform, scales, bias.
        vocabulary: rows of each table.
        width: width of the body, `hidden` in the shapes below.

    Attributes:
        gradient_scales: what the gradient of the stored table is multiplied by where it comes
            from the input side and where it comes from the output side; training sets it.

    Raises:
        SettingsError: the widths do not meet (`CouplingSettings.widths`).
    """

    def __init__(self, settings: CouplingSettings, vocabulary: int, width: int) -> None:
        super().__init__()
        input_width, output_width = settings.widths(width)
        self.tied = settings.tied
        self.input_scale = settings.input_factor(width)
        self.logit_scale = settings.logit_factor(width, vocabulary)
        self.gradient_scales = (1.0, 1.0)
        self.input_table = nn.Parameter(torch.empty(vocabulary, input_width))
        if not settings.tied:
            self.untied_output_table = nn.Parameter(torch.empty(vocabulary, output_width))
        self.input_operations = nn.ModuleList(
            _table_operation(x, vocabulary, input_width) for x in settings.input_operations
        )
        self.output_operations = nn.ModuleList(
            _table_operation(x, vocabulary, output_width) for x in settings.output_operations
        )
        self.input_map = nn.Linear(input_width, width) if input_width != width else nn.Identity()
        """From the input table's width to the body's; `lookup` comes before it."""
        self.transform = _transform(settings, width, output_width)
        self.bias = nn.Parameter(torch.empty(vocabulary)) if settings.bias else None

    @property
    def output_table(self) -> nn.Parameter:
        """The stored matrix of the output side, `[vocabulary, output_width]`; the input table when
        tied."""
        return self.input_table if self.tied else self.untied_output_table

    def untie(self) -> None:
        """Give the output side a table of its own with the values of the shared one.

        Each then gets all of its gradient: `gradient_scales` are of a shared table.
        """
        if self.tied:
            self.gradient_scales = (1.0, 1.0)
            self.untied_output_table = nn.Parameter(self.input_table.detach().clone())
            self.tied = False

    def lookup(self, ids: Tensor) -> Tensor:
        """`[batch, seq]` ids to rows of the input side's table, `[batch, seq, input_width]`."""
        rows = scale_gradient(F.embedding(ids, self.input_table), self.gradient_scales[0])
        for operation in self.input_operations:
            rows = operation(rows, ids)
        return rows if self.input_scale == 1 else rows * self.input_scale

    def input_matrix(self) -> Tensor:
        """What `lookup` takes its rows from, `[vocabulary, input_width]`, without the scale."""
        rows: Tensor = self.input_table
        for operation in self.input_operations:
            rows = operation(rows, None)
        return rows

    def output_matrix(self) -> Tensor:
        """The matrix of the logits, `[vocabulary, output_width]`, without the scale."""
        rows = scale_gradient(self.output_table, self.gradient_scales[1])
        for operation in self.output_operations:
            rows = operation(rows, None)
        return rows

    def head_states(self, states: Tensor) -> Tensor:
        """`[n, hidden]` states of the body to `[n, output_width]`, ready for `output_matrix`."""
        states = self.transform(states)
        return states if self.logit_scale == 1 else states * self.logit_scale

    def logits(self, states: Tensor) -> Tensor:
        """`[n, hidden]` states of the body to `[n, vocabulary]` logits."""
        return F.linear(self.head_states(states), self.output_matrix(), self.bias)


class _GradientScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.scale, None


def scale_gradient(values: Tensor, scale: float) -> Tensor:
    """`values`, whose gradient is multiplied by `scale` on its way back."""
    return values if scale == 1 else _GradientScale.apply(values, scale)


class LowRankAdded(nn.Module):
    """`rows + A B`, of the rows of A that belong to `ids` (all when None)."""

    def __init__(self, vocabulary: int, width: int, rank: int) -> None:
        super().__init__()
        self.row_table = nn.Parameter(torch.empty(vocabulary, rank))
        self.basis = nn.Parameter(torch.empty(rank, width))

    def forward(self, rows: Tensor, ids: Tensor | None) -> Tensor:
        """`[..., width]` to the same."""
        own = self.row_table if ids is None else F.embedding(ids, self.row_table)
        return rows + own @ self.basis


class LowRankMultiplied(nn.Module):
    """`rows (I + P Q)`."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.empty(width, rank))
        self.up = nn.Parameter(torch.empty(rank, width))

    def forward(self, rows: Tensor, ids: Tensor | None) -> Tensor:
        """`[..., width]` to the same."""
        return rows + (rows @ self.down) @ self.up


class Shifted(nn.Module):
    """`rows + shift`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.empty(width))

    def forward(self, rows: Tensor, ids: Tensor | None) -> Tensor:
        """`[..., width]` to the same."""
        return rows + self.shift


class UnitRowed(nn.Module):
    """`rows / |rows|`; a zero row stays."""

    def forward(self, rows: Tensor, ids: Tensor | None) -> Tensor:
        """`[..., width]` to the same."""
        return F.normalize(rows, dim=-1)


class Permuted(nn.Module):
    """A fixed permutation of the last dimension, of width `groups` times something.

    Read as `[groups, width / groups]` and written transposed, or with its halves swapped.
    """

    def __init__(self, groups: int | None) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, states: Tensor) -> Tensor:
        """`[..., width]` to the same."""
        if self.groups is None:
            return states.roll(states.shape[-1] // 2, dims=-1)
        split = states.unflatten(-1, (self.groups, -1))
        return split.transpose(-1, -2).flatten(-2)


def _table_operation(operation: TableOperation, vocabulary: int, width: int) -> nn.Module:
    if isinstance(operation, LowRankAddition):
        return LowRankAdded(vocabulary, width, operation.rank)
    if isinstance(operation, LowRankMultiplication):
        return LowRankMultiplied(width, operation.rank)
    return Shifted(width) if isinstance(operation, Shift) else UnitRowed()


def _transform(settings: CouplingSettings, width: int, output_width: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for operation in settings.transform:
        modules.append(_operation(operation, width, output_width))
        if isinstance(operation, Linear):
            width = operation.width or output_width
    return nn.Sequential(*modules)


def _operation(operation: Operation, width: int, output_width: int) -> nn.Module:
    if isinstance(operation, Linear):
        linear = nn.Linear(width, operation.width or output_width, bias=operation.bias)
        return linear.requires_grad_(operation.trained)
    if isinstance(operation, Activation):
        return ACTIVATIONS[operation.kind]()
    if isinstance(operation, HalfSwap | ChannelShuffle):
        return Permuted(operation.groups if isinstance(operation, ChannelShuffle) else None)
    assert isinstance(operation, Norm)
    norm = nn.LayerNorm if operation.kind == "layer_norm" else nn.RMSNorm
    return norm(width, eps=operation.epsilon)
