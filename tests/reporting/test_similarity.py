"""The page's part on word similarity: findings follow the tables, figures draw, tables are whole."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.evaluation.test_score_similarity import empty, params_of, write_similarity  # noqa: F401
from tests.experiments.test_tables import make_params
from tests.reporting.tables import replaced
from tiebench.analysis.tables import shown
from tiebench.claims.read import figure_rows, read_sources
from tiebench.evaluation import score_similarity
from tiebench.reporting import similarity
from tiebench.reporting import similarity_published as published
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of

RUNS = ("tied", "wide", "untrained", "untied")


def results(seeds: int = 5, **given: float) -> Results:
    write_similarity(seeds, **given)
    tables = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
        for name, (_, rows) in score_similarity.tables(params_of(seeds)).items()
    }
    tables["runs"] = [
        {
            "family": "encoders", "run": run, "matches": "", "baseline": shown(run == "tied"),
            "seeds": " ".join(map(str, range(seeds))),
            "trained": shown(make_params().encoders.runs[run].trained),
            "tied": shown(run in ("tied", "untrained")), "width": "12", "objective": "masked",
            "input_width": "2" if run == "wide" else "12",
            "output_width": "48" if run == "wide" else "12",
        }
        for run in RUNS
    ]  # fmt: skip
    tables["alignment_differences"] = []
    tables["printed_figures"] = [
        {key: shown(cell) for key, cell in row.items()}
        for row in figure_rows(read_sources(ROOT / "claims"))
    ]
    return Results("t", tables)


def said(held: Results) -> str:
    return "\n".join(similarity.findings(held, "encoders"))


def test_the_sentence_flips_with_the_data():
    start = "By cosine, the output table of untied is"
    text = said(results())
    assert f"{start} the better word representation on MEN +0.204" in text
    assert "By dot product, the output table of wide is the better word representation on" in text
    text = said(results(output=0.1, inputs=0.3))
    assert f"{start} the worse word representation on MEN -0.196" in text
    text = said(results(pairs=0.3))
    assert f"{start} not shown to differ from its input table on MEN +0.204" in text


def test_few_seeds_decide_nothing():
    text = said(results(1))
    assert (
        "By cosine, the output table of untied less its input table, in the mean over 1 seed, "
        "without a claim: MEN +0.220 [0.150, 0.250]"
    ) in text
    ours = text.split("In print")[0]
    assert "better" not in ours and "worse" not in ours
    assert "Beside the printed differences ours are: 2 undecided." in text


def test_sets_may_differ_in_what_they_say():
    where = {"run": "untied", "set": "men", "similarity": "cosine"}
    held = replaced(results(), "word_similarity_differences", where, verdict="undecided")
    assert (
        "By cosine, the output table of untied is the better word representation on WordSim-353 "
        "+0.204 (+0.177 to +0.231); it is not shown to differ from its input table on MEN +0.204"
    ) in said(held)


def test_coverage_controls_and_what_is_left_out_are_told():
    text = said(results())
    assert "Known are both words of: MEN 75% of 40 pairs and WordSim-353 75% of 40 pairs." in text
    assert "A word has 1.5 pieces in the mean of a set." in text
    assert "Before training the tables reach by cosine: untrained from 0.198 (MEN) to" in text
    assert "Words that share pieces have like rows from the start." in text
    assert "Not measured: left (fewer than 100 pairs of known words)." in text
    whole = replaced(results(), "similarity_sets", {}, pieces="1")
    assert "pieces" not in said(whole)
    other = {"reason": "the corpus has no text in a (b)", "language": "en"}
    text = said(replaced(results(), "similarity_sets", {"set": "left"}, **other))
    assert "Not measured: left (the corpus has no text in English)." in text


@pytest.mark.parametrize("seeds", [1, 5])
def test_everything_draws_and_is_told(seeds):
    part = similarity.section(results(seeds), "encoders", "")
    assert part.anchor == "encoders-similarity"
    assert [figure.name for figure in part.figures] == [
        "encoders_similarity_cosine", "encoders_similarity_dot", "encoders_similarity_difference",
        "encoders_similarity_published",
    ]  # fmt: skip
    assert [table.name for table in part.tables] == [
        "encoders_similarity", "encoders_similarity_differences", "encoders_similarity_published",
        "encoders_similarity_sets",
    ]  # fmt: skip
    for table in part.tables:
        assert table.rows and {len(row) for row in table.rows} == {len(table.header)}
    with styled():
        for figure in part.figures:
            assert svg_of(figure.draw()).startswith("<?xml")


def test_a_family_without_a_set_says_so_and_draws_nothing():
    held = results()
    for name in ("word_similarity_summary", "word_similarity_differences"):
        held.tables[name] = []
    held = replaced(held, "similarity_sets", {}, reason="fewer than 100 pairs of known words")
    part = similarity.section(held, "encoders", "")
    assert part.findings == [
        "Not measured: MEN, WordSim-353 and left (fewer than 100 pairs of known words)."
    ]
    assert [table.name for table in part.tables] == ["encoders_similarity_sets"]
    assert [figure.draw() for figure in part.figures] == [None] * 3


def test_printed_correlations_stand_beside_ours():
    held = results(output=0.1, inputs=0.3)
    rows = published.table(held, "encoders").rows
    assert [row[:6] for row in rows] == [
        ["wide", "output 3072", "MEN", "0.401", "0.108", "-0.293"],
        ["untied", "decoupled", "MEN", "0.392", "0.277", "-0.115"],
    ]
    assert {row[-1] for row in rows} == {"yes"}
    start = "by dot product. Beside the printed differences ours are:"
    assert f"the input table is the better word representation {start} 2 on the printed side." in (
        said(held)
    )
    assert f"{start} 2 on the other side." in said(results())
    some = replaced(results(), "word_similarity_differences", {"run": "wide"}, verdict="undecided")
    assert f"{start} 1 on the other side and 1 undecided." in said(some)


@pytest.mark.parametrize(
    ("run", "cells"),
    [
        ("wide", {"output_width": "46"}),
        ("wide", {"objective": "causal"}),
        ("wide", {"matches": "tied"}),
    ],
)
def test_other_runs_stand_beside_nothing(run, cells):
    held = replaced(results(), "runs", {"run": run}, **cells)
    assert {row[0] for row in published.table(held, "encoders").rows} == {"untied"}
    none = replaced(held, "runs", {"run": "untied"}, input_width="24")
    assert not published.table(none, "encoders").rows and "In print" not in said(none)
    assert published.figure(none, "encoders") is None


def test_printed_differences_are_drawn():
    with styled():
        text = svg_of(published.figure(results(), "encoders"))
    for words in ("untied", "decoupled, printed", "output 3072, printed"):
        assert words in text
