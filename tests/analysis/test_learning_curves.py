"""Learning curves read between validations, and when they count as flat: exact numbers."""

import pytest
from scipy import stats

from tiebench.analysis.learning_curves import (
    FLATTENED,
    flattened_rows,
    loss_at,
    unflattened,
    unsettled,
    validation_curves,
)


def rows(run: str, seed: int, losses: dict[int, float], metric: str = "validation_loss") -> list:
    return [
        {"family": "f", "run": run, "seed": seed, "tokens": t, "metric": metric, "value": loss}
        for t, loss in losses.items()
    ]


FALLING = rows("a", 0, {0: 8.0, 400: 5.0, 800: 4.0}) + rows("a", 1, {0: 8.0, 400: 5.2, 800: 4.0})
FLAT = rows("b", 0, {0: 8.0, 400: 4.04, 800: 4.0}) + rows("b", 1, {0: 8.0, 400: 3.98, 800: 4.0})


def test_the_loss_is_linear_between_validations() -> None:
    curve = [(0, 8.0), (400, 5.0), (800, 4.0)]
    assert [loss_at(curve, t) for t in (0, 100, 400, 600, 800)] == [8.0, 7.25, 5.0, 4.5, 4.0]
    for tokens in (-1, 801):
        with pytest.raises(ValueError, match="are not from 0 to 800"):
            loss_at(curve, tokens)


def test_curves_are_of_trained_runs_and_in_order() -> None:
    mixed = [*reversed(FALLING), *rows("untrained", 0, {0: 8.0}), *rows("a", 0, {1: 1.0}, "x")]
    curves = validation_curves(mixed)
    assert list(curves) == [("f", "a")]
    assert curves["f", "a"][0] == [(0, 8.0), (400, 5.0), (800, 4.0)]


def test_the_drop_over_the_last_tokens() -> None:
    a, b = flattened_rows(validation_curves(FALLING + FLAT), share=0.25, nats=0.05)
    # at 600 tokens: 4.5 and 4.6, so drops of 0.5 and 0.6
    assert tuple(a) == FLATTENED
    assert (a["run"], a["seeds"], a["share"], a["nats"], a["flat"]) == ("a", 2, 0.25, 0.05, False)
    assert a["drop"] == pytest.approx(0.55)
    half = stats.t.ppf(0.975, 1) * 0.05
    assert (a["low"], a["high"]) == pytest.approx((0.55 - half, 0.55 + half))
    # 0.02 and -0.01
    assert b["drop"] == pytest.approx(0.005) and b["flat"] is True
    assert unflattened([a, b]) == {("f", "a"): a["drop"]}


def test_flat_is_less_than_the_threshold() -> None:
    curves = validation_curves(FALLING)
    (row,) = flattened_rows(curves, share=0.5, nats=2.0)
    assert row["drop"] == pytest.approx(1.1) and row["flat"]
    (row,) = flattened_rows(curves, share=0.5, nats=1.0)
    assert not row["flat"]
    (row,) = flattened_rows(validation_curves(rows("a", 0, {0: 8.0, 8: 4.0})), 0.25, 0.05)
    assert (row["seeds"], row["drop"], row["low"]) == (1, 1.0, None) and not row["flat"]


def test_a_loss_that_rises_is_not_flat() -> None:
    up = validation_curves(rows("a", 0, {0: 4.0, 800: 4.4}) + rows("a", 1, {0: 4.0, 800: 4.2}))
    (row,) = flattened_rows(up, share=0.5, nats=0.1)
    # -0.2 and -0.1
    assert row["drop"] == pytest.approx(-0.15)
    assert row["flat"] is False and unflattened([row]) == {("f", "a"): row["drop"]}
    assert unsettled("f", ["a", "b"], unflattened([row])) == "the learning curve of a rises"
    (row,) = flattened_rows(up, share=0.5, nats=0.2)
    assert row["flat"] is True and unflattened([row]) == {}


def test_the_reason_names_the_runs() -> None:
    one, both = {("f", "a"): 0.1, ("g", "b"): 0.1}, {("f", "a"): 0.1, ("f", "b"): 0.2}
    assert unsettled("f", ["a", "b"], one) == "the learning curve of a has not flattened"
    assert unsettled("f", ["b", "a"], both) == ("the learning curves of b and a have not flattened")
    assert unsettled("f", ["a", "b"], {}) == ""
    rising = {("f", "a"): -0.1, ("f", "b"): 0.2, ("f", "c"): -0.3}
    assert unsettled("f", ["a", "b"], rising) == (
        "the learning curve of b has not flattened; the learning curve of a rises"
    )
    assert unsettled("f", ["a", "c"], rising) == "the learning curves of a and c rise"
