"""A tied model goes on training on another domain, with its one table or with two: does freedom
help, or does it overfit?"""

from __future__ import annotations

import hashlib
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
from tiebench.errors import DivergedError, TrainingError
from tiebench.experiments.domain_text import DomainText, read_domain
from tiebench.experiments.domains_settings import (
    ARMS,
    FAMILY,
    PARTS,
    RAW,
    UNTIED,
    DomainsSettings,
)
from tiebench.experiments.saved_tables import Saved
from tiebench.files import digest_of, holding, remembered, replacing_folder, sha256_of
from tiebench.model.lm import LanguageModel
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.settings import Params, families
from tiebench.training.batches import Batch, Schedule, used_tokens, validation_batches
from tiebench.training.loop import Loop
from tiebench.training.parallel import Team
from tiebench.training.settings import TrainingSettings
from tiebench.training.validation import outcomes

Row = dict[str, Any]


def run(params: Params) -> None:
    """Write evals/<name>/domains/*.csv, all or none: a table for each of RAW.

    Finished trainings wait in .scratch/domains-<name>/, so that a killed process goes on after the
    last one and ends with the same bytes.

    Raises:
        DataError: a model, token file or source is missing or damaged.
        TrainingError: a training diverges.
        BusyError: another process is at work on the same report's experiment.
    """
    assert params.domains is not None, "the stage has its section"
    folder = paths.evaluation_folder(params.name, "domains")
    cell = f"domains-{params.name}"
    with holding(paths.SCRATCH / f"{cell}.lock", f"the experiment domains of {params.name}"):
        cache = paths.SCRATCH / cell
        experiment = Experiment.of(params, cache)
        rows = {"losses": list(experiment.rows()), "texts": list(experiment.text.rows())}
        with replacing_folder(folder) as partial:
            for name, columns in RAW.items():
                write_table(partial / f"{name}.csv", columns, rows[name])
        shutil.rmtree(cache, ignore_errors=True)


@dataclass(frozen=True)
class Experiment:
    """What all trainings share."""

    params: Params
    text: DomainText
    old: Mapping[str, np.ndarray]
    """Validation ids of the model's own corpus, by language."""
    saved: Saved
    device: torch.device
    cache: Path
    key: str
    """A digest of code and text."""

    @property
    def settings(self) -> DomainsSettings:
        """Those of the experiment."""
        assert self.params.domains is not None, "the stage has its section"
        return self.params.domains

    @classmethod
    def of(cls, params: Params, cache: Path) -> Experiment:
        """Read the texts and find the models."""
        settings, group = params.domains, families(params)[FAMILY]
        assert settings is not None, "the stage has its section"
        corpus, folder = params.corpora[group.corpus], paths.corpus_folder(group.corpus)
        tokenizer = folder / "tokenizer.json"
        vocabulary = load_corpus_tokenizer(tokenizer).get_vocab_size()
        old = read_tokens(folder / "valid.safetensors", tokenizer, corpus.languages)
        text = read_domain(settings, corpus, folder)
        files = [folder / "valid.safetensors", folder / "seen.parquet", tokenizer]
        held = [stage_digest("domains"), *map(sha256_of, files)]
        for part in (text.train, text.valid):  # a folder's files may change between processes
            held += [hashlib.sha256(part[x].tobytes()).hexdigest() for x in sorted(part)]
        saved = Saved(params, FAMILY, vocabulary)
        return cls(params, text, old, saved, prepare_runtime(), cache, digest_of(held))

    def rows(self) -> Iterator[Row]:
        """Rows of `losses`."""
        settings = self.settings
        seeds = families(self.params)[FAMILY].seeds
        total = len(settings.shares) * len(seeds) * len(ARMS)
        with progress(total=total, desc="another domain", unit="run") as bar:
            for share in settings.shares:
                for seed in seeds:
                    for arm in ARMS:
                        for row in self._trained(arm, share, seed):
                            yield {"arm": arm, "share": share, "seed": seed, **row}
                        bar.update()

    def _trained(self, arm: str, share: float, seed: int) -> list[Row]:
        """The losses of a training, from the cache where it is done."""
        settings = self.settings
        model = paths.run_folder(self.params.name, FAMILY, settings.run, seed)
        decides = settings.model_dump(exclude={"shares"})
        training = settings.training(families(self.params)[FAMILY], share)
        held = self.saved.model(settings.run, seed)  # checks it before its bytes are taken
        key = digest_of(
            {
                "settings": decides, "training": training.model_dump(), "arm": arm, "seed": seed,
                "model": sha256_of(model / "model.safetensors"), "in": self.key,
            }
        )  # fmt: skip
        rows: list[Row] = remembered(
            self.cache / f"{key}.json", lambda: self._continued(held, training, arm, share, seed)
        )
        return rows

    def _continued(
        self, held: LanguageModel, training: TrainingSettings, arm: str, share: float, seed: int
    ) -> list[Row]:
        """The losses of a training."""
        if arm == UNTIED:
            held.untie()
        vocabulary = self.saved.vocabulary
        texts = (used_tokens(self.text.train, training), self.text.valid, self.old)
        batches = {
            part: validation_batches(text, training, vocabulary)
            for part, text in zip(PARTS, texts, strict=True)
        }
        loop = Continuation(held.to(self.device), training, batches, self.device)
        schedule = Schedule(self.text.train, training, vocabulary, seed)
        subject = f"domains, {arm}, share {share:g}, seed {seed}"
        try:
            loop.run(schedule, None, subject)
        except DivergedError as error:
            raise TrainingError(
                subject,
                found=error.found,
                expected="finite values",
                mend="lower domains.learning_rate",
            ) from None
        per_step = training.batch_size * (training.sequence_length - 1)
        epoch = sum(map(len, texts[0].values()))
        return [{**row, "epochs": row["step"] * per_step / epoch} for row in loop.losses]


class Continuation(Loop):
    """The training loop, which measures several texts.

    Args:
        model: on the device.
        training: as it goes on.
        parts: batches by part and language.
        device: that trains.

    Attributes:
        losses: `step`, `part`, `loss` (nats per predicted token) of each measurement.
    """

    def __init__(
        self,
        model: LanguageModel,
        training: TrainingSettings,
        parts: Mapping[str, Mapping[str, list[Batch]]],
        device: torch.device,
    ) -> None:
        super().__init__(model, training, parts["new"], Team(device=device))
        self.parts, self.losses = parts, list[Row]()

    def validate(self, step: int) -> float | None:
        """Measure every part; the loss on the new domain."""
        new = super().validate(step)
        for part, batches in self.parts.items():
            loss = new
            if part != "new":
                held = outcomes(self.model, batches, self.team.device)
                loss = float(np.concatenate([x["loss"] for x in held.values()]).mean())
            self.losses.append({"step": step, "part": part, "loss": loss})
        return new
