"""What the page says: about controls, protocols, differences, rates, verdicts, counts, corpora."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tiebench.evaluation.score import score
from tiebench.reporting import (
    accounts,
    bars,
    comparisons,
    corpora,
    curves,
    estimates,
    language_modeling,
    retrieval,
    runs,
    sections,
)
from tiebench.reporting.naming import REASONS
from tiebench.reporting.results import Results, read_results
from tiebench.reporting.svg import styled

FAKE = runpy.run_path(str(Path(__file__).with_name("artefacts.py")))
CHANGED = runpy.run_path(str(Path(__file__).with_name("tables.py")))
SOURCE = Path(retrieval.__file__).parents[1]


def made(folder: Path, rates: dict[Any, float] | None = None, **changed: Any) -> Results:
    """The tables of a report; `rates` replaces accuracies of the made-up outcomes."""
    params = FAKE["make_params"](**{"pool": 100, "languages": ("en", "de"), **changed})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        FAKE["write_artefacts"](params, rates or {})
        score(params)
        return read_results(Path("reports/small/tables"), "small")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Five runs, two of them untrained, at five seeds, and a matched one at three."""
    folder = tmp_path_factory.mktemp("results")
    return made(folder, {"untied": 0.5}, matched=("tied_equal_pretraining",))


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """As `results`, where the tied untrained run wins with l2 and loses with cosine."""
    rates = {
        "untied": 0.5,
        "untrained": 0.9,
        **{("untrained", "cosine", x): 0.05 for x in ("scored_pairs", "other_half")},
    }
    return made(tmp_path_factory.mktemp("losing"), rates)


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with styled():
        yield


def test_the_best_trained_run_is_held_against_every_control(results: Results) -> None:
    first, _, caveat = retrieval.findings(results, "encoders")
    rest = retrieval.notes(results, "encoders")
    assert first.startswith(
        "English to German, with l2 distance and offset fitted on the scored pairs (as published): "
        "the best trained run is untied at layer "
    )
    assert caveat.startswith(
        "Run and layer were picked on the same pairs that are scored, on which"
    )
    assert re.search(r"over seeds; [\d.]+ to [\d.]+ over sentences", first)
    for control in ("above untrained (", "above untrained narrow input (", "bags of tokens"):
        assert control in first
    assert (
        "At the best layers every trained run is in the mean above its untrained control." in rest
    )
    assert not any("reversed" in sentence for sentence in rest)
    assert "inside" not in first
    near = [
        {**row, "mean": "0.36"} if (row["layer"], row["subset"]) == ("tokens", "all") else row
        for row in results["retrieval_summary"]
    ]
    close = Results("small", {**results.tables, "retrieval_summary": near})
    first = retrieval.findings(close, "encoders")[0]
    assert "bags of tokens, 36.0% (inside the interval over sentences)" in first


def test_a_control_that_wins_is_not_hidden(losing: Results) -> None:
    said = retrieval.findings(losing, "encoders")
    text = " ".join([*said, *retrieval.notes(losing, "encoders")])
    assert "the best trained run is untied" in text and "below untrained (" in text
    assert "highest accuracy" not in text
    below = said[-1].partition(". Run and layer")[0]
    assert below.startswith("In the mean not above the untrained control: at the best layer tied (")
    assert "; at the last layer tied (" in below and below.count("and untied (") == 2
    # the narrow input's own control, of the same width, loses
    assert "narrow" not in below
    for how in (
        "offset fitted on the scored pairs (as published)",
        "offset fitted on the other half",
    ):
        assert f"With cosine and {how}, trained against untrained is reversed" in text
    assert "tied is above untrained (" in text


def test_an_equal_control_is_no_reversal(losing: Results) -> None:
    same = CHANGED["replaced"](losing, "retrieval_summary", {"distance": "cosine"}, mean="0.3")
    assert not any("reversed" in sentence for sentence in retrieval.notes(same, "encoders"))


def test_retrieval_verdicts_need_the_control_and_accuracy_does_not(
    tmp_path: Path,
) -> None:
    names = (
        "tied",
        "narrow_input_wide_output",
        "narrow_input_body_output",
        "untrained_narrow_input",
    )
    held = made(tmp_path, {"untrained_narrow_input": 0.9}, runs=names)
    rows = {(r["metric"], r["first_run"], r["second_run"]): r for r in held["published"]}
    pair = ("narrow_input_wide_output", "narrow_input_body_output")
    last = rows["retrieval_home_en_de_last", *pair]
    assert (last["verdict"], last["reason"]) == ("inconclusive", "not above the untrained control")
    assert rows["accuracy", *pair]["verdict"] in ("agrees", "disagrees at this scale")


def test_untrained_runs_are_told_apart(results: Results) -> None:
    from tiebench.reporting.plotting import run_styles

    styles = run_styles(results, "encoders")
    untrained = [styles[x] for x in ("untrained", "untrained_narrow_input")]
    assert all(untrained[0][key] != untrained[1][key] for key in ("color", "marker", "linestyle"))
    rows = {row["run"]: row for row in results.runs("encoders")}
    assert rows["narrow_input_wide_output"]["control"] == "untrained_narrow_input"
    caption = retrieval.headline(results, "encoders", results.pairs[0]).caption
    assert "Controls: untrained for tied and untied; untrained narrow input for narrow" in caption


def test_an_untrained_run_is_always_called_so(results: Results) -> None:
    rows = [
        {**row, "run": "as_drawn"} if row["run"] == "untrained" else row for row in results["runs"]
    ]
    other = Results("small", {**results.tables, "runs": rows})
    assert other.called("encoders", "as_drawn") == "as drawn (untrained)"
    assert other.called("encoders", "untrained_narrow_input") == "untrained narrow input"


def test_the_headline_has_both_intervals_and_none_for_what_does_not_vary(results: Results) -> None:
    table = retrieval.headline(results, "encoders", results.pairs[0])
    trained = next(row for row in table.rows if row[0] == "tied")
    assert re.fullmatch(r"[\d.]+ ± [\d.]+ \[[\d.]+, [\d.]+\]", trained[4])
    assert {
        re.fullmatch(r"[\d.]+ \[[\d.]+, [\d.]+\]", row[-1]) is not None for row in table.rows
    } == {True}
    assert "95% bootstrap interval over sentences" in table.caption
    assert estimates.CUT in table.caption
    assert estimates.CUT in language_modeling.losses(results, "encoders").caption


def test_pairs_without_an_identical_token_are_counted(results: Results) -> None:
    n = results.sizes("encoders", results.pairs[0])["no_shared_token"]
    found = [s for s in retrieval.notes(results, "encoders") if s.startswith("Among the")]
    assert len(found) == 1
    assert found[0].startswith(f"Among the {n} pairs with no identical token (letters or digits)")
    assert "these are harder pairs than the rest: bags of tokens find" in found[0]
    figures = {f.name: f.caption for f in retrieval.section(results, "encoders", "").figures}
    caption = figures["encoders_retrieval_no_shared_token"]
    assert f"the {n} pairs with no identical token (letters or digits)" in caption
    assert "cannot help" not in caption
    published = figures["published_retrieval"]
    assert "5,000 WMT16 pairs, 12 layers, input table 128 wide" in published


def test_one_rate_for_all_couplings_is_said(results: Results) -> None:
    said = " ".join(language_modeling.findings(results, "encoders"))
    assert "One learning rate, 0.0025, served all couplings. At this budget" in said
    assert "compare how fast the couplings learn under that rate" in said
    other = CHANGED["replaced"](results, "runs", {"run": "untied"}, learning_rate="0.01")
    said = " ".join(language_modeling.findings(other, "encoders"))
    assert "The runs have learning rates of their own, 0.0025 to 0.01." in said
    assert "each under its rate" in said and "One learning rate" not in said


def test_the_table_of_runs_says_how_each_is_trained(results: Results) -> None:
    table = runs.runs(results, "encoders")
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    tied, matched = rows["tied (baseline)"], rows["tied equal pretraining (matched)"]
    assert tied["untrained control"] == "untrained" and tied["seeds"] == "5"
    assert (matched["matches"], matched["feed-forward width"], matched["seeds"]) == (
        "untied in pretraining", "1,536", "3",
    )  # fmt: skip
    for words in (
        "learning rate 0.0025", "steps 1,500", "batch (windows x tokens) 32 x 64",
        "predicted (%) 30",
    ):  # fmt: skip
        assert words in table.caption


def test_what_differs_between_the_runs_has_a_column(results: Results) -> None:
    other = CHANGED["replaced"](results, "runs", {"run": "untied"}, learning_rate="0.01")
    table = runs.runs(other, "encoders")
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    rates = [rows[x]["learning rate"] for x in ("tied (baseline)", "untied", "untrained")]
    assert rates == ["0.0025", "0.01", ""] and "learning rate" not in table.caption
    assert "differs in training" not in table.header and "share of the text" not in table.caption
    other = CHANGED["replaced"](results, "runs", {"run": "untied"}, replaced="tie_penalty=0.1")
    table = runs.runs(other, "encoders")
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    said = [rows[x]["differs in training"] for x in ("tied (baseline)", "untied", "untrained")]
    assert said == ["", "tie_penalty=0.1", ""]


def test_parameters_are_told_of_trained_runs(results: Results) -> None:
    said, matched = runs.findings(results, "encoders")
    alone = [x for x in results["runs"] if x["run"] in ("tied", "untrained")]
    (one,) = runs.findings(Results("small", {**results.tables, "runs": alone}), "encoders")
    assert re.fullmatch(r"Tied has [\d,.]+( million)? parameters\.", one)
    assert "untied has" in said and "untrained" not in said and "matched" not in said
    assert re.fullmatch(
        r"Tied equal pretraining \(matched\) has \d\.\d{3} times the parameters of untied in "
        r"pretraining, by a feed-forward width of 1,536\.",
        matched,
    )


def test_the_lead_says_what_was_seen_how_often(results: Results) -> None:
    lead = runs.lead(results, "encoders")
    # 1,500 steps of 32 windows of 64 tokens over 2 x 225,000
    assert (
        "Each trained run saw 3.07 million tokens: on average 6.8 passes over the 450,000" in lead
    )
    less = CHANGED["replaced"](results, "runs", {"trained": "true"}, data_share="0.1")
    assert "on average 68 passes over the first 10.0% of the 450,000 training" in runs.lead(
        less, "encoders"
    )
    assert "share of the text (%) 10.0" in runs.runs(less, "encoders").caption


@pytest.mark.parametrize(
    ("seeds", "difference", "interval", "said"),
    [
        ("5", "0.2", ("0.1", "0.3"), "untied 0.20 nats above (+0.10 to +0.30; smallest detectable 0.40)"),
        ("5", "0.2", ("-0.1", "0.5"), "no difference is shown for untied 0.20 nats above (-0.10 to +0.50; smallest detectable 0.40)"),
        ("4", "0.2", ("0.1", "0.3"), "in the mean over 4 seeds, without a claim, untied 0.20 nats above (+0.10 to +0.30; smallest detectable 0.40)"),
        ("5", "0", ("", ""), "no difference in any seed for untied"),
        ("5", "0.2", ("", ""), "untied 0.20 nats above (the same in every seed)"),
    ],
)  # fmt: skip
def test_differences(
    results: Results, seeds: str, difference: str, interval: tuple[str, str], said: str
) -> None:
    row = {
        "seeds": seeds, "difference": difference, "difference_low": interval[0],
        "difference_high": interval[1], "detectable": "0.4" if interval[0] else "",
    }  # fmt: skip
    (sentence,) = estimates.differences(results, "encoders", {"untied": row}, "nats", 2)
    assert sentence == (
        f"Against tied: {said}. Single intervals, paired by seed and not corrected for their "
        "number; verdicts: see Differences between runs."
    )


def test_each_run_is_told_with_its_own_seeds(results: Results) -> None:
    row = {"difference": "0.2", "difference_low": "", "difference_high": "", "detectable": ""}
    held = {"untied": {**row, "seeds": "2"}, "narrow_input_wide_output": {**row, "seeds": "3"}}
    (sentence,) = estimates.differences(results, "encoders", held, "nats", 1)
    assert "over 2 seeds, without a claim, untied 0.2" in sentence
    assert "over 3 seeds, without a claim, narrow input wide output 0.2" in sentence


def test_the_unigram_line_is_in_the_validation_figure_only(results: Results) -> None:
    for metric, drawn in (("validation_loss", True), ("training_loss", False)):
        figure = curves.learning_curves(results, "encoders", metric)
        labels = figure.axes[0].get_legend_handles_labels()[1]
        assert ("unigram" in labels) == drawn
    captions = {
        f.name: f.caption for f in language_modeling.section(results, "encoders", "").figures
    }
    assert "unigram loss. Bands" in captions["encoders_validation_loss"]
    assert "dashed" not in captions["encoders_training_loss"]
    # ln 8192 = 9.01; the made-up runs start at 9.05
    assert (
        "The start, 9.05 nats (the logarithm of the vocabulary is 9.01)"
        in captions["encoders_validation_loss"]
    )


def test_intervals_in_figures_stay_within_0_and_100(results: Results) -> None:
    import matplotlib.figure

    axes = matplotlib.figure.Figure().subplots()
    rows = [
        (0, {"mean": "0.01", "low": "-0.1", "high": "0.3"}),
        (1, {"mean": "0.9", "low": "0.7", "high": "1.2"}),
    ]
    curves.line(axes, rows, "x", {"color": "k", "linestyle": "-"}, percent=True)
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == 0 and heights.max() == 100


def test_verdicts_comparisons_and_measures_are_counted_apart(results: Results) -> None:
    first, second, last = comparisons.findings(results, "encoders")
    assert first.endswith("; 3 comparisons of two couplings, 2 measures, 6 verdicts.")
    assert (
        second
        == "3 differences that RemBERT prints have no verdict: its six tasks are not run here."
    )
    assert last.startswith(
        "None is a reproduction: the runs have 4 layers (published: 12), 128 wide (published: 768), "
        "8,192 vocabulary entries (published: 120,000) and 2 languages (published: 104)"
    )


def test_published_verdicts_wait_for_flat_curves(results: Results) -> None:
    falling = CHANGED["replaced"](results, "flattened", {}, flat="false", drop="0.3")
    rows = [
        {**row, "verdict": "", "reason": "the learning curves of x and y have not flattened"}
        if row["metric"]
        else row
        for row in falling["published"]
    ]
    falling = Results("small", {**falling.tables, "published": rows})
    first, second, _ = comparisons.findings(falling, "encoders")
    assert first == (
        "No verdict: the learning curves of tied, untied and narrow input wide output still fall."
    )
    assert (
        second
        == "3 differences that RemBERT prints have no verdict: its six tasks are not run here."
    )
    none = [row for row in rows if not row["metric"]]
    without = Results("small", {**falling.tables, "published": none})
    assert comparisons.findings(without, "encoders")[0].startswith("No published difference has a")


def test_the_published_set_up_is_not_called_absent(results: Results) -> None:
    ours = {"layers": "12", "width": "768", "vocabulary": "120000"}
    reads = [
        {"corpus": "home", "language": f"l{i}", "part": "read", "metric": "strings", "value": "1"}
        for i in range(104)
    ]
    rows = [{**row, **ours} for row in results["runs"]]
    same = Results("small", {**results.tables, "runs": rows, "corpus": reads})
    said = comparisons.set_up(same, "encoders")
    assert "the published ones" in said and "reproduc" not in said


def test_published_comparisons_name_runs_and_basis(results: Results) -> None:
    table = comparisons.comparisons(results, "encoders")
    assert "untied against tied" in {row[2] for row in table.rows}
    averages = [row for row in table.rows if row[6].startswith("average")]
    assert averages and {row[1] for row in averages} == {
        "no verdict (its six tasks are not run here)"
    }
    for words in (
        "one pretraining per row (averages: the mean of three fine-tunings) and has no printed spread",
        "translations of the same strings",
        "0.25 and 3 times as wide here, 0.167 and 4 times there",
        "for retrieval, probing and transfer also both above their untrained control",
        "needs at least 5 seeds", "95% interval", "power 0.8 at the observed standard deviation",
    ):  # fmt: skip
        assert words in table.caption


def test_levels_and_limits_are_said_as_they_are(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "MINIMUM_SEEDS", 7)
    monkeypatch.setattr(comparisons, "PERCENT", "90%")
    assert "at least 7 seeds" in comparisons.comparisons(results, "encoders").caption
    assert "control, a 90% interval" in comparisons.comparisons(results, "encoders").caption
    monkeypatch.setattr(estimates, "PERCENT", "90%")
    assert "90% t interval" in estimates.over(results, "encoders")
    assert "90% t interval" in estimates.bands(results, "encoders")


def test_every_verdict_is_drawn(results: Results) -> None:
    judged = [row for row in results["published"] if row["verdict"]]
    twice = Results("small", {**results.tables, "published": [*results["published"], judged[0]]})
    figure = bars.published_directions(twice, "encoders")
    points = [line for axes in figure.axes for line in axes.lines if line.get_marker() in "oXd"]
    assert len(points) == len(judged) + 1


def test_savings_range_over_models_and_cite_the_tutorial(results: Results) -> None:
    said = " ".join(accounts.savings(results))
    assert "2 of the 4 rows in the table of a Chinese-language tutorial on weight tying" in said
    assert "一行代码的魔法" in said and "125M (share) and 1.5B (width, saving, share)" in said
    assert "ranges from 0.01% of the untied total (ByT5 XXL) to 45.77% (Pythia 14M)" in said
    assert "falls" not in said
    assert "For 7B and 70B nothing is saved in fact" in said
    assert accounts.savings_table(results).rows[1][:2] == ["1.5B, table", "width, saving, share"]


def test_what_is_said_of_remberts_counts(results: Results) -> None:
    said = accounts.rembert(results)
    assert said[0] == (
        "16 of RemBERT's 20 printed figures come out when tables + blocks are counted and truncated "
        "to millions (3 other ways to count do as well); counting every parameter and rounding gives 2."
    )
    assert said[1].startswith(
        "Table 6, width 1024: agrees only when counting tables + blocks + pooler"
    )
    assert said[1].count("; or ") == 3
    assert said[2] == (
        "RemBERT itself is printed with 995M. With the pooler counted beside every parameter, output "
        "width 1536 has 961.87M, which does not round to it; output width 1664 has 994.59M, which "
        "rounds to it; without it they have 960.54M and 993.26M."
    )


def test_the_best_convention_is_named_and_ties_are_said(results: Results) -> None:
    assert "tables + blocks, truncated" in accounts.rembert_table(results).header
    labels = bars.rembert_differences(results).axes[0].get_legend_handles_labels()[1]
    assert labels[0] == "tables + blocks, truncated"
    rows = [dict(row) for row in results["rembert_conventions"]]
    rows[0]["convention"], rows[1]["agreeing_figures"] = (
        "something, rounded",
        rows[0]["agreeing_figures"],
    )
    tied = Results("small", {**results.tables, "rembert_conventions": rows})
    assert "something, rounded" in accounts.rembert_table(tied).header
    assert (
        f"As many figures as something, rounded give: {rows[1]['convention']}"
        in accounts.rembert_table(tied).caption
    )
    assert "derived" in accounts.rembert_table(tied).caption


def corpus(*rows: tuple[str, str, str, str]) -> Results:
    keys = ("language", "part", "metric", "value")
    return Results(
        "x", {"corpus": [{"corpus": "c", **dict(zip(keys, row, strict=True))} for row in rows]}
    )


def test_what_was_dropped_is_said_with_its_largest_parts() -> None:
    read = ("en", "read", "strings", "1000")
    even = [
        ("en", "dropped", reason, "20")
        for reason in ("duplicate", "empty", "reference", "untranslated", "other_language")
    ]
    several = corpora.findings(corpus(read, *even), "c")[0]
    assert "10.0% were dropped: 2.0% duplicate of a string" in several
    assert several.endswith(" (the two largest parts).")
    assert "largest" not in corpora.findings(corpus(read, *even[:2]), "c")[0]


def test_one_language_is_no_range() -> None:
    held = corpus(("en", "read", "strings", "9"), ("en", "train", "bytes_per_token", "3.5"))
    assert corpora.findings(held, "c") == ["A token stands for 3.50 bytes (English)."]


def test_every_reason_to_drop_a_string_has_words() -> None:
    text = "".join((SOURCE / "corpus" / f"{name}.py").read_text() for name in ("clean", "split"))
    given = set(
        re.findall(r'dropped\["(\w+)", \w+\]|_count\(dropped, "(\w+)"|"(equals_\w+)"', text)
    )
    reasons = {"".join(found) for found in given}
    assert {"not_selected", "empty", "equals_valid"} <= reasons <= set(REASONS)


def test_how_it_was_made_holds_without_a_lock_beside_it(results: Results) -> None:
    (said,) = sections.made(results).findings
    assert "beside it" not in said and "sha256" in said
    assert any(row["item"] == "settings, sha256" for row in results["provenance"])
