"""What the page says of probing, transfer, views, pairs of runs and the loss."""

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tiebench.evaluation.score import score
from tiebench.reporting import (
    against_loss,
    comparisons,
    curves,
    dots,
    label_sets,
    language_modeling,
    pairs,
    probing,
    retrieval,
    transfer,
    views,
)
from tiebench.reporting.estimates import bands, count_of_seeds, over
from tiebench.reporting.naming import BASELINES, REASONS, signed
from tiebench.reporting.plotting import all_styles, run_styles
from tiebench.reporting.results import Results, read_results
from tiebench.reporting.svg import styled

HERE = Path(__file__)
FAKE = runpy.run_path(str(HERE.with_name("artefacts.py")))
REPLACED: Callable[..., Results] = runpy.run_path(str(HERE.with_name("tables.py")))["replaced"]
LABELS = Path(probing.__file__).parents[1] / "labels"
FAMILY = "encoders"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Five main runs at five seeds, and a matched one at three."""
    params = FAKE["make_params"](
        pool=60, languages=("en", "de", "tr"), matched=("tied_equal_pretraining",)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("results"))
        FAKE["write_artefacts"](params)
        score(params)
        return read_results(Path("reports/small/tables"), "small")


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with styled():
        yield


def test_matched_runs_are_apart_from_main_ones(results: Results) -> None:
    matched = "tied_equal_pretraining"
    assert matched not in {row["run"] for row in (*results.runs(FAMILY), *results.trained(FAMILY))}
    assert [row["run"] for row in results.matched(FAMILY)] == [matched]
    assert results.called(FAMILY, matched) == "tied equal pretraining (matched)"
    assert results.unmatched(FAMILY, matched) == "tied"
    assert results.short(FAMILY, matched) == "tied (wider feed-forward)"
    assert matched not in run_styles(results, FAMILY)
    assert all_styles(results, FAMILY)[matched]["markerfacecolor"] == "none"


def test_the_number_of_seeds_is_said_for_each_kind_of_run(results: Results) -> None:
    assert count_of_seeds(results, FAMILY) == "5 seeds"
    assert count_of_seeds(results, FAMILY, matched=True) == "5 seeds (3 for matched runs)"
    assert "over 5 seeds (3 for matched runs) (no ±" in over(results, FAMILY, matched=True)
    assert "matched" not in over(results, FAMILY) + bands(results, FAMILY)


def test_probing_is_held_against_control_and_baselines(results: Results) -> None:
    first, couplings, caveat = probing.findings(results, FAMILY)
    for words in (
        "the best trained run, untied, is above its untrained control in part of speech (+",
        "above the most frequent label (", "above the most frequent label of the word type (",
        "In that order it gets ",
    ):  # fmt: skip
        assert words in first
    assert couplings.startswith("Against tied, ")
    assert "verdicts: see Differences between runs" in couplings
    assert "picked on the test targets" in caveat and " points above (" in caveat
    said = probing.notes(results, FAMILY)
    (best,) = (sentence for sentence in said if sentence.startswith("Part of speech: the best"))
    for words in (
        "over seeds", "over sentences", "minus its control, untrained", "most frequent label and",
        "most frequent label of the word type", "against the same probe on control labels, ",
    ):  # fmt: skip
        assert words in best
    assert not any("not above the baseline" in sentence for sentence in said)
    low = REPLACED(results, "probing_summary", {"run": "tied", "probe": "mix"}, mean="0.01")
    assert any(
        "in the mean not above the baseline of the most frequent label (" in sentence
        and "tied (1.0%)" in sentence
        for sentence in probing.notes(low, FAMILY)
    )


def test_a_probe_that_learns_by_heart_is_said_to(results: Results) -> None:
    low = REPLACED(
        results, "probing_summary", {"metric": "selectivity"}, mean="-0.03", low="-0.05",
        high="-0.01",
    )  # fmt: skip
    assert "part of speech, 3.0 points below (-5.0 to -1.0)" in probing.findings(low, FAMILY)[2]


def test_probing_no_better_than_untrained_is_said_first(results: Results) -> None:
    of = {
        (row["run"], row["seed"], row["task"]): row["value"]
        for row in results.where("probing", **probing.MIX)
    }
    controls = {row["run"]: row["control"] or row["run"] for row in results["runs"]}
    same = REPLACED(
        results, "probing", probing.MIX,
        value=lambda row: of[controls[row["run"]], row["seed"], row["task"]],
    )  # fmt: skip
    low = REPLACED(same, "probing_summary", probing.MIX, mean="0.01")
    first = probing.findings(low, FAMILY)[0]
    assert re.search(
        "even the best trained run, .*, is not shown to be above its untrained control in", first
    )
    assert "below the most frequent label of the word type (" in first
    caption = probing.section(results, FAMILY, "").figures[0].caption
    assert "random, are distinct" in caption and "which selectivity measures" in caption


def test_sections_have_three_findings_at_most(results: Results) -> None:
    for module in (language_modeling, retrieval, probing, transfer, views, pairs, comparisons):
        assert 1 <= len(module.section(results, FAMILY, "").findings) <= 3


def test_a_run_like_its_control_is_said_not_to_be_above_it(results: Results) -> None:
    def of_control(row: dict[str, str]) -> str:
        return next(
            other["value"]
            for other in results.where(
                "probing",
                run="untrained",
                **{
                    key: row[key] for key in ("family", "seed", "labels", "task", "probe", "metric")
                },
            )
        )

    same = REPLACED(results, "probing", {"run": "tied", "metric": "accuracy"}, value=of_control)
    assert (
        "Part of speech, not shown to be above the untrained control, in points: tied +0.0."
        in probing.notes(same, FAMILY)
    )


def test_the_probing_table_has_every_run_and_baseline(results: Results) -> None:
    table = probing.headline(results, FAMILY, *probing.probed(results, FAMILY))
    cells = [row for row in table.rows if row[0] == "part of speech"]
    assert [row[1] for row in cells] == [
        "tied", "untied", "narrow input wide output", "untrained", "untrained narrow input",
        "tied equal pretraining (matched)", "most frequent label",
        "most frequent label of the word type",
    ]  # fmt: skip
    assert re.fullmatch(r"[\d.]+ ± [\d.]+ \[[\d.]+, [\d.]+\]", cells[0][2])
    assert cells[0][3] and not cells[3][3]
    assert len({len(row) for row in table.rows} | {len(table.header)}) == 1


def test_probes_are_drawn_by_layer_with_the_mix_apart(results: Results) -> None:
    figure = curves.accuracy_by_probe(results, FAMILY, "treebank", "upos")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_xticklabels()] == [*"01234", "mix"]
    labels = axes.get_legend_handles_labels()[1]
    assert {"tied", "untrained", BASELINES["majority"], BASELINES["word_type"]} <= set(labels)
    assert not any("matched" in label for label in labels)


def test_transfer_is_held_against_the_form_of_a_string(results: Results) -> None:
    first, couplings, caveat = transfer.findings(results, FAMILY, "purposes")
    assert "the surface baseline, which knows only a string's form, and " in first
    assert "its untrained control (" in first
    assert couplings.startswith("In the mean of the other languages, against tied: ")
    assert "picked on the test strings" in caveat
    assert "surface baseline has only that" in transfer.notes(results, FAMILY, "purposes")[0]


def test_transfer_below_the_surface_baseline_is_said_first(results: Results) -> None:
    none = results
    for table in ("transfer_summary", "transfer_sentences"):
        none = REPLACED(none, table, {"metric": "excess"}, mean="-0.02", low="-0.03", high="-0.01")
    first, _, caveat = transfer.findings(none, FAMILY, "purposes")
    assert "even the best trained run, " in first and ", is below the surface baseline" in first
    assert "no accuracies are shown to be above the surface baseline" in caveat
    told = transfer.notes(none, FAMILY, "purposes")
    (below,) = (x for x in told if x.startswith("Below the surface baseline by the intervals "))
    assert "tied in English (-2.0), German (-2.0) and Turkish (-2.0)" in below
    assert not any(x.startswith(("Above the surface", "Not shown to be above the")) for x in told)
    assert any(" over seeds; " in x and " over strings)" in x for x in told)


def test_transfer_tables_have_both_subsets_and_the_rates(results: Results) -> None:
    table = transfer.by_language(results, FAMILY, "purposes", "accuracy")
    assert table.header[2:] == ["English (trained on)", "German", "Turkish", "mean of the others"]
    assert {row[1] for row in table.rows} == set(transfer.SUBSETS.values())
    assert [row[0] for row in table.rows[-2:]] == ["surface baseline", "most frequent label"]
    rows = {row[0]: row for row in transfer.fine_tuning(results, FAMILY, "purposes").rows}
    assert re.fullmatch(r"[\d,]+", rows["tied"][1])
    assert re.search(r"\(\d seeds?\)", rows["tied"][2])
    figure = dots.transfer_by_language(results, FAMILY, "purposes", "excess")
    assert "English\n(trained on)" in [x.get_text() for x in figure.axes[0].get_xticklabels()]


def test_a_difference_in_a_view_has_the_sign_of_equal_width(results: Results) -> None:
    raw = next(results.where("views", view="equal pretraining parameters", metric="loss"))
    row = next(
        row for row in views.oriented(results, FAMILY)
        if (row["view"], row["metric"]) == ("equal pretraining parameters", "loss")
    )  # fmt: skip
    assert (raw["first"], row["second"]) == ("tied_equal_pretraining",) * 2
    assert float(row["difference"]) == -float(raw["difference"])
    assert (row["first_mean"], row["quantity"]) == (raw["second_mean"], raw["second_quantity"])


@pytest.mark.parametrize(
    ("verdict", "reason", "difference", "first", "noted"),
    [
        ("different", "", "0.5", "turns round in 1 comparison.", "turns round in validation loss -0.500 (different, over 3 seeds), at equal width, over 5 seeds, "),
        ("different", "", "-0.5", "stays in 1 comparison.", "stays in validation loss"),
        ("equivalent", "", "0.01", "is gone (equivalent within the margin) in 1", "is gone"),
        ("undecided", "fewer than 5 seeds", "-0.5", "No claim is made", "+0.500 (in the mean over 3 seeds, without a claim; +0.400 to +0.600; smallest detectable"),
        ("different", "untied is read before its learning rate has decayed", "-0.5", "No claim is made", "without a claim"),
    ],
)  # fmt: skip
def test_views_are_told_by_their_verdicts(
    results: Results, verdict: str, reason: str, difference: str, first: str, noted: str
) -> None:
    view = {"view": "equal pretraining parameters", "metric": "loss"}
    ends = {"low": f"{float(difference) - 0.1}", "high": f"{float(difference) + 0.1}"}
    other = REPLACED(
        results, "views", view, difference=difference, verdict=verdict, reason=reason, **ends
    )
    rows = [r for r in other["views"] if r["metric"] == "loss" and "FLOPs" not in r["view"]]
    other = Results("small", {**other.tables, "views": rows})
    said, losses, last = views.findings(other, FAMILY)
    assert first in said and "At equal pretraining parameters, untied minus tied (wider" in losses
    assert "5 seeds (3 for matched runs)" in last
    matched, told = views.notes(other, FAMILY)
    assert "by a feed-forward width of 1,536 instead of 512" in matched
    assert noted in told and "untied minus tied (wider feed-forward)" in told
    if "claim" in first:
        assert "stays in" not in told and "turns round" not in told
        assert said.endswith(f", in 1 comparison: {reason} (1).")


def test_no_verdict_while_the_curves_fall(results: Results) -> None:
    falling = REPLACED(results, "flattened", {}, flat="false", drop="0.3", low="0.2", high="0.4")
    falling = REPLACED(
        falling, "pairs", {}, verdict="undecided",
        reason="the learning curves of narrow_input_wide_output and tied have not flattened",
    )  # fmt: skip
    said = pairs.findings(falling, FAMILY)
    assert "Since every curve still falls, no verdict is given" in said[-1]
    assert "less than 0.1 nats over the last 25% of the training tokens" in said[-1]
    assert "Undecided because: a learning curve is not flat (" in said[0]
    assert "tied by 0.300 (0.200 to 0.400)" in pairs.notes(falling, FAMILY)[-1]
    assert (
        "undecided (the learning curves of narrow input wide output and tied have not flattened)"
        in pairs.verdicts(falling, FAMILY).rows[0]
    )


def test_verdicts_are_told_by_pair(results: Results) -> None:
    row = next(results.where("pairs", metric="loss", first="untied"))
    assert row["verdict"] == "different"
    assert any(
        x.startswith("Different, untied minus tied: validation loss "
                     f"({signed(row['difference'], 3)} nats)")
        for x in pairs.notes(results, FAMILY)
    )  # fmt: skip
    assert "Untied is worse in validation loss" in pairs.findings(results, FAMILY)[1]
    table = pairs.verdicts(results, FAMILY)
    assert len(table.rows) == len(results["pairs"])
    figure = pairs.matrix(results, FAMILY, results["pairs"])
    assert len(figure.axes[0].patches) == len(results["pairs"])


@pytest.mark.parametrize(
    ("metric", "difference", "colour"),
    [("loss", "-0.1", "better"), ("loss", "0.1", "worse"), ("transfer", "0.1", "better")],
)
def test_pairs_are_coloured_by_what_is_better(
    results: Results, metric: str, difference: str, colour: str
) -> None:
    from matplotlib.colors import to_rgb

    row = {**results["pairs"][0], "metric": metric, "difference": difference}
    figure = pairs.matrix(results, FAMILY, [{**row, "verdict": "different"}])
    (patch,) = figure.axes[0].patches
    assert patch.get_facecolor()[:3] == to_rgb(pairs.FILLS[f"different, first {colour}"])


def test_the_correction_is_named_unless_there_is_none(results: Results) -> None:
    named = {"item": "correction of p values"}
    rows = [row for row in results["provenance"] if row["item"] != named["item"]]
    texts = {}
    for value in ("Holm's method", "none"):
        tables = {**results.tables, "provenance": [*rows, {**named, "value": value}]}
        texts[value] = pairs.verdicts(Results("small", tables), FAMILY)
    holm, none = texts["Holm's method"], texts["none"]
    assert (
        "corrected (Holm's method) over the pairs of one metric, not over metrics" in holm.caption
    )
    assert "the level of the corrected test" in holm.caption and "p, corrected" in holm.header
    assert "corrected" not in " ".join([none.caption, *none.header])
    for table in (holm, none):
        assert "loss and token accuracy are judged over seeds alone" in table.caption


def test_baselines_have_the_same_line_and_words_everywhere(results: Results) -> None:
    rows = [row for row in results["label_baselines"] if row["baseline"] != "majority"]
    alone = Results("small", {**results.tables, "label_baselines": rows})
    dashes = []
    for held in (results, alone):
        (axes,) = curves.accuracy_by_probe(held, FAMILY, "treebank", "upos").axes
        dashes += [x._unscaled_dash_pattern for x in axes.lines
                   if x.get_label() == BASELINES["word_type"]]  # fmt: skip
    assert len(dashes) == 2 and dashes[0] == dashes[1]
    (axes,) = dots.transfer_by_language(results, FAMILY, "purposes", "accuracy").axes
    assert {BASELINES["surface"], BASELINES["majority"]} <= set(axes.get_legend_handles_labels()[1])


def test_loss_and_tasks_are_set_side_by_side_with_caution(results: Results) -> None:
    first, second = against_loss.findings(results, FAMILY)
    assert re.search(r"probing, part of speech [+-]\d\.\d\d", first)
    assert "over 4 runs, matched ones included" in second and "no test" in second
    assert against_loss.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert against_loss.spearman([1, 1], [3, 2]) is None
    rows = [row for row in results["runs"] if row["run"] != "tied_equal_pretraining"]
    (few,) = against_loss.findings(Results("x", {**results.tables, "runs": rows}), FAMILY)
    assert few.startswith("Fewer than 4 trained runs")


def test_every_reason_to_drop_a_label_has_words() -> None:
    text = "".join((LABELS / f"{name}.py").read_text() for name in ("treebank", "purposes"))
    given = set(
        re.findall(r'dropped\["(\w+)", |_count\(dropped, "(\w+)"|return "(\w+)"|reason = "(\w+)"|else "?(\w+)"? if|return "(\w+)" if', text)
    )  # fmt: skip
    reasons = {"".join(found) for found in given}
    assert {"no_class", "rare", "past_limit"} <= reasons <= set(REASONS)


def test_what_the_turkish_labels_are_not(results: Results) -> None:
    assert "inflectional groups" not in label_sets.treebank(results, "treebank", ["upos"])
    named: dict[str, Any] = {"labels": "turkish_treebanks_micro"}
    other = REPLACED(results, "label_sets", {"labels": "treebank"}, **named)
    assert "“ig”: this is not the label set of Universal Dependencies" in label_sets.treebank(
        other, "turkish_treebanks_micro", ["upos"]
    )


def test_only_what_is_probed_is_told_of_a_label_set(results: Results) -> None:
    assert "states: part of speech. Sentences" in label_sets.treebank(results, "treebank", ["upos"])


def test_a_run_below_its_control_is_said_to_be(results: Results) -> None:
    low = REPLACED(results, "probing", {"run": "tied", **probing.MIX}, value="0.01")
    (said,) = (x for x in probing.notes(low, FAMILY) if x.startswith("Part of speech, below the"))
    assert "below the untrained control, in points: tied -" in said


def test_layers_are_those_of_each_run(results: Results) -> None:
    assert "(0: embedding, 4: last)" in probing.notes(results, FAMILY)[-1]
    deep = REPLACED(results, "runs", {"run": "untied"}, layers="6")
    said = probing.notes(deep, FAMILY)[-1]
    assert "each of the run's own number)" in said and " of 6 (untied)" in said
