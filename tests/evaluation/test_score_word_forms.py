"""The tables of the word forms from what the stage wrote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.reporting.word_forms_artefacts import CLOSER, ODDS, make_params, write_word_forms
from tiebench.analysis.statistics import correct, paired_difference
from tiebench.analysis.tables import read_table
from tiebench.errors import DataError
from tiebench.evaluation.score_word_forms import COLUMNS, tables

FOLDER = Path("evals/micro/word_forms")
PARAMS = make_params()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_word_forms(FOLDER, PARAMS)
    return FOLDER


def one(rows, **cells):
    (found,) = [row for row in rows if cells.items() <= row.items()]
    return found


def test_every_row_has_its_columns(folder: Path) -> None:
    for name, (columns, rows) in tables(PARAMS, {}).items():
        assert columns == COLUMNS[name] and rows, name
        assert all(set(row) == set(columns) for row in rows), name


def test_means_over_lemmas_and_sides(folder: Path) -> None:
    held = tables(PARAMS, {})["word_forms"][1]
    raw = [
        x for x in read_table(folder / "geometry.csv", mend="")
        if (x["run"], x["seed"], x["centring"]) == ("untied", "3", "raw")
    ]  # fmt: skip
    at = {"run": "untied", "seed": 3, "centring": "raw", "metric": "contrast"}
    for side in ("input", "output"):
        rows = [x for x in raw if x["side"] == side]
        for code in ("de", "en", "all"):
            values = [
                float(x["forms"]) - float(x["matched"])
                for x in rows if code in (x["language"], "all")
            ]  # fmt: skip
            found = one(held, side=side, language=code, **at)
            assert found["value"] == pytest.approx(np.mean(values))
    both = [one(held, side=x, language="all", **at)["value"] for x in ("input", "output")]
    less = one(held, side="input_minus_output", language="all", **at)
    assert less["value"] == pytest.approx(both[0] - both[1])


def test_a_shared_table_has_no_difference_between_its_sides(folder: Path) -> None:
    held = tables(PARAMS, {})["word_forms"][1]
    assert {x["value"] for x in held if x["run"] == "tied" and x["side"].startswith("input_m")} == {
        0
    }


def test_intervals_over_seeds_and_over_lemmas_say_so(folder: Path) -> None:
    held = tables(PARAMS, {})
    at = {"run": "untied", "side": "input", "centring": "centred", "language": "all"}
    seeds = one(held["word_forms_summary"][1], metric="contrast", **at)
    assert (seeds["seeds"], seeds["varies"], seeds["baseline"]) == (5, "seeds", "tied")
    assert seeds["low"] < seeds["mean"] < seeds["high"]
    lemmas = one(held["word_forms_lemmas"][1], **at)
    assert (lemmas["lemmas"], lemmas["varies"]) == (5, "lemmas")
    assert lemmas["mean"] == pytest.approx(seeds["mean"])
    chosen = one(held["form_choice_lemmas"][1], run="untied", language="all", metric="log_odds")
    assert chosen["baseline"] == "tied" and chosen["mean"] == pytest.approx(0.5, abs=0.02)


def test_choices_by_position_and_by_lemma(folder: Path) -> None:
    held = tables(PARAMS, {})["form_choice"][1]
    raw = [
        x for x in read_table(folder / "choices.csv", mend="")
        if (x["run"], x["seed"]) == ("tied", "0")
    ]  # fmt: skip
    odds = [float(x["log_odds"]) for x in raw]
    at = {"run": "tied", "seed": 0, "language": "all", "metric": "log_odds"}
    weights = [int(x["positions"]) for x in raw]
    found = one(held, unit="positions", **at)["value"]
    assert found == pytest.approx(np.average(odds, weights=weights))
    assert one(held, unit="lemmas", **at)["value"] == pytest.approx(np.mean(odds))
    alone = one(held, run="unigram", language="de", unit="lemmas", metric="accuracy")
    assert alone["seed"] is None and alone["value"] == 0.5


def test_verdicts_need_five_seeds_and_flat_curves(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_word_forms(FOLDER, PARAMS)
    for falling, verdict in (({}, "different"), ({("word_decoders", "tied"): -0.2}, "undecided")):
        pair = one(tables(PARAMS, falling)["form_choice_pairs"][1], metric="form_loss")
        assert (pair["first"], pair["second"], pair["verdict"]) == ("untied", "tied", verdict)
    few = make_params(3)
    write_word_forms(FOLDER, few)
    pair = one(tables(few, {})["form_choice_pairs"][1], metric="form_loss")
    assert (pair["verdict"], pair["reason"]) == ("undecided", "fewer than 5 seeds")
    write_word_forms(FOLDER, PARAMS, CLOSER, dict.fromkeys(ODDS, 0.7), 0.001)
    pair = one(tables(PARAMS, {})["form_choice_pairs"][1], metric="form_loss")
    assert pair["verdict"] == "equivalent"


def test_contrasts_are_corrected_over_runs_and_sides(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    at = {"language": "all", "centring": "centred", "metric": "contrast"}
    for seeds, verdicts in ((4, ["undecided"] * 2), (5, ["above", "below"])):
        params = make_params(seeds)
        write_word_forms(FOLDER, params)
        held = tables(params, {})
        rows = held["word_forms_summary"][1]
        sides = [one(rows, run="untied", side=side, **at) for side in ("input", "output")]
        assert [row["verdict"] for row in sides] == verdicts
    less = one(rows, run="untied", side="input_minus_output", **at)
    shared = [one(rows, run="tied", side=side, **at) for side in ("input", "output")]
    assert shared[0]["p_adjusted"] == shared[1]["p_adjusted"]
    by_seed = held["word_forms"][1]
    raw = []
    for row in (*sides, less, shared[0]):
        values = [
            x["value"] for x in by_seed if all(x[key] == row[key] for key in ("run", "side", *at))
        ]
        raw.append(paired_difference(values, [0.0] * 5).p)
    assert [x["p_adjusted"] for x in (*sides, less, shared[0])] == correct(raw, "holm")
    assert {row["verdict"] for row in rows if row["metric"] != "contrast"} == {""}


def test_without_word_forms_there_are_no_rows() -> None:
    lacking = PARAMS.model_copy(update={"word_forms": None, "word_decoders": None})
    assert all(rows == [] for _, rows in tables(lacking, {}).values())


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "geometry",
            "tied,4,",
            "tied,9,",
            "row of (un)?tied, seed [49], (de|en); expected the runs",
        ),
        ("choices", "untied,2,de", "untied,2,fr", "no row of untied, seed 2, de"),
        ("choices", "language", "tongue", "columns run, seed, tongue"),
        ("coverage", ",500", ",inf", "line 2: found value 'inf'; expected a finite number"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, name: str, old: str, new: str, said: str) -> None:
    path = folder / f"{name}.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=said) as error:
        tables(PARAMS, {})
    assert "dvc repro -f -s word_forms" in str(error.value)


def test_a_missing_table_is_named(folder: Path) -> None:
    (folder / "baseline.csv").unlink()
    with pytest.raises(DataError, match=r"baseline\.csv: found no such file.*word_forms"):
        tables(PARAMS, {})
