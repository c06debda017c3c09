"""What the page says of word forms: the sentences flip when the numbers do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.reporting.word_forms_artefacts import CLOSER, ODDS, make_params, write_word_forms
from tiebench.analysis.tables import read_table, write_table
from tiebench.evaluation.score_word_forms import tables
from tiebench.reporting.report import markdown
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of
from tiebench.reporting.word_forms import section
from tiebench.reporting.word_forms_findings import findings
from tiebench.reporting.word_forms_results import WordForms


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(
    closer: Mapping[tuple[str, str], float] = CLOSER,
    odds: Mapping[str, float] = ODDS,
    seeds: int = 5,
    noise: float = 0.01,
    flat: str = "true",
) -> Results:
    params = make_params(seeds)
    write_word_forms(Path("evals/micro/word_forms"), params, closer, odds, noise)
    held = {}
    for name, (columns, rows) in tables(params, {}).items():
        write_table(Path(f"{name}.csv"), columns, rows)
        held[name] = read_table(Path(f"{name}.csv"), mend="")
    shared = {"family": "word_decoders", "trained": "true", "matches": ""}
    listed = " ".join(map(str, range(seeds)))
    held["runs"] = [
        {**shared, "run": run, "seeds": listed, "baseline": str(run == "tied").lower()}
        for run in ("tied", "untied")
    ]
    held["flattened"] = [{**shared, "run": run, "flat": flat} for run in ("tied", "untied")]
    return Results("micro", held)


def said(**changed) -> str:
    return " ".join(findings(WordForms(make(**changed))))


def test_the_column_is_right() -> None:
    text = said()
    assert "centred): forms are closer than words that are as frequent (+0.3" in text
    assert "output table: forms are farther apart than" in text
    assert "It keeps them apart, as the column says." in text
    assert "forms are closer in the input table, as the column says" in text
    assert "(the same with rows as they are" in text
    assert "Forms are chosen worse by tied." in text
    assert "With one table for both sides, tied: forms are closer than" in text


def test_the_column_is_wrong() -> None:
    closer = {**CLOSER, ("untied", "input"): 0.1, ("untied", "output"): 0.3}
    text = said(closer=closer, odds={"tied": 1.0, "untied": 0.5})
    assert "Its forms are not kept apart." in text
    assert "forms are closer in the output table, the reverse of what the column says" in text
    assert "Forms are chosen worse by untied." in text


def test_nothing_is_shown() -> None:
    text = said(closer=dict.fromkeys(CLOSER, -0.024), odds=dict.fromkeys(ODDS, 0.7), noise=0.05)
    assert "forms are not shown to be closer or farther apart" in text
    assert "neither table is shown to hold them closer, which does not support the column" in text


def test_as_well_within_the_margin() -> None:
    text = said(odds=dict.fromkeys(ODDS, 0.7), noise=0.001)
    assert "Forms are chosen as well by untied as by tied, within the margin." in text


@pytest.mark.parametrize("seeds", [1, 3])
def test_few_seeds_make_no_claim(seeds: int) -> None:
    text = said(seeds=seeds)
    assert text.count("without a claim") >= 4 and "as the column says" not in text
    assert "worse by" not in text and "undecided" in text
    assert f"in the mean over {seeds} seed" in text


def test_the_corrected_verdict_decides_and_not_the_single_interval() -> None:
    closer = {**CLOSER, ("untied", "output"): -0.032}
    row = WordForms(made := make(closer, noise=0.02)).geometry("untied", "output", "contrast")
    assert row is not None and float(row["high"]) < 0
    assert "It keeps them apart" in " ".join(findings(WordForms(made)))
    changed = [{**x, "verdict": "undecided"} if x == row else x for x in made["word_forms_summary"]]
    text = " ".join(
        findings(WordForms(Results("t", made.tables | {"word_forms_summary": changed})))
    )
    assert "It keeps them apart" not in text


def test_curves_that_still_fall_make_no_claim() -> None:
    text = said(flat="false")
    assert text.count("without a claim, since the learning curve is not flat, forms are") == 4
    assert "as the column says" not in text and "kept apart" not in text


def test_coverage_and_baseline_are_stated() -> None:
    text = said()
    assert "400 of the 1,000 words in the vocabulary (40.0%; English and German)" in text
    assert "25.0% of the validation tokens (10.0% are unknown words)" in text
    assert "training frequencies alone 50.0%" in text


@pytest.mark.parametrize("seeds", [1, 5])
def test_tables_and_figures(seeds: int) -> None:
    made = section(make(seeds=seeds))
    assert [x.name for x in made.tables] == [
        "word_forms", "word_forms_by_language", "form_choice", "word_forms_coverage",
    ]  # fmt: skip
    for table in made.tables:
        assert all(len(row) == len(table.header) for row in table.rows), table.name
        assert markdown(table)
    first = made.tables[0].rows
    assert [row[1] for row in first].count("shared table") == 2
    assert any(row[1] == "input minus output" for row in first)
    assert ("one seed: no interval" in made.tables[0].caption) == (seeds == 1)
    with styled():
        for figure in made.figures:
            assert svg_of(figure.draw()).startswith("<?xml")
