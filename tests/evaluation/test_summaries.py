"""Summaries over seeds: exact numbers, and pairs of the seeds that both runs have."""

import pytest
from scipy import stats

from tiebench.evaluation.summaries import paired, summarize, summary_columns


def rows(run: str, values: dict[int, float], **keys: object) -> list[dict[str, object]]:
    return [
        {"family": "f", "run": run, "seed": s, **keys, "metric": "loss", "value": value}
        for s, value in values.items()
    ]


A, B = {0: 1.0, 1: 2.0, 2: 1.5}, {0: 1.5, 1: 2.1, 2: 1.9}


def test_mean_interval_and_difference_of_each_run() -> None:
    found = {row["run"]: row for row in summarize(rows("a", A) + rows("b", B), (), {"f": "a"})}
    assert tuple(found["a"]) == summary_columns(())
    interval = stats.ttest_1samp(list(B.values()), 0).confidence_interval(0.95)
    assert found["b"]["mean"] == pytest.approx(5.5 / 3)
    assert (found["b"]["low"], found["b"]["high"]) == pytest.approx((interval.low, interval.high))
    assert found["b"]["varies"] == "seeds" and found["b"]["baseline"] == "a"
    pairs = stats.ttest_rel(list(B.values()), list(A.values())).confidence_interval(0.95)
    assert found["b"]["difference"] == pytest.approx(1 / 3)
    assert found["b"]["difference_low"] == pytest.approx(pairs.low)
    assert found["b"]["difference_high"] == pytest.approx(pairs.high)
    assert [found["a"][key] for key in ("baseline", "difference", "detectable")] == [None] * 3


def test_nothing_varies_over_one_seed_or_equal_ones() -> None:
    single, same = summarize(rows("a", {0: 1.0}) + rows("b", dict.fromkeys(A, 2.0)), (), {"f": "a"})
    for row in (single, same):
        assert (row["low"], row["high"], row["varies"]) == (None, None, None)
    assert (same["difference"], same["difference_low"]) == (1.0, None)


def test_keys_are_kept_apart_and_what_the_baseline_lacks_has_no_difference() -> None:
    held = rows("a", A, layer=1) + rows("b", B, layer=1) + rows("b", B, layer=2)
    found = {(row["run"], row["layer"]): row for row in summarize(held, ("layer",), {"f": "a"})}
    assert list(found) == [("a", 1), ("b", 1), ("b", 2)]
    assert found["b", 1]["difference"] is not None
    assert (found["b", 2]["difference"], found["b", 2]["baseline"]) == (None, None)


def test_pairs_are_of_the_shared_seeds() -> None:
    difference = paired({0: 1.0, 1: 3.0, 5: 9.0}, {1: 1.0, 0: 0.0, 7: 4.0})
    assert difference is not None and (difference.n, difference.mean) == (2, 1.5)
    assert paired({0: 1.0}, {1: 1.0}) is None
