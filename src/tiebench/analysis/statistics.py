"""What differences are judged by: t intervals and tests over seeds, resampling of sentences.

A result says itself what varies in it, so that the noise of seeds and that of sentences are never
taken for each other. Random draws come from generators of their own: the same values give the same
digits, whatever else has drawn before.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

LEVEL = 0.95
"""Level of every interval."""
POWER = 0.8
"""Power of the smallest detectable difference, two-sided at 1 - LEVEL."""
MINIMUM_SEEDS = 5
"""Fewer paired seeds decide nothing: at two the interval is 12.7 standard errors to each side."""
RESAMPLES = 2000
"""Draws of a bootstrap."""
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
class SampledEstimate(Estimate):
    """A mean over examples; its interval is over the sentences that the examples belong to."""

    sentences: int


@dataclass(frozen=True)
class PairedDifference(Estimate):
    """A mean difference over pairs of seeds."""

    p: float | None
    """Of the two-sided paired t test; None when the differences do not vary."""
    detectable: float | None
    """The true difference that the test would find with POWER."""


@dataclass(frozen=True)
class Equivalence:
    """A test that a mean difference over `n` pairs lies within `margin` of zero."""

    n: int
    margin: float
    p: float | None
    """None for a single pair, and for differences that do not vary."""
    varies: Varies | None


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Estimate:
    """Mean and Student t interval (Gosset 1908); `values` are independent, one per seed.

    Raises:
        ValueError: no values, or one that is not finite.
    """
    _check(values)
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


def equivalence(values: Sequence[float], baseline: Sequence[float], margin: float) -> Equivalence:
    """Two one-sided paired t tests of a difference within `margin` (Schuirmann 1987).

    Args:
        values, baseline: one value per seed, paired by position.
        margin: above zero, in the values' unit; stated before the values are seen.

    Raises:
        ValueError: as `paired_difference`, or a margin that is not above zero.
    """
    if not margin > 0:
        raise ValueError(f"a margin is above zero ({margin})")
    differences, deviation = _paired(values, baseline)
    if not deviation:
        return Equivalence(len(differences), margin, None, None)
    import numpy as np
    from statsmodels.stats.weightstats import ttost_paired

    p = ttost_paired(np.asarray(values, float), np.asarray(baseline, float), -margin, margin)[0]
    return Equivalence(len(differences), margin, float(p), "seeds")


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

    adjusted = iter(multipletests(tested, method=method)[1])
    return [None if p is None else float(next(adjusted)) for p in p_values]


def smallest_detectable(
    differences: Sequence[float], alpha: float = 1 - LEVEL, power: float = POWER
) -> float | None:
    """The true mean difference that a two-sided paired t test would find with `power`.

    From the noncentral t distribution at the observed standard deviation (Cohen 1988, chapter 2).
    None for a single pair, and for differences that do not vary. statsmodels' `TTestPower` gives
    the same to the tolerance of its search, which is 1e-5.
    """
    _check(differences)
    return _detectable(len(differences), _deviation(differences), alpha, power)


def bootstrap_interval(
    values: Any, clusters: Any = None, level: float = LEVEL, seed: int = 0
) -> SampledEstimate:
    """Mean over examples and its percentile interval, by resampling sentences.

    Sentences are drawn with replacement, each with all its examples (Efron and Tibshirani 1993,
    chapter 13; Field and Welsh 2007); the mean is over the examples drawn. The draws depend on
    the number of sentences and `seed` alone, so that groups over the same sentences share them.
    Few sentences make it too narrow: 95% intervals held the mean in 93% of simulations with 20.

    Args:
        values: `[n]`, one per example.
        clusters: `[n]`, the sentence of each example; None when each is its own.

    Returns:
        Without an interval where all sentences have the same mean.

    Raises:
        ValueError: no values, one that is not finite, or another number of clusters.
    """
    import numpy as np

    held = np.asarray(values, dtype=np.float64)
    _check(held)
    totals: Any = held
    sizes: Any = np.ones(len(held))
    if clusters is not None:
        if len(clusters) != len(held):
            raise ValueError(f"{len(clusters)} clusters for {len(held)} values")
        _, sentence = np.unique(np.asarray(clusters), return_inverse=True)
        totals, sizes = np.bincount(sentence, held), np.bincount(sentence).astype(float)
    n, mean, means = len(held), math.fsum(held) / len(held), totals / sizes
    if _equal(means.min(), means.max(), np.abs(held).max()):
        return SampledEstimate(n, mean, None, None, None, len(totals))
    low, high = percentile_limits(totals[:, None], sizes[:, None], level, seed)
    return SampledEstimate(n, mean, float(low[0]), float(high[0]), "sentences", len(totals))


def bootstrap_difference(
    values: Any, baseline: Any, clusters: Any = None, level: float = LEVEL, seed: int = 0
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
    return bootstrap_interval(first - second, clusters, level, seed)


def percentile_limits(
    totals: Any, sizes: Any, level: float = LEVEL, seed: int = 0
) -> tuple[Any, Any]:
    """Ends of the percentile intervals of ratios of sums, `[columns]` each.

    Args:
        totals: `[units, columns]`, sum of the values of each unit that is drawn.
        sizes: `[units, columns]`, number of these values.
    """
    import numpy as np

    draws, ratios = _draws(len(totals), seed), []
    for start in range(0, RESAMPLES, 250):
        counts = draws[start : start + 250].astype(np.float64)
        ratios.append((counts @ totals) / (counts @ sizes))
    low, high = np.quantile(np.concatenate(ratios), ((1 - level) / 2, (1 + level) / 2), axis=0)
    return low, high


@lru_cache(maxsize=8)
def _draws(units: int, seed: int) -> Any:
    """How often each unit is drawn, `[RESAMPLES, units]`."""
    import numpy as np

    generator, share = np.random.default_rng(seed), np.full(units, 1 / units)
    drawn = np.empty((RESAMPLES, units), dtype=np.uint16 if units < 2**16 else np.uint32)
    for start in range(0, RESAMPLES, 250):
        drawn[start : start + 250] = generator.multinomial(units, share, 250)
    return drawn


def _check(values: Any) -> None:
    if not len(values):
        raise ValueError("a mean needs at least one value")
    if not all(map(math.isfinite, values)):
        raise ValueError("a mean needs finite values")


def _paired(values: Sequence[float], baseline: Sequence[float]) -> tuple[list[float], float]:
    """Differences and their standard deviation, 0 where they are equal but for rounding."""
    differences = [a - b for a, b in zip(values, baseline, strict=True)]
    _check(differences)
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
    if _equal(min(values), max(values), size):
        return 0.0
    return statistics.stdev(map(float, values))


def _equal(low: float, high: float, size: float = 0.0) -> bool:
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
