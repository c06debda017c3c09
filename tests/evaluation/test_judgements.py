"""Verdicts on pairs and views: exact numbers, and verdicts that flip when the data do."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from tiebench.analysis.learning_curves import FLATTENED, unflattened
from tiebench.analysis.resampling import Outcomes, bootstrap_difference
from tiebench.analysis.statistics import smallest_detectable
from tiebench.evaluation.judgements import (
    PAIRS,
    VIEWS,
    flattened_rows,
    judge_pairs,
    pair_rows,
    view_rows,
)
from tiebench.evaluation.verdicts import judged, margin
from tiebench.settings import Params

FAKE = runpy.run_path(str(Path(__file__).parents[1] / "reporting" / "artefacts.py"))
RUNS = ("tied", "untied", "narrow_input_wide_output", "untrained")
MATCHED = "tied_equal_pretraining"
NOISE = [0.000, 0.012, -0.008, 0.005, -0.011]


def settings(**changed: object) -> Params:
    return FAKE["make_params"](**{"runs": RUNS, "matched": (MATCHED,), **changed})


def measured(run: str, mean: float, metric: str = "accuracy", order: int = 1) -> list[dict]:
    noise = NOISE[::order]
    return [
        {"family": "encoders", "run": run, "seed": s, "metric": metric, "value": mean + x}
        for s, x in enumerate(noise)
    ]


def values(rows: list[dict]) -> list[float]:
    return [row["value"] for row in rows]


def pairs(cells: list[dict], sampled: dict, falling: dict[tuple[str, str], float]) -> list[dict]:
    return list(pair_rows(judge_pairs(settings(), cells, sampled, falling)))


def only_pair(
    first: list[dict],
    second: list[dict],
    *,
    sampled: dict = {},  # noqa: B006
    falling: tuple[str, ...] = (),
    seeds: int = 5,
) -> dict:
    held = {("encoders", run): 0.2 for run in falling}
    cells = [row for row in first + second if row["seed"] < seeds]
    (row,) = pairs(cells, sampled, held)
    return row


TIED, UNTIED = measured("tied", 0.30), measured("untied", 0.36, order=-1)


def test_a_pair_has_the_numbers_of_the_tests() -> None:
    row = only_pair(UNTIED, TIED)
    first, second = values(UNTIED), values(TIED)
    test = stats.ttest_rel(first, second)
    interval = test.confidence_interval(0.95)
    assert set(row) == set(PAIRS) and len(row) == len(PAIRS)
    assert (row["first"], row["second"], row["seeds"]) == ("untied", "tied", 5)
    assert row["difference"] == pytest.approx(0.06)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert row["p"] == pytest.approx(test.pvalue) and row["p_adjusted"] == row["p"]
    equal = ttost_paired(np.array(first), np.array(second), -0.01, 0.01)[0]
    assert (row["margin"], row["p_equivalence_adjusted"]) == (0.01, pytest.approx(equal))
    assert (row["varies"], row["sentences"], row["sentence_low"]) == ("seeds", None, None)
    assert (row["verdict"], row["reason"]) == ("different", "")


def test_the_first_of_a_pair_is_the_later_run_whatever_the_order_of_the_rows() -> None:
    cells = [
        *TIED,
        *measured("narrow_input_wide_output", 0.4),
        *UNTIED,
        *measured("untrained", 0.1),
    ]
    rows = pairs([*cells, *measured(MATCHED, 0.2)], {}, {})
    assert [(row["first"], row["second"]) for row in rows] == [
        ("untied", "tied"),
        ("narrow_input_wide_output", "tied"),
        ("narrow_input_wide_output", "untied"),
    ]


def test_verdicts_flip_with_the_data() -> None:
    near = measured("untied", 0.3005)
    shifted = [{**row, "value": row["value"] + 0.001 * row["seed"]} for row in near]
    apart, alike = only_pair(UNTIED, TIED), only_pair(shifted, TIED)
    unclear = only_pair(measured("untied", 0.305, order=-1), TIED)
    assert [row["verdict"] for row in (apart, alike, unclear)] == [
        "different", "different", "undecided",
    ]  # fmt: skip
    # within the margin and yet a difference: said in the docstring of `judge`
    assert alike["p_equivalence_adjusted"] < 0.05 and alike["p"] < 0.05
    assert unclear["reason"] == "neither a difference nor equivalence is shown"
    level = [
        {**row, "value": row["value"] + x}
        for row, x in zip(TIED, (1e-3, -1e-3, 2e-3, -2e-3, 0), strict=True)
    ]
    level = [{**row, "run": "untied"} for row in level]
    equal = only_pair(level, TIED)
    assert (equal["verdict"], equal["reason"]) == ("equivalent", "")


def test_few_seeds_and_falling_curves_decide_nothing_and_keep_the_numbers() -> None:
    full = only_pair(UNTIED, TIED)
    falling = only_pair(UNTIED, TIED, falling=("untied",))
    assert falling["verdict"] == "undecided"
    assert falling["reason"] == "the learning curve of untied has not flattened"
    assert {**falling, "verdict": 0, "reason": 0} == {**full, "verdict": 0, "reason": 0}
    other = only_pair(UNTIED, TIED, falling=("narrow_input_wide_output",))
    assert other == full
    few = only_pair(UNTIED, TIED, seeds=4, falling=("tied", "untied"))
    assert few["verdict"] == "undecided" and few["p"] < 0.05
    assert few["reason"] == (
        "fewer than 5 seeds; the learning curves of untied and tied have not flattened"
    )


def test_runs_that_are_the_same_in_every_seed_are_undecided() -> None:
    row = only_pair(measured("untied", 0.3), TIED)
    assert (row["p"], row["p_adjusted"], row["p_equivalence_adjusted"]) == (None, None, None)
    assert (row["verdict"], row["reason"]) == (
        "undecided", "the difference is the same in every seed",
    )  # fmt: skip


def test_p_values_are_corrected_over_the_pairs_of_a_metric() -> None:
    means = {"tied": 0.30, "untied": 0.32, "narrow_input_wide_output": 0.33}
    cells = [
        row
        for i, (run, mean) in enumerate(means.items())
        for row in measured(run, mean, order=1 - 2 * (i % 2))
    ]
    more = [{**row, "metric": "loss"} for row in cells]
    rows = pairs(cells + more, {}, {})
    assert [row["metric"] for row in rows] == ["accuracy"] * 3 + ["loss"] * 3
    # the first and the third run have the same noise: no test, which is not counted
    assert [row["p"] is None for row in rows[:3]] == [False, True, False]
    raw = [rows[0]["p"], rows[2]["p"]]
    corrected = multipletests(raw, method="holm")[1]
    assert [rows[0]["p_adjusted"], rows[2]["p_adjusted"]] == pytest.approx(corrected)
    # alone this pair is a difference, among three it is none
    near = measured("untied", 0.30 + 0.0135, order=-1)
    assert only_pair(near, TIED)["verdict"] == "different"
    third = measured("narrow_input_wide_output", 0.302)
    third[0]["value"] += 0.001
    several = pairs(TIED + near + third, {}, {})
    assert several[0]["p"] < 0.05 < several[0]["p_adjusted"]
    assert several[0]["verdict"] != "different"
    # those of equivalence as well, and what could be found is by the corrected test
    held = {"tied": TIED, "untied": near, "narrow_input_wide_output": third}
    found = [[values(held[row[key]]) for key in ("first", "second")] for row in several]
    raw = [ttost_paired(np.array(a), np.array(b), -0.01, 0.01)[0] for a, b in found]
    corrected = multipletests(raw, method="holm")[1]
    assert [row["p_equivalence_adjusted"] for row in several] == pytest.approx(corrected)
    assert min(corrected) == pytest.approx(3 * min(raw))
    for row, pair in zip(several, found, strict=True):
        assert row["detectable"] == smallest_detectable(*pair, tests=3) > smallest_detectable(*pair)


def sample(shift: float, n: int = 400) -> dict:
    rng = np.random.default_rng(0)
    sentences = np.repeat(np.arange(n // 4), 4)
    outcomes = rng.random(n)
    other = outcomes + shift + rng.normal(0, 0.3, n)
    return {
        ("encoders", "tied", "probing_upos"): Outcomes(outcomes, sentences),
        ("encoders", "untied", "probing_upos"): Outcomes(other, sentences),
    }


def test_a_difference_must_also_hold_over_sentences() -> None:
    cells = (
        [{**row, "metric": "probing_upos"} for row in UNTIED],
        [{**row, "metric": "probing_upos"} for row in TIED],
    )
    clear, unclear = only_pair(*cells, sampled=sample(0.1)), only_pair(*cells, sampled=sample(0.0))
    outcomes, sentences, _ = sample(0.1)["encoders", "untied", "probing_upos"]
    expected = bootstrap_difference(
        outcomes, sample(0.1)["encoders", "tied", "probing_upos"][0], sentences
    )
    assert (clear["sentences"], clear["sentence_low"]) == (100, expected.low)
    assert clear["sentence_high"] == expected.high and clear["verdict"] == "different"
    assert unclear["sentence_low"] < 0 < unclear["sentence_high"]
    assert (unclear["verdict"], unclear["reason"]) == (
        "undecided", "the interval over sentences includes zero",
    )  # fmt: skip
    # on the other side of zero is no support either
    assert only_pair(*cells, sampled=sample(-0.1))["verdict"] == "undecided"
    wrong = sample(0.1)
    key = ("encoders", "tied", "probing_upos")
    wrong[key] = Outcomes(wrong[key].values, wrong[key].sentences[::-1])
    with pytest.raises(ValueError, match="other examples of probing_upos"):
        only_pair(*cells, sampled=wrong)


def level_pair(metric: str = "probing_upos") -> tuple[list[dict], list[dict]]:
    """Two runs that are equivalent over seeds."""
    tied = [{**row, "metric": metric} for row in TIED]
    shifts = (1e-3, -1e-3, 2e-3, -2e-3, 0)
    return [
        {**row, "run": "untied", "value": row["value"] + x}
        for row, x in zip(tied, shifts, strict=True)
    ], tied


def test_equivalence_must_also_hold_over_sentences() -> None:
    wide = only_pair(*level_pair(), sampled=sample(0.0))
    assert wide["p_equivalence_adjusted"] < 0.05 and wide["sentence_high"] > 0.01
    assert (wide["verdict"], wide["reason"]) == (
        "undecided", "the interval over sentences passes the margin",
    )  # fmt: skip
    close = sample(0.0)
    outcomes, sentences, _ = close["encoders", "tied", "probing_upos"]
    near = outcomes + np.random.default_rng(1).normal(0, 0.01, len(outcomes))
    close["encoders", "untied", "probing_upos"] = Outcomes(near, sentences)
    held = only_pair(*level_pair(), sampled=close)
    assert -0.01 < held["sentence_low"] < held["sentence_high"] < 0.01
    assert (held["verdict"], held["reason"]) == ("equivalent", "")


def test_outcomes_of_groups_are_compared_in_the_mean_over_groups() -> None:
    cells = [[{**row, "metric": "transfer"} for row in run] for run in (UNTIED, TIED)]
    rng = np.random.default_rng(13)
    keys, groups = np.tile(np.arange(90), 2)[:120], np.repeat(["de", "es"], (90, 30))
    tied, untied = rng.random(120), rng.random(120) + np.where(groups == "de", 0.0, 0.4)
    sampled = {
        ("encoders", run, "transfer"): Outcomes(x, keys, groups)
        for run, x in (("tied", tied), ("untied", untied))
    }
    row = only_pair(*cells, sampled=sampled)
    expected = bootstrap_difference(untied, tied, keys, groups)
    assert (row["sentence_low"], row["sentence_high"]) == (expected.low, expected.high)
    assert (row["sentences"], row["sentence_low"] > 0) == (90, True)


def test_a_rising_curve_decides_nothing() -> None:
    rising = {("encoders", "untied"): -0.2}
    (row,) = pairs(TIED + UNTIED, {}, rising)
    assert (row["verdict"], row["reason"]) == ("undecided", "the learning curve of untied rises")


def test_the_baseline_is_always_the_second_of_a_pair() -> None:
    params = settings()
    group = params.encoders.model_copy(update={"baseline": "untied"})
    params = params.model_copy(update={"encoders": group})
    cells = [*TIED, *UNTIED, *measured("narrow_input_wide_output", 0.4)]
    found = judge_pairs(params, cells, {}, {})
    assert [(x.contest.first, x.contest.second) for x in found] == [
        ("tied", "untied"),
        ("narrow_input_wide_output", "untied"),
        ("narrow_input_wide_output", "tied"),
    ]


def test_what_is_judged_and_by_which_margin() -> None:
    margins = settings().statistics.margins
    for metric, expected in (
        ("loss", 0.05), ("accuracy", 0.01), ("retrieval_home_en_de_last", 0.02),
        ("probing_upos", 0.01), ("transfer", 0.02),
    ):  # fmt: skip
        assert judged(metric) and margin(metric, margins) == expected
    for metric in ("initial_loss", "retrieval_home_en_de_best", "retrieval_home_en_de_drop",
                   "transfer_de", "transfer_excess", "bits_per_byte", "unigram_loss"):  # fmt: skip
        assert not judged(metric)


def curve(run: str, losses: dict[int, float]) -> list[dict]:
    return [
        {
            "family": "encoders", "run": run, "seed": s, "step": t, "tokens": t,
            "metric": "validation_loss", "value": loss + x,
        }
        for s, x in enumerate(NOISE) for t, loss in losses.items()
    ]  # fmt: skip


CURVES = [
    *curve("tied", {0: 8.0, 400: 4.0, 800: 3.5}),
    *curve("untied", {0: 8.0, 400: 5.0, 800: 4.0}),
    *curve("narrow_input_wide_output", {0: 8.0, 400: 4.5, 800: 4.1}),
    *curve("untrained", {0: 8.0}),
]
COSTS = [
    {"family": "encoders", "run": run, "train_flops": flops}
    for run, flops in (
        ("tied", 1e9), ("untied", 1e9), ("narrow_input_wide_output", 2e9), ("untrained", 0.0),
    )
]  # fmt: skip
COUNTS = [
    {"family": "encoders", "run": run, "metric": metric, "value": value}
    for metric, held in (("pretraining", (90, 100, 101)), ("fine_tuning", (80, 70, 95)))
    for run, value in zip(("tied", "untied", MATCHED), held, strict=True)
]


def views(
    cells: list[dict],
    *falling: str,
    sampled: dict = {},  # noqa: B006
    costs: list[dict] = COSTS,
    params: Params | None = None,
) -> list[dict]:
    params = params or settings()
    held = {("encoders", run): 0.2 for run in falling}
    judged = judge_pairs(params, cells, sampled, held)
    return list(view_rows(params, cells, CURVES, COUNTS, costs, held, sampled, judged))


def test_equal_width_is_each_run_against_the_baseline() -> None:
    cells = [*TIED, *UNTIED, *measured("untrained", 0.1)]
    row = next(row for row in views(cells) if row["view"] == "equal width")
    assert set(row) == set(VIEWS)
    assert (row["first"], row["second"], row["metric"]) == ("untied", "tied", "accuracy")
    assert (row["first_mean"], row["second_mean"]) == pytest.approx((0.3596, 0.2996))
    assert (row["quantity"], row["second_quantity"]) == (128, 128)
    assert (row["verdict"], row["difference"]) == ("different", pytest.approx(0.06))
    assert "untrained" not in {row["first"] for row in views(cells)}
    fallen = next(row for row in views(cells, "tied") if row["view"] == "equal width")
    assert (fallen["verdict"], fallen["reason"]) == (
        "undecided", "the learning curve of tied has not flattened",
    )  # fmt: skip


def test_equal_width_has_the_judgements_of_the_pairs() -> None:
    third = measured("narrow_input_wide_output", 0.302)
    third[0]["value"] += 0.001
    cells = [*TIED, *measured("untied", 0.30 + 0.0135, order=-1), *third]
    keys = ("metric", "first", "second", "difference", "low", "high", "p_adjusted", "detectable",
            "verdict", "reason")  # fmt: skip
    judged = [
        {key: row[key] for key in keys} for row in pairs(cells, {}, {}) if row["second"] == "tied"
    ]
    seen = [{key: row[key] for key in keys} for row in views(cells) if row["view"] == "equal width"]
    assert seen == judged and len(seen) == 2
    # over three pairs, of which this view shows two
    assert seen[0]["p_adjusted"] > 0.05 and seen[0]["verdict"] != "different"


def test_a_matched_run_is_held_against_the_run_that_it_matches() -> None:
    matched = measured(MATCHED, 0.38)[:3]
    rows = {row["view"]: row for row in views([*TIED, *UNTIED, *matched])}
    row = rows["equal pretraining parameters"]
    assert (row["first"], row["second"], row["seeds"]) == (MATCHED, "untied", 3)
    assert (row["quantity"], row["second_quantity"]) == (101, 100)
    # over the seeds that both have
    assert row["second_mean"] == pytest.approx(np.mean(values(UNTIED)[:3]))
    assert (row["verdict"], row["reason"]) == ("undecided", "fewer than 5 seeds")
    assert "equal fine-tuning parameters" not in rows
    decided = views([*TIED, *UNTIED, *measured(MATCHED, 0.5)])
    row = next(row for row in decided if row["view"] == "equal pretraining parameters")
    assert row["verdict"] == "different"


def test_equal_cost_reads_both_at_the_cost_of_the_cheaper_run() -> None:
    rows = {row["first"]: row for row in views([]) if row["view"] == "equal training FLOPs"}
    assert set(rows) == {"untied", "narrow_input_wide_output"}
    untied, wide = rows["untied"], rows["narrow_input_wide_output"]
    # as dear as the baseline: the last validation
    assert (untied["first_mean"], untied["second_mean"]) == pytest.approx((3.9996, 3.4996))
    assert untied["metric"] == "loss" and untied["quantity"] == untied["second_quantity"] == 1e9
    assert "decayed" not in untied["reason"]
    # twice as dear: after half of its tokens
    assert (wide["first_mean"], wide["second_mean"]) == pytest.approx((4.4996, 3.4996))
    assert wide["quantity"] == wide["second_quantity"] == 1e9
    note = "narrow_input_wide_output is read before its learning rate has decayed"
    assert (wide["verdict"], wide["reason"]) == ("undecided", note)
    fallen = {row["first"]: row for row in views([], "narrow_input_wide_output")}
    assert fallen["narrow_input_wide_output"]["reason"] == (
        f"the learning curve of narrow_input_wide_output has not flattened; {note}"
    )


def test_a_dear_baseline_is_the_one_that_is_read_early() -> None:
    costs = [{**row, "train_flops": 4e9} if row["run"] == "tied" else row for row in COSTS]
    row = next(row for row in views([], costs=costs) if row["first"] == "untied")
    # tied after a quarter of its 800 tokens: between 8 and 4
    assert (row["first_mean"], row["second_mean"]) == pytest.approx((3.9996, 5.9996))
    assert (row["quantity"], row["verdict"]) == (1e9, "undecided")
    assert row["reason"] == "tied is read before its learning rate has decayed"
    family = settings().encoders
    runs = {**family.runs, "tied": family.runs["tied"].model_copy(update={"training": {"decay": "constant"}})}  # fmt: skip
    constant = {"encoders": family.model_copy(update={"runs": runs})}
    held = views([], costs=costs, params=settings().model_copy(update=constant))
    row = next(row for row in held if row["first"] == "untied")
    assert row["reason"] == "the difference is the same in every seed"


def test_a_view_also_needs_the_sentences() -> None:
    cells = [{**row, "metric": "probing_upos"} for row in TIED + UNTIED]

    def said(shift: float) -> str:
        rows = views(cells, sampled=sample(shift))
        return next(row["verdict"] for row in rows if row["view"] == "equal width")

    assert (said(0.1), said(0.0)) == ("different", "undecided")


def test_flat_curves_are_by_the_settings() -> None:
    rows = list(flattened_rows(settings(), CURVES))
    assert [row["run"] for row in rows] == list(RUNS[:3])
    assert tuple(rows[0]) == FLATTENED
    assert (rows[0]["share"], rows[0]["nats"]) == (0.25, 0.1)
    # from 600 to 800 tokens
    assert [row["drop"] for row in rows] == pytest.approx([0.25, 0.5, 0.2])
    assert unflattened(rows) == {("encoders", row["run"]): row["drop"] for row in rows}
    flat = [{**row, "value": 4.0} if row["tokens"] else row for row in CURVES]
    assert unflattened(flattened_rows(settings(), flat)) == {}
