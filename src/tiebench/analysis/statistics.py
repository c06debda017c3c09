"""Means and paired differences over seeds, with t intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.95
"""Level of every interval."""
POWER = 0.8
"""Power of the smallest detectable difference, two-sided at 1 - LEVEL."""


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` values with its interval; both ends are None when n is 1."""

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
    import numpy as np
    from scipy import stats

    if not len(values):
        raise ValueError("a mean needs at least one value")
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    if len(array) == 1:
        return Estimate(1, mean, None, None)
    half = float(stats.sem(array) * stats.t.ppf((1 + level) / 2, len(array) - 1))
    return Estimate(len(array), mean, mean - half, mean + half)


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A mean difference over pairs; `detectable` is the true difference found with power 0.8."""

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
    None for a single pair.
    """
    import numpy as np
    from scipy import optimize, stats

    n = len(differences)
    if n < 2:
        return None
    critical = stats.t.ppf(1 - alpha / 2, n - 1)

    def lacking(shift: float) -> float:
        # the other tail adds less than 1e-4 here, and scipy gives NaN for it at few pairs
        return float(stats.nct.sf(critical, n - 1, shift) - power)

    shift = optimize.brentq(lacking, 0.0, 1.4 * critical + 2)
    return float(shift * np.std(differences, ddof=1) / math.sqrt(n))
