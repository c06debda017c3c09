"""What a sweep measures beside losses: spikes, logits, gradients too small for half precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from tiebench.model.lm import TABLES, LanguageModel
from tiebench.training.batches import Batch
from tiebench.training.validation import unigram_counts

SPIKE_WINDOW = 10
"""Updates whose training losses a spike is held against."""
SPIKE_DEVIATIONS = 6.0
"""How many of their standard deviations above their mean a spike is."""
FORMATS = {"float16": torch.float16, "bfloat16": torch.bfloat16}
"""Half-precision formats by name."""


def spikes(losses: Sequence[float]) -> int:
    """Updates at which the training loss is a spike.

    A loss is a spike when it is more than SPIKE_DEVIATIONS standard deviations above the mean of
    the SPIKE_WINDOW losses in a row before it whose mean is the lowest so far. The windows end at
    the update before at the latest; the first SPIKE_WINDOW updates are never spikes.

    Args:
        losses: nats, one per update.
    """
    count, lowest, limit = 0, np.inf, np.inf
    for at in range(SPIKE_WINDOW, len(losses)):
        window = np.asarray(losses[at - SPIKE_WINDOW : at])
        if window.mean() < lowest:
            lowest = float(window.mean())
            limit = lowest + SPIKE_DEVIATIONS * float(window.std(ddof=1))
        count += losses[at] > limit
    return int(count)


def unigram_loss(
    tokens: Mapping[str, np.ndarray], targets: Mapping[str, np.ndarray], vocabulary: int
) -> float:
    """Nats per token of causal targets, by each language's token frequencies in training (one added
    to every count)."""
    losses = []
    for language, counts in unigram_counts(tokens, vocabulary, causal=True).items():
        shares = (counts + 1) / (counts + 1).sum()
        losses.append(-np.log(shares)[targets[language]])
    return float(np.concatenate(losses).mean())


@torch.no_grad()
def logit_std(model: LanguageModel, batches: Sequence[Batch], device: torch.device) -> float:
    """Standard deviation of the logits over the vocabulary, in the mean over predictions."""
    found = []
    for batch in batches:
        ids, where = (torch.from_numpy(x).to(device) for x in (batch.ids, batch.where))
        states = model.predicting_states(ids, where)
        bias = model.coupling.bias
        logits = states @ model.coupling.output_matrix().T + (0 if bias is None else bias)
        found.append(logits.double().std(dim=1))
    return float(torch.cat(found).mean())


def vanishing(model: LanguageModel, batch: Batch, device: torch.device) -> dict[str, float]:
    """Shares of the entries of the vocabulary tables' gradient that half precision cannot hold.

    The gradient is that of the mean loss of one batch in float32, without penalties, loss scaling
    or clipping. `zero`: exactly zero, as in rows of an input table whose tokens the batch lacks. Of
    the other entries, by format: `below_normal`, smaller than its smallest normal number, which
    keeps fewer digits or none; `below_subnormal`, smaller than its smallest number, which is lost
    (or rounded up to it).
    """
    ids, where, targets = (
        torch.from_numpy(x).to(device) for x in (batch.ids, batch.where, batch.targets)
    )
    tables = [parameter for name, parameter in model.named_parameters() if name in TABLES]
    loss = model.summed_loss(ids, where, targets) / len(targets)
    gradients = torch.autograd.grad(loss, tables)
    sizes = torch.cat([gradient.abs().flatten() for gradient in gradients])
    held = sizes[sizes > 0]
    found = {"zero": 1 - len(held) / len(sizes)}
    for name, kind in FORMATS.items():
        limits = torch.finfo(kind)
        for limit, least in (
            ("normal", limits.smallest_normal),
            ("subnormal", limits.smallest_normal * limits.eps),
        ):
            share = float((held < least).double().mean()) if len(held) else float("nan")
            found[f"{name}_below_{limit}"] = share
    return found
