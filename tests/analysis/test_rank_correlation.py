"""Spearman's correlation and its draws, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from tiebench.analysis.rank_correlation import DRAWS, Ordered, Reference, limits
from tiebench.analysis.resampling import drawn_counts


def values(ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    first = rng.normal(size=60)
    second = first + rng.normal(size=60)
    return (np.round(first), np.round(2 * second)) if ties else (first, second)


@pytest.mark.parametrize("ties", [False, True])
def test_the_correlation_is_scipys(ties: bool) -> None:
    first, second = values(ties)
    found = Reference(Ordered.of(first)).spearman(Ordered.of(second))
    assert found == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_every_draw_is_that_of_the_repeated_pairs(ties: bool) -> None:
    first, second = values(ties)
    drawn = Reference(Ordered.of(first)).drawn(Ordered.of(second))
    assert drawn.shape == (DRAWS,)
    counts = drawn_counts(60, 0)
    for k in (0, 1, 99, 100, 500, DRAWS - 1):
        places = np.repeat(np.arange(60), counts[k])
        expected = spearmanr(first[places], second[places]).statistic
        assert drawn[k] == pytest.approx(expected, abs=1e-12)


def test_the_ends_are_percentiles() -> None:
    first, second = values(False)
    low, high = limits(Reference(Ordered.of(first)).drawn(Ordered.of(second)))
    assert low < spearmanr(first, second).statistic < high
    assert limits(np.arange(1001.0)) == pytest.approx((25.0, 975.0))
    assert limits(np.array([0.5, 0.5])) == limits(np.array([np.nan])) == (None, None)


def test_constant_values_are_known_and_such_draws_are_none() -> None:
    assert Ordered.of(np.ones(3)).constant and not Ordered.of(np.array([1.0, 2.0])).constant
    drawn = Reference(Ordered.of(np.array([1.0, 2.0]))).drawn(Ordered.of(np.array([3.0, 1.0])))
    assert set(drawn[np.isfinite(drawn)]) == {-1.0}
    assert 0.4 < np.isnan(drawn).mean() < 0.6  # one of the two, twice
