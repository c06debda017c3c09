"""Means and paired differences over seeds, with t intervals; means over sentences, resampled."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

LEVEL = 0.95
"""Level of every interval."""
POWER = 0.8
"""Power of the smallest detectable difference, two-sided at 1 - LEVEL."""
MINIMUM_SEEDS = 5
"""Fewer paired seeds decide nothing: at two the interval is 12.7 standard errors to each side."""
RESAMPLES = 2000
"""Draws of a bootstrap."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` values with its interval; both ends are None when the values do not vary."""

    n: int
    mean: float
    low: float | None
    high: float | None

    @property
    def sign(self) -> int:
        """1 or -1 when the whole interval is above or below zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Mean and Student t interval (Gosset 1908); `values` are independent, one per seed.

    Raises:
        ValueError: no values.
    """
    n = len(values)
    if not n:
        raise ValueError("a mean needs at least one value")
    mean = math.fsum(values) / n
    deviation = _deviation(values)
    if not deviation:
        return Estimate(n, mean, None, None)
    half = deviation / math.sqrt(n) * _quantile(n - 1, (1 + level) / 2)
    return Estimate(n, mean, mean - half, mean + half)


def bootstrap_interval(values: Any, level: float = LEVEL, seed: int = 0) -> Estimate:
    """Mean of `values` `[n]` and its percentile bootstrap interval (Efron and Tibshirani 1993).

    The draws depend on `n` and `seed` alone, so that groups over the same units share them.

    Raises:
        ValueError: no values.
    """
    import numpy as np

    n = len(values)
    if not n:
        raise ValueError("a mean needs at least one value")
    mean = math.fsum(values) / n
    if min(values) == max(values):
        return Estimate(n, mean, None, None)
    means = _resampled(n, seed) @ np.asarray(values, dtype=np.float64) / n
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return Estimate(n, mean, float(low), float(high))


@lru_cache(maxsize=4)
def _resampled(n: int, seed: int) -> Any:
    """How often each unit is drawn, `[RESAMPLES, n]`."""
    import numpy as np

    draws = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return draws.astype(np.float64)


def _deviation(values: Sequence[float]) -> float:
    """Standard deviation; exactly 0 for one value and for values equal but for rounding."""
    spread = max(values) - min(values)
    if spread <= 1e-12 * max(map(abs, values)):
        return 0.0
    return statistics.stdev(map(float, values))


@cache
def _quantile(degrees: int, probability: float) -> float:
    from scipy import stats

    return float(stats.t.ppf(probability, degrees))


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A mean difference over pairs; `detectable` is the true difference found with POWER."""

    detectable: float | None


def paired_difference(
    values: Sequence[float], baseline: Sequence[float], level: float = LEVEL
) -> PairedDifference:
    """Mean of `values - baseline`, paired by position, with the t interval of the differences.

    Raises:
        ValueError: unequal or no lengths.
    """
    differences = [a - b for a, b in zip(values, baseline, strict=True)]
    estimate = mean_interval(differences, level)
    detectable = smallest_detectable(differences, 1 - level)
    return PairedDifference(estimate.n, estimate.mean, estimate.low, estimate.high, detectable)


def smallest_detectable(
    differences: Sequence[float], alpha: float = 1 - LEVEL, power: float = POWER
) -> float | None:
    """The true mean difference that a two-sided paired t test would find with `power`.

    From the noncentral t distribution at the observed standard deviation (Cohen 1988, chapter 2).
    None for a single pair, and for differences that do not vary.
    """
    n, deviation = len(differences), _deviation(differences)
    if not deviation:
        return None
    return _detectable_shift(n, alpha, power) * deviation / math.sqrt(n)


@cache
def _detectable_shift(n: int, alpha: float, power: float) -> float:
    """The noncentrality at which the test has the power."""
    from scipy import optimize, stats

    critical = _quantile(n - 1, 1 - alpha / 2)

    def lacking(shift: float) -> float:
        # the other tail adds less than 1e-4 here, and scipy gives NaN for it at few pairs
        return float(stats.nct.sf(critical, n - 1, shift) - power)

    return float(optimize.brentq(lacking, 0.0, 1.4 * critical + 2))
