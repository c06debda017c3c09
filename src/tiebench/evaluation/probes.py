"""Probes: two dense layers on a mix of a frozen encoder's layers, many trained at once.

Edge probing (Tenney et al. 2019a, section 3; RemBERT, section 5.3 and table 9) asks what the
states of a span, or of a pair, tell about its label. The probes of a task differ in the layers
they may read: each alone, all up to one, or all (Tenney et al. 2019b, section 3).

Shapes: `probes`, `layers` (layers of the encoder + 1), `width` (spans * hidden of the encoder).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tiebench.errors import TrainingError
from tiebench.evaluation.adam import Adam
from tiebench.evaluation.probing_settings import ProbingSettings
from tiebench.labels.parts import Part
from tiebench.model.tensors import generator_of

ROWS_PER_BATCH = 2048
"""Targets predicted at once; changes nothing but memory."""
MIX_RATE = 10
"""Learning rate of the mixes, in that of the dense layers: a few numbers that all the others hang
on would hardly leave the even mix in the few updates that a small treebank gives."""
MIX, CONTROL = "mix", "control"


@dataclass(frozen=True)
class Examples:
    """The targets of one task in one part."""

    spans: Tensor
    """`[targets, 1 or 2]` int64, rows of the span vectors."""
    labels: Tensor
    """`[targets]` int64, classes."""
    control: Tensor
    """`[targets]` int64, classes of the control task."""

    def to(self, device: torch.device) -> Examples:
        """The same on a device."""
        return Examples(*(x.to(device) for x in (self.spans, self.labels, self.control)))

    def answers(self, names: Sequence[str]) -> Tensor:
        """What each probe is to say, `[probes, targets]`."""
        return torch.stack([self.control if name == CONTROL else self.labels for name in names])


@dataclass(frozen=True)
class Outcome:
    """One trained probe, at its best epoch."""

    epoch: int
    """Counted from 1; the first of those with the best accuracy."""
    development_accuracy: float
    weights: np.ndarray
    """`[layers]` float32, the mix."""
    predictions: np.ndarray
    """`[test targets]` int64, classes."""


def allowed_layers(layers: int) -> dict[str, list[int]]:
    """By the name of each probe, the layers it may read.

    `layer_l` reads one, `mix_upto_l` the first l + 1, `mix` all; `control` reads all too and is
    trained and scored on the labels of the control task (Hewitt and Liang 2019).
    """
    everything = list(range(layers))
    return {
        **{f"layer_{layer}": [layer] for layer in everything},
        **{f"mix_upto_{layer}": everything[: layer + 1] for layer in everything[1:-1]},
        MIX: everything,
        CONTROL: everything,
    }


class Probes(nn.Module):
    """Probes side by side: every parameter has one slice for each, and nothing is shared.

    A probe is scale * (softmax mix of layers) -> dense -> ReLU -> dense. The scale multiplies the
    product instead of the mix, which is the same and cheaper. Each layer is first divided by one
    number, its root mean square over the training targets: a mix would otherwise prefer a layer
    for the size of its states, and no probe could use the layer below an untrained body, whose
    states are small. What a probe can express stays the same.

    Args:
        allowed: layers by probe.
        sizes: `[layers]`, root mean squares.
        width: that of the input.
        hidden: that between the dense layers.
        classes: labels of the task.
    """

    allowed: Tensor
    sizes: Tensor

    def __init__(
        self,
        allowed: Mapping[str, Sequence[int]],
        sizes: Tensor,
        width: int,
        hidden: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.names, probes, layers = list(allowed), len(allowed), len(sizes)
        mask = torch.zeros(probes, layers, dtype=torch.bool)
        for row, held in enumerate(allowed.values()):
            mask[row, list(held)] = True
        self.register_buffer("allowed", mask)
        self.register_buffer("sizes", sizes)
        # With one layer each there is nothing to learn, and no gradient of the input to compute.
        learnt = bool((mask.sum(1) > 1).any())
        self.mix = nn.Parameter(torch.zeros(probes, layers), requires_grad=learnt)
        self.scale = nn.Parameter(torch.ones(probes, 1, 1))
        self.first = nn.Parameter(torch.empty(probes, width, hidden))
        self.first_bias = nn.Parameter(torch.zeros(probes, 1, hidden))
        self.second = nn.Parameter(torch.empty(probes, hidden, classes))
        self.second_bias = nn.Parameter(torch.zeros(probes, 1, classes))

    @torch.no_grad()
    def initialize(self, seed: int, task: str) -> Probes:
        """Draw each probe's maps from (seed, task, its name): normal with std 1/sqrt(inputs)."""
        for name, parameter in (("first", self.first), ("second", self.second)):
            for probe, slice_ in zip(self.names, parameter, strict=True):
                generator = generator_of(seed, task, probe, name)
                drawn = torch.empty(slice_.shape).normal_(generator=generator)
                slice_.copy_(drawn / math.sqrt(slice_.shape[0]))
        return self

    def weights(self) -> Tensor:
        """The mix of each probe, `[probes, layers]`, each row summing to 1."""
        return self.mix.masked_fill(~self.allowed, -math.inf).softmax(-1)

    def forward(self, states: Tensor) -> Tensor:
        """`[layers, batch, width]` to logits `[probes, batch, classes]`."""
        flat = states.flatten(1)
        # One product a probe: how a processor splits a joint one depends on how many there are.
        mixed = torch.stack([row @ flat for row in self.weights() / self.sizes])
        mixed = mixed.view(-1, *states.shape[1:])
        inner = torch.bmm(mixed, self.first) * self.scale + self.first_bias
        return torch.baddbmm(self.second_bias, F.relu(inner), self.second)


def train_probes(
    vectors: Tensor,
    parts: Mapping[Part, Examples],
    classes: int,
    settings: ProbingSettings,
    seed: int,
    task: str,
) -> dict[str, Outcome]:
    """Train and test every probe of a task.

    Cross-entropy, Adam, a learning rate that falls linearly to zero; of the epochs the best by
    development accuracy. A probe draws its start from (seed, task, its name) and shares no sum
    with another; the order of the targets is drawn from (seed, task) and is that of all. So a
    probe or a task more does not change the others, and probes differ by what they read alone.

    Args:
        vectors: `[layers, spans, hidden]` float32.
        parts: examples of `train`, `development` and `test`.
        classes: labels of the task.

    Raises:
        TrainingError: weights that are not finite.
    """
    allowed = allowed_layers(len(vectors))
    single = {name: held for name, held in allowed.items() if len(held) == 1}
    mixed = {name: held for name, held in allowed.items() if len(held) > 1}
    sizes = root_mean_squares(vectors, parts["train"].spans)
    width = parts["train"].spans.shape[1] * vectors.shape[2]
    outcomes: dict[str, Outcome] = {}
    for group in filter(None, (single, mixed)):
        probes = Probes(group, sizes, width, settings.hidden, classes)
        probes.initialize(seed, task).to(vectors.device)
        outcomes |= _train(probes, vectors, parts, settings, generator_of(seed, task), task)
    return {name: outcomes[name] for name in allowed}


def _train(
    probes: Probes,
    vectors: Tensor,
    parts: Mapping[Part, Examples],
    settings: ProbingSettings,
    order: torch.Generator,
    task: str,
) -> dict[str, Outcome]:
    train, names = parts["train"], probes.names
    size = len(train.labels)
    trained = [p for p in probes.parameters() if p.requires_grad]
    rates = [settings.learning_rate * (MIX_RATE if p is probes.mix else 1) for p in trained]
    adam = Adam(trained)
    answers = train.answers(names)
    best = torch.full((len(names),), -1.0, dtype=torch.float64)
    epochs = [0] * len(names)
    kept = [p.detach().clone() for p in trained]
    updates, done = settings.epochs * math.ceil(size / settings.batch_size), 0
    for epoch in range(1, settings.epochs + 1):
        shuffled = torch.randperm(size, generator=order).to(vectors.device)
        for rows in shuffled.split(settings.batch_size):
            logits = probes(gather(vectors, train.spans[rows]))
            losses = F.cross_entropy(
                logits.flatten(0, 1), answers[:, rows].flatten(), reduction="sum"
            )
            gradients = torch.autograd.grad(losses / len(rows), trained)
            adam.update(gradients, [rate * (1 - done / updates) for rate in rates])
            done += 1
        if not all(torch.isfinite(p).all() for p in trained):
            raise TrainingError(
                f"probes of {task}",
                found=f"weights that are not finite in epoch {epoch}",
                expected="finite values",
                mend="lower probing.learning_rate",
            )
        found = predict(probes, vectors, parts["development"].spans)
        right = found == parts["development"].answers(names)
        accuracy = right.double().mean(1).cpu()
        for row in torch.nonzero(accuracy > best).flatten().tolist():
            best[row], epochs[row] = accuracy[row], epoch
            for copy, parameter in zip(kept, trained, strict=True):
                copy[row] = parameter.detach()[row]
    with torch.no_grad():
        for copy, parameter in zip(kept, trained, strict=True):
            parameter.copy_(copy)
        weights = probes.weights().cpu().numpy()
    predictions = predict(probes, vectors, parts["test"].spans).cpu().numpy()
    return {
        name: Outcome(epochs[row], float(best[row]), weights[row], predictions[row])
        for row, name in enumerate(names)
    }


def gather(vectors: Tensor, spans: Tensor) -> Tensor:
    """The inputs of targets: `[layers, spans, hidden]` at `[batch, n]` to
    `[layers, batch, n * hidden]`."""
    chosen = vectors.index_select(1, spans.flatten())
    return chosen.view(len(vectors), len(spans), -1)


@torch.no_grad()
def predict(probes: Probes, vectors: Tensor, spans: Tensor) -> Tensor:
    """The class of the largest logit, `[probes, targets]`."""
    parts = [probes(gather(vectors, rows)).argmax(-1) for rows in spans.split(ROWS_PER_BATCH)]
    return torch.cat(parts, 1)


def root_mean_squares(vectors: Tensor, spans: Tensor) -> Tensor:
    """`[layers]`, over the spans of the targets given; 1 for a layer of zeros."""
    squares = torch.linalg.vector_norm(vectors, dim=2).double().square()[:, spans.flatten()]
    sizes = (squares.mean(1) / vectors.shape[2]).sqrt().to(vectors.dtype)
    return torch.where(sizes > 0, sizes, 1.0)
