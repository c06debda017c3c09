"""The gradients that a vocabulary table gets from its two sides, measured on the way.

A shared table gets the sum of two gradients: of the rows that were looked up, and of the product
that gives the logits. For a measurement the shared table is taken for two with the same values,
and the gradient of each is computed apart, on the batch of the next update or on a larger one.
Nothing that training does changes.

Rows of special tokens are left out: [MASK] would be an input in every window and never a target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tiebench.corpus.tokenizer import SPECIALS
from tiebench.model.lm import LanguageModel
from tiebench.model.tensors import generator_of
from tiebench.training.batches import Batch, Schedule
from tiebench.training.settings import TrainingSettings
from tiebench.training.validation import BIN_EDGES, bin_name, unigram_counts

MEASURES = (
    "rows", "input_norm", "output_norm", "input_row_norms", "output_row_norms", "cosine",
    "null_cosine", "row_cosine", "input_coverage", "output_coverage", "input_updated",
    "output_updated",
)  # fmt: skip
"""By bin: rows; Frobenius norms, and sums of row norms, of the gradient from each side; the cosine
between the two (as flat vectors; the same after a permutation of rows within bins; the mean over
rows that get both); shares of rows with a gradient from each side, and that the update moved."""
INSTRUMENTS = ("step", "tokens", "batch", "bin", *MEASURES)
"""Columns of instruments.csv."""
QUARTERS = 4
"""The large batch is measured before the first update and after each quarter but the last."""
Row = dict[str, Any]


class Instruments:
    """What is measured in one training.

    Args:
        model: that is trained.
        training: has `instruments`.
        schedule: the batches of the training, of which the large batch takes some.
    """

    def __init__(
        self, model: LanguageModel, training: TrainingSettings, schedule: Schedule
    ) -> None:
        assert training.instruments is not None
        self.model, self.training, self.settings = model, training, training.instruments
        self.schedule = schedule
        causal = training.objective == "causal"
        by_language = unigram_counts(schedule.tokens, model.vocabulary, causal)
        counts = np.sum(list(by_language.values()), axis=0)[SPECIALS:]
        placed = np.digitize(counts, BIN_EDGES[1:])
        held = {
            bin_name(BIN_EDGES[i], (*BIN_EDGES[1:], None)[i]): np.flatnonzero(placed == i)
            for i in range(len(BIN_EDGES))
        }
        self.bins = {name: torch.from_numpy(rows) for name, rows in held.items() if len(rows)}
        shuffled = torch.arange(len(counts))
        for name, rows in self.bins.items():
            generator = generator_of(0, "null", name)
            shuffled[rows] = rows[torch.randperm(len(rows), generator=generator)]
        self.shuffled = shuffled
        self.before: list[Tensor] | None = None
        self.rows: list[Row] = []

    def before_update(self, step: int, batch: Batch) -> None:
        """Measure the gradients of the update that comes after `step` updates, if it is due."""
        large = self.settings.large_batches
        if large and step in self._quarters():
            self.rows += self._measured(step, "large", self._large())
        if step % self.settings.every == 0:
            self.rows += self._measured(step, "update", [batch])
            self.before = [table.detach().clone() for table in self._tables()]

    def after_update(self) -> list[Row]:
        """Complete what was measured before the update with the rows that it moved."""
        if self.before is not None:
            tables = self._tables() if len(self.before) == 2 else self._tables()[:1]
            moved = [
                (old != new).any(dim=1)[SPECIALS:].cpu()
                for old, new in zip(self.before, tables, strict=True)
            ]
            for row in self.rows:
                if row["batch"] == "update":
                    inside = self._inside(row["bin"])
                    row["input_updated"] = _share(moved[0][inside])
                    row["output_updated"] = _share(moved[-1][inside])
        rows, self.rows, self.before = self.rows, [], None
        return rows

    def _tables(self) -> Sequence[Tensor]:
        coupling = self.model.coupling
        return [coupling.input_table] + ([] if coupling.tied else [coupling.output_table])

    def _quarters(self) -> set[int]:
        steps = self.training.steps
        return {steps * quarter // QUARTERS for quarter in range(QUARTERS)}

    def _large(self) -> list[Batch]:
        """Batches evenly spread over the schedule, the same in every measurement."""
        steps, count = self.training.steps, self.settings.large_batches
        return [self.schedule.batch(steps * index // count) for index in range(count)]

    def _inside(self, name: str) -> Any:
        return self.bins[name] if name in self.bins else slice(None)

    def _measured(self, step: int, kind: str, batches: Sequence[Batch]) -> Iterator[Row]:
        both = side_gradients(self.model, batches)
        given, sent = (part[SPECIALS:].double().cpu() for part in both)
        per_step = self.training.batch_size * self.training.sequence_length
        for name in ("all", *self.bins):
            inside = self._inside(name)
            yield {
                "step": step, "tokens": step * per_step, "batch": kind, "bin": name,
                **compare(given[inside], sent[inside], given[self.shuffled][inside]),
                "input_updated": None, "output_updated": None,
            }  # fmt: skip


def side_gradients(model: LanguageModel, batches: Sequence[Batch]) -> tuple[Tensor, Tensor]:
    """The gradients of the mean loss with respect to the table of each side.

    Args:
        model: in a training.
        batches: together one large batch.

    Returns:
        Of the input side `[vocabulary, input_width]` and the output side `[vocabulary,
        output_width]`; their sum is what a shared table gets.
    """
    count = sum(len(batch.targets) for batch in batches)
    with two_tables(model) as tables:
        total = [torch.zeros_like(table) for table in tables]
        for batch in batches:
            ids, where, targets = (
                torch.from_numpy(x).to(tables[0].device)
                for x in (batch.ids, batch.where, batch.targets)
            )
            loss = model.summed_loss(ids, where, targets) / count
            for part, gradient in zip(total, torch.autograd.grad(loss, tables), strict=True):
                part += gradient
    return total[0], total[1]


@contextmanager
def two_tables(model: LanguageModel) -> Iterator[tuple[Tensor, Tensor]]:
    """The tables of both sides, of which a shared one is two for the time being."""
    coupling = model.coupling
    scales, coupling.gradient_scales = coupling.gradient_scales, (1.0, 1.0)
    shared = coupling.tied
    try:
        if shared:
            coupling.tied = False
            coupling.untied_output_table = nn.Parameter(coupling.input_table.detach().clone())
        yield coupling.input_table, coupling.output_table
    finally:
        coupling.gradient_scales = scales
        if shared:
            del coupling.untied_output_table
            coupling.tied = True


def compare(given: Tensor, sent: Tensor, shuffled: Tensor) -> Mapping[str, float | None]:
    """What the gradients of some rows from both sides have to do with each other.

    Args:
        given: `[rows, input_width]`, of the input side.
        sent: `[rows, output_width]`, of the output side.
        shuffled: `given` with rows of the same frequency in other places.

    Returns:
        The MEASURES that a gradient gives. A cosine is None where a side is zero, and between
        tables of unequal width.
    """
    norms = [part.norm(dim=1) for part in (given, sent)]
    reached = [norm > 0 for norm in norms]
    both = reached[0] & reached[1]
    comparable = given.shape[1] == sent.shape[1]
    rows = None
    if comparable and both.any():
        products = (given[both] * sent[both]).sum(dim=1)
        rows = float((products / (norms[0][both] * norms[1][both])).mean())
    return {
        "rows": len(given),
        "input_norm": float(given.norm()),
        "output_norm": float(sent.norm()),
        "input_row_norms": float(norms[0].sum()),
        "output_row_norms": float(norms[1].sum()),
        "cosine": _cosine(given, sent) if comparable else None,
        "null_cosine": _cosine(shuffled, sent) if comparable else None,
        "row_cosine": rows,
        "input_coverage": _share(reached[0]),
        "output_coverage": _share(reached[1]),
    }


def _cosine(first: Tensor, second: Tensor) -> float | None:
    size = float(first.norm() * second.norm())
    return float((first * second).sum()) / size if size else None


def _share(held: Tensor) -> float:
    return float(held.double().mean())
