"""Spearman's rank correlation with its bootstrap over pairs.

In a draw with replacement the rank of a value follows from how often each value was drawn, so that
nothing is sorted but once: a value has the draws of all values below it, and the middle of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tiebench.analysis.resampling import drawn_counts
from tiebench.analysis.statistics import LEVEL

DRAWS = 1000
"""Of the bootstrap."""
CHUNK = 100
"""Draws at once: what they need stays in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Ordered:
    """Values in order of which ranks are made.

    Attributes:
        order: `[n]`, places of the values from the smallest on.
        starts: `[different values]`, where each begins in that order.
    """

    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Ordered:
        """From `[n]` values."""
        order = np.argsort(values, kind="stable")
        ordered = values[order]
        return cls(order, np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]))

    @property
    def constant(self) -> bool:
        """Whether all values are the same."""
        return len(self.starts) == 1

    def gathered(self, cells: np.ndarray) -> np.ndarray:
        """Sums of `[n, draws]` over equal values, in order, `[different values, draws]`."""
        held = cells[self.order]
        if len(self.starts) == len(self.order):
            return held
        return np.asarray(np.add.reduceat(held, self.starts, axis=0))

    def ranks(self, own: np.ndarray) -> np.ndarray:
        """Mean rank of each different value less that of all, where `own` `[different values,
        draws]` were drawn."""
        return np.cumsum(own, axis=0) - (own + own.sum(axis=0)) / 2


@dataclass(frozen=True, eq=False)
class Reference:
    """Values that others are correlated with, which vary.

    Attributes:
        values: in order.
    """

    values: Ordered

    def spearman(self, other: Ordered) -> float:
        """Spearman's correlation with others that vary, ties at their mean rank."""
        once = np.ones((len(self.values.order), 1))
        return float(_correlations(*self._weighted(once), once, other)[0])

    def drawn(self, other: Ordered) -> np.ndarray:
        """The correlation in each of DRAWS draws of the pairs, `[draws]`.

        The draws depend on the number of pairs alone, so that those of two tables are of the same
        pairs. A draw in which either side is constant has none: NaN.
        """
        return np.concatenate([_correlations(*held, other) for held in self._chunks])

    @cached_property
    def _chunks(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        drawn = drawn_counts(len(self.values.order), 0)[:DRAWS].T
        parts = [
            np.ascontiguousarray(drawn[:, start : start + CHUNK], dtype=np.float64)
            for start in range(0, DRAWS, CHUNK)
        ]
        return [(*self._weighted(counts), counts) for counts in parts]

    def _weighted(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ranks times how often each value was drawn, `[n, draws]`, and their sums of squares."""
        own = self.values.gathered(counts)
        sizes = np.diff(np.r_[self.values.starts, len(counts)])
        ranks = np.empty(counts.shape)
        ranks[self.values.order] = np.repeat(self.values.ranks(own), sizes, axis=0)
        weighted = counts * ranks
        return weighted, np.einsum("ij,ij->j", weighted, ranks)


def limits(drawn: np.ndarray) -> tuple[float, float] | tuple[None, None]:
    """Ends of the percentile interval; none where the draws do not vary."""
    found = drawn[np.isfinite(drawn)]
    if not len(found) or found.min() == found.max():
        return None, None
    low, high = np.quantile(found, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


def _correlations(
    weighted: np.ndarray, squares: np.ndarray, counts: np.ndarray, other: Ordered
) -> np.ndarray:
    own = other.gathered(counts)
    ranks = other.ranks(own)
    product = np.einsum("ij,ij->j", other.gathered(weighted), ranks)
    square = squares * np.einsum("ij,ij->j", own * ranks, ranks)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(square > 0, product / np.sqrt(square), np.nan))
