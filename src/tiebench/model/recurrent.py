"""The recurrent body: layers of LSTM whose state is carried from one chunk of text to the next.

Shapes: `seq` (steps, the first dimension here), `batch` (texts read side by side), `hidden`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from tiebench.model.settings import BodySettings

State = tuple[Tensor, Tensor]
"""Hidden and cell state of every layer, `[layers, batch, hidden]` each."""


@dataclass(frozen=True)
class Dropout:
    """What is dropped of one chunk, as shares; what is kept is scaled up.

    Attributes:
        input: of the looked-up rows.
        between: of what a layer gives the next one.
        recurrent: of what a layer gives itself, the same at all steps (Gal & Ghahramani 2016).
        output: of what the last layer gives the head.
        repeated: one draw for all steps (Gal & Ghahramani 2016), or one for each step (Zaremba et
            al. 2014).
        generator: of the draws.
    """

    input: float
    between: float
    recurrent: float
    output: float
    repeated: bool
    generator: torch.Generator

    def apply(self, values: Tensor, share: float) -> Tensor:
        """`[seq, batch, hidden]` to the same."""
        seq, batch, hidden = values.shape
        mask = self._mask((1 if self.repeated else seq, batch, hidden), share)
        return values if mask is None else values * mask.to(values)

    def recurrent_mask(self, state: Tensor) -> Tensor | None:
        """What `[batch, hidden]` states are multiplied by at every step; None for nothing."""
        mask = self._mask(tuple(state.shape), self.recurrent)
        return None if mask is None else mask.to(state)

    def _mask(self, shape: tuple[int, ...], share: float) -> Tensor | None:
        if share == 0:
            return None
        kept = torch.rand(shape, generator=self.generator) >= share
        return kept.float().div_(1 - share)


class Layer(nn.Module):
    """One LSTM (Hochreiter & Schmidhuber 1997, with forget gates) as torch's kernel computes it.

    The rows are those of the input gate, the forget gate, the candidate and the output gate. There
    is one bias, as in the equations: the kernel's second one is a constant zero.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.input_map = nn.Parameter(torch.empty(4 * width, width))
        self.recurrent_map = nn.Parameter(torch.empty(4 * width, width))
        self.bias = nn.Parameter(torch.empty(4 * width))

    def forward(
        self, values: Tensor, hidden: Tensor, cell: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`[seq, batch, hidden]` inputs to outputs, and the last hidden and cell state.

        Args:
            hidden: `[batch, hidden]`, the state before the first step, as `cell`.
            mask: what the hidden state is multiplied by on its way to the next step, or None.
        """
        weights = [self.input_map, self.recurrent_map, self.bias, torch.zeros_like(self.bias)]
        if mask is None:
            state = hidden[None], cell[None]
            out, last, memory = torch.lstm(
                values, state, weights, True, 1, 0.0, self.training, False, False
            )
            return out, last[0], memory[0]
        outputs = []
        for step in values:
            hidden, cell = torch.lstm_cell(step, (hidden * mask, cell), *weights)
            outputs.append(hidden)
        return torch.stack(outputs), hidden, cell


class Recurrent(nn.Module):
    """Layers of LSTM, each of the body's width.

    Args:
        settings: the shape.
    """

    def __init__(self, settings: BodySettings) -> None:
        super().__init__()
        self.settings = settings
        self.layers = nn.ModuleList(Layer(settings.width) for _ in range(settings.layers))

    def advance(
        self, values: Tensor, state: State | None = None, dropout: Dropout | None = None
    ) -> tuple[list[Tensor], State]:
        """Read a chunk.

        Args:
            values: inputs at the body's width, `[seq, batch, hidden]`.
            state: what an earlier chunk left; None for zeros.
            dropout: of this chunk; None in evaluation.

        Returns:
            layers + 1 tensors `[seq, batch, hidden]`, the inputs and what each layer gives; and the
            state after the last step.
        """
        if state is None:
            zeros = values.new_zeros(len(self.layers), values.shape[1], self.settings.width)
            state = zeros, zeros
        shares = [] if dropout is None else [dropout.input, *self._between(dropout), dropout.output]
        states = [values if dropout is None else dropout.apply(values, shares[0])]
        left = []
        for index, layer in enumerate(self.layers):
            hidden, cell = state[0][index], state[1][index]
            mask = None if dropout is None else dropout.recurrent_mask(hidden)
            out, *last = layer(states[-1], hidden, cell, mask)
            states.append(out if dropout is None else dropout.apply(out, shares[index + 1]))
            left.append(last)
        hidden, cell = (torch.stack(parts) for parts in zip(*left, strict=True))
        return states, (hidden, cell)

    def _between(self, dropout: Dropout) -> list[float]:
        return [dropout.between for _ in pairwise(self.layers)]

    def forward(
        self,
        looked_up: Tensor,
        attended: Tensor | None = None,
        input_map: Callable[[Tensor], Tensor] | None = None,
    ) -> list[Tensor]:
        """States of every layer, as `tiebench.model.body.Body` gives them.

        Args:
            looked_up: `[batch, seq, input_width]`, texts from their beginning.
            attended: not needed: padding stands at the end, which no earlier state sees.
            input_map: from the input table's width to the body's; None where they are equal.

        Returns:
            layers + 1 tensors `[batch, seq, hidden]`.
        """
        values = looked_up if input_map is None else input_map(looked_up)
        states, _ = self.advance(values.transpose(0, 1))
        return [state.transpose(0, 1) for state in states]
