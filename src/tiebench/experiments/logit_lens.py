"""The logit lens (nostalgebraist 2020): what the head makes of the states of every layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from tiebench.model.body import Body
from tiebench.model.lm import LanguageModel
from tiebench.training.batches import Batch, validation_batches
from tiebench.training.settings import TrainingSettings


def windows(
    tokens: Mapping[str, np.ndarray], training: TrainingSettings, vocabulary: int, count: int
) -> list[Batch]:
    """Validation windows, `count` a language at most, with the predictions that all runs share."""
    few = training.model_copy(update={"validation_windows": count})
    return [x for held in validation_batches(tokens, few, vocabulary).values() for x in held]


@torch.no_grad()
def lens_rows(
    model: LanguageModel, batches: list[Batch], device: torch.device
) -> Iterator[tuple[int, str, float]]:
    """(layer, metric, value) of each layer, 0 the embedding.

    The last norm and the head are applied to a layer's states. `loss`: nats per predicted token.
    `divergence`: KL of the layer's prediction from the last layer's, in nats.
    """
    losses: dict[int, list[np.ndarray]] = {}
    divergences: dict[int, list[np.ndarray]] = {}
    norm = model.body.final_norm if isinstance(model.body, Body) else nn.Identity()
    for batch in batches:
        ids, where, targets = (
            torch.from_numpy(x).to(device) for x in (batch.ids, batch.where, batch.targets)
        )
        states = model.states(ids)
        *inner, last = [state.flatten(0, 1)[where] for state in states]
        final = F.log_softmax(model.coupling.logits(last), dim=-1)
        for layer, state in enumerate([*inner, last]):
            predicted = final
            if layer < len(inner):
                logits = model.coupling.logits(norm(state))
                predicted = F.log_softmax(logits, dim=-1)
            loss = F.nll_loss(predicted, targets, reduction="none")
            divergence = (final.exp() * (final - predicted)).sum(dim=-1)
            losses.setdefault(layer, []).append(loss.double().cpu().numpy())
            divergences.setdefault(layer, []).append(divergence.double().cpu().numpy())
    for layer in losses:
        yield layer, "loss", float(np.concatenate(losses[layer]).mean())
        yield layer, "divergence", float(np.concatenate(divergences[layer]).mean())
