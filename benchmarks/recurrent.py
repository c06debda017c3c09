"""Recurrent training: our update against the same model written plainly with torch.

The plain one is torch.nn.Embedding, torch.nn.LSTM (with its second bias frozen at zero),
torch.nn.Linear and the cross-entropy of all logits, summed over the steps and divided by the batch,
with torch's clipping and torch.optim.SGD: Zaremba et al. 2014, which Press & Wolf 2017 tie. The
augmented loss of Inan et al. 2017 is torch's softmax and torch.nn.functional.kl_div of the same
logits. Both start from the same weights and read the same chunks, which is checked first: equal
losses in the first updates, or nothing is measured.

Speed, in tokens per second: all in one process, in turns of five updates, a different one first in
each turn; the median of the turns. Ours also with `TIEBENCH_PRODUCTS=onednn`.

Run: python benchmarks/recurrent.py [--turns N]
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from support.results import record
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.runtime import prepare_runtime
from tiebench.training.recurrent import RecurrentLoop
from tiebench.training.recurrent_settings import RecurrentTrainingSettings
from tiebench.training.settings import AugmentedSettings

TURN = 5
"""Updates at a time."""
CHECKED = 3
"""Updates whose losses are compared."""
TOLERANCE = 1e-4
"""Largest relative difference of losses that are called equal."""
CLIP, RATE, BATCH, STEPS = 5.0, 1.0, 20, 20
WEIGHT = TEMPERATURE = 10.0


class Plain(nn.Module):
    """The model with torch's own modules.

    Args:
        model: whose weights it takes.
        augmented: whether it minimizes the augmented loss too.
    """

    def __init__(self, model: LanguageModel, augmented: bool) -> None:
        super().__init__()
        self.augmented = augmented
        width, layers = model.settings.body.width, model.settings.body.layers
        self.embedding = nn.Embedding(model.vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers)
        self.decoder = nn.Linear(width, model.vocabulary)
        if model.coupling.tied:
            self.decoder.weight = self.embedding.weight
        with torch.no_grad():
            self.embedding.weight.copy_(model.coupling.input_table)
            self.decoder.weight.copy_(model.coupling.output_table)
            self.decoder.bias.copy_(model.coupling.bias)
            held = dict(model.body.named_parameters())
            for index in range(layers):
                for theirs, ours in (
                    ("weight_ih", "input_map"), ("weight_hh", "recurrent_map"), ("bias_ih", "bias")
                ):  # fmt: skip
                    weight = getattr(self.lstm, f"{theirs}_l{index}")
                    weight.copy_(held[f"layers.{index}.{ours}"])
                second = getattr(self.lstm, f"bias_hh_l{index}")
                second.zero_()
                second.requires_grad_(False)
        self.optimizer = torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=RATE)
        self.state: tuple[Tensor, Tensor] | None = None

    def update(self, ids: Tensor, targets: Tensor) -> float:
        """One update; returns the loss."""
        self.optimizer.zero_grad()
        states, left = self.lstm(self.embedding(ids), self.state)
        logits = self.decoder(states).flatten(0, 1)
        loss = F.cross_entropy(logits, targets, reduction="sum") / ids.shape[1]
        minimized = loss
        if self.augmented:
            table = self.embedding.weight.detach()
            wanted = F.softmax(table[targets] @ table.T / TEMPERATURE, dim=1)
            predicted = F.log_softmax(logits / TEMPERATURE, dim=1)
            divergence = F.kl_div(predicted, wanted, reduction="sum")
            minimized = loss + WEIGHT * divergence / ids.shape[1]
        minimized.backward()
        nn.utils.clip_grad_norm_(self.parameters(), CLIP)
        self.optimizer.step()
        self.state = left[0].detach(), left[1].detach()
        return float(loss.detach())


def make(
    tied: bool, augmented: bool, vocabulary: int, width: int, words: int
) -> tuple[RecurrentLoop, Plain]:
    """Our loop and the plain model, with equal weights."""
    coupling = CouplingSettings(option="t", tied=tied, std=0.1 / math.sqrt(3))
    body = BodySettings(option="t", kind="lstm", width=width, layers=2, causal=True)
    soft = AugmentedSettings(weight=WEIGHT, temperature=TEMPERATURE) if augmented else None
    training = RecurrentTrainingSettings(
        epochs=1, batch_size=BATCH, sequence_length=STEPS, learning_rate=RATE, constant_epochs=1,
        decay=1.0, clip=CLIP, log_every=10**9, augmented=soft,
    )  # fmt: skip
    model = LanguageModel(coupling, body, vocabulary).initialize(0)
    ids = np.random.default_rng(0).integers(vocabulary, size=words)
    plain = Plain(model, augmented)
    return RecurrentLoop(model, training, ids, ids[:2], 0, torch.device("cpu")), plain


def check_equal_losses(ours: RecurrentLoop, plain: Plain) -> None:
    """Refuse to compare what computes different things."""
    for step in range(CHECKED):
        before = ours.record["sum"] if step else 0.0
        ours.update("check")
        mine, theirs = ours.record["sum"] - before, plain.update(*ours.chunks[step])
        if not math.isclose(mine, theirs, rel_tol=TOLERANCE):
            sys.exit(f"error: different losses in update {step + 1}: {mine} and {theirs}")


def compare(
    tied: bool, augmented: bool, turns: int, vocabulary: int = 10_000, width: int = 200
) -> None:
    """Tokens per second of both, recorded."""
    words = BATCH * (STEPS * (2 * TURN * turns + CHECKED + 1) + 1)
    ours, plain = make(tied, augmented, vocabulary, width, words)
    check_equal_losses(ours, plain)

    def own(products: str) -> None:
        with patch.dict(os.environ, TIEBENCH_PRODUCTS=products):
            ours.update("benchmark")

    works: dict[str, Callable[[], object]] = {
        "torch": lambda: own("torch"),
        "onednn": lambda: own("onednn"),
        "plain": lambda: plain.update(*ours.chunks[ours.steps_done - 1]),
    }
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns):
        first = turn % len(works)
        for name in [*list(works)[first:], *list(works)[:first]]:
            start = time.perf_counter()
            for _ in range(TURN):
                works[name]()
            taken[name].append(time.perf_counter() - start)
    speed = {name: BATCH * STEPS * TURN / median(times) for name, times in taken.items()}
    what = f"recurrent training, {'one table' if tied else 'two tables'}"
    what += ", augmented loss" if augmented else ""
    for said, name, target in (
        ("against plain torch", "torch", "at least 1.0"),
        ("oneDNN's products, against plain torch", "onednn", None),
    ):
        record(f"{what}, {said}", speed[name], speed["plain"], "tokens/s", target)


def main() -> None:
    """Measure both couplings, and one with the augmented loss."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    prepare_runtime()
    for tied, augmented in ((False, False), (True, False), (False, True)):
        compare(tied, augmented, turns)


if __name__ == "__main__":
    main()
