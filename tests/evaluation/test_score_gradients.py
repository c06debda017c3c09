"""The tables of the instruments, and what the page says of them: made-up rows in, sentences out."""

from __future__ import annotations

from typing import Any

import pytest

from tiebench.analysis.tables import shown
from tiebench.evaluation import score_gradients
from tiebench.reporting import gradients
from tiebench.reporting.results import TABLES, Results
from tiebench.training.instruments import MEASURES


def row_of(run: str, seed: int, step: int, bin_: str = "all", **given: Any) -> dict[str, Any]:
    values = {
        "rows": 10, "input_norm": 1.0, "output_norm": 3.0, "input_row_norms": 1.0,
        "output_row_norms": 4.0, "cosine": -0.2, "null_cosine": 0.0, "row_cosine": -0.1,
        "input_coverage": 0.4, "output_coverage": 1.0, "input_updated": 1.0, "output_updated": 1.0,
    }  # fmt: skip
    assert set(values) == set(MEASURES)
    tied = run == "tied"
    return {
        "family": "decoders", "run": run, "tied": tied, "seed": seed, "step": step,
        "tokens": 100 * step, "batch": "update", "bin": bin_, **values,
        **({} if tied else {"input_updated": 0.6}), **given,
    }  # fmt: skip


def results_of(rows: list[dict[str, Any]]) -> Results:
    summary = [
        {key: shown(value) for key, value in row.items()} for row in score_gradients._summary(rows)
    ]
    runs = [
        {"family": "decoders", "run": run, "baseline": str(run == "tied").lower(),
         "trained": "true", "matches": "", "seeds": "0 1 2"}
        for run in dict.fromkeys(row["run"] for row in rows)
    ]  # fmt: skip
    tables: dict[str, list[dict[str, str]]] = {name: [] for name in TABLES}
    judged = [
        {key: shown(value) for key, value in row.items()}
        for row in score_gradients.conflicts(rows, "holm")
    ]
    held = {"gradients_summary": summary, "gradients_conflicts": judged, "runs": runs}
    return Results("t", {**tables, **held})


def grid(seeds: int = 3, **given: Any) -> list[dict[str, Any]]:
    """Two runs, some seeds, two steps, two bins; the seeds differ a little."""
    return [
        row_of(run, seed, step, bin_, **{
            key: value + 0.001 * seed if isinstance(value, float) else value
            for key, value in given.items()
        })
        for run in ("tied", "untied") for seed in range(seeds) for step in (0, 5)
        for bin_ in ("all", "1-9")
    ]  # fmt: skip


def test_derived_measures() -> None:
    held = score_gradients.derived(row_of("tied", 0, 0))
    assert held["output_share"] == 0.75 and held["output_row_share"] == 0.8
    assert held["cancellation"] == 0.2
    assert score_gradients.derived(row_of("tied", 0, 0, cosine=0.3))["cancellation"] == 0
    assert score_gradients.derived(row_of("tied", 0, 0, cosine=None))["cancellation"] is None


def test_summary_has_each_step_for_all_rows_and_the_mean_for_each_bin() -> None:
    rows = list(score_gradients._summary(grid()))
    cosine = [row for row in rows if row["metric"] == "cosine" and row["run"] == "tied"]
    assert {(row["step"], row["bin"]) for row in cosine} == {
        ("mean", "all"), ("mean", "1-9"), (0, "all"), (5, "all")
    }  # fmt: skip
    assert all(row["seeds"] == 3 and row["mean"] == pytest.approx(-0.2) for row in cosine)


def test_the_sentences_follow_the_data() -> None:
    below = " ".join(gradients.findings(results_of(grid(5, cosine=-0.2)), "decoders"))
    assert "Below that of permuted rows: tied." in below
    above = " ".join(gradients.findings(results_of(grid(5, cosine=0.3)), "decoders"))
    assert "agree more than chance: tied." in above and "Below that" not in above
    few = " ".join(gradients.findings(results_of(grid(3, cosine=-0.2)), "decoders"))
    assert "Undecided against permuted rows (fewer than 5 seeds: 3): tied." in few
    equal = results_of(grid(5, cosine=0.0, null_cosine=0.0))
    chance = " ".join(gradients.findings(equal, "decoders"))
    assert "Undecided against permuted rows: tied." in chance and "Below that" not in chance
    assert "is wrong: the softmax reaches every row" in below
    sparse = " ".join(gradients.findings(results_of(grid(output_coverage=0.1)), "decoders"))
    assert "is wrong" not in sparse
    assert "moves 60.0% of the rows" in below


def test_figures_are_drawn_where_there_is_something() -> None:
    results = results_of(grid())
    section = gradients.section(results, "decoders", "")
    assert all(figure.draw() is not None for figure in section.figures)
    assert gradients.over_tokens(results, "other", "cosine", "null_cosine") is None
    assert section.tables[0].rows[0][:3] == ["tied", "update", "-0.200"]
    assert gradients.families(results) == ["decoders"]
