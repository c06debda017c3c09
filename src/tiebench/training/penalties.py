"""What training adds to the cross-entropy: penalties on tables and maps, the augmented loss.

None of it is part of a recorded loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tiebench.model.lm import LanguageModel
from tiebench.model.loss import chunk_rows
from tiebench.model.products import add_product, linear, write_product
from tiebench.training.settings import AddedSettings


def penalty(
    model: LanguageModel,
    training: AddedSettings,
    states: Tensor,
    targets: Tensor,
    count: int,
    share: float,
) -> Tensor | None:
    """What these predictions add to the loss of an update.

    Args:
        states: `[n, output_width]`, what the output matrix is applied to.
        targets: `[n]` ids.
        count: what the sum of the losses of all predictions of the update is divided by.
        share: the share of these predictions in the update, and so of what does not depend on them.

    Returns:
        A differentiable number; None where the training adds nothing.
    """
    parts = []
    coupling = model.coupling
    if training.tie_penalty:
        distance = (coupling.input_table - coupling.output_table).square().sum()
        parts.append(share * training.tie_penalty * distance)
    if training.projection_penalty:
        maps = [x.weight for x in coupling.transform if isinstance(x, nn.Linear)]
        size = torch.stack([x.square().sum() for x in maps if x.requires_grad]).sum()
        parts.append(share * training.projection_penalty * size)
    if training.augmented is not None:
        soft = training.augmented
        with torch.no_grad():
            similar = coupling.input_matrix()
        divergence = summed_augmented_loss(
            states, coupling.output_matrix(), coupling.bias, similar, targets, soft.temperature
        )
        parts.append(soft.factor(len(similar)) / count * divergence)
    return torch.stack(parts).sum() if parts else None


def minimized(loss: Tensor, added: Tensor | None, training: AddedSettings) -> Tensor:
    """What an update descends: the cross-entropy as far as it counts, and what is added to it."""
    share = training.cross_entropy_share
    if added is not None and share == 0:
        return added
    kept = loss if share == 1 else share * loss
    return kept if added is None else kept + added


ARRAYS = 5
"""Of the size of a chunk's logits, held at the same time."""


class _Augmented(torch.autograd.Function):
    """Gradients are taken while the logits of a chunk are there, as in `tiebench.model.loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor | None,
        similar: Tensor,
        targets: Tensor,
        temperature: float,
    ) -> Tensor:
        total = states.new_zeros(())
        grad_states, grad_table = torch.empty_like(states), torch.zeros_like(table)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        rows = max(1, chunk_rows(table) // ARRAYS)
        for start in range(0, len(states), rows):
            span = slice(start, start + rows)
            x = states[span]
            predicted = linear(x, table, bias).div_(temperature).log_softmax(dim=1)
            wanted = linear(similar[targets[span]], similar, None)
            wanted = wanted.div_(temperature).log_softmax(dim=1)
            share = wanted.exp()
            total += torch.dot(share.flatten(), (wanted - predicted).flatten())
            gradient = predicted.exp_().sub_(share).div_(temperature)
            write_product(grad_states[span], gradient, table)
            add_product(grad_table, gradient.T, x, first=False)
            if grad_bias is not None:
                grad_bias += gradient.sum(dim=0)
        ctx.save_for_backward(grad_states, grad_table, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        states, table, bias = ctx.saved_tensors
        scaled = None if bias is None else bias * gradient
        return states * gradient, table * gradient, scaled, None, None, None


def summed_augmented_loss(
    states: Tensor,
    table: Tensor,
    bias: Tensor | None,
    similar: Tensor,
    targets: Tensor,
    temperature: float,
) -> Tensor:
    """Sum of KL(y~ || y^) over `n` predictions (Inan et al. 2017, section 3), differentiable.

    y^ is the prediction at the temperature; y~ the softmax, at the same temperature, of the inner
    products of the target's row with all rows of `similar`, which is taken as constant.

    Args:
        states: `[n, output_width]`.
        table: `[vocabulary, output_width]`.
        bias: `[vocabulary]` or None.
        similar: `[vocabulary, input_width]`.
        targets: `[n]` ids.
    """
    return _Augmented.apply(states, table, bias, similar, targets, temperature)
