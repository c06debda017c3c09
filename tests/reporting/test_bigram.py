"""The laboratory's scores and its part of the page: what the tables say, and nothing else."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.reporting.bigram_artefacts import (
    AREA,
    LOSS,
    WINDOW_LOSS,
    bigram_settings,
    write_bigram,
)
from tiebench.analysis.tables import shown
from tiebench.errors import DataError
from tiebench.evaluation.score_bigram import contests, tables
from tiebench.evaluation.statistics_settings import StatisticsSettings
from tiebench.experiments.bigram_settings import BigramSettings
from tiebench.paths import evaluation_folder
from tiebench.reporting.bigram import section
from tiebench.reporting.bigram_results import Laboratory
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of
from tiebench.schema import validate
from tiebench.settings import Params

STATISTICS = {
    "correction": "holm",
    "margins": {
        "loss": 0.05,
        "accuracy": 0.01,
        "retrieval": 0.02,
        "probing": 0.01,
        "transfer": 1.0,
    },
    "flattened": {"share": 0.25, "nats": 0.05},
}
FOLDER = evaluation_folder("t", "bigram")


def make_params(seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Params:
    return Params.model_construct(
        name="t",
        bigram=validate(BigramSettings, bigram_settings(seeds=seeds)),
        statistics=validate(StatisticsSettings, STATISTICS),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def results(seeds: tuple[int, ...] = (0, 1, 2, 3, 4), **means: dict[str, float]) -> Results:
    """Made-up results, whose means differ from the usual ones by `means`."""
    usual = {"loss": LOSS, "area": AREA, "window": WINDOW_LOSS}
    params = make_params(seeds)
    assert params.bigram is not None
    write_bigram(FOLDER, params.bigram, **{k: v | means.get(k, {}) for k, v in usual.items()})
    held = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
        for name, (_, rows) in tables(params).items()
    }
    return Results("t", held)


def told(**means: dict[str, float]) -> str:
    return "\n".join(section(results(**means)).findings)


def test_suss_claims_as_found() -> None:
    text = told()
    assert (
        "Su 2023 found that log std (std = ln(n)/d) converges the slowest. So it does here: in "
        "the mean loss over the updates it is 0.85 to 1.35 nats above each of the 3 other" in text
    )
    assert "Not all are here: 1 of 3 pairs are alike within 0.05 nats in the mean loss" in text
    assert "swap is 0.49 to 0.50 above all others" in text
    assert "log std is 0.89 to 1.39 above all others" in text


def test_other_numbers_give_other_sentences() -> None:
    alike = {"untied": 3.6, "swap": 3.61, "map": 3.62}
    text = told(loss={**alike, "log_std": 3.6}, area={**alike, "log_std": 3.61})
    assert "Not so here: in the mean loss over the updates alike within 0.05 nats are" in text
    assert "rates. So they are here: 3 of 3 pairs are alike" in text
    assert "in the end. So they are here: 6 of 6 pairs are alike" in text
    text = told(area={"log_std": 3.0})
    assert "Not so here: in the mean loss over the updates it is faster than untied, swap" in text


def test_symmetry_and_the_window() -> None:
    text = told()
    assert "the logits of tied, log std, swap and one side are symmetric" in text
    assert "So swap is not equivalent to two tables of half the width once trained." in text
    assert "It ends 0.50 nats above untied, whose two tables have the full width." in text
    near = told(loss={"swap": 3.6})
    assert "of half the width once trained." in near and "It ends" not in near
    assert (
        "one table ends 0.15 nats above two (different), against 1.40 for the next token." in text
    )
    assert "what one table lacks there is a form that can be negative. It expects 10.0%" in text
    text = told(window={"tied": 5.35})
    assert "two (alike), against" in text and "what one table lacks" not in text


def test_the_dial() -> None:
    text = told()
    assert "Of these 1.40 nats are recovered by shared 98% and one side -43%." in text
    assert "start with the same values end alike against two that do not" in text
    assert "The initial values are not what tying costs here." in text
    assert "one side +0.60 (different); one side's gradient alone is worse" in text
    assert "rising at each step; half of the gap is lost at 0.1. What tying costs here" in text
    text = told(loss={"shared": 4.2, "one_side": 4.0, "weak": 4.95, "strong": 4.0})
    assert "The initial values are part of what tying costs here." in text
    assert "the gradient of the other side hinders: one side." in text
    assert "not rising at each step" in text and "What tying costs here is what" not in text


def test_no_gap_no_dial() -> None:
    text = told(loss={"tied": 3.6})
    assert "(alike)." in text and "recovered" not in text and "Relaxed tying" not in text


def test_relaxed_tying_and_validation() -> None:
    text = told()
    assert "low rank 78% for 5.0%. Most for its parameters: low rank." in text
    assert "The lowest validation loss is that of untied, 3.70" in text
    text = told(loss={"weak": 3.5})
    assert "that of tie penalty 0.0001, 3.60" in text and "from untied (different)." in text


def test_runs_that_are_not_below_the_tied_one_carry_no_claim() -> None:
    text = told(loss={"low_rank": 4.98})
    assert "Relaxed tying" in text and "Most for its parameters" not in text
    text = told(loss={"untied": 4.7, "weak": 4.98, "strong": 5.0})
    assert "rising at each step; half of the gap" in text
    assert "What tying costs here is what the two sides may differ by" not in text


def test_few_seeds_claim_nothing() -> None:
    found = section(results(seeds=(0, 1)))
    assert len(found.findings) == 2 and "over 2 seeds, without a claim" in found.findings[1]
    assert {row["verdict"] for row in results(seeds=(0, 1))["bigram_pairs"]} == {"undecided"}


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2, 3, 4)])
def test_figures_and_tables(seeds: tuple[int, ...]) -> None:
    found = section(results(seeds=seeds))
    with styled():
        for figure in found.figures:
            assert svg_of(figure.draw()).startswith("<?xml")
    assert [table.name for table in found.tables] == [
        "bigram_losses_next", "bigram_forms_next", "bigram_losses_window", "bigram_forms_window",
        "bigram_pairs", "bigram_references",
    ]  # fmt: skip
    for table in found.tables:
        assert table.rows and all(len(row) == len(table.header) for row in table.rows)
    reached = {row[0]: row[6:8] for row in found.tables[0].rows}
    assert reached["tied"] == ["–", "–"] and reached["untied"] == ["4.0", "–"]


def test_every_run_meets_the_references_and_remedies_each_other() -> None:
    settings = validate(BigramSettings, bigram_settings())
    pairs = contests(settings, "next")
    assert len(pairs) == len({frozenset(pair) for pair in pairs}) == 9 + 8 + 3
    assert len(contests(settings, "window")) == 3
    held = Laboratory(results())
    forwards, backwards = held.pair("loss", "swap", "map"), held.pair("loss", "map", "swap")
    assert forwards[0] == -backwards[0] > 0.4 and forwards[1] == "different"


def test_a_falling_curve_decides_nothing_but_speed() -> None:
    params = make_params()
    assert params.bigram is not None
    write_bigram(FOLDER, params.bigram)
    path = FOLDER / "curves.csv"
    rows = list(csv.reader(path.open()))
    for row in rows[1:]:
        if row[1] == "swap" and row[3] == "20":
            row[5] = str(float(row[5]) - 0.3)
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
    reasons = {
        (row["metric"], row["reason"])
        for row in tables(params)["bigram_pairs"][1]
        if row["first"] == "swap" and row["second"] == "tied"
    }
    falling = "the learning curve of swap has not flattened"
    assert reasons == {("loss", falling), ("valid_loss", falling), ("area", "")}


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("runs", None, "no such file"),
        ("runs", ("next,untied,3,", "next,untied,9,"), r"no row of untied \(next\), seed 3"),
        ("curves", ("next,map,", "next,none,"), r"no row of map \(next\), seed 0"),
        ("runs", ("rank,140", "rank,inf"), "found value .inf."),
        ("objectives", ("objective,", "object,"), "columns object"),
        ("rates", (",true", ",false"), "0 chosen learning rates"),
    ],
)
def test_damaged_tables_are_named(table: str, change: tuple[str, str] | None, said: str) -> None:
    params = make_params()
    assert params.bigram is not None
    write_bigram(FOLDER, params.bigram)
    path = FOLDER / f"{table}.csv"
    if change is None:
        path.unlink()
    else:
        path.write_text(path.read_text().replace(*change))
    with pytest.raises(DataError, match=rf"{table}\.csv.*{said}.*dvc repro bigram"):
        tables(params)


def test_without_a_laboratory_the_tables_are_empty() -> None:
    held = tables(make_params().model_copy(update={"bigram": None}))
    assert all(columns and not rows for columns, rows in held.values())
