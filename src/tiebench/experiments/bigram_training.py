"""Training a language model on pair counts: exact full-batch updates, and what is measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tiebench.evaluation.adam import Adam
from tiebench.experiments.bigram_counts import Counts, asymmetry, centred
from tiebench.experiments.bigram_settings import BigramRun, BigramSettings, TableTraining
from tiebench.model.lm import LanguageModel
from tiebench.training.settings import updates_before_untying


class Objective:
    """The mean loss over the pairs of a matrix of counts.

    Args:
        counts: `[n, n]`, of input and target.
        device: where the logits are.
    """

    def __init__(self, counts: Counts, device: torch.device) -> None:
        shares = torch.from_numpy(counts / counts.sum())
        self.pairs = shares.to(device, torch.float32)
        self.inputs = shares.sum(1).to(device, torch.float32)

    def loss(self, logits: Tensor) -> float:
        """Nats per pair of logits `[n, n]`."""
        return self._loss(logits, logits.logsumexp(1))

    def loss_and_gradient(self, logits: Tensor) -> tuple[float, Tensor]:
        """The loss, and its gradient in the logits: expected less observed share of each pair."""
        normalizers = logits.logsumexp(1)
        expected = logits.sub(normalizers[:, None]).exp_().mul_(self.inputs[:, None])
        return self._loss(logits, normalizers), expected.sub_(self.pairs)

    def _loss(self, logits: Tensor, normalizers: Tensor) -> float:
        observed = torch.dot(self.pairs.flatten(), logits.flatten())
        return float(torch.dot(self.inputs, normalizers) - observed)


@dataclass(frozen=True)
class Trained:
    """A run after its updates.

    Attributes:
        losses: on the training pairs before each update and after the last, `updates + 1`.
        valid: (update, loss on the validation pairs) where it was measured.
        measures: of the final logits, and the parameters.
    """

    losses: list[float]
    valid: list[tuple[int, float]]
    measures: dict[str, float]


def logits_of(model: LanguageModel) -> Tensor:
    """Logits of every token given every token, `[n, n]`."""
    ids = torch.arange(model.vocabulary, device=model.coupling.input_table.device)
    return model.coupling.logits(model.states(ids[:, None])[-1][:, 0])


def make_model(settings: BigramSettings, run: BigramRun, seed: int) -> LanguageModel:
    """The initialized model of a run, whose norm keeps its gain of 1."""
    model = LanguageModel(run.coupling, settings.body(), settings.vocabulary).initialize(seed)
    model.body.requires_grad_(False)
    training = run.training
    scales = training.input_gradient_scale, training.output_gradient_scale
    model.coupling.gradient_scales = scales
    return model


def train(
    settings: BigramSettings,
    run: BigramRun,
    seed: int,
    rate: float,
    pairs: tuple[Objective, Objective],
    device: torch.device,
    at: Sequence[int] = (),
) -> Trained | None:
    """Train a run.

    Args:
        pairs: the training and the validation objective.
        at: the updates after which the validation loss is measured; without any, as in a pilot,
            the final logits are not measured either.

    Returns:
        None where the loss or a parameter stops being finite.
    """
    model = make_model(settings, run, seed).to(device)
    optimizer = _optimizer(model, settings)
    train_pairs, valid_pairs = pairs
    losses: list[float] = []
    valid: list[tuple[int, float]] = []
    untied_at = updates_before_untying(run.training.untie_after, settings.updates)
    for step in range(settings.updates + 1):
        if step == untied_at:
            _untie(model, optimizer)
        logits = logits_of(model)
        loss, gradient = train_pairs.loss_and_gradient(logits.detach())
        if not math.isfinite(loss):
            return None
        losses.append(loss)
        if step in at:
            valid.append((step, valid_pairs.loss(logits.detach())))
        if step < settings.updates:
            _update(model, optimizer, logits, gradient, run.training, rate * _share(settings, step))
    return Trained(losses, valid, measure(model, train_pairs) if at else {})


def _optimizer(model: LanguageModel, settings: BigramSettings) -> Adam:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return Adam(parameters, betas=(settings.betas[0], settings.betas[1]), epsilon=settings.epsilon)


def _share(settings: BigramSettings, step: int) -> float:
    """Share of the learning rate at an update, from 0: linear, to zero after the last."""
    return 1 - step / settings.updates


def _untie(model: LanguageModel, optimizer: Adam) -> None:
    """Two tables, each with the values of the one and a copy of its moments."""
    shared = next(i for i, p in enumerate(optimizer.parameters) if p is model.coupling.input_table)
    model.untie()
    optimizer.parameters.append(model.coupling.output_table)
    optimizer.decays.append(optimizer.decays[shared])
    for moments in (optimizer.means, optimizer.squares):
        moments.append(moments[shared].clone())


def _update(
    model: LanguageModel,
    optimizer: Adam,
    logits: Tensor,
    gradient: Tensor,
    training: TableTraining,
    rate: float,
) -> None:
    model.zero_grad()
    logits.backward(gradient)
    if training.tie_penalty:
        apart = model.coupling.input_table - model.coupling.output_table
        (training.tie_penalty * apart.square().sum()).backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in optimizer.parameters]
    optimizer.update(gradients, [rate] * len(gradients))


@torch.no_grad()
def measure(model: LanguageModel, pairs: Objective) -> dict[str, float]:
    """What the final logits are.

    Returns:
        `rank`: numerical, of the row-centred logits, which are all that a softmax sees.
        `effective_rank`: exp of the entropy of their singular values (Roy and Vetterli 2007).
        `asymmetry`: of the logits as they are (`bigram_counts.asymmetry`).
        `form_asymmetry`: of the form behind them, the logits less a bias and with each row
        multiplied by the size of its input row, which the norm has divided out: a factor per row,
        the temperature of its softmax, hides that a table's product with itself is symmetric.
        `form_negative`: the share of negative eigenvalues, by size, in the symmetric part of that
        form, centred; 0 for a table's product with itself.
        `repeats`: the share of pairs of a token with itself that the model expects.
        `distance`: of the two sides' tables, relative to their mean norm (equal widths only).
        `parameters`: of the coupling.
    """
    coupling = model.coupling
    logits = logits_of(model).double().cpu().numpy()
    rows = coupling.input_map(coupling.input_matrix()) * coupling.input_scale
    sizes = rows.double().square().mean(1).sqrt().cpu().numpy()
    rank, effective = _ranks(logits - logits.mean(1, keepdims=True))
    bias = 0.0 if coupling.bias is None else coupling.bias.double().cpu().numpy()
    form = centred((logits - bias) * sizes[:, None])
    values = np.linalg.eigvalsh(form + form.T)
    measures: dict[str, Any] = {
        "rank": rank,
        "effective_rank": effective,
        "asymmetry": asymmetry(logits),
        "form_asymmetry": asymmetry(form),
        "form_negative": float(-values[values < 0].sum() / np.abs(values).sum()),
        "repeats": float(_repeats(logits) @ pairs.inputs.double().cpu().numpy()),
        "parameters": sum(p.numel() for p in coupling.parameters()),
    }
    tables = coupling.input_matrix(), coupling.output_matrix()
    if tables[0].shape == tables[1].shape:
        apart = float((tables[0] - tables[1]).norm())
        measures["distance"] = apart / float(tables[0].norm() + tables[1].norm()) * 2
    return {name: float(value) for name, value in measures.items()}


def _repeats(logits: np.ndarray) -> np.ndarray:
    """The probability of each token given itself, `[n]`."""
    highest = logits.max(1)
    shares = np.exp(logits.diagonal() - highest)
    return np.asarray(shares / np.exp(logits - highest[:, None]).sum(1))


def _ranks(matrix: np.ndarray) -> tuple[int, float]:
    """Numerical rank at the precision of float32, and effective rank."""
    values = np.sqrt(np.clip(np.linalg.eigvalsh(matrix @ matrix.T), 0, None))
    limit = values.max() * len(matrix) * np.finfo(np.float32).eps
    shares = values[values > limit] / values[values > limit].sum()
    if not len(shares):
        return 0, 0.0
    return len(shares), float(np.exp(-(shares * np.log(shares)).sum()))
