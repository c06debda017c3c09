"""The page's part on tables by update: the sentence follows the tables, figures draw."""

from __future__ import annotations

import pytest

from tests.experiments.test_alignment_by_step import scored, settings, write_raw
from tiebench.analysis.tables import shown
from tiebench.reporting.alignment_by_step import findings, section
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of

START = {0: (0.1, 0.1), 7: (0.4, 0.4), 20: (0.5, 0.3)}


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def results(monkeypatch):
    def made(last: tuple[float, float], seeds: int = 5, **given: object) -> Results:
        params = settings(seeds=tuple(range(seeds)))
        write_raw({**START, 1060: last}, seeds, **given)
        held = scored(params, monkeypatch)
        held["runs"] = [
            {"family": "recurrent", "run": run, "baseline": run == "baseline", "trained": True,
             "matches": None, "seeds": " ".join(map(str, range(seeds)))}
            for run in params.recurrent.runs
        ]  # fmt: skip
        return Results(
            "t",
            {
                name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
                for name, rows in held.items()
            },
        )

    return made


def said(results: Results) -> str:
    return findings(results, "recurrent")[0]


def test_the_sentence_flips_with_the_data(results):
    text = said(results((0.6, 0.3)))
    assert text.startswith(
        "The table of wt is more like the output table of baseline of another seed than like its "
        "input table from update 20 on: after update 1,060 the distances between words correlate "
        "by 0.60 (0.59 to 0.62) with those in the output table and by 0.30 "
    )
    assert "the first is higher by +0.308 (+0.281 to +0.335). The two tables of baseline" in text
    text = said(results((0.3, 0.6)))
    assert "more like the input table of baseline of another seed than like its output" in text
    assert "output table after the last update: after update 1,060" in text
    assert "is not decided to be more like the output table" in said(results((0.5, 0.5)))


def test_what_is_above_the_floor_is_judged(results):
    text = said(results((0.6, 0.3), floor=(0.4, 0.0)))
    assert "more like the input table of baseline of another seed" in text
    assert "from update 0 on" in text and "higher by -0.092" in text


def test_stretches_of_one_verdict_are_told_of_one_seed(results):
    told = (
        "Of one seed, the table of wt and the input table of baseline start with the same values. "
        "Above the floors, the shared table is then not decided at updates 0 to 7, more like the "
        "output table at update 20, "
    )
    assert findings(results((0.3, 0.6)), "recurrent")[1:] == [
        f"{told}more like the input table at update 1,060."
    ]
    assert f"{told}not decided at update 1,060." in findings(results((0.5, 0.5)), "recurrent")
    assert len(findings(results((0.6, 0.3), 4), "recurrent")) == 1


def test_few_seeds_decide_nothing(results):
    assert (
        "of the same seed than like its input table (fewer than 5 seeds, in the mean over 1 seed): "
    ) in said(results((0.6, 0.3), 1))
    text = said(results((0.6, 0.3), 4))
    assert "not decided to be more" in text and "(fewer than 5 seeds, in the mean over 4" in text


@pytest.mark.parametrize(("seeds", "lines"), [(5, 2 * 4), (1, 4)])
def test_everything_draws_and_is_told(results, seeds, lines):
    part = section(results((0.6, 0.3), seeds), "recurrent")
    (figure,), (table,) = part.figures, part.tables
    assert figure.name == "recurrent_distances_baseline_wt"
    assert ("of one seed" if seeds == 1 else "of different seeds") in figure.caption
    assert len(table.rows) == lines and {len(row) for row in table.rows} == {len(table.header)}
    assert table.rows[-1][:3] == ["wt, baseline", "same" if seeds == 1 else "other", "1,060"]
    assert "between 20 words" in table.caption
    with styled():
        drawn = figure.draw()
        assert svg_of(drawn).startswith("<?xml")
    (axes,) = drawn.axes
    assert [x.get_text() for x in axes.get_xticklabels()] == ["0", "10", "100", "1,000"]
    curves = {x.get_label(): x.get_ydata() for x in axes.lines}
    noise = 0.004 if seeds == 5 else 0.01
    assert curves["shared and output"].tolist() == pytest.approx(
        [x + noise for x in (0.1, 0.4, 0.5, 0.6)]
    )
