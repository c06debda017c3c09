"""The training loop of a recurrent model: one stream of words, a carried state, plain descent."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tiebench.model.lm import LanguageModel
from tiebench.model.recurrent import Dropout, State
from tiebench.model.tensors import generator_of
from tiebench.progress import progress
from tiebench.runtime import checkpoint_seconds
from tiebench.training.checkpoint import load_checkpoint, read_carried, save_checkpoint
from tiebench.training.loop import broken, check_weights, largest_gradient
from tiebench.training.objective import objective
from tiebench.training.recurrent_settings import LARGEST_LOSS, RecurrentTrainingSettings
from tiebench.training.streams import Chunks, stream_outcomes
from tiebench.training.table_snapshots import TableSnapshots

RECURRENT_HISTORY = (
    "epoch", "step", "tokens", "train_loss", "learning_rate", "gradient_norm", "validation_loss"
)  # fmt: skip
"""`train_loss`: the mean in nats since the epoch began, of the model as it was at each update."""
CARRIED = ("hidden", "cell")


class RecurrentLoop:
    """The training loop of one model.

    Args:
        model: initialized, with a recurrent body.
        training: of the run.
        train: ids of the training text, `[tokens]`.
        valid: ids of the validation text.
        seed: of what is dropped.
        device: that trains it.

    Attributes:
        record: `history` (rows by the names in RECURRENT_HISTORY), `initial_loss`, and `sum`: of
            the losses since the epoch began.
        held: outcomes of the last validation, see `stream_outcomes`.
        snapshots: rows of the tables that are kept, None when no setting asks for them.
        steps_here: updates made by this process.
    """

    def __init__(
        self,
        model: LanguageModel,
        training: RecurrentTrainingSettings,
        train: np.ndarray,
        valid: np.ndarray,
        seed: int,
        device: torch.device,
    ) -> None:
        self.model, self.training, self.valid = model, training, valid
        self.seed, self.device = seed, device
        self.chunks = Chunks.of(train, training)
        used, kept = train[: round(training.data_share * len(train))], training.table_snapshots
        self.snapshots: TableSnapshots | None = None
        if kept is not None:
            self.snapshots = TableSnapshots.of(kept, used, len(self.chunks))
        self.record: dict[str, Any] = {"history": [], "initial_loss": None, "sum": 0.0}
        self.held: Mapping[str, np.ndarray] = {}
        self.steps_done = self.steps_here = 0
        self.state: State | None = None
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.SGD(self.trained, lr=training.learning_rate, fused=True)

    @property
    def steps(self) -> int:
        """Updates of the whole training."""
        return self.training.epochs * len(self.chunks)

    @property
    def per_step(self) -> int:
        """Words that are predicted in an update."""
        return self.training.batch_size * self.training.sequence_length

    def run(self, folder: Path, cell: str) -> None:
        """Train to the last epoch.

        Args:
            folder: where checkpoints are written, and the one stands that training goes on from.
            cell: what errors name.

        Raises:
            DivergedError: a loss, a gradient or a weight is not finite.
            TrainingError: the checkpoint is damaged.
        """
        every = checkpoint_seconds()
        restored = load_checkpoint(folder, self.model, self.optimizer)
        if restored is None:
            self.validate()
            self._snapshot()
        else:
            self.steps_done, self.record = restored
            self._take_up(read_carried(folder, self._carried_names()))
        saved, per_step = time.monotonic(), self.per_step
        total, done = self.steps * per_step, self.steps_done * per_step
        with progress(total=total, initial=done, desc=cell, unit="tok", unit_scale=True) as bar:
            while self.steps_done < self.steps:
                self.update(cell)
                bar.update(per_step)
                last = self.steps_done == self.steps  # kept until the outputs are written
                if last or time.monotonic() - saved >= every:
                    check_weights(self.model, cell, self.steps_done)
                    save_checkpoint(
                        folder, self.model, self.optimizer, self.steps_done, self.record,
                        self._carried(),
                    )  # fmt: skip
                    saved = time.monotonic()
        if not self.held:  # restored after the last step
            self.held = stream_outcomes(self.model, self.valid, self.device)

    def update(self, cell: str) -> None:
        """Make the next update, with the validation after an epoch.

        Raises:
            DivergedError: a loss or a gradient is not finite.
        """
        training, step = self.training, self.steps_done
        epoch, index = divmod(step, len(self.chunks))
        rate = training.rate(epoch)
        ids, targets = (x.to(self.device) for x in self.chunks[index])
        if index == 0:
            self.state, self.record["sum"] = None, 0.0
        self.optimizer.zero_grad()
        states, left = self.model.advance(ids, self.state, self._dropout(step))
        count = training.batch_size
        loss, minimized = objective(self.model, training, states, targets, count, 1.0)
        minimized.backward()
        norm, value = self._norm(), float(loss.detach())
        if not (math.isfinite(norm) and value <= LARGEST_LOSS * training.sequence_length):
            raise broken(
                cell,
                f"loss {value:g} and gradient norm {norm:g} at step {step + 1}, largest gradient "
                f"in {largest_gradient(self.model)}",
            )
        # The gradient is clipped by its step: one pass over the weights in the place of two.
        clipped = 1.0 if training.clip is None else min(1.0, training.clip / max(norm, 1e-12))
        self.optimizer.param_groups[0]["lr"] = rate * clipped
        self.optimizer.step()
        self.state = left[0].detach(), left[1].detach()
        self.record["sum"] += value
        self.steps_done, self.steps_here = step + 1, self.steps_here + 1
        self._snapshot()
        ended = index + 1 == len(self.chunks)
        if ended or self.steps_done % training.log_every == 0:
            mean = self.record["sum"] / ((index + 1) * training.sequence_length)
            validation = self.validate() if ended else None
            if validation is not None and not validation <= LARGEST_LOSS:
                raise broken(cell, f"validation loss {validation:g} after step {step + 1}")
            self._row(epoch + 1, mean, rate, norm, validation)

    def _snapshot(self) -> None:
        if self.snapshots is not None:
            self.snapshots.keep(self.model.coupling, self.steps_done)

    def _carried_names(self) -> list[str]:
        return [*CARRIED, *(self.snapshots.names if self.snapshots is not None else ())]

    def _carried(self) -> dict[str, Tensor]:
        """What the next update begins with, and what is kept so far."""
        held = dict(zip(CARRIED, self.state, strict=True)) if self.state else {}
        return held | (self.snapshots.held if self.snapshots is not None else {})

    def _take_up(self, carried: dict[str, Tensor]) -> None:
        if set(CARRIED) <= carried.keys():
            hidden, cell = (carried.pop(name).to(self.device) for name in CARRIED)
            self.state = hidden, cell
        if self.snapshots is not None:
            self.snapshots.held = carried

    def _norm(self) -> float:
        gradients = [p.grad for p in self.trained if p.grad is not None]
        return float(torch.nn.utils.get_total_norm(gradients))

    def _dropout(self, step: int) -> Dropout | None:
        """What is dropped in an update depends on seed and update alone, also after a resume."""
        held = self.training.dropout
        if held is None:
            return None
        return Dropout(
            held.input, held.between, held.recurrent, held.output, held.kind == "sequence",
            generator_of(self.seed, "dropout", f"{step}"),
        )  # fmt: skip

    def validate(self) -> float:
        """Nats per word of the validation text; before any update also the initial loss."""
        self.held = stream_outcomes(self.model, self.valid, self.device)
        loss = float(self.held["loss"].mean())
        if self.steps_done == 0:
            self.record["initial_loss"] = loss
            self._row(0, None, None, None, loss)
        return loss

    def _row(
        self, epoch: int, train: float | None, rate: float | None, norm: float | None,
        validation: float | None,
    ) -> None:  # fmt: skip
        tokens = self.steps_done * self.per_step
        values = (epoch, self.steps_done, tokens, train, rate, norm, validation)
        self.record["history"].append(dict(zip(RECURRENT_HISTORY, values, strict=True)))
