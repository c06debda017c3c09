"""A sweep: short trainings over a grid of settings, whose losses and gradients are kept.

Nothing is saved but tables. A training that diverges is a result.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tiebench import paths
from tiebench.analysis.tables import write_table
from tiebench.corpus.tokenizer import load_corpus_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.digests import stage_digest
from tiebench.errors import SettingsError
from tiebench.experiments.sweep_measures import logit_std, spikes, unigram_loss, vanishing
from tiebench.experiments.sweep_settings import RAW, SweepSettings, Trial, named, trial
from tiebench.files import digest_of, holding, remembered, replacing_folder, sha256_of
from tiebench.model.lm import LanguageModel
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.settings import FamilySettings, Params
from tiebench.training.batches import Batch, Schedule, used_tokens, validation_batches
from tiebench.training.loop import Trained, train
from tiebench.training.settings import TrainingSettings
from tiebench.training.validation import outcomes

Row = dict[str, Any]


def run(params: Params, name: str) -> None:
    """Write evals/<report>/sweeps/<name>/results.csv.

    Finished trainings wait in .scratch/sweep-<report>-<name>/, so that a killed process goes on
    after the last one and ends with the same bytes.

    Raises:
        SettingsError: no such sweep.
        DataError: a token file is missing, damaged, or shorter than two windows.
        BusyError: another process is at work on the same sweep.
    """
    if name not in params.sweeps:
        raise SettingsError(
            f"sweeps.{name}",
            found="no such sweep",
            expected=f"one of {', '.join(params.sweeps) or '(none)'}",
            mend="name one of these, or add it in conf/sweep/ and run `tiebench params`",
        )
    sweep, group = params.sweeps[name], params.decoders
    assert group is not None, "checked with the settings"
    folder = paths.evaluation_folder(params.name, "sweeps") / name
    cell = f"sweep-{params.name}-{name}"
    with holding(paths.SCRATCH / f"{cell}.lock", f"the sweep {name} of {params.name}"):
        cache = paths.SCRATCH / cell
        laboratory = Laboratory.of(params, group, cache)
        rows = list(_results(sweep, group, laboratory, name))
        with replacing_folder(folder) as partial:
            write_table(partial / "results.csv", RAW, rows)
        shutil.rmtree(cache, ignore_errors=True)


def _results(
    sweep: SweepSettings, group: FamilySettings, laboratory: Laboratory, name: str
) -> Iterator[Row]:
    points = sweep.points()
    total = len(sweep.runs) * len(points) * len(sweep.seeds)
    with progress(total=total, desc=f"sweep {name}", unit="run") as bar:
        for of in sweep.runs:
            for point in points:
                held = trial(group, sweep, of, point)
                for seed in sweep.seeds:
                    measured = laboratory.measure(held, seed)
                    at = {"run": of, "point": named(point), "seed": seed}
                    for metric, value in measured.items():
                        yield {**at, "metric": metric, "value": value}
                    bar.update()


@dataclass(frozen=True)
class Laboratory:
    """What all trainings of a sweep share: the text and its tokenizer's size."""

    train: Mapping[str, np.ndarray]
    valid: Mapping[str, np.ndarray]
    vocabulary: int
    device: torch.device
    cache: Path
    key: str
    """A digest of code and text."""

    @classmethod
    def of(cls, params: Params, group: FamilySettings, cache: Path) -> Laboratory:
        """Read the text of the decoders."""
        folder = paths.corpus_folder(group.corpus)
        languages = params.corpora[group.corpus].languages
        tokenizer = folder / "tokenizer.json"
        files = [folder / f"{part}.safetensors" for part in ("train", "valid")]
        train_ids, valid_ids = (read_tokens(path, tokenizer, languages) for path in files)
        vocabulary = load_corpus_tokenizer(tokenizer).get_vocab_size()
        held = [stage_digest("sweep"), *map(sha256_of, (*files, tokenizer))]
        return cls(train_ids, valid_ids, vocabulary, prepare_runtime(), cache, digest_of(held))

    def measure(self, held: Trial, seed: int) -> dict[str, float]:
        """The results of one training, from the cache where it is done. See `_measures`."""
        key = digest_of({"trial": held.dump(), "seed": seed, "in": self.key})
        found: dict[str, float] = remembered(
            self.cache / f"{key}.json", lambda: dict(self._measures(held, seed))
        )
        return found

    def _measures(self, held: Trial, seed: int) -> Iterator[tuple[str, float]]:
        """Metrics by name, losses in nats per predicted token.

        `diverged`: 1 when a loss, gradient or weight is not finite (`broke`), or when the last
        validation loss is above the unigram loss. Of a training that broke there are no losses.
        `train_loss`: of the final model on windows of the text that it was trained on, spread as
        those of the validation are; `gap`: validation minus that. `epochs`: passes over that text.
        """
        training = held.training
        model = LanguageModel(held.coupling, held.body, self.vocabulary).initialize(seed)
        model = model.to(self.device)
        schedule = Schedule(self.train, training, self.vocabulary, seed)
        valid = validation_batches(self.valid, training, self.vocabulary)
        yield from self._state(model, schedule.batch(0), valid, "start")
        trained = train(model, training, self.train, self.valid, seed)
        targets = {x: np.concatenate([b.targets for b in parts]) for x, parts in valid.items()}
        used = used_tokens(self.train, training)
        unigram = unigram_loss(used, targets, self.vocabulary)
        yield "unigram_loss", unigram
        yield "initial_loss", trained.history[0]["validation_loss"]
        seen = trained.steps * training.batch_size * (training.sequence_length - 1)
        yield "epochs", seen / sum(map(len, used.values()))
        yield from _of_history(trained)
        loss = trained.validation_loss
        broke = not math.isfinite(loss)
        yield "broke", float(broke)
        yield "diverged", float(broke or loss > unigram)
        if not broke:
            yield from self._final(model, training, used, loss)
            yield from self._state(model, schedule.batch(training.steps - 1), valid, "end")

    def _final(
        self,
        model: LanguageModel,
        training: TrainingSettings,
        used: Mapping[str, np.ndarray],
        loss: float,
    ) -> Iterator[tuple[str, float]]:
        batches = validation_batches(used, training, self.vocabulary)
        found = outcomes(model, batches, self.device)
        fitted = float(np.concatenate([part["loss"] for part in found.values()]).mean())
        yield "loss", loss
        yield "train_loss", fitted
        yield "gap", loss - fitted

    def _state(
        self,
        model: LanguageModel,
        batch: Batch,
        valid: Mapping[str, list[Batch]],
        when: str,
    ) -> Iterator[tuple[str, float]]:
        """`logit_std` on validation windows, and the shares of `vanishing`, with `when` after."""
        first = [parts[0] for parts in valid.values()]
        for metric, value in (
            ("logit_std", logit_std(model, first, self.device)),
            *vanishing(model, batch, self.device).items(),
        ):
            if math.isfinite(value):
                yield f"{metric}_{when}", value


def _of_history(trained: Trained) -> Iterator[tuple[str, float]]:
    """Spikes of the training loss, and gradient norms before clipping."""
    rows = [row for row in trained.history if row["loss"] is not None]
    if rows:
        norms = [row["gradient_norm"] for row in rows]
        yield "spikes", spikes([row["loss"] for row in rows])
        yield "gradient_norm_mean", sum(norms) / len(norms)
        yield "gradient_norm_max", max(norms)
