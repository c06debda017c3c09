"""Zero-shot transfer: fine-tuned on one language, tested on every one (RemBERT, section 3).

Every learning rate starts from the same weights and sees the same batches. The development
examples of the trained language choose the learning rate and the epoch; no other language, and no
test example, takes part in any choice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tiebench import paths
from tiebench.corpus.seen import digests, read_seen
from tiebench.corpus.tokenizer import OWN_ENDS, Ends
from tiebench.errors import DataError, TrainingError
from tiebench.evaluation.adam import Adam
from tiebench.evaluation.classifier import Classifier, score_labels
from tiebench.evaluation.encode import frame, read_run, sentence_ids
from tiebench.evaluation.imported_settings import transfer_settings
from tiebench.evaluation.keys import outcome_key
from tiebench.evaluation.outcomes import replacing_outcomes, write_outcomes
from tiebench.evaluation.transfer_settings import TransferSettings
from tiebench.files import sha256_of, write_json
from tiebench.labels.read import Purposes, read_purposes
from tiebench.model.lm import LanguageModel
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.settings import Params, corpus_of
from tiebench.training.optimizer import group_parameters

WEIGHT_DECAY, BETAS, EPSILON, CLIP = 0.01, (0.9, 0.999), 1e-6, 1.0
"""RemBERT, table 14."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Examples:
    """Strings of token ids, and the position of each one's label among the sorted labels."""

    ids: list[np.ndarray]
    targets: np.ndarray
    """`[examples]` int64."""

    def at(self, rows: np.ndarray) -> Examples:
        """Those at `rows`."""
        return Examples([self.ids[row] for row in rows], self.targets[rows])


@dataclass(frozen=True)
class FineTuned:
    """The classifier of the best learning rate and epoch, and what all of them reached."""

    classifier: Classifier
    best: dict[str, Any]
    """The entry of `grid` that was chosen."""
    grid: list[dict[str, Any]]
    """`learning_rate`, `epoch` from 1 and `development_accuracy`; None once the values are not
    finite, after which a learning rate has no further epoch."""


def transfer(params: Params, family: str, run: str, seed: int) -> Path:
    """Fine-tune one pretrained model on the first language of the label set, and test it.

    Writes outcomes.parquet (one row per test example) and summary.json into
    evals/<name>/transfer/<family>/<labels>-<run>-s<seed>/. A string with more tokens than the body
    takes is cut at its end, and counted: form and label survive.

    Raises:
        SettingsError: no such family or run.
        DataError: the model, the label set or the digests of the training text are missing,
            damaged, or do not fit each other.
        TrainingError: no learning rate has a finite loss.
    """
    corpus, settings = corpus_of(params, family, run), transfer_settings(params, family)
    run_folder = paths.run_folder(params.name, family, run, seed)
    labels_folder = paths.labels_folder(settings.labels)
    data = read_purposes(labels_folder)
    labels, first = sorted(data.meta["labels"]), data.meta["languages"][0]
    check(data, labels_folder, labels, first)
    texts = None if corpus is None else paths.corpus_folder(corpus) / "seen.parquet"
    seen = None if texts is None else read_seen(texts)
    device = prepare_runtime()
    model, tokenizer, ends = read_run(run_folder)
    room = model.settings.body.maximum_length - ends.size
    ids, cut = cut_long(sentence_ids(tokenizer, data.text), room)
    examples = Examples(ids, np.searchsorted(labels, data.label.tolist()))
    own, test = data.lang == first, np.flatnonzero(data.part == "test")
    cell = f"transfer {family} {paths.cell_name(run, seed)}"
    tuned = fine_tune(
        model,
        examples.at(np.flatnonzero(own & (data.part == "train"))),
        examples.at(np.flatnonzero(own & (data.part == "development"))),
        labels=len(labels), settings=settings, seed=seed, device=device, subject=cell, ends=ends,
    )  # fmt: skip
    logits = score_labels(tuned.classifier, [ids[row] for row in test], device)
    folder = paths.outcome_folder(params.name, "transfer", family, run, seed, data=settings.labels)
    columns = {
        "lang": data.lang[test],
        "example": test.astype(np.int32),
        "reference": data.label[test],
        "prediction": np.array(labels, dtype=object)[logits.argmax(axis=1)],
        # what an imported model was trained on is not known: nothing can be left out by it
        "seen": np.zeros(len(test), dtype=bool)
        if seen is None
        else np.isin(digests(data.text[row] for row in test), seen),
    }
    counts = tuned.classifier.parameter_counts()
    with replacing_outcomes(folder) as new:
        write_outcomes(new / "outcomes.parquet", columns)
        summary = {
            "key": outcome_key(params, "transfer", family, run, seed, settings.labels),
            "outcomes": sha256_of(new / "outcomes.parquet"),
            **tuned.best,
            "grid": tuned.grid,
            "parameters": counts["total"],
            "encoder_parameters": counts["encoder"],
            "cut": int(cut.sum()),
        }
        write_json(new / "summary.json", summary)
    return folder


def check(data: Purposes, folder: Path, labels: list[str], first: str) -> None:
    """Check that every label is a known one that is trained on, and that every part has examples.

    Raises:
        DataError: what is missing or unknown.
    """
    path, mend = folder / "examples.parquet", f"run `dvc repro -f labels@{folder.name}`"
    unknown = sorted(set(data.label) - set(labels))
    if unknown:
        known = ", ".join(labels)
        raise DataError(
            path, found=f"label {unknown[0]!r}", expected=f"those of meta.json: {known}", mend=mend
        )
    parts = [(first, "train"), (first, "development")]
    for language, part in [*parts, *((x, "test") for x in data.meta["languages"])]:
        if not ((data.lang == language) & (data.part == part)).any():
            raise DataError(
                path, found=f"no {part} example in {language}", expected="at least one", mend=mend
            )
    untrained = set(labels) - set(data.label[(data.lang == first) & (data.part == "train")])
    if untrained:
        raise DataError(
            path,
            found=f"no training example of label {min(untrained)!r} in {first}",
            expected="some of every label",
            mend=mend,
        )


def cut_long(ids: list[np.ndarray], limit: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Strings cut to at most `limit` tokens, and which were, `[strings]` bool."""
    return [part[:limit] for part in ids], np.array([len(part) > limit for part in ids])


def fine_tune(
    model: LanguageModel,
    train: Examples,
    development: Examples,
    *,
    labels: int,
    settings: TransferSettings,
    seed: int,
    device: torch.device,
    subject: str,
    ends: Ends = OWN_ENDS,
) -> FineTuned:
    """Fine-tune with every learning rate and keep the best by development accuracy.

    Among equals the one that stands first in the grid counts.

    Args:
        model: the starting point; it is copied and not changed.
        labels: number of classes.
        seed: that of the cell; it draws the batches and the linear layer.
        subject: the cell, for the bar and the error.
        ends: special tokens around a string.

    Raises:
        TrainingError: no learning rate has a finite loss.
    """
    epochs = draw_batches([len(x) for x in train.ids], settings, seed)
    grid: list[dict[str, Any]] = []
    best: dict[str, Any] | None = None
    held: dict[str, torch.Tensor] = {}
    broken = ""
    total = len(settings.learning_rates) * settings.epochs * len(train.ids)
    with progress(total=total, desc=subject, unit="example") as bar:
        for rate in settings.learning_rates:
            classifier = Classifier(model, labels, seed, ends).to(device)
            updates = train_epochs(classifier, train, epochs, rate, settings, device, bar)
            for epoch in range(1, settings.epochs + 1):
                failed = next(updates)
                accuracy = None
                if failed is None:
                    accuracy = _accuracy(classifier, development, device)
                grid.append(
                    {"learning_rate": rate, "epoch": epoch, "development_accuracy": accuracy}
                )
                if accuracy is None:
                    broken = f"{failed or 'logits that are not finite'} in epoch {epoch} with "
                    broken += f"learning rate {rate:g}"
                    logger.warning("%s: %s", subject, broken)
                    break
                if best is None or accuracy > best["development_accuracy"]:
                    best = grid[-1]
                    held = {k: x.detach().clone() for k, x in classifier.state_dict().items()}
    if best is None:
        raise TrainingError(
            subject,
            found=f"no learning rate with a finite loss: {broken}",
            expected="finite values with one of transfer.learning_rates",
            mend="lower transfer.learning_rates",
        )
    classifier = Classifier(model, labels, seed, ends).to(device)
    classifier.load_state_dict(held)
    return FineTuned(classifier, best, grid)


def _accuracy(classifier: Classifier, examples: Examples, device: torch.device) -> float | None:
    """The share that is right; None when a logit is not finite."""
    logits = score_labels(classifier, examples.ids, device)
    if not np.isfinite(logits).all():
        return None
    return float((logits.argmax(axis=1) == examples.targets).mean())


def draw_batches(
    lengths: Sequence[int], settings: TransferSettings, seed: int
) -> list[list[np.ndarray]]:
    """Rows of every batch, by epoch; all runs of a seed see the same.

    Examples of like length share a batch, so that little padding is computed: they are put in a
    random order, then sorted by length, cut into batches, and the batches are shuffled.
    """
    rng = np.random.default_rng([seed, 0])
    epochs = []
    for _ in range(settings.epochs):
        order = rng.permutation(len(lengths))
        order = order[np.argsort(np.asarray(lengths)[order], kind="stable")]
        batches = np.split(order, range(settings.batch_size, len(order), settings.batch_size))
        epochs.append([batches[index] for index in rng.permutation(len(batches))])
    return epochs


def train_epochs(
    classifier: Classifier,
    train: Examples,
    epochs: list[list[np.ndarray]],
    rate: float,
    settings: TransferSettings,
    device: torch.device,
    bar: Any,
) -> Iterator[str | None]:
    """Train, and yield after each epoch: None, or what was not finite, which ends the training."""
    groups = group_parameters(classifier)
    parameters = [p for held in groups.values() for p in held]
    decays = [WEIGHT_DECAY * (kind == "matrices") for kind, held in groups.items() for _ in held]
    optimizer = Adam(parameters, decays, BETAS, EPSILON)
    step, steps = 0, sum(map(len, epochs))
    for batches in epochs:
        for rows in batches:
            now = rate * rate_share(step, steps, settings.warmup_share)
            batch = train.at(rows)
            classifier.zero_grad()
            targets = torch.from_numpy(batch.targets).to(device)
            strings = frame(batch.ids, classifier.ends).to(device)
            loss = F.cross_entropy(classifier(strings), targets)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(classifier.parameters(), CLIP)
            step += 1
            if not (math.isfinite(loss.item()) and math.isfinite(float(norm))):
                yield f"loss {loss.item():g} and gradient norm {float(norm):g} at step {step}"
                return
            gradients = [p.grad for p in parameters if p.grad is not None]
            optimizer.update(gradients, [now] * len(parameters))
            bar.update(len(rows))
        yield None


def rate_share(step: int, steps: int, warmup_share: float) -> float:
    """Share of the peak learning rate at update `step`, from 0: linear rise, then linear fall."""
    rising = round(warmup_share * steps)
    return (step + 1) / rising if step < rising else (steps - step) / (steps - rising)
