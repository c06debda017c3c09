"""The augmented loss of Inan et al. 2017 and the cross-entropy beside it, from the same logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tiebench.model.loss import chunk_rows
from tiebench.model.products import add_product, linear, write_product

ARRAYS = 2
"""Of the size of a chunk's logits: softened targets and their logarithms, held at the same time."""
PART_ELEMENTS = 1 << 21
"""Logits computed at a time, 8 MiB in float32, of which six arrays are held: what passes over them
finds most of them in the cache."""


class _Augmented(torch.autograd.Function):
    """Gradients are taken while the logits are there, as in `tiebench.model.loss`.

    Words that occur again in a chunk are softened once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor | None,
        similar: Tensor,
        targets: Tensor,
        temperature: float,
        plain: float,
        soft: float,
        train: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        cross_entropy, divergence = states.new_zeros(2).unbind()
        grad_states = torch.empty_like(states) if train else None
        grad_table = torch.zeros_like(table) if train else None
        grad_bias = torch.zeros_like(bias) if train and bias is not None else None
        rows = max(1, chunk_rows(table) // ARRAYS)
        part = max(1, min(rows, PART_ELEMENTS // len(table)))
        for start in range(0, len(states), rows):
            words, places = targets[start : start + rows].unique(return_inverse=True)
            logs = linear(similar[words], similar, None).div_(temperature).log_softmax(dim=1)
            shares = logs.exp()
            for first in range(0, len(places), part):
                place = places[first : first + part]
                span = slice(start + first, start + first + len(place))
                x, y, wanted = states[span], targets[span, None], shares[place]
                logits = linear(x, table, bias)
                at_target = logits.gather(1, y)
                predicted = logits.div(temperature).log_softmax(dim=1)
                apart = logs[place].sub_(predicted)
                divergence += torch.dot(wanted.flatten(), apart.flatten())
                top = logits.amax(dim=1, keepdim=True)
                probabilities = logits.sub_(top).exp_()
                total = probabilities.sum(dim=1, keepdim=True)
                cross_entropy += (total.log() + top - at_target).sum()
                if grad_states is None or grad_table is None:
                    continue
                gradient = predicted.exp_().sub_(wanted).mul_(soft / temperature)
                if plain:
                    probabilities.mul_(plain / total)
                    gradient += probabilities.scatter_add_(1, y, torch.full_like(top, -plain))
                write_product(grad_states[span], gradient, table)
                add_product(grad_table, gradient.T, x, first=span.start == 0)
                if grad_bias is not None:
                    grad_bias += gradient.sum(dim=0)
            del logs, shares  # before the next ones are made
        ctx.save_for_backward(grad_states, grad_table, grad_bias)
        ctx.mark_non_differentiable(cross_entropy, divergence)
        ctx.set_materialize_grads(False)
        return plain * cross_entropy + soft * divergence, cross_entropy, divergence

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        # In place: they are nobody else's, and autograd refuses a second pass over them.
        states, table, bias = ctx.saved_tensors
        scaled = None if bias is None else bias.mul_(gradient)
        return states.mul_(gradient), table.mul_(gradient), scaled, *[None] * 6


def augmented_losses(
    states: Tensor,
    table: Tensor,
    bias: Tensor | None,
    similar: Tensor,
    targets: Tensor,
    temperature: float,
    plain: float = 1.0,
    soft: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over `n` predictions, in nats: a weighted one, the cross-entropy, and KL(y~ || y^).

    y^ is the prediction at the temperature; y~ the softmax, at the same temperature, of the inner
    products of the target's row with all rows of `similar`, which is taken as constant (Inan et al.
    2017, section 3). Only the weighted sum is differentiable.

    Args:
        states: `[n, output_width]`.
        table: `[vocabulary, output_width]`.
        bias: `[vocabulary]` or None.
        similar: `[vocabulary, input_width]`.
        targets: `[n]` ids.
        temperature: divides the logits of y^ and y~.
        plain: weight of the cross-entropy.
        soft: weight of the divergence.
    """
    given = (states, table, bias, similar, targets, temperature, plain, soft)
    return _Augmented.apply(*given, torch.is_grad_enabled())
