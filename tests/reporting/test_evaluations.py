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
    curves,
    dots,
    label_sets,
    pairs,
    probing,
    transfer,
    views,
)
from tiebench.reporting.estimates import bands, count_of_seeds, over
from tiebench.reporting.naming import REASONS, signed
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
    assert results.short(FAMILY, matched) == "tied (wider body)"
    assert matched not in run_styles(results, FAMILY)
    assert all_styles(results, FAMILY)[matched]["markerfacecolor"] == "none"


def test_the_number_of_seeds_is_said_for_each_kind_of_run(results: Results) -> None:
    assert count_of_seeds(results, FAMILY) == "5 seeds"
    assert count_of_seeds(results, FAMILY, matched=True) == "5 seeds (3 for matched runs)"
    assert "over 5 seeds (3 for matched runs) (no ±" in over(results, FAMILY, matched=True)
    assert "matched" not in over(results, FAMILY) + bands(results, FAMILY)


def test_probing_is_held_against_control_and_baselines(results: Results) -> None:
    said = probing.findings(results, FAMILY)
    (best,) = (sentence for sentence in said if sentence.startswith("Part of speech: the best"))
    for words in (
        "over seeds", "over sentences", "minus its control, untrained", "most frequent label and",
        "most frequent label of the word type", "above the same probe on control labels",
    ):  # fmt: skip
        assert words in best
    assert not any("not above the baseline" in sentence for sentence in said)
    low = REPLACED(results, "probing_summary", {"run": "tied", "probe": "mix"}, mean="0.01")
    assert any(
        "in the mean not above the baseline of the most frequent label (" in sentence
        and "tied (1.0%)" in sentence
        for sentence in probing.findings(low, FAMILY)
    )


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
        "Part of speech, not shown to be above the untrained control: tied +0.0."
        in probing.findings(same, FAMILY)
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
    assert {"tied", "untrained", "majority", "word type"} <= set(labels)
    assert not any("matched" in label for label in labels)


def test_transfer_is_held_against_the_form_of_a_string(results: Results) -> None:
    said = transfer.findings(results, FAMILY, "purposes")
    assert "surface baseline has only that" in said[0]
    assert "over seeds" in said[1] and "surface baseline" in said[1]
    none = results
    for table in ("transfer_summary", "transfer_sentences"):
        none = REPLACED(none, table, {"metric": "excess"}, mean="-0.01", low="-0.02", high="0.01")
    told = transfer.findings(none, FAMILY, "purposes")
    (below,) = (x for x in told if x.startswith("Not shown to be above the surface baseline: "))
    assert "tied in German (-1.0)" in below
    assert not any(x.startswith("Above the surface baseline") for x in told)


def test_transfer_tables_have_both_subsets_and_the_rates(results: Results) -> None:
    table = transfer.by_language(results, FAMILY, "purposes", "accuracy")
    assert table.header[2:] == ["English (trained on)", "German", "Turkish", "mean of the others"]
    assert {row[1] for row in table.rows} == set(transfer.SUBSETS.values())
    assert [row[0] for row in table.rows[-2:]] == ["surface baseline", "majority baseline"]
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
    ("difference", "low", "high", "said"),
    [
        ("-0.5", "-0.6", "-0.4", "no direction turns round; it stays in validation loss ("),
        ("0.5", "0.4", "0.6", "the direction at equal width turns round in validation loss ("),
        ("0.5", "-0.4", "1.4", "no difference is shown in "),
    ],
)
def test_what_stays_and_what_reverses(
    results: Results, difference: str, low: str, high: str, said: str
) -> None:
    view = {"view": "equal pretraining parameters", "metric": "loss"}
    other = REPLACED(results, "views", view, difference=difference, low=low, high=high)
    rows = [r for r in other["views"] if r["metric"] == "loss"]
    other = Results("small", {**other.tables, "views": rows})
    first, *rest = views.findings(other, FAMILY)
    assert "5 seeds (3 for matched runs): only main runs carry verdicts" in first
    assert "by a feed-forward width of 1,536 instead of 512" in first
    (sentence,) = (x for x in rest if x.startswith("At equal pretraining parameters, "))
    assert said in sentence and "untied minus tied (wider body)" in sentence


def test_no_verdict_while_the_curves_fall(results: Results) -> None:
    falling = REPLACED(results, "flattened", {}, flat="false", drop="0.3", low="0.2", high="0.4")
    falling = REPLACED(
        falling, "pairs", {}, verdict="undecided",
        reason="the learning curves of narrow_input_wide_output and tied have not flattened",
    )  # fmt: skip
    said = pairs.findings(falling, FAMILY)
    assert "Since every curve still falls, no verdict is given" in said[-1]
    assert "less than 0.1 nats over the last 25% of the training tokens" in said[-1]
    assert "tied by 0.300 (0.200 to 0.400)" in said[-1]
    assert "narrow input wide output and tied have not flattened" in said[1]


def test_verdicts_are_told_by_pair(results: Results) -> None:
    said = pairs.findings(results, FAMILY)
    row = next(results.where("pairs", metric="loss", first="untied"))
    assert row["verdict"] == "different"
    assert any(
        x.startswith("Different, untied minus tied: validation loss "
                     f"({signed(row['difference'], 3)} nats)")
        for x in said
    )  # fmt: skip
    table = pairs.verdicts(results, FAMILY)
    assert len(table.rows) == len(results["pairs"])
    figure = pairs.matrix(results, FAMILY, results["pairs"])
    assert len(figure.axes[0].patches) == len(results["pairs"])


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
    assert "inflectional groups" not in label_sets.treebank(results, "treebank")
    named: dict[str, Any] = {"labels": "turkish_treebanks_micro"}
    other = REPLACED(results, "label_sets", {"labels": "treebank"}, **named)
    assert "“ig”: this is not the label set of Universal Dependencies" in label_sets.treebank(
        other, "turkish_treebanks_micro"
    )
