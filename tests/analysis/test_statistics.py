"""Intervals and tests against scipy, statsmodels, hand-computed values and simulated data."""

import gc
import random

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from tiebench.analysis.resampling import (
    RESAMPLES,
    bootstrap_difference,
    bootstrap_interval,
    drawn_counts,
    percentile_limits,
)
from tiebench.analysis.statistics import (
    correct,
    corrected_over,
    equivalence,
    mean_interval,
    paired_difference,
    shared_seeds,
    smallest_detectable,
)

VALUES = [2.31, 2.44, 2.29, 2.52, 2.40]
BASELINE = [2.20, 2.41, 2.25, 2.36, 2.31]
SIMULATIONS = 4_000


def test_interval_is_that_of_the_t_test() -> None:
    estimate = mean_interval(VALUES)
    expected = stats.ttest_1samp(VALUES, 0.0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert estimate.mean == pytest.approx(2.392)
    assert estimate.varies == "seeds"


def test_two_seeds_use_t_of_one_degree() -> None:
    estimate = mean_interval([1.0, 2.0])
    assert estimate.high - estimate.mean == pytest.approx(12.7062 * 0.5, rel=1e-5)


def test_single_value_has_no_interval() -> None:
    estimate = mean_interval([1.5])
    assert (estimate.n, estimate.mean, estimate.low, estimate.high) == (1, 1.5, None, None)
    assert estimate.sign == 0 and estimate.varies is None
    difference = paired_difference([1.5], [1.0])
    assert (difference.mean, difference.p, difference.detectable) == (0.5, None, None)
    assert equivalence([1.5], [1.5], 0.1) is None


def test_paired_difference_is_that_of_the_paired_test() -> None:
    difference = paired_difference(VALUES, BASELINE)
    expected = stats.ttest_rel(VALUES, BASELINE)
    interval = expected.confidence_interval(0.95)
    assert (difference.low, difference.high) == pytest.approx((interval.low, interval.high))
    assert difference.p == pytest.approx(expected.pvalue, rel=1e-10)
    assert difference.sign == 1 and difference.p < 0.05 and difference.varies == "seeds"
    assert difference.detectable == smallest_detectable(VALUES, BASELINE)
    back = paired_difference(BASELINE, VALUES)
    assert (back.mean, back.p, back.sign) == (-difference.mean, difference.p, -1)


def test_the_interval_excludes_zero_exactly_when_the_test_finds_a_difference() -> None:
    generator = np.random.default_rng(1)
    found = [paired_difference(*generator.normal(0, 1, (2, 5))) for _ in range(500)]
    assert {(x.p < 0.05) == bool(x.sign) for x in found} == {True}
    assert {x.sign for x in found} == {-1, 0, 1}


def test_sign_needs_the_whole_interval_on_one_side() -> None:
    assert mean_interval([0.1, -0.1, 0.05]).sign == 0
    assert mean_interval([-1.0, -1.1, -0.9]).sign == -1


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_smallest_detectable_has_the_stated_power(n: int) -> None:
    generator = np.random.default_rng(n)
    observed = generator.normal(size=n)
    observed /= observed.std(ddof=1)
    for tests in (1, 6):
        alpha = 0.05 / tests
        true = smallest_detectable(list(observed), [0.0] * n, tests=tests)
        assert true is not None
        if tests == 1:  # statsmodels does not find the others
            power = TTestPower().solve_power(nobs=n, alpha=alpha, power=0.8)
            assert true == pytest.approx(power, rel=1e-5)
        drawn = generator.normal(true, 1.0, size=(40_000, n))
        found = stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < alpha
        assert found.mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize("values", [[0.5, 0.5, 0.5], [0.1 + 0.2, 0.3, 0.3], [0.0] * 5])
def test_values_that_do_not_vary_have_no_interval_and_nothing_detectable(
    values: list[float],
) -> None:
    difference = paired_difference(values, [0.0] * len(values))
    assert (difference.low, difference.high, difference.detectable) == (None, None, None)
    assert (difference.p, difference.varies) == (None, None)
    assert difference.sign == 0 and difference.mean == pytest.approx(values[-1])
    assert smallest_detectable(values, [0.0] * len(values)) is None
    assert equivalence(values, [0.0] * len(values), 1.0) is None


def test_runs_that_differ_by_rounding_alone_do_not_differ() -> None:
    difference = paired_difference([0.1 + 0.2, 0.5, 0.7], [0.3, 0.5, 0.7])
    assert (difference.low, difference.p) == (None, None)


def test_equivalence_is_two_one_sided_tests() -> None:
    found = equivalence(VALUES, BASELINE, 0.2)
    differences = np.subtract(VALUES, BASELINE)
    below = stats.ttest_1samp(differences, 0.2, alternative="less").pvalue
    above = stats.ttest_1samp(differences, -0.2, alternative="greater").pvalue
    assert found == pytest.approx(max(below, above), rel=1e-10)
    assert found == pytest.approx(DescrStatsW(differences).ttost_mean(-0.2, 0.2)[0], rel=1e-10)
    # a difference of 0.086 is within 0.2, not within 0.1, and surely not within 0.05
    assert found < 0.05 < equivalence(VALUES, BASELINE, 0.1)
    assert equivalence(VALUES, BASELINE, 0.05) > 0.5
    for margin in (0.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="margin"):
            equivalence(VALUES, BASELINE, margin)


def test_p_values_are_corrected_for_their_number() -> None:
    raw = [0.01, 0.04, None, 0.03, 0.5]
    assert correct(raw, "none") == raw
    assert correct(raw, "bonferroni") == pytest.approx([0.04, 0.16, None, 0.12, 1.0])
    # smallest first: 4 * 0.01, 3 * 0.03, 2 * 0.04 raised to the one before, 0.5
    assert correct(raw, "holm") == pytest.approx([0.04, 0.09, None, 0.09, 0.5])
    # largest first: 0.5, 4/3 * 0.04, 4/2 * 0.03 lowered to the one before, 4 * 0.01
    assert correct(raw, "fdr_bh") == pytest.approx([0.04, 0.16 / 3, None, 0.16 / 3, 0.5])
    assert correct([0.02], "holm") == [0.02]
    assert correct([], "holm") == [] and correct([None], "holm") == [None]
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            correct([p], "holm")


def test_over_how_many_tests_the_level_is_divided() -> None:
    raw = [0.01, 0.04, None, 0.03]
    said = [corrected_over(raw, x) for x in ("holm", "bonferroni", "fdr_bh", "none")]
    assert said == [3, 3, 1, 1] and corrected_over([None], "holm") == 1


@pytest.mark.parametrize("method", ["holm", "bonferroni", "fdr_bh"])
def test_correction_is_that_of_statsmodels(method: str) -> None:
    raw = np.random.default_rng(2).random(12) ** 3
    assert correct(raw.tolist(), method) == multipletests(raw, method=method)[1].tolist()


def test_bootstrap_is_near_the_normal_interval_and_the_same_again() -> None:
    values = np.random.default_rng(0).random(1000) < 0.3
    estimate = bootstrap_interval(values.astype(float))
    half = 1.96 * np.sqrt(values.mean() * (1 - values.mean()) / 1000)
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=0.003)
    assert estimate.high == pytest.approx(values.mean() + half, abs=0.003)
    assert (estimate.n, estimate.sentences, estimate.varies) == (1000, 1000, "sentences")
    assert estimate == bootstrap_interval(values.astype(float))
    with pytest.raises(ValueError, match="at least one value"):
        bootstrap_interval([])


def test_bootstrap_is_near_scipys() -> None:
    values = np.random.default_rng(3).exponential(size=300)
    found = bootstrap_interval(values)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.01)


def test_examples_of_one_sentence_are_drawn_together() -> None:
    rng = np.random.default_rng(4)
    sentence, outcome = np.arange(200), rng.random(200) < 0.4
    alone = bootstrap_interval(outcome.astype(float), clusters=sentence)
    assert alone == bootstrap_interval(outcome.astype(float))
    # nine copies of each example add nothing to what is known
    copies = bootstrap_interval(np.repeat(outcome, 9), clusters=np.repeat(sentence, 9))
    assert (copies.n, copies.sentences) == (1800, 200)
    assert (copies.mean, copies.low, copies.high) == pytest.approx(
        (alone.mean, alone.low, alone.high), rel=1e-12
    )
    # names and order of the sentences do not matter, of the same sorted order
    order = rng.permutation(1800)
    names = np.array([f"s{s:03}" for s in np.repeat(sentence, 9)])
    shuffled = bootstrap_interval(np.repeat(outcome, 9)[order], clusters=names[order])
    assert (shuffled.low, shuffled.high) == (copies.low, copies.high)


def test_the_mean_is_over_examples_not_over_sentences() -> None:
    found = bootstrap_interval([1.0, 1.0, 1.0, 0.0], clusters=["a", "a", "a", "b"])
    assert (found.mean, found.n, found.sentences) == (0.75, 4, 2)
    # both sentences, or one of them twice
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("values", "clusters"),
    [
        (np.zeros(5), None),
        ([0.4], None),
        ([0.0, 1.0, 1.0], ["a", "a", "a"]),
        ([0.0, 1.0, 1.0, 0.0], ["a", "a", "b", "b"]),
        ([0.1 + 0.2, 0.3], None),
    ],
)
def test_sentences_with_the_same_mean_have_no_interval(values: list, clusters: object) -> None:
    found = bootstrap_interval(values, clusters)
    assert (found.low, found.high, found.varies, found.sign) == (None, None, None, 0)
    assert found.mean == pytest.approx(np.mean(values))


def test_resampled_difference_is_over_the_same_examples() -> None:
    rng = np.random.default_rng(5)
    easy = rng.normal(0, 1, 400)
    first, second = (easy + rng.normal(shift, 1, 400) > 0 for shift in (0.4, 0.0))
    found = bootstrap_difference(first, second)
    assert found.mean == pytest.approx(first.mean() - second.mean())
    deviation = np.std(first.astype(float) - second, ddof=1) / 20
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * deviation, rel=0.05)
    assert found.sign == 1 and bootstrap_difference(second, first).sign == -1
    apart = [bootstrap_interval(x) for x in (first, second)]
    assert found.high - found.low < np.hypot(*(x.high - x.low for x in apart))
    with pytest.raises(ValueError, match="400 values and 399"):
        bootstrap_difference(first, second[1:])


def unequal_groups() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """30 sentences with 1 to 3 examples in "a" (mostly right), a third of them also in "b"."""
    rng = np.random.default_rng(12)
    rows = [
        (float(rng.random() < rate), f"s{sentence:02}", group)
        for sentence in range(30)
        for group, rate, most in (("a", 0.9, 3), ("b", 0.3, 1))
        if group == "a" or sentence % 3 == 0
        for _ in range(rng.integers(1, most + 1))
    ]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def test_the_mean_over_groups_is_that_of_each_draw() -> None:
    values, sentences, groups = unequal_groups()
    assert np.count_nonzero(groups == "a") > 4 * np.count_nonzero(groups == "b")
    held = {
        name: [(v, g) for v, x, g in zip(values, sentences, groups, strict=True) if x == name]
        for name in sorted(set(sentences))
    }
    slow = []
    for counts in drawn_counts(30, 0):
        drawn = [x for name, n in zip(held, counts, strict=True) for x in held[name] * int(n)]
        means = [[v for v, g in drawn if g == group] for group in "ab"]
        slow.append(np.mean([np.mean(x) for x in means if x]))
    assert len(slow) == RESAMPLES
    found = bootstrap_interval(values, sentences, groups)
    assert (found.low, found.high) == pytest.approx(np.quantile(slow, (0.025, 0.975)), rel=1e-12)
    means = [values[groups == group].mean() for group in "ab"]
    assert found.mean == pytest.approx(np.mean(means), rel=1e-12)
    assert (found.n, found.sentences) == (len(values), 30)
    # weights that are fixed before the draw give another interval
    share = np.array([np.count_nonzero(groups == g) for g in groups])
    fixed = bootstrap_interval(values * len(values) / (2 * share), sentences)
    assert fixed.mean == pytest.approx(found.mean)
    assert (fixed.low, fixed.high) != pytest.approx((found.low, found.high), abs=1e-3)
    # a single group is no group
    assert bootstrap_interval(values, sentences, ["a"] * len(values)) == bootstrap_interval(
        values, sentences
    )
    less = bootstrap_difference(values, np.zeros(len(values)), sentences, groups)
    assert less == found


def test_groups_that_are_the_same_in_every_sentence_have_no_interval() -> None:
    found = bootstrap_interval([1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1], ["a", "b", "a", "b"])
    assert (found.mean, found.low, found.sentences) == (0.5, None, 2)
    with pytest.raises(ValueError, match="1 groups for 2 values"):
        bootstrap_interval([1.0, 0.0], groups=["a"])


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(wrong: float) -> None:
    values = [1.0, wrong, 2.0]
    for refused in (
        lambda: mean_interval(values),
        lambda: paired_difference(values, [1.0, 2.0, 3.0]),
        lambda: paired_difference([1.0, 2.0, 3.0], values),
        lambda: equivalence(values, [1.0, 2.0, 3.0], 0.1),
        lambda: smallest_detectable(values, [1.0, 2.0, 3.0]),
        lambda: bootstrap_interval(values),
        lambda: bootstrap_difference(values, [1.0, 2.0, 3.0]),
    ):
        with pytest.raises(ValueError, match="finite"):
            refused()


def test_no_values_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        mean_interval([])
    with pytest.raises(ValueError, match="at least one value"):
        paired_difference([], [])
    with pytest.raises(ValueError):
        paired_difference([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="1 clusters for 2 values"):
        bootstrap_interval([1.0, 2.0], clusters=["a"])


def test_seeds_are_paired_by_their_number() -> None:
    assert shared_seeds({3: 1.0, 0: 2.0, 1: 9.0}, {0: 5.0, 3: 4.0, 2: 8.0}) == (
        [1.0, 2.0],
        [4.0, 5.0],
    )
    assert shared_seeds({0: 1.0}, {1: 1.0}) == ([], [])


def test_other_generators_change_no_digit_and_are_not_changed() -> None:
    def everything() -> list[object]:
        drawn_counts.cache_clear()
        values = [0.1, 0.7, 0.4, 0.9, 0.2, 0.6]
        return [
            bootstrap_interval(values, clusters=[0, 0, 1, 1, 2, 3]),
            bootstrap_difference(values, values[::-1]),
            paired_difference(VALUES, BASELINE),
            equivalence(VALUES, BASELINE, 0.2),
            correct([0.01, 0.02], "holm"),
        ]

    first = everything()
    random.seed(1)
    np.random.seed(1)
    np.random.random(7)
    states = random.getstate(), np.random.get_state()[1].tolist()
    assert everything() == first
    assert states == (random.getstate(), np.random.get_state()[1].tolist())


def covered(found: list, true: float) -> float:
    return float(np.mean([x.low <= true <= x.high for x in found]))


def test_coverage_of_the_interval_over_seeds() -> None:
    drawn = np.random.default_rng(6).normal(3.7, 0.4, (SIMULATIONS, 5))
    assert covered(list(map(mean_interval, drawn.tolist())), 3.7) == pytest.approx(0.95, abs=0.015)


def test_coverage_of_the_paired_difference() -> None:
    rng = np.random.default_rng(7)
    shared = rng.normal(0, 1, (SIMULATIONS, 5))
    first, second = (shared + rng.normal(x, 0.2, (SIMULATIONS, 5)) for x in (0.3, 0.0))
    found = [paired_difference(*pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
    assert covered(found, 0.3) == pytest.approx(0.95, abs=0.015)
    # the seeds' common part does not widen it
    assert np.mean([x.high - x.low for x in found]) < 1


def simulated(rng: np.random.Generator, accuracy: float, shift: float = 0.0) -> tuple:
    """Sums and sizes of 200 sentences of 1 to 6 examples that are alike, and the true mean.

    Size and accuracy of a sentence go together, as they do where long sentences are hard.
    """
    sizes = rng.integers(1, 7, (200, SIMULATIONS))
    concentration = 4.0
    means = np.clip(accuracy + 0.1 * (3.5 - sizes) / 2.5 * min(accuracy, 1 - accuracy), 0.01, 0.99)
    shares = rng.beta(means * concentration, (1 - means) * concentration)
    totals = rng.binomial(sizes, shares)
    levels = np.arange(1, 7)
    each = np.clip(accuracy + 0.1 * (3.5 - levels) / 2.5 * min(accuracy, 1 - accuracy), 0.01, 0.99)
    return totals.astype(float), sizes.astype(float), float((levels * each).sum() / levels.sum())


@pytest.mark.parametrize("accuracy", [0.1, 0.3, 0.5, 0.9])
def test_coverage_of_the_interval_over_sentences(accuracy: float) -> None:
    totals, sizes, true = simulated(np.random.default_rng(8), accuracy)
    assert sizes.sum(axis=0).mean() == pytest.approx(700, abs=5)
    low, high = percentile_limits(totals, sizes)
    assert np.mean((low <= true) & (true <= high)) == pytest.approx(0.95, abs=0.015)


def test_the_simulated_intervals_are_those_of_the_function() -> None:
    totals, sizes, _ = simulated(np.random.default_rng(8), 0.3)
    values, sentences = [], []
    for sentence, (right, size) in enumerate(zip(totals[:, 0], sizes[:, 0], strict=True)):
        values += [1.0] * int(right) + [0.0] * int(size - right)
        sentences += [sentence] * int(size)
    low, high = percentile_limits(totals[:, :2], sizes[:, :2])
    found = bootstrap_interval(values, sentences)
    assert (found.low, found.high) == pytest.approx((low[0], high[0]), rel=1e-12)
    assert found.mean == totals[:, 0].sum() / sizes[:, 0].sum()


def test_intervals_that_ignore_the_sentences_would_be_too_narrow() -> None:
    totals, sizes, true = simulated(np.random.default_rng(8), 0.5)
    mean = totals.sum(axis=0) / sizes.sum(axis=0)
    half = 1.96 * np.sqrt(mean * (1 - mean) / sizes.sum(axis=0))
    assert np.mean(abs(mean - true) <= half) < 0.9


def test_coverage_of_the_difference_over_sentences() -> None:
    rng = np.random.default_rng(9)
    sizes = rng.integers(1, 7, (200, SIMULATIONS))
    ease = rng.normal(0, 1, (200, SIMULATIONS))
    right = [
        rng.binomial(sizes, 1 / (1 + np.exp(-(ease + shift)))).astype(float) for shift in (0.5, 0.0)
    ]
    grid = np.linspace(-8, 8, 4001)
    density = stats.norm.pdf(grid)
    means = [float((density / (1 + np.exp(-(grid + s)))).sum() / density.sum()) for s in (0.5, 0.0)]
    low, high = percentile_limits(right[0] - right[1], sizes.astype(float))
    true = means[0] - means[1]
    assert np.mean((low <= true) & (true <= high)) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("margin", [0.05, -0.05])
def test_size_of_the_equivalence_test_at_the_margin(margin: float) -> None:
    drawn = np.random.default_rng(10).normal(margin, 0.02, (SIMULATIONS, 5)).tolist()
    said = [equivalence(x, [0.0] * 5, 0.05) < 0.05 for x in drawn]
    assert 0.035 <= np.mean(said) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / SIMULATIONS)
    inside = [equivalence([v - margin for v in x], [0.0] * 5, 0.05) < 0.05 for x in drawn[:500]]
    assert np.mean(inside) > 0.9


def test_correction_holds_the_rate_of_any_false_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    # statsmodels collects garbage in every call, which is all the time that these take
    monkeypatch.setattr(gc, "collect", lambda: 0)
    rng = np.random.default_rng(11)
    runs = rng.normal(0, 1, (SIMULATIONS, 4, 5)).tolist()
    raw = [
        [paired_difference(held[i], held[j]).p for i in range(4) for j in range(i)] for held in runs
    ]

    def any_false(method: str) -> float:
        return float(np.mean([min(correct(p_values, method)) < 0.05 for p_values in raw]))

    assert any_false("holm") <= 0.05 and any_false("bonferroni") <= 0.05
    assert any_false("none") > 0.15
