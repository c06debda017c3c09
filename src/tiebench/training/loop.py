"""The training loop of one model: of a cell, with checkpoints, or in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tiebench.errors import DivergedError
from tiebench.model.lm import LanguageModel
from tiebench.progress import progress
from tiebench.runtime import checkpoint_seconds
from tiebench.training.batches import Batch, Schedule, validation_batches
from tiebench.training.checkpoint import load_checkpoint, read_step, save_checkpoint
from tiebench.training.instruments import Instruments
from tiebench.training.objective import objective
from tiebench.training.optimizer import learning_rate, make_optimizer, untie
from tiebench.training.parallel import ALONE, Team
from tiebench.training.settings import TrainingSettings
from tiebench.training.validation import outcomes

HISTORY = ("step", "tokens", "loss", "learning_rate", "gradient_norm", "validation_loss")


@dataclass(frozen=True)
class Trained:
    """What came of a training in memory.

    Attributes:
        history: rows by the names in HISTORY, the first before any update.
        held: outcomes of the last validation by language, see `validation.outcomes`; empty when
            the training broke.
        steps: updates made.
        diverged: what was not finite, and where; None when the training went to its end.
    """

    history: list[dict[str, Any]]
    held: dict[str, dict[str, np.ndarray]]
    steps: int
    diverged: str | None

    @property
    def validation_loss(self) -> float:
        """Nats per predicted token after the last update; not a number when the training broke."""
        return math.nan if self.diverged else float(self.history[-1]["validation_loss"])


def train(
    model: LanguageModel,
    training: TrainingSettings,
    tokens: Mapping[str, np.ndarray],
    valid: Mapping[str, np.ndarray],
    seed: int,
) -> Trained:
    """Train an initialized model in place, in this process and without files.

    Batches, updates and validations are those of a pretraining cell of these settings and seed.

    Args:
        model: on the device that trains it.
        training: what `check_coupled` accepts for the model's coupling.
        tokens: training ids by language.
        valid: validation ids by language.
        seed: of the batches; the model is drawn already.

    Raises:
        DataError: the share of a language's text that is used is less than two windows, or its
            validation text less than one.
    """
    team = Team(device=model.coupling.input_table.device)
    loop = Loop(model, training, validation_batches(valid, training, model.vocabulary), team)
    diverged = None
    try:
        loop.run(Schedule(tokens, training, model.vocabulary, seed), None, "training")
    except DivergedError as error:
        diverged, loop.held = error.found, {}
    return Trained(loop.record["history"], loop.held, loop.steps_done, diverged)


class Loop:
    """The training loop of one model, in one process or a team of them.

    Args:
        model: initialized, on the team's device.
        training: of the run.
        validation: batches by language.
        team: this process and those that train the model with it.

    Attributes:
        record: `history` (rows by the names in HISTORY), `initial_loss`, and `instruments` (rows by
            the names in INSTRUMENTS) where the training has any.
        held: outcomes of the last validation, in the first process.
        steps_here: updates made by this process.
    """

    def __init__(
        self,
        model: LanguageModel,
        training: TrainingSettings,
        validation: Mapping[str, list[Batch]],
        team: Team = ALONE,
    ) -> None:
        self.model, self.training, self.validation, self.team = model, training, validation, team
        self.record: dict[str, Any] = {"history": [], "initial_loss": None}
        self.held: dict[str, dict[str, np.ndarray]] = {}
        self.steps_done = self.steps_here = 0
        self.pending: list[float] = []
        self.instruments: Instruments | None = None
        self.untied_at = training.untied_at
        model.coupling.gradient_scales = (
            training.input_gradient_scale, training.output_gradient_scale
        )  # fmt: skip

    def run(self, schedule: Schedule, folder: Path | None, cell: str) -> None:
        """Train to the last step.

        Args:
            schedule: the batches.
            folder: where checkpoints are written, and the one stands that training goes on from;
                None for neither, and no progress bar.
            cell: what errors name.

        Raises:
            DivergedError: a loss, a gradient or a weight is not finite.
            TrainingError: the checkpoint is damaged, or the processes do not agree.
        """
        every = checkpoint_seconds() if folder else math.inf
        self._start(folder)
        if self.training.instruments is not None and self.team.is_first:
            self.instruments = Instruments(self.model, self.training, schedule)
            self.record.setdefault("instruments", [])
        self.team.agree(cell, self.steps_done)
        steps, saved = self.training.steps, time.monotonic()
        per_step = self.training.batch_size * self.training.sequence_length
        total, done = steps * per_step, self.steps_done * per_step
        shown = {} if self.team.is_first and folder else {"disable": True}
        with progress(
            total=total, initial=done, desc=cell, unit="tok", unit_scale=True, **shown
        ) as bar:
            while self.steps_done < steps:
                self._update(schedule.batch(self.steps_done), cell)
                bar.update(per_step)
                last = self.steps_done == steps  # kept until the outputs are written
                due = last or time.monotonic() - saved >= every
                if folder and due and self.team.is_first:
                    check_weights(self.model, cell, self.steps_done)
                    record = {**self.record, "pending": self.pending}
                    save_checkpoint(folder, self.model, self.optimizer, self.steps_done, record)
                    saved = time.monotonic()
        if not self.held and self.team.is_first:  # restored after the last step
            self.held = outcomes(self.model, self.validation, self.team.device)

    def _start(self, folder: Path | None) -> None:
        """Make the optimizer, and restore the checkpoint in a folder if there is one."""
        if folder and self.untied_at is not None and read_step(folder) >= self.untied_at:
            self.model.untie()
        self.optimizer = make_optimizer(self.model, self.training)
        restored = load_checkpoint(folder, self.model, self.optimizer) if folder else None
        if restored is None:
            self.validate(0)
        else:
            self.steps_done, self.record = restored
            self.pending = self.record.pop("pending")

    def _update(self, batch: Batch, cell: str) -> None:
        training, step = self.training, self.steps_done
        rate = learning_rate(training, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        own = self.team.share(batch)
        ids, where, targets = (
            torch.from_numpy(x).to(self.team.device) for x in (own.ids, own.where, own.targets)
        )
        if self.instruments is not None:
            self.instruments.before_update(step, batch)
        self.optimizer.zero_grad()
        loss = torch.zeros((), device=self.team.device)
        if len(targets):  # a share can be special tokens only
            count = len(batch.targets)
            states = self.model.predicting_states(ids, where)
            share = len(targets) / count
            loss, minimized = objective(self.model, training, states, targets, count, share)
            minimized.backward()
        loss = self.team.sum_gradients(self.model, loss)
        limit = math.inf if training.clip is None else training.clip
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        self.pending.append(loss.item())
        if not (math.isfinite(norm) and math.isfinite(self.pending[-1])):
            raise broken(
                cell,
                f"loss {self.pending[-1]:g} and gradient norm {norm:g} at step {step + 1}, "
                f"largest gradient in {largest_gradient(self.model)}",
            )
        self.optimizer.step()
        if self.instruments is not None:
            self.record["instruments"] += self.instruments.after_update()
        self.steps_done, self.steps_here = step + 1, self.steps_here + 1
        if self.steps_done == self.untied_at:
            untie(self.model, self.optimizer)
        last = self.steps_done == training.steps
        validated = last or self.steps_done % training.validate_every == 0
        if validated or self.steps_done % training.log_every == 0:
            loss_before = sum(self.pending) / len(self.pending)
            self.pending = []
            validation = self.validate(self.steps_done) if validated else None
            if validation is not None and not math.isfinite(validation):
                raise broken(cell, f"validation loss {validation:g} after step {step + 1}")
            self._row(loss_before, rate, norm, validation)

    def _row(
        self, loss: float | None, rate: float | None, norm: float | None, validation: float | None
    ) -> None:
        tokens = self.steps_done * self.training.batch_size * self.training.sequence_length
        row = dict(
            zip(HISTORY, (self.steps_done, tokens, loss, rate, norm, validation), strict=True)
        )
        self.record["history"].append(row)

    def validate(self, step: int) -> float | None:
        """Nats per predicted token at the fixed masks, in the first process; step 0 is also the
        initial loss."""
        if not self.team.is_first:
            return None
        self.held = outcomes(self.model, self.validation, self.team.device)
        loss = float(np.concatenate([part["loss"] for part in self.held.values()]).mean())
        if step == 0:
            self.record["initial_loss"] = loss
            self._row(None, None, None, loss)
        return loss


def check_weights(model: LanguageModel, cell: str, step: int) -> None:
    """Keep the checkpoint there is when an update has made weights that are not finite.

    Raises:
        DivergedError: some are.
    """
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise broken(cell, f"weights in {name} after step {step}")


def broken(cell: str, found: str) -> DivergedError:
    """The error for what is not finite, or too large for its perplexity to be."""
    return DivergedError(
        cell,
        found=found,
        expected="finite values",
        mend="lower training.learning_rate, or what the run adds to the loss or scales in its "
        "coupling; a checkpoint in .scratch/, where one was written, has weights from before",
    )


def largest_gradient(model: LanguageModel) -> str:
    """The parameter with the largest (or a non-finite) gradient, and that gradient's norm."""
    norms = {n: float(p.grad.norm()) for n, p in model.named_parameters() if p.grad is not None}
    name = max(norms, key=lambda n: norms[n] if math.isfinite(norms[n]) else math.inf)
    return f"{name} ({norms[name]:g})"
