"""A corpus as a matrix of pair counts, which is all that a 2-gram model sees of it.

Pairs lie inside one string: neither [SEP], which ends a string, nor another special token is part
of the vocabulary. Shapes: `n` the vocabulary; a count `[i, j]` is of input i and target j.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiebench.corpus.tokenizer import SEP, SPECIALS
from tiebench.errors import SettingsError

Counts = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Pairs:
    """What a model is trained on, and what it is validated on."""

    train: Counts
    """`[n, n]`."""
    valid: Counts
    """`[n, n]`."""
    coverage: float
    """Share of the training pairs inside strings that the vocabulary covers."""


def most_frequent(
    streams: Iterable[Counts], vocabulary: int, left_out: Sequence[int] = ()
) -> Counts:
    """The ids `[n]` of the most frequent ordinary tokens, the most frequent first; ties by id.

    Args:
        streams: ids of each language.
        vocabulary: how many.
        left_out: ids that stand for no one token.

    Raises:
        SettingsError: the text has fewer.
    """
    counts = np.bincount(np.concatenate(list(streams)), minlength=SPECIALS + len(left_out))
    counts[[*range(SPECIALS), *left_out]] = 0
    held = int((counts > 0).sum())
    if held < vocabulary:
        raise SettingsError(
            "bigram.vocabulary",
            found=f"{vocabulary}",
            expected=f"at most {held}, the ordinary tokens that occur in the training part",
            mend="lower it, or choose a corpus with a larger vocabulary",
        )
    return np.argsort(-counts, kind="stable")[:vocabulary]


def count_pairs(
    streams: Mapping[str, Counts], kept: Counts, window: int | None = None
) -> tuple[Counts, float]:
    """Counts of the pairs of kept tokens, and their share of all pairs of ordinary tokens.

    Args:
        streams: ids of each language, strings ended by [SEP].
        kept: ids `[n]` by number in the vocabulary.
        window: None for a token and the next one; else every pair of two tokens at most so far
            apart, in both directions, so that the counts are symmetric.
    """
    size = len(kept)
    total, inside = np.zeros(size * size, dtype=np.int64), 0
    for ids in streams.values():
        for first, second in _neighbours(np.asarray(ids, dtype=np.int64), window or 1):
            inside += len(first)
            numbers = np.full(max(first.max(), second.max(), kept.max()) + 1, -1)
            numbers[kept] = np.arange(size)
            a, b = numbers[first], numbers[second]
            both = (a >= 0) & (b >= 0)
            total += np.bincount(a[both] * size + b[both], minlength=size * size)
    counts = total.reshape(size, size)
    covered = counts.sum() / max(inside, 1)
    return (counts if window is None else counts + counts.T), float(covered)


def _neighbours(ids: Counts, reach: int) -> Iterator[tuple[Counts, Counts]]:
    """The ordinary tokens of one string that are 1 to `reach` apart, the earlier first."""
    string = np.cumsum(ids == SEP)
    for apart in range(1, min(reach, len(ids) - 1) + 1):
        first, second = ids[:-apart], ids[apart:]
        # the [SEP] of a string counts as one of the next
        inside = (string[:-apart] == string[apart:]) & (first >= SPECIALS) & (second >= SPECIALS)
        if inside.any():
            yield first[inside], second[inside]


def references(pairs: Pairs) -> dict[str, float]:
    """What the losses of a model are held against, in nats per pair.

    Returns:
        `train_unigram` and `train_bigram`: the entropies of the target alone and given the input,
        on the training pairs; the latter is the lowest loss of any model of pairs. `valid_unigram`
        (add-one) and `valid_bigram` (interpolated with the unigram by Witten and Bell 1991, method
        C): cross-entropies of estimates from the training pairs on the validation pairs.
    """
    counts, valid = pairs.train.astype(float), pairs.valid.astype(float)
    of_input, of_target, total = counts.sum(1), counts.sum(0), counts.sum()
    smoothed = (of_target + 1) / (total + len(counts))
    followers = (counts > 0).sum(1)
    seen = (of_input + followers)[:, None]
    bigram = np.where(
        seen > 0, (counts + followers[:, None] * smoothed) / np.maximum(seen, 1), smoothed
    )
    given = counts / np.maximum(of_input, 1)[:, None]
    return {
        "train_unigram": _cross_entropy(of_target, of_target / total),
        "train_bigram": _cross_entropy(counts, given),
        "valid_unigram": _cross_entropy(valid.sum(0), smoothed),
        "valid_bigram": _cross_entropy(valid, bigram),
    }


def _cross_entropy(counts: np.ndarray, probabilities: np.ndarray) -> float:
    held = counts > 0
    return float(-(counts[held] * np.log(probabilities[held])).sum() / counts.sum())


def asymmetry(matrix: np.ndarray) -> float:
    """`|L - L^T| / |L|` (Frobenius) of a square matrix with row and column means taken away.

    0 for a symmetric one, sqrt(2) on average for independent entries, 2 for an antisymmetric one.
    """
    held = centred(matrix)
    size = float(np.linalg.norm(held))
    return float(np.linalg.norm(held - held.T)) / size if size else 0.0


def centred(matrix: np.ndarray) -> np.ndarray:
    """A matrix less its row and column means: less what a bias on either side gives."""
    held = np.asarray(matrix, dtype=float)
    return np.asarray(held - held.mean(0) - held.mean(1)[:, None] + held.mean())
