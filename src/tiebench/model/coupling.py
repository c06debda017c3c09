"""The coupling: the vocabulary tables, the maps between widths, and the head's transform.

A language model is `embed -> body -> head`. This module is the first and the last of these and
knows nothing of the second. One `Parameter` when tied: `output_table` is then a view of
`input_table`'s attribute and not a second entry, so that there is one optimizer state, one count
and one tensor in a checkpoint, also after `load_state_dict(assign=True)`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tiebench.model.settings import Activation, CouplingSettings, Linear, Norm, Operation

ACTIVATIONS = {"gelu": nn.GELU, "relu": nn.ReLU, "tanh": nn.Tanh, "silu": nn.SiLU}


class Coupling(nn.Module):
    """Both ends of a language model.

    Args:
        settings: tables, widths, transform, bias.
        vocabulary: rows of each table.
        width: width of the body, `hidden` in the shapes below.

    Raises:
        SettingsError: the widths do not meet (`CouplingSettings.widths`).
    """

    def __init__(self, settings: CouplingSettings, vocabulary: int, width: int) -> None:
        super().__init__()
        input_width, output_width = settings.widths(width)
        self.tied = settings.tied
        self.input_table = nn.Parameter(torch.empty(vocabulary, input_width))
        if not settings.tied:
            self.untied_output_table = nn.Parameter(torch.empty(vocabulary, output_width))
        self.input_map = nn.Linear(input_width, width) if input_width != width else nn.Identity()
        """From the input table's width to the body's; `lookup` comes before it."""
        self.transform = _transform(settings, width, output_width)
        self.bias = nn.Parameter(torch.empty(vocabulary)) if settings.bias else None

    @property
    def output_table(self) -> nn.Parameter:
        """The matrix of the logits, `[vocabulary, output_width]`; the input table when tied."""
        return self.input_table if self.tied else self.untied_output_table

    def lookup(self, ids: Tensor) -> Tensor:
        """`[batch, seq]` ids to rows of the input table, `[batch, seq, input_width]`."""
        return F.embedding(ids, self.input_table)

    def head_states(self, states: Tensor) -> Tensor:
        """`[n, hidden]` states of the body to `[n, output_width]`, what the table is applied to."""
        return self.transform(states)

    def logits(self, states: Tensor) -> Tensor:
        """`[n, hidden]` states of the body to `[n, vocabulary]` logits."""
        return F.linear(self.head_states(states), self.output_table, self.bias)


def _transform(settings: CouplingSettings, width: int, output_width: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for operation in settings.transform:
        modules.append(_operation(operation, width, output_width))
        if isinstance(operation, Linear):
            width = operation.width or output_width
    return nn.Sequential(*modules)


def _operation(operation: Operation, width: int, output_width: int) -> nn.Module:
    if isinstance(operation, Linear):
        return nn.Linear(width, operation.width or output_width, bias=operation.bias)
    if isinstance(operation, Activation):
        return ACTIVATIONS[operation.kind]()
    assert isinstance(operation, Norm)
    norm = nn.LayerNorm if operation.kind == "layer_norm" else nn.RMSNorm
    return norm(width, eps=operation.epsilon)
