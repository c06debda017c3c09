"""One pretraining cell: a run of a family with one seed, from the corpus to a saved model."""

from __future__ import annotations

import csv
import io
import math
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tiebench import paths
from tiebench.corpus.tokenizer import byte_lengths, load_corpus_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.digests import stage_digest
from tiebench.errors import SettingsError, TrainingError
from tiebench.files import (
    digest_of,
    holding,
    replacing,
    replacing_folder,
    sha256_of,
    write_json,
    write_text,
)
from tiebench.model.lm import LanguageModel, save_model
from tiebench.progress import progress
from tiebench.runtime import checkpoint_seconds, describe_runtime
from tiebench.settings import FamilySettings, Params, find_run
from tiebench.training.batches import Batch, Schedule, validation_batches
from tiebench.training.card import model_card
from tiebench.training.checkpoint import (
    load_checkpoint,
    remove_scratch,
    save_checkpoint,
    scratch_folder,
)
from tiebench.training.flops import training_flops
from tiebench.training.optimizer import learning_rate, make_optimizer
from tiebench.training.parallel import Team, connected, here
from tiebench.training.settings import TrainingSettings
from tiebench.training.validation import outcomes, summarize, unigram_counts

HISTORY = ("step", "tokens", "loss", "learning_rate", "gradient_norm", "validation_loss")


def pretrain(params: Params, family: str, run: str, seed: int) -> Path:
    """Train one cell, or save it as initialized when its run is untrained.

    Writes config.json, model.safetensors, tokenizer.json, README.md, history.csv and
    metrics.json into runs/<name>/<family>/<run>-s<seed>/, and times into logs/. Of several
    processes (see `tiebench.training.parallel`) the first one writes.

    Raises:
        SettingsError: as `processes_of`, or a setting of the environment.
        DataError: the corpus is missing or is not the one of its tokenizer.
        TrainingError: the loss is not finite, or the processes do not reach each other.
        BusyError: another process holds the cell.
        LostError: another process of the same training has ended.
        WriteError: no room, or no permission.
    """
    cell = f"{params.name}-{family}-{paths.cell_name(run, seed)}"
    team, folder = here(), paths.run_folder(params.name, family, run, seed)
    if processes_of(params, family, run, team.size) < team.size:
        if not team.is_first:
            return folder
        team = Team(device=team.device)
    with ExitStack() as stack:
        stack.enter_context(connected(team))
        if team.is_first:
            stack.enter_context(holding(paths.SCRATCH / f"{cell}.lock", cell))
        _pretrain(params, family, run, seed, cell, folder, team)
    return folder


def processes_of(params: Params, family: str, run: str, wanted: int) -> int:
    """How many processes train a cell: as many as wanted, or one that saves what is not trained.

    Raises:
        SettingsError: no such family or run, or more processes than windows in a batch.
    """
    group = find_run(params, family, run)
    if not group.all_runs[run].trained:
        return 1
    if wanted > group.training.batch_size:
        raise SettingsError(
            f"{family}.training.batch_size",
            found=f"{group.training.batch_size} windows for {wanted} processes",
            expected="at least one window for each",
            mend="start fewer processes (TIEBENCH_PROCESSES)",
        )
    return wanted


def _pretrain(
    params: Params, family: str, run: str, seed: int, cell: str, folder: Path, team: Team
) -> None:
    group = find_run(params, family, run)
    coupling, body, training = group.all_runs[run].coupling, group.body_of(run), group.training
    corpus, languages = paths.corpus_folder(group.corpus), params.corpora[group.corpus].languages
    tokenizer = corpus / "tokenizer.json"
    vocabulary = load_corpus_tokenizer(tokenizer).get_vocab_size()
    train = read_tokens(corpus / "train.safetensors", tokenizer, languages)
    valid = read_tokens(corpus / "valid.safetensors", tokenizer, languages)

    model = LanguageModel(coupling, body, vocabulary).initialize(seed).to(team.device)
    loop = Loop(model, training, validation_batches(valid, training, vocabulary), team)
    started = time.monotonic()
    if group.all_runs[run].trained:
        key = digest_of(
            {
                "settings": [x.model_dump() for x in (coupling, body, training)],
                "seed": seed,
                "code": stage_digest("pretrain"),
                "data": [sha256_of(corpus / f"{x}.safetensors") for x in ("train", "valid")],
                "tokenizer": sha256_of(tokenizer),
            }
        )
        team.agree(cell, int(key[:15], 16))  # from here on the first one holds the cell
        loop.run(Schedule(train, training, vocabulary, seed), scratch_folder(cell, key), cell)
    else:
        loop.validate(0)
    if not team.is_first:
        return
    unigram = unigram_counts(train, vocabulary, training.objective == "causal")
    with replacing_folder(folder) as partial:
        _save(partial, loop, tokenizer, unigram, params, family, run, seed)
    remove_scratch(cell)
    seconds = time.monotonic() - started
    tokens = loop.steps_here * training.batch_size * training.sequence_length
    share = loop.steps_here / training.steps
    write_json(
        paths.log_folder(params.name) / "pretrain" / f"{family}-{paths.cell_name(run, seed)}.json",
        {
            "seconds": seconds,
            "steps": loop.steps_here,
            "tokens_per_second": tokens / seconds,
            "flops_per_second": share
            * training_flops(coupling, body, vocabulary, training)
            / seconds,
            "processes": team.size,
            **describe_runtime(team.device),
        },
    )


class Loop:
    """The training loop of one model, in one process or a team of them.

    Attributes:
        record: `history` (rows by the names in HISTORY) and `initial_loss`.
        held: outcomes of the last validation, in the first process.
        steps_here: updates made by this process.
    """

    def __init__(
        self,
        model: LanguageModel,
        training: TrainingSettings,
        validation: Mapping[str, list[Batch]],
        team: Team,
    ) -> None:
        self.model, self.training, self.validation, self.team = model, training, validation, team
        self.record: dict[str, Any] = {"history": [], "initial_loss": None}
        self.held: dict[str, dict[str, np.ndarray]] = {}
        self.steps_done = self.steps_here = 0
        self.pending: list[float] = []

    def run(self, schedule: Schedule, folder: Path, cell: str) -> None:
        """Train to the last step, from the checkpoint in `folder` if there is one."""
        every = checkpoint_seconds()
        self.optimizer = make_optimizer(self.model, self.training)
        restored = load_checkpoint(folder, self.model, self.optimizer)
        if restored is None:
            self.validate(0)
        else:
            self.steps_done, self.record = restored
            self.pending = self.record.pop("pending")
        self.team.agree(cell, self.steps_done)
        steps, saved = self.training.steps, time.monotonic()
        per_step = self.training.batch_size * self.training.sequence_length
        total, done = steps * per_step, self.steps_done * per_step
        shown = {} if self.team.is_first else {"disable": True}
        with progress(
            total=total, initial=done, desc=cell, unit="tok", unit_scale=True, **shown
        ) as bar:
            while self.steps_done < steps:
                self._update(schedule.batch(self.steps_done), cell)
                bar.update(per_step)
                last = self.steps_done == steps  # kept until the outputs are written
                due = last or time.monotonic() - saved >= every
                if due and self.team.is_first:
                    self._check_weights(cell)
                    record = {**self.record, "pending": self.pending}
                    save_checkpoint(folder, self.model, self.optimizer, self.steps_done, record)
                    saved = time.monotonic()
        if not self.held and self.team.is_first:  # restored after the last step
            self.held = outcomes(self.model, self.validation, self.team.device)

    def _update(self, batch: Batch, cell: str) -> None:
        training, step = self.training, self.steps_done
        rate = learning_rate(training, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["scale"]
        share = self.team.share(batch)
        ids, where, targets = (
            torch.from_numpy(x).to(self.team.device)
            for x in (share.ids, share.where, share.targets)
        )
        self.optimizer.zero_grad()
        loss = torch.zeros((), device=self.team.device)
        if len(targets):  # a share can be special tokens only
            loss = self.model.summed_loss(ids, where, targets) / len(batch.targets)
            loss.backward()
        loss = self.team.sum_gradients(self.model, loss)
        limit = math.inf if training.clip is None else training.clip
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), limit))
        self.pending.append(loss.item())
        if not (math.isfinite(norm) and math.isfinite(self.pending[-1])):
            raise _broken(
                cell,
                f"loss {self.pending[-1]:g} and gradient norm {norm:g} at step {step + 1}, "
                f"largest gradient in {largest_gradient(self.model)}",
            )
        self.optimizer.step()
        self.steps_done, self.steps_here = step + 1, self.steps_here + 1
        last = self.steps_done == training.steps
        validated = last or self.steps_done % training.validate_every == 0
        if validated or self.steps_done % training.log_every == 0:
            loss_before = sum(self.pending) / len(self.pending)
            self.pending = []
            validation = self.validate(self.steps_done) if validated else None
            if validation is not None and not math.isfinite(validation):
                raise _broken(cell, f"validation loss {validation:g} after step {step + 1}")
            self._row(loss_before, rate, norm, validation)

    def _check_weights(self, cell: str) -> None:
        """Keep the checkpoint there is when an update has made weights that are not finite."""
        for name, parameter in self.model.named_parameters():
            if not torch.isfinite(parameter).all():
                raise _broken(cell, f"weights in {name} after step {self.steps_done}")

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


def _broken(cell: str, found: str) -> TrainingError:
    return TrainingError(
        cell,
        found=found,
        expected="finite values",
        mend="lower training.learning_rate; the weights before it broke are in .scratch/",
    )


def largest_gradient(model: LanguageModel) -> str:
    """The parameter with the largest (or a non-finite) gradient, and that gradient's norm."""
    norms = {n: float(p.grad.norm()) for n, p in model.named_parameters() if p.grad is not None}
    name = max(norms, key=lambda n: norms[n] if math.isfinite(norms[n]) else math.inf)
    return f"{name} ({norms[name]:g})"


def _save(
    folder: Path,
    loop: Loop,
    tokenizer: Path,
    unigram: Mapping[str, np.ndarray],
    params: Params,
    family: str,
    run: str,
    seed: int,
) -> None:
    """Write the outputs of a cell."""
    group: FamilySettings = getattr(params, family)
    trained, training = group.all_runs[run].trained, group.training
    steps = training.steps if trained else 0
    vocabulary = loop.model.vocabulary
    flops = training_flops(group.all_runs[run].coupling, group.body_of(run), vocabulary, training)
    metrics = {
        "objective": training.objective,
        "seed": seed,
        "steps": steps,
        "tokens": steps * training.batch_size * training.sequence_length,
        "train_flops": flops if trained else 0.0,
        "vocabulary": vocabulary,
        "parameters": loop.model.parameter_counts(),
        "validation": {
            "initial_loss": loop.record["initial_loss"],
            **summarize(
                loop.held,
                unigram,
                byte_lengths(load_corpus_tokenizer(tokenizer)),
                training.objective == "causal",
            ),
        },
    }
    save_model(loop.model, folder)
    with replacing(folder / "tokenizer.json") as temporary:
        shutil.copyfile(tokenizer, temporary)
    text = io.StringIO()
    writer = csv.DictWriter(text, HISTORY, lineterminator="\n")
    writer.writeheader()
    writer.writerows(loop.record["history"])
    write_text(folder / "history.csv", text.getvalue())
    write_text(folder / "README.md", model_card(params, family, run, seed, metrics))
    write_json(folder / "metrics.json", metrics)
