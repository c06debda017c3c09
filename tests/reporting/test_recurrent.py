"""The page's part on recurrent runs: findings follow the tables, figures draw, tables are whole."""

from __future__ import annotations

import pytest

from tests.reporting.recurrent_artefacts import LOSSES, make_params, write_recurrent
from tiebench.analysis.learning_curves import flattened_rows, unflattened, validation_curves
from tiebench.analysis.tables import shown
from tiebench.evaluation import score_recurrent, score_tables
from tiebench.evaluation.cells import recurrent_cells
from tiebench.reporting.recurrent import section
from tiebench.reporting.recurrent_findings import findings
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def results(study="press_wolf", seeds=(0, 1, 2, 3, 4), *, falling=0.01, **losses) -> Results:
    params = make_params(study, seeds)
    write_recurrent(params, {**LOSSES, **losses}, falling=falling)
    metrics = {cell: cell.metrics() for cell in recurrent_cells(params)}
    curves = validation_curves(score_tables.learning_curve_rows(metrics))
    flat = unflattened(flattened_rows(curves, 0.25, 0.05))
    held = {name: rows for name, (_, rows) in score_recurrent.tables(params, metrics, flat).items()}
    held["runs"] = [
        {"family": "recurrent", "run": run, "baseline": run == params.recurrent.baseline,
         "trained": settings.trained, "matches": None}
        for run, settings in params.recurrent.runs.items()
    ]  # fmt: skip
    told = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
        for name, rows in held.items()
    }
    return Results("t", told)


def said(*given, **more) -> str:
    return "\n".join(findings(results(*given, **more)))


def test_tying_that_lowers_is_told_by_text():
    text = said()
    assert (
        "Without dropout, tying (wt against baseline) lowers the perplexity of validation (0.98"
    ) in text
    assert "With dropout that is drawn at every step, tying (wt dropout against" in text
    assert "without dropout, on one table" not in text
    assert "Without dropout, on one table, the projection (wt pr against wt) lowers" in text


def test_the_sentence_flips_with_the_data():
    up = said(wt=(3.9, 5.0, 5.0))
    assert "tying (wt against baseline) raises the perplexity of validation (1.2" in up
    mixed = said(wt=(3.9, 4.5, 4.5))
    assert "lowers the perplexity of validation (0.7" in mixed
    assert "; raises the perplexity of training (1.29" in mixed
    same = said(wt=(3.641, 4.791, 4.741))
    assert "tying (wt against baseline) leaves as it is, within the margin" in same


def test_few_seeds_and_falling_curves_decide_nothing():
    text = said("press_wolf", (0,))
    assert (
        "is not decided to change (fewer than 5 seeds) the perplexity of validation (0.98" in text
    )
    assert "lowers" not in text and "in the mean over 1 seed" in text
    assert "have not flattened) the perplexity of" in said(falling=0.3)


def test_published_figures_where_the_settings_are_printed():
    text = said("press_wolf_small", (0,))
    assert "With the printed settings of Press and Wolf 2017, table 6, small, 5 of 6 test" in text
    assert "baseline 114.8, printed 114.5 (+0.2%)" in text
    assert "as far as printed of Inan et al. 2017, table 1, small" in said("inan_small", (0,))
    assert "No run of this report has the settings of a printed row" in said()


def test_an_earlier_best_epoch_is_told():
    assert "was lowest before the last epoch" in said(falling=-0.02)
    assert "was lowest before the last epoch" not in said()


@pytest.mark.parametrize(
    ("study", "seeds"), [("press_wolf", (0, 1, 2, 3, 4)), ("press_wolf_small", (0,))]
)
def test_everything_draws_and_is_told(study, seeds):
    part = section(results(study, seeds))
    assert [figure.name for figure in part.figures] == [
        "recurrent_valid", "recurrent_train", "recurrent_test", "recurrent_differences_valid",
        "recurrent_differences_test", "recurrent_differences_train",
    ]  # fmt: skip
    for table in part.tables:
        assert table.rows and {len(row) for row in table.rows} == {len(table.header)}
    with styled():
        for figure in part.figures:
            assert svg_of(figure.draw()).startswith("<?xml")


def test_printed_parameters_stand_beside_ours():
    runs, perplexity, published, pairs = section(results("press_wolf_small", (0,))).tables
    assert "ours round to it yes" in runs.caption and "units 200" in runs.caption
    cells = dict(zip(runs.header, runs.rows[0], strict=True))
    assert cells["parameters"] == "4,651,600" and cells["printed parameters (M)"] == "4.65"
    assert perplexity.rows[0][2:5] == ["38.2", "120.7", "114.8"]
    assert len(published.rows) == 6 * 3 + 2 * 3 + 4 * 2
    assert len(pairs.rows) == 3 * 15
