"""Cross-entropy over a large vocabulary, in chunks that bound memory.

Logits exist for one chunk of positions at a time: the gradient is taken while they are there, so
that nothing of size positions x vocabulary is kept between forward and backward, and no product
is computed twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from tiebench.model.products import add_product, linear, write_product

CHUNK_ELEMENTS = 1 << 24
"""Logits held at a time: 64 MiB in float32."""


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, rows: int
    ) -> tuple[Tensor, Tensor]:
        losses = states.new_empty(len(states))
        correct = torch.empty(len(states), dtype=torch.bool, device=states.device)
        train = any(ctx.needs_input_grad)
        grad_states = torch.empty_like(states) if train else None
        grad_table = torch.empty_like(table) if train else None
        grad_bias = torch.zeros_like(bias) if train and bias is not None else None
        for part in torch.arange(len(states), device=states.device).split(rows):
            span = slice(int(part[0]), int(part[-1]) + 1)
            x, y = states[span], targets[span, None]
            logits = linear(x, table, bias)
            at_target = logits.gather(1, y)
            if train:  # the place of the largest costs more than its value
                top = logits.amax(dim=1, keepdim=True)
            else:
                top, where = logits.max(dim=1, keepdim=True)
                correct[span] = (where == y).squeeze(1)
            probabilities = logits.sub_(top).exp_()
            total = probabilities.sum(dim=1, keepdim=True)
            losses[span] = (total.log() + top - at_target).squeeze(1)
            if grad_states is not None and grad_table is not None:
                probabilities.div_(total).scatter_add_(1, y, torch.full_like(at_target, -1.0))
                write_product(grad_states[span], probabilities, table)
                add_product(grad_table, probabilities.T, x, first=span.start == 0)
                if grad_bias is not None:
                    grad_bias.add_(probabilities.sum(dim=0))
        ctx.save_for_backward(grad_states, grad_table, grad_bias)
        ctx.mark_non_differentiable(correct)
        ctx.set_materialize_grads(False)
        return losses.sum() if train else losses, correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, _: Any) -> tuple[Tensor | None, ...]:
        # In place: they are nobody else's, and autograd refuses a second pass over them.
        grad_states, grad_table, grad_bias = ctx.saved_tensors
        return (
            grad_states.mul_(grad_loss),
            grad_table.mul_(grad_loss),
            None if grad_bias is None else grad_bias.mul_(grad_loss),
            None,
            None,
        )


def summed_cross_entropy(
    states: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor
) -> Tensor:
    """The sum of the losses of `n` predictions, in nats, differentiable.

    Args:
        states: `[n, width]`, after the head's transform.
        table: `[vocabulary, width]`.
        bias: `[vocabulary]` or None.
        targets: `[n]` ids.
    """
    return _LinearCrossEntropy.apply(states, table, bias, targets, chunk_rows(table))[0]


@torch.no_grad()
def cross_entropy_outcomes(
    states: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Loss in nats `[n]` and whether the target has the highest logit `[n]`, one per prediction."""
    return _LinearCrossEntropy.apply(
        states.detach(),
        table.detach(),
        None if bias is None else bias.detach(),
        targets,
        chunk_rows(table),
    )


def chunk_rows(table: Tensor) -> int:
    """Positions whose logits over a table `[vocabulary, width]` are held at a time."""
    return max(1, CHUNK_ELEMENTS // len(table))
