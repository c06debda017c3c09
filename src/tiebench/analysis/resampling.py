"""Intervals over sentences: percentile bootstrap of means over the examples of each sentence.

Random draws come from generators of their own: the same values give the same digits, whatever else
has drawn before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tiebench.analysis.statistics import LEVEL, Estimate, check_values, equal

RESAMPLES = 2000
"""Draws of a bootstrap."""


class Outcomes(NamedTuple):
    """What a run got right in a metric, in the mean over its seeds."""

    values: Any
    """`[n]`, one per example."""
    sentences: Any
    """`[n]`, the sentence that each example belongs to."""
    groups: Any = None
    """`[n]`, as in `bootstrap_interval`."""


Sampled = Mapping[tuple[str, str, str], Outcomes]
"""By (family, run, metric of the headline); the same examples in the same order for all runs."""


@dataclass(frozen=True)
class SampledEstimate(Estimate):
    """A mean over examples; its interval is over the sentences that the examples belong to."""

    sentences: int


def bootstrap_interval(
    values: Any, clusters: Any = None, groups: Any = None, level: float = LEVEL, seed: int = 0
) -> SampledEstimate:
    """Mean over examples and its percentile interval, by resampling sentences.

    Sentences are drawn with replacement, each with all its examples (Efron and Tibshirani 1993,
    chapter 13; Field and Welsh 2007); the mean is over the examples drawn. The draws depend on
    the number of sentences and `seed` alone, so that groups over the same sentences share them.
    Few sentences make it too narrow: 95% intervals held the mean in 93% of simulations with 20.

    Args:
        values: `[n]`, one per example.
        clusters: `[n]`, the sentence of each example; None when each is its own.
        groups: `[n]`, the group of each example. With these the mean, and that of each draw, is
            the mean of the groups' means, whatever their sizes: of a draw's own examples, where
            a group without any is left out.

    Returns:
        Without an interval where all sentences have the same mean (in each group).

    Raises:
        ValueError: no values, one that is not finite, or another number of clusters or groups.
    """
    import numpy as np

    held = np.asarray(values, dtype=np.float64)
    check_values(held)
    n = len(held)
    sentence, group = _numbered(clusters, "clusters", n), _numbered(groups, "groups", n)
    if clusters is None:
        sentence = np.arange(n)
    shape = int(sentence.max()) + 1, int(group.max()) + 1
    cell = sentence * shape[1] + group
    totals = np.bincount(cell, held, shape[0] * shape[1]).reshape(shape)
    sizes = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape).astype(float)
    mean = math.fsum(
        math.fsum(held[group == g]) / np.count_nonzero(group == g) for g in range(shape[1])
    )
    mean /= shape[1]
    size = np.abs(held).max()
    if all(_same(*column, size) for column in zip(totals.T, sizes.T, strict=True)):
        return SampledEstimate(n, mean, None, None, None, shape[0])
    draws = [_mean_of_groups(right, drawn) for right, drawn in _resampled(totals, sizes, seed)]
    low, high = np.quantile(np.concatenate(draws), _ends(level))
    return SampledEstimate(n, mean, float(low), float(high), "sentences", shape[0])


def bootstrap_difference(
    values: Any,
    baseline: Any,
    clusters: Any = None,
    groups: Any = None,
    level: float = LEVEL,
    seed: int = 0,
) -> SampledEstimate:
    """Mean of `values - baseline` over the same examples, as `bootstrap_interval`.

    Args:
        values, baseline: `[n]`, outcomes of the same examples in the same order, each the mean
            over a run's seeds: the interval is about these seeds, and other sentences.

    Raises:
        ValueError: unequal lengths, or as `bootstrap_interval`.
    """
    import numpy as np

    first, second = np.asarray(values, np.float64), np.asarray(baseline, np.float64)
    if first.shape != second.shape:
        raise ValueError(f"{len(first)} values and {len(second)} of the baseline")
    return bootstrap_interval(first - second, clusters, groups, level, seed)


def percentile_limits(
    totals: Any, sizes: Any, level: float = LEVEL, seed: int = 0
) -> tuple[Any, Any]:
    """Ends of the percentile intervals of ratios of sums, `[columns]` each.

    Args:
        totals: `[units, columns]`, sum of the values of each unit that is drawn.
        sizes: `[units, columns]`, number of these values.
    """
    import numpy as np

    ratios = [right / drawn for right, drawn in _resampled(totals, sizes, seed)]
    low, high = np.quantile(np.concatenate(ratios), _ends(level), axis=0)
    return low, high


def _numbered(names: Any, kind: str, n: int) -> Any:
    """The number of each example's name, `[n]`; all 0 without names."""
    import numpy as np

    if names is None:
        return np.zeros(n, dtype=np.int64)
    if len(names) != n:
        raise ValueError(f"{len(names)} {kind} for {n} values")
    return np.unique(np.asarray(names), return_inverse=True)[1]


def _same(totals: Any, sizes: Any, size: float) -> bool:
    """Whether all units that have values have the same mean; `size` as in `equal`."""
    held = sizes > 0
    means = totals[held] / sizes[held]
    return equal(means.min(), means.max(), size)


def _mean_of_groups(totals: Any, sizes: Any) -> Any:
    """`[draws]`, the mean of the ratios of the columns that a draw has."""
    held = sizes > 0
    return (totals / sizes.clip(min=1)).sum(axis=1) / held.sum(axis=1)


def _resampled(totals: Any, sizes: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Sums of the units drawn, `[draws, columns]` both."""
    import numpy as np

    draws = drawn_counts(len(totals), seed)
    for start in range(0, RESAMPLES, 250):
        counts = draws[start : start + 250].astype(np.float64)
        yield counts @ totals, counts @ sizes


@lru_cache(maxsize=8)
def drawn_counts(units: int, seed: int) -> Any:
    """How often each unit is drawn, `[RESAMPLES, units]`."""
    import numpy as np

    generator, share = np.random.default_rng(seed), np.full(units, 1 / units)
    drawn = np.empty((RESAMPLES, units), dtype=np.uint16 if units < 2**16 else np.uint32)
    for start in range(0, RESAMPLES, 250):
        drawn[start : start + 250] = generator.multinomial(units, share, 250)
    return drawn


def _ends(level: float) -> tuple[float, float]:
    return (1 - level) / 2, (1 + level) / 2
