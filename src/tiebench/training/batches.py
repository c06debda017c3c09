"""Which windows a run sees, and what it predicts in them: a function of settings, seed and step.

Every run of a family with the same seed sees the same windows, masked at the same positions, in
the same order; a resumed run goes on where it was without a state to restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tiebench.corpus.tokenizer import CLS, MASK, SPECIALS
from tiebench.errors import DataError
from tiebench.training.settings import MaskingSettings, TrainingSettings

VALIDATION_SEED = 2**31 - 1
"""Not a run's seed: the masks of a validation are the same for all runs."""
VALIDATION_ROWS = 16
"""Windows per validation batch, not the setting: the masks do not depend on the batch size."""


@dataclass(frozen=True)
class Batch:
    """Inputs and what is predicted.

    Attributes:
        ids: `[batch, seq]` int64.
        where: `[n]` int64, predicted positions in the flattened `[batch * seq]`.
        targets: `[n]` int64 ids.
    """

    ids: np.ndarray
    where: np.ndarray
    targets: np.ndarray


def used_tokens(
    tokens: Mapping[str, np.ndarray], training: TrainingSettings
) -> dict[str, np.ndarray]:
    """The part of each language's training tokens that is trained on: the first `data_share`."""
    share = training.data_share
    return {language: ids[: round(share * len(ids))] for language, ids in tokens.items()}


class Schedule:
    """The windows of every step.

    A language is drawn for each window in proportion to its tokens to the sampling exponent; a
    language's windows come in a new random order, from a new random offset, in each pass over
    it. No window mixes languages.

    Args:
        tokens: ids by language.
        training: steps, batch size, sequence length, share of the data, exponent, objective.
        vocabulary: entries of the tokenizer, for random replacements.
        seed: the run's seed.

    Raises:
        DataError: what is used of a language is less than two windows.
    """

    def __init__(
        self,
        tokens: Mapping[str, np.ndarray],
        training: TrainingSettings,
        vocabulary: int,
        seed: int,
    ) -> None:
        self.tokens = used_tokens(tokens, training)
        self.training, self.vocabulary, self.seed = training, vocabulary, seed
        self.content = training.sequence_length - 1
        self.languages = sorted(tokens)
        for language in self.languages:
            self._windows(language)
        sizes = np.array([len(self.tokens[language]) for language in self.languages], dtype=float)
        shares = sizes**training.sampling_exponent
        rng = np.random.default_rng([seed, 0])
        shape = (training.steps, training.batch_size)
        self.choice = rng.choice(len(self.languages), size=shape, p=shares / shares.sum())
        self.start = np.zeros(shape, dtype=np.int64)
        for index, language in enumerate(self.languages):
            drawn = self.choice == index
            self.start[drawn] = self._starts(language, int(drawn.sum()), rng)

    def _windows(self, language: str) -> int:
        """Windows of a language to a pass over it."""
        windows = len(self.tokens[language]) // self.content - 1
        if windows < 1:
            raise DataError(
                f"training text of {language}",
                found=f"{len(self.tokens[language])} tokens",
                expected=f"at least {2 * self.content}, two windows of training.sequence_length",
                mend="shorten training.sequence_length, raise training.data_share, or take a "
                "larger corpus",
            )
        return windows

    def _starts(self, language: str, count: int, rng: np.random.Generator) -> np.ndarray:
        windows, passes = self._windows(language), []
        for _ in range(-(-count // windows)):
            offset = rng.integers(self.content + 1)
            passes.append(offset + self.content * rng.permutation(windows))
        return np.concatenate(passes)[:count] if passes else np.zeros(0, dtype=np.int64)

    def batch(self, step: int) -> Batch:
        """The batch of update `step`, counted from 0."""
        ids = np.empty((self.training.batch_size, self.content + 1), dtype=np.int64)
        ids[:, 0] = CLS
        for row, (language, start) in enumerate(
            zip(self.choice[step], self.start[step], strict=True)
        ):
            ids[row, 1:] = self.tokens[self.languages[language]][start : start + self.content]
        rng = np.random.default_rng([self.seed, 1, step])
        return predictions(ids, self.training, self.vocabulary, rng)


def validation_batches(
    tokens: Mapping[str, np.ndarray], training: TrainingSettings, vocabulary: int
) -> dict[str, list[Batch]]:
    """The validation of every run: evenly spread windows of each language, fixed masks.

    Raises:
        DataError: a language has less text than one window.
    """
    content = training.sequence_length - 1
    batches = {}
    for index, language in enumerate(sorted(tokens)):
        held = len(tokens[language]) // content
        if held < 1:
            raise DataError(
                f"validation text of {language}",
                found=f"{len(tokens[language])} tokens",
                expected=f"at least {content}, one window of training.sequence_length",
                mend="raise the corpus' valid_share, or shorten training.sequence_length",
            )
        chosen = np.linspace(0, held - 1, min(held, training.validation_windows)).astype(int)
        ids = np.empty((len(chosen), content + 1), dtype=np.int64)
        ids[:, 0] = CLS
        for row, window in enumerate(chosen):
            ids[row, 1:] = tokens[language][window * content : (window + 1) * content]
        rng = np.random.default_rng([VALIDATION_SEED, index])
        batches[language] = [
            predictions(part, training, vocabulary, rng)
            for part in np.split(ids, range(VALIDATION_ROWS, len(ids), VALIDATION_ROWS))
        ]
    return batches


def predictions(
    ids: np.ndarray, training: TrainingSettings, vocabulary: int, rng: np.random.Generator
) -> Batch:
    """What is predicted in `[batch, seq]` windows.

    Masked: an exact share of each window's ordinary tokens. Causal: every token but the first,
    from those before it.
    """
    if training.masking is not None:
        return mask(ids, training.masking, vocabulary, rng)
    batch, seq = ids.shape
    where = np.arange(batch * seq).reshape(batch, seq)[:, :-1]
    return Batch(ids, where.reshape(-1), ids[:, 1:].reshape(-1))


def mask(
    ids: np.ndarray, masking: MaskingSettings, vocabulary: int, rng: np.random.Generator
) -> Batch:
    """BERT's masking of `[batch, seq]` windows; special tokens are never predicted."""
    ordinary = ids >= SPECIALS
    order = np.where(ordinary, rng.random(ids.shape), 2.0).argsort(axis=1).argsort(axis=1)
    counts = np.maximum(1, np.rint(masking.probability * ordinary.sum(axis=1))).astype(int)
    chosen = ordinary & (order < counts[:, None])
    where = np.flatnonzero(chosen)
    targets = ids.reshape(-1)[where]
    fate = rng.random(len(where))
    replacement = np.where(fate < masking.mask_share, MASK, targets)
    random = (fate >= masking.mask_share) & (fate < masking.mask_share + masking.random_share)
    drawn = rng.integers(SPECIALS, vocabulary, size=len(where))
    masked = ids.copy()
    masked.reshape(-1)[where] = np.where(random, drawn, replacement)
    return Batch(masked, where, targets)
