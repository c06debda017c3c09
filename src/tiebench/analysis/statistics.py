"""What differences are judged by: t intervals and tests over seeds.

A result says itself what varies in it, so that the noise of seeds and that of sentences
(`tiebench.analysis.resampling`) are never taken for each other.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

LEVEL = 0.95
"""Level of every interval."""
POWER = 0.8
"""Power of the smallest detectable difference."""
MINIMUM_SEEDS = 5
"""Fewer paired seeds decide nothing: at two the interval is 12.7 standard errors to each side."""
ROUNDING = 1e-12
"""Values that differ by less than this share of their size are equal."""

Varies = Literal["seeds", "sentences"]
Correction = Literal["holm", "bonferroni", "fdr_bh", "none"]


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` values with its interval; both ends are None when the values do not vary."""

    n: int
    mean: float
    low: float | None
    high: float | None
    varies: Varies | None
    """What the interval is over; None without one."""

    @property
    def sign(self) -> int:
        """1 or -1 when the whole interval is above or below zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return (self.low > 0) - (self.high < 0)


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A mean difference over pairs of seeds."""

    p: float | None
    """Of the two-sided paired t test; None when the differences do not vary."""
    detectable: float | None
    """The true difference that the test would find with POWER."""


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Mean and Student t interval (Gosset 1908); `values` are independent, one per seed.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    check_values(values)
    return _t_interval(values, _deviation(values), level)


def paired_difference(
    values: Sequence[float], baseline: Sequence[float], level: float = LEVEL
) -> PairedDifference:
    """Mean of `values - baseline`, paired by position, with the t interval of the differences.

    The interval excludes zero exactly when p < 1 - level.

    Raises:
        ValueError: unequal or no lengths, or a value that is not finite.
    """
    differences, deviation = _paired(values, baseline)
    estimate = _t_interval(differences, deviation, level)
    p = None
    if deviation:
        from scipy import special

        ratio = abs(estimate.mean) * math.sqrt(estimate.n) / deviation
        p = 2 * float(special.stdtr(estimate.n - 1, -ratio))
    return PairedDifference(
        **vars(estimate), p=p, detectable=_detectable(estimate.n, deviation, 1 - level, POWER)
    )


def equivalence(values: Sequence[float], baseline: Sequence[float], margin: float) -> float | None:
    """P of two one-sided paired t tests of a difference within `margin` (Schuirmann 1987).

    Args:
        values, baseline: one value per seed, paired by position.
        margin: above zero, in the values' unit; stated before the values are seen.

    Returns:
        None for a single pair, and for differences that do not vary.

    Raises:
        ValueError: as `paired_difference`, or a margin that is not above zero.
    """
    if not margin > 0:
        raise ValueError(f"a margin is above zero ({margin})")
    if not _paired(values, baseline)[1]:
        return None
    import numpy as np
    from statsmodels.stats.weightstats import ttost_paired

    pair = np.asarray(values, float), np.asarray(baseline, float)
    return float(ttost_paired(*pair, -margin, margin)[0])


def shared_seeds(
    values: Mapping[int, float], baseline: Mapping[int, float]
) -> tuple[list[float], list[float]]:
    """The values of the seeds that both have, paired by position."""
    seeds = [seed for seed in values if seed in baseline]
    return [values[seed] for seed in seeds], [baseline[seed] for seed in seeds]


def correct(p_values: Sequence[float | None], method: Correction) -> list[float | None]:
    """P values adjusted for their number; None where there is none, which is not counted.

    `holm` (Holm 1979) and `bonferroni` hold the chance of any false finding, `fdr_bh` the share
    of false ones among the findings (Benjamini and Hochberg 1995).

    Raises:
        ValueError: a p value outside 0 to 1.
    """
    tested = [p for p in p_values if p is not None]
    for p in tested:
        if not 0 <= p <= 1:
            raise ValueError(f"a p value is from 0 to 1 ({p})")
    if method == "none" or len(tested) < 2:
        return list(p_values)
    from statsmodels.stats.multitest import multipletests

    gc.freeze()  # it collects garbage at every call, over all that is held elsewhere
    try:
        adjusted = iter(multipletests(tested, method=method)[1])
    finally:
        gc.unfreeze()
    return [None if p is None else float(next(adjusted)) for p in p_values]


def smallest_detectable(
    values: Sequence[float], baseline: Sequence[float], tests: int = 1
) -> float | None:
    """The true difference that `paired_difference` would find with POWER.

    From the noncentral t distribution at the observed standard deviation of the differences
    (Cohen 1988, chapter 2). statsmodels' `TTestPower` gives the same to the tolerance of its
    search, which is 1e-5.

    Args:
        values, baseline: one value per seed, paired by position.
        tests: two-sided at 1 - LEVEL divided by so many.

    Returns:
        None for a single pair, and for differences that do not vary.

    Raises:
        ValueError: as `paired_difference`.
    """
    differences, deviation = _paired(values, baseline)
    return _detectable(len(differences), deviation, (1 - LEVEL) / tests, POWER)


def corrected_over(p_values: Sequence[float | None], method: Correction) -> int:
    """By how many tests the level of the strictest one is divided, as `correct` does.

    `fdr_bh` and `none` divide it by none; Holm's first step and Bonferroni by all that have a p.
    """
    if method in ("none", "fdr_bh"):
        return 1
    return max(1, sum(p is not None for p in p_values))


def check_values(values: Any) -> None:
    """Raises ValueError: no values, or one that is not finite."""
    if not len(values):
        raise ValueError("a mean needs at least one value")
    if not all(map(math.isfinite, values)):
        raise ValueError("a mean needs finite values")


def _paired(values: Sequence[float], baseline: Sequence[float]) -> tuple[list[float], float]:
    """Differences and their standard deviation, 0 where they are equal but for rounding."""
    differences = [a - b for a, b in zip(values, baseline, strict=True)]
    check_values(differences)
    return differences, _deviation(differences, max(map(abs, (*values, *baseline))))


def _t_interval(values: Sequence[float], deviation: float, level: float) -> Estimate:
    n, mean = len(values), math.fsum(values) / len(values)
    if not deviation:
        return Estimate(n, mean, None, None, None)
    half = deviation / math.sqrt(n) * _quantile(n - 1, (1 + level) / 2)
    return Estimate(n, mean, mean - half, mean + half, "seeds")


def _deviation(values: Sequence[float], size: float = 0.0) -> float:
    """Standard deviation; exactly 0 for one value and for values equal but for rounding.

    Args:
        values: what it is of.
        size: of the numbers that the values were computed from, where these are larger.
    """
    if equal(min(values), max(values), size):
        return 0.0
    return statistics.stdev(map(float, values))


def equal(low: float, high: float, size: float = 0.0) -> bool:
    """Whether two numbers differ by rounding alone; `size` as in `_deviation`."""
    return bool(high - low <= ROUNDING * max(size, abs(low), abs(high)))


@cache
def _quantile(degrees: int, probability: float) -> float:
    from scipy import stats

    return float(stats.t.ppf(probability, degrees))


def _detectable(n: int, deviation: float, alpha: float, power: float) -> float | None:
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
