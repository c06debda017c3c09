"""The page's part on vocabulary tables: findings follow the tables, figures draw."""

from pathlib import Path

import pytest

from tests.experiments.test_tables import FOLDER, make_params, scored, write_raw
from tiebench.analysis.tables import read_table, shown, write_table
from tiebench.experiments.tables_settings import RAW
from tiebench.reporting import alignment
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of

RUNS = ("tied", "wide", "untrained", "untied")


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def change(name: str, run: str, metric: str, mean: float, noise: float) -> None:
    """Other values of a run than the raw tables have."""
    rows = read_table(FOLDER / f"{name}.csv", mend="")
    for row in rows:
        if (row["run"], row["metric"]) == (run, metric):
            row["value"] = shown(mean + noise * (int(row["seed"]) % 5 - 2))
    write_table(FOLDER / f"{name}.csv", RAW[name], rows)


def results(
    output: float,
    inputs: float,
    seeds: int = 5,
    lens: tuple[float, float] = (1.5, 0.0),
    norms: tuple[float, float] = (1.0, 0.0),
    **given: object,
) -> Results:
    write_raw(output, inputs, seeds, **given)
    change("logit_lens", "tied", "divergence", *lens)
    change("table_geometry", "tied", "norm_spearman", *norms)
    tables = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
        for name, rows in scored(seeds).items()
    }
    common = {"family": "encoders", "matches": "", "seeds": " ".join(map(str, range(seeds)))}
    tables["runs"] = [
        {
            **common,
            "run": run,
            "trained": shown(make_params().encoders.runs[run].trained),
            "baseline": shown(run == "tied"),
        }
        for run in RUNS
    ]
    return Results("t", tables)


def said(*given: object, **more: object) -> str:
    return "\n".join(alignment.findings(results(*given, **more), "encoders"))


def test_the_sentence_flips_with_the_data():
    question = "Is the table of tied more like the output than like the input table of untied?"
    assert f"{question} Yes, difference +0.40" in said(0.7, 0.3)
    assert f"{question} No, more like the input table, difference -0.39" in said(0.3, 0.7)
    text = said(0.5, 0.5)
    assert f"{question} Not decided (no difference is shown)" in text


def test_the_floor_is_told_apart():
    text = said(0.7, 0.3, floor=(0.5, 0.1))
    assert "Yes, difference +0.404" in text
    assert "above the floor: not decided (no difference is shown)" in text
    assert "With rows permuted among tokens of like frequency 0.50 and 0.10 remain" in text


def test_few_seeds_decide_nothing():
    for seeds in (1, 4):
        text = said(0.7, 0.3, seeds)
        assert "Not decided (fewer than 5 seeds)" in text
        assert "Yes" not in text


def test_lengths_of_rows_follow_the_corrected_test():
    assert "Rows of frequent tokens are longer in tied;" in said(0.7, 0.3, norms=(0.5, 0.01))
    assert "Rows of frequent tokens are shorter in tied;" in said(0.7, 0.3, norms=(-0.5, 0.01))
    text = said(0.7, 0.3, norms=(0.5, 0.5))
    assert "tokens are neither clearly longer nor shorter in tied, " in text
    text = said(0.7, 0.3, 4, norms=(0.5, 0.01))
    assert "Rows of frequent tokens" not in text
    assert "frequency of its token, in the mean over 4 seeds, without a claim: 0.4" in text


def test_the_embedding_read_by_the_head_follows_the_paired_difference():
    far, near = ((mean, 0.01) for mean in (2.5, 0.5))
    assert "(1.50): farther, difference +1.00" in _lens(lens=far)
    assert "(1.50): nearer, difference -1.00" in _lens(lens=near)
    assert "(1.50): neither clearly farther nor nearer" in _lens(lens=(1.6, 1.0))
    text = _lens(4, lens=far)
    assert "that of untied (1.50), without a claim." in text and "farther" not in text


def _lens(seeds: int = 5, **given: object) -> str:
    text = next(x for x in said(0.7, 0.3, seeds, **given).splitlines() if "Read by the head" in x)
    return text.replace("untied 1.50", "untied (1.50)")


@pytest.mark.parametrize("seeds", [1, 5])
def test_everything_draws_and_is_told(seeds):
    held = results(0.7, 0.3, seeds)
    part = alignment.section(held, "encoders", "")
    assert part.anchor == "encoders-alignment"
    names = {table.name for table in part.tables}
    assert "encoders_alignment_differences" in names
    assert "encoders_alignment_published" in names
    for table in part.tables:
        assert {len(row) for row in table.rows} == {len(table.header)}
    with styled():
        drawn = {figure.name: figure.draw() for figure in part.figures}
        assert svg_of(drawn["encoders_alignment_orthogonal"]).startswith("<?xml")


def test_a_family_without_pairs_has_no_answer_and_no_bars():
    write_raw(0.7, 0.3, 5)
    held = results(0.7, 0.3)
    for name in ("alignment_summary", "alignment_differences"):
        held.tables[name] = []
    part = alignment.section(held, "encoders", "")
    assert not [x for x in part.findings if "more like" in x]
    assert part.figures[0].draw() is None
    assert not Path("reports").exists()
