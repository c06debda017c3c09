"""Intervals against scipy's own test and hand-computed values."""

import numpy as np
import pytest
from scipy import stats

from tiebench.analysis.statistics import (
    bootstrap_interval,
    mean_interval,
    paired_difference,
    smallest_detectable,
)

VALUES = [2.31, 2.44, 2.29, 2.52, 2.40]
BASELINE = [2.20, 2.41, 2.25, 2.36, 2.31]


def test_interval_is_that_of_the_t_test() -> None:
    estimate = mean_interval(VALUES)
    expected = stats.ttest_1samp(VALUES, 0.0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert estimate.mean == pytest.approx(2.392)


def test_two_seeds_use_t_of_one_degree() -> None:
    estimate = mean_interval([1.0, 2.0])
    assert estimate.high - estimate.mean == pytest.approx(12.7062 * 0.5, rel=1e-5)


def test_single_value_has_no_interval() -> None:
    estimate = mean_interval([1.5])
    assert (estimate.n, estimate.mean, estimate.low, estimate.high) == (1, 1.5, None, None)
    assert estimate.sign == 0
    assert paired_difference([1.5], [1.0]).detectable is None


def test_paired_difference_is_that_of_the_paired_test() -> None:
    difference = paired_difference(VALUES, BASELINE)
    expected = stats.ttest_rel(VALUES, BASELINE)
    interval = expected.confidence_interval(0.95)
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high))
    assert difference.sign == 1 and expected.pvalue < 0.05


def test_sign_needs_the_whole_interval_on_one_side() -> None:
    assert mean_interval([0.1, -0.1, 0.05]).sign == 0
    assert mean_interval([-1.0, -1.1, -0.9]).sign == -1


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_smallest_detectable_has_the_stated_power(n: int) -> None:
    generator = np.random.default_rng(n)
    observed = generator.normal(size=n)
    observed /= observed.std(ddof=1)
    true = smallest_detectable(list(observed))
    assert true is not None
    drawn = generator.normal(true, 1.0, size=(40_000, n))
    found = stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("values", [[0.5, 0.5, 0.5], [0.1 + 0.2, 0.3, 0.3], [0.0] * 5])
def test_values_that_do_not_vary_have_no_interval_and_nothing_detectable(
    values: list[float],
) -> None:
    difference = paired_difference(values, [0.0] * len(values))
    assert (difference.low, difference.high, difference.detectable) == (None, None, None)
    assert difference.sign == 0 and difference.mean == pytest.approx(values[-1])
    assert smallest_detectable(values) is None


def test_bootstrap_is_near_the_normal_interval_and_the_same_again() -> None:
    values = np.random.default_rng(0).random(1000) < 0.3
    estimate = bootstrap_interval(values.astype(float))
    half = 1.96 * np.sqrt(values.mean() * (1 - values.mean()) / 1000)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.003)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.003)
    assert estimate == bootstrap_interval(values.astype(float))
    assert bootstrap_interval(np.zeros(5)).low is None
    with pytest.raises(ValueError, match="at least one value"):
        bootstrap_interval([])


def test_no_values_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval([])
    with pytest.raises(ValueError):
        paired_difference([1.0, 2.0], [1.0])
