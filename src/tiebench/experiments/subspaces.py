"""How much of the output table lies outside the columns of the input table (Inan et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from tiebench.analysis.alignment import residual, spectrum
from tiebench.experiments.saved_tables import INPUT, OUTPUT, Saved
from tiebench.model.lm import LanguageModel
from tiebench.training.augmented import augmented_losses
from tiebench.training.streams import Chunks
from tiebench.training.subspace_runs import Mixture

Measured = Iterator[tuple[str, float]]


def subspace_rows(saved: Saved, run: str, seed: int, mixture: Mixture, chunks: Chunks) -> Measured:
    """Metrics of one model and their values.

    `residual`: |W - P W| / |W| of the output table W `[n, d]` and the projection P onto the columns
    of the input table; `initial_residual`: before training; `chance`: of independent random tables.
    `cross_entropy`: nats per predicted word of the training text, read in parts side by side as in
    training, each from a state of zeros. With an augmented loss: `augmented_loss`, per word, times
    temperature^2 times vocabulary; and `augmented_constant`, the least that it is where every word
    is predicted alike.

    Args:
        saved: models of the family.
        mixture: what the run minimizes.
        chunks: of the run's training.
    """
    tokens = np.unique(chunks.parts)
    for initial, name in ((False, "residual"), (True, "initial_residual")):
        first, second = (
            saved.matrix(run, seed, side, tokens, initial=initial) for side in (INPUT, OUTPUT)
        )
        yield name, outside(first, second)
    yield "chance", math.sqrt(max(0.0, 1 - first.shape[1] / len(tokens)))
    model = saved.model(run, seed)
    plain, soft = losses(model, chunks, mixture.temperature)
    yield "cross_entropy", plain
    if mixture.temperature is not None:
        factor = mixture.temperature**2 * saved.vocabulary
        yield "augmented_loss", factor * soft
        with torch.no_grad():
            similar = model.coupling.input_matrix().double()
        targets = torch.cat([chunks[i][1] for i in range(len(chunks))])
        weights = torch.bincount(targets, minlength=saved.vocabulary).double() / len(targets)
        yield "augmented_constant", factor * least_constant(similar, weights, mixture.temperature)


def outside(first: np.ndarray, second: np.ndarray) -> float:
    """The relative residual of the second table outside the columns of the first, `[n, d]` each."""
    values, right = spectrum(first)
    return residual(first @ (right / values), second)


@torch.no_grad()
def losses(model: LanguageModel, chunks: Chunks, temperature: float | None) -> tuple[float, float]:
    """Cross-entropy and augmented loss in nats per word of a text in parts side by side."""
    table, bias = model.coupling.output_matrix(), model.coupling.bias
    similar = model.coupling.input_matrix()
    plain, soft, count, state = 0.0, 0.0, 0, None
    for index in range(len(chunks)):
        ids, targets = chunks[index]
        states, state = model.advance(ids, state)
        if temperature is None:
            plain += float(model.loss_beside(states, targets))
        else:
            given = (states, table, bias, similar, targets, temperature)
            _, apart, divergence = augmented_losses(*given)
            plain, soft = plain + float(apart), soft + float(divergence)
        count += len(targets)
    return plain / count, soft / count


def least_constant(similar: Tensor, weights: Tensor, temperature: float) -> float:
    """The augmented loss of the best prediction that is the same for every word, in nats.

    The divergence of the softened targets from their mean.

    Args:
        similar: `[vocabulary, width]`.
        weights: `[vocabulary]`, how often each word is predicted; they sum to 1.
    """
    total = -torch.zeros((), dtype=similar.dtype)
    mean = torch.zeros(len(similar), dtype=similar.dtype)
    for part in torch.arange(len(similar)).split(512):
        logs = (similar[part] @ similar.T / temperature).log_softmax(dim=1)
        shares = logs.exp()
        total += weights[part] @ (shares * logs).sum(dim=1)
        mean += weights[part] @ shares
    return float(total + torch.special.entr(mean).sum())  # also where a share is 0
