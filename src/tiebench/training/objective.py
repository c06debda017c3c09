"""What an update descends: the cross-entropy, penalties on tables and maps, the augmented loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tiebench.model.coupling import Coupling
from tiebench.model.lm import LanguageModel
from tiebench.training.augmented import augmented_losses
from tiebench.training.settings import AddedSettings


def objective(
    model: LanguageModel,
    training: AddedSettings,
    states: Tensor,
    targets: Tensor,
    count: int,
    share: float,
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of these predictions, which is what is recorded, and what is minimized.

    Both are numbers; the second is differentiable, the first may be the same.

    Args:
        states: `[n, output_width]`, what the output matrix is applied to.
        targets: `[n]` ids.
        count: what the sum of the losses of all predictions of the update is divided by.
        share: the share of these predictions in the update, and so of what does not depend on them.
    """
    coupling, soft = model.coupling, training.augmented
    if soft is None:
        loss = minimized = model.loss_of(states, targets) / count
    else:
        with torch.no_grad():
            similar = coupling.input_matrix()
        weighted, summed, _ = augmented_losses(
            states, coupling.output_matrix(), coupling.bias, similar, targets, soft.temperature,
            training.cross_entropy_share, soft.factor(len(similar)),
        )  # fmt: skip
        loss, minimized = summed / count, weighted / count
    added = penalty(coupling, training, share)
    return loss, minimized if added is None else minimized + added


def penalty(coupling: Coupling, training: AddedSettings, share: float) -> Tensor | None:
    """A share of what does not depend on the predictions; None where the training has none."""
    parts = []
    if training.tie_penalty:
        distance = (coupling.input_table - coupling.output_table).square().sum()
        parts.append(share * training.tie_penalty * distance)
    if training.projection_penalty:
        maps = [x.weight for x in coupling.transform if isinstance(x, nn.Linear)]
        size = torch.stack([x.square().sum() for x in maps if x.requires_grad]).sum()
        parts.append(share * training.projection_penalty * size)
    return torch.stack(parts).sum() if parts else None
