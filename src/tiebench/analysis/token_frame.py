"""The tokens that tables of embeddings are compared on: halves, a sample, and permutations, all by
frequency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Frame:
    """The tokens that tables are compared on, `n` in all.

    Attributes:
        bins: `[n]`, the frequency bin of each.
        half: `[n]`, True in the first half; every bin is split.
        sample: `[m]` tokens whose distances and neighbours among each other are compared.
        permutations: each `[n]`, of tokens within their bins.
        sample_permutations: each `[m]`, of places in `sample`, within bins.
        neighbours: how many nearest ones are compared.
        subspace: how many leading directions are.
    """

    bins: np.ndarray
    half: np.ndarray
    sample: np.ndarray
    permutations: list[np.ndarray]
    sample_permutations: list[np.ndarray]
    neighbours: int
    subspace: int


def make_frame(
    counts: np.ndarray,
    *,
    bins: int,
    permutations: int,
    sample: int,
    neighbours: int,
    subspace: int,
    seed: int,
) -> Frame:
    """Draw the halves, the sample and the permutations.

    Args:
        counts: `[n]` occurrences of each token.
        bins: of equal numbers of tokens, by frequency.
        permutations: of each floor.
        sample: at most so many tokens, as many of each bin.
        neighbours, subspace: as in Frame.
        seed: of all that is drawn.
    """
    by_bin = np.array_split(np.argsort(-counts, kind="stable"), bins)
    number = np.empty(len(counts), dtype=np.int64)
    half = np.zeros(len(counts), dtype=bool)
    rng = np.random.default_rng([seed, 0])
    chosen = []
    for index, tokens in enumerate(by_bin):
        number[tokens] = index
        drawn = rng.permutation(tokens)
        half[drawn[index % 2 :: 2]] = True
        chosen.append(rng.permutation(tokens)[: max(1, sample // bins)])
    sampled = np.sort(np.concatenate(chosen))
    rng = np.random.default_rng([seed, 1])
    return Frame(
        number,
        half,
        sampled,
        [permuted(number, rng) for _ in range(permutations)],
        [permuted(number[sampled], rng) for _ in range(permutations)],
        neighbours,
        subspace,
    )


def permuted(bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random permutation `[n]` that keeps every bin."""
    order = np.arange(len(bins))
    for index in np.unique(bins):
        inside = np.flatnonzero(bins == index)
        order[inside] = rng.permutation(inside)
    return order
