"""The tables of the recurrent family: exact numbers from its cells, and published figures."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.reporting.recurrent_artefacts import LOSSES, SPREAD, make_params, write_recurrent
from tests.training.test_recurrent import corpus  # noqa: F401
from tests.training.test_recurrent import make_params as trained_params
from tiebench.analysis.counting import coupled_counts
from tiebench.analysis.learning_curves import flattened_rows, unflattened, validation_curves
from tiebench.analysis.recurrent_published import published_rows, tolerance
from tiebench.errors import DataError
from tiebench.evaluation import score_recurrent, score_tables
from tiebench.evaluation.cells import recurrent_cells
from tiebench.evaluation.score_recurrent import language_modeling_rows, tables
from tiebench.files import read_json, write_json, write_text
from tiebench.model.lm import LanguageModel
from tiebench.prune import strays
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def scored(params: Params) -> dict[str, list[dict]]:
    metrics = {cell: cell.metrics() for cell in recurrent_cells(params)}
    curves = validation_curves(score_tables.learning_curve_rows(metrics))
    flat = flattened_rows(curves, 0.25, 0.05)
    return {name: rows for name, (_, rows) in tables(params, metrics, unflattened(flat)).items()}


def made(*given, losses=LOSSES, falling=0.01) -> dict[str, list[dict]]:
    params = make_params(*given)
    write_recurrent(params, losses, falling=falling)
    return scored(params)


def where(rows: list[dict], **cells) -> list[dict]:
    return [row for row in rows if all(row[key] == cell for key, cell in cells.items())]


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        ("press_wolf_small", {
            "baseline": 4_651_600, "wt": 2_651_600, "pr": 4_691_600, "wt_pr": 2_691_600,
            "pr_bias": 4_691_800, "wt_pr_bias": 2_691_800,
        }),
        ("press_wolf_micro", {}),
    ],
)  # fmt: skip
def test_parameters_are_counted_without_a_model(study, expected):
    group = make_params(study).recurrent
    for run in group.runs:
        coupling, body = group.runs[run].coupling, group.body_of(run)
        counts = coupled_counts(coupling, body, 10_000).as_dict()
        assert counts == LanguageModel(coupling, body, 10_000).parameter_counts()
        assert counts["pretraining"] == expected.get(run, counts["pretraining"])


def test_perplexities_of_every_run_seed_and_split():
    rows = made("press_wolf", (0, 1))["recurrent_perplexity"]
    assert len(rows) == 6 * 2 * 3
    (row,) = where(rows, run="wt_dropout", seed=1, split="test")
    loss = 4.35 + SPREAD[1] + 0.001 * (10 * 3 % 5 - 2)
    assert row["loss"] == pytest.approx(loss) and row["perplexity"] == pytest.approx(math.exp(loss))
    assert (row["epoch"], row["best_epoch"], row["at_best_epoch"]) == (4, 4, None)


def test_the_best_epoch_is_told_beside_the_last():
    held = made("press_wolf", (0,), falling=-0.02)
    (row,) = where(held["recurrent_perplexity"], run="wt", split="valid")
    assert (row["epoch"], row["best_epoch"]) == (4, 1)
    assert row["at_best_epoch"] == pytest.approx(row["perplexity"] * math.exp(-0.06))
    curve = where(held["recurrent_curves"], run="wt", split="valid")
    assert [x["epoch"] for x in curve] == [0, 1, 2, 3, 4]
    assert [x["learning_rate"] for x in curve] == [None, 1.0, 1.0, 0.5, 0.25]


def test_one_row_for_each_split_in_language_modeling():
    params = make_params("press_wolf", (3,))
    write_recurrent(params)
    metrics = {cell: cell.metrics() for cell in recurrent_cells(params)}
    rows = list(language_modeling_rows(metrics))
    assert {tuple(row) for row in rows} == {score_tables.LANGUAGE_MODELING}
    found = {(row["run"], row["seed"], row["split"]) for row in rows}
    assert len(rows) == len(found) == 6 * 3
    assert all(row["perplexity"] == math.exp(row["value"]) for row in rows)


def test_summaries_are_of_log_perplexity():
    rows = made()["recurrent_summary"]
    (row,) = where(rows, run="wt", split="test")
    assert row["perplexity"] == math.exp(row["mean"]) and row["seeds"] == 5
    assert row["perplexity_low"] == math.exp(row["low"]) < row["perplexity"]
    assert row["difference"] == pytest.approx(-0.02, abs=0.003) and row["baseline"] == "baseline"


def test_pairs_say_what_they_differ_in():
    rows = made()["recurrent_pairs"]
    assert len(rows) == 3 * 15
    held = {(x["first"], x["second"]): x for x in where(rows, split="test")}
    tie, projection = held["wt", "baseline"], held["wt_pr", "wt"]
    assert tie["differs"] == "tying" and tie["verdict"] == "different"
    assert (tie["tied"], tie["projection"], tie["augmented"], tie["dropout"]) == (
        None, "none", False, "none",
    )  # fmt: skip
    assert projection["differs"] == "projection" and projection["verdict"] == "different"
    assert projection["ratio"] == math.exp(projection["difference"]) < 1
    assert held["wt_pr", "baseline"]["differs"] == "tying and projection"
    assert held["wt_dropout", "baseline_dropout"]["dropout"] == "step"
    assert held["pr", "wt"]["differs"] == "" and held["wt_dropout", "wt"]["differs"] == "dropout"


def test_pairs_of_the_augmented_loss_and_of_the_bias():
    held = made("inan_small", (0, 1))["recurrent_pairs"]
    told = {(x["first"], x["second"]): x["differs"] for x in where(held, split="valid")}
    assert told["al", "vd_lstm"] == "augmented loss" and told["re", "vd_lstm"] == "tying"
    assert told["real", "vd_lstm"] == "tying and augmented loss"
    assert {x["verdict"] for x in held} == {"undecided"}
    held = made("press_wolf_small", (0,))["recurrent_pairs"]
    told = {(x["first"], x["second"]): x["differs"] for x in where(held, split="valid")}
    assert told["pr_bias", "pr"] == "bias of the projection"
    assert told["pr_bias", "baseline"] == "projection with bias"
    held = made("press_wolf_small_variants", (0,))["recurrent_pairs"]
    told = {(x["first"], x["second"]): x["differs"] for x in where(held, split="valid")}
    assert told["wt", "baseline"] == "tying"
    assert {told[x] for x in told if "baseline_four_epochs" in x} == {""}  # other learning rates
    heavier = {x: told[x] for x in told if "wt_pr_five_penalties" in x and told[x]}
    assert heavier == {  # another penalty than that of the other projections
        ("wt_pr_five_penalties", "baseline"): "tying and projection",
        ("wt_pr_five_penalties", "wt"): "projection",
    }


def test_curves_that_still_fall_decide_nothing():
    rows = made("press_wolf", falling=0.2)["recurrent_pairs"]
    assert {row["verdict"] for row in rows} == {"undecided"}
    (row,) = where(rows, split="test", first="wt", second="baseline")
    assert row["reason"] == "the learning curves of wt and baseline have not flattened"


def test_the_published_settings_are_those_of_the_study():
    held = made("press_wolf_small_variants", (0,))
    runs = {row["run"]: row for row in held["recurrent_runs"]}
    for run, reason in {
        "baseline_four_epochs": "constant epochs 4, not 5",
        "wt_pr_five_penalties": "projection penalty 0.0192308, not 0.00384615",
    }.items():
        other = runs.pop(run)
        assert (other["as_published"], other["reason"]) == ("false", reason)
    assert {row["as_published"] for row in runs.values()} == {"true"}
    assert {run: row["published_parameters"] for run, row in runs.items()} == {
        "baseline": "4.65", "wt": "2.65", "pr": "4.69", "wt_pr": "2.69", "pr_bias": "4.69",
        "wt_pr_bias": "2.69",
    }  # fmt: skip
    assert all(row["parameters_agree"] is True for row in runs.values())
    rows = where(held["recurrent_published"], split="test")
    assert len(where(rows, row="Small + PR")) == 2  # with the bias of the code, and without
    (row,) = where(rows, row="Small")
    ours = math.exp(4.74 + SPREAD[0] + 0.001 * (8 * 2 % 5 - 2))
    assert row["perplexity"] == pytest.approx(ours) and row["within"] is True
    assert row["difference_percent"] == pytest.approx(100 * (ours / 114.5 - 1))
    assert row["reproduction_difference_percent"] == pytest.approx(100 * (ours / 114.53 - 1))
    (far,) = where(rows, run="wt_pr_bias")
    assert far["within"] is False and far["difference_percent"] > 3


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("recurrent.body.width=100", "width 100, not 200"),
        ("recurrent.training.epochs=6", "epochs 6, not 13"),
        ("recurrent.training.clip=null", "clip none, not 5"),
        ("+recurrent.training.data_share=0.5", "data share 0.5, not 1"),
        ("recurrent.corpus=home_english", "vocabulary 4000, not 10000"),
    ],
)
def test_other_settings_are_told_and_not_compared(override, reason):
    held = made("press_wolf_small", (0,), override)
    runs = held["recurrent_runs"]
    assert {row["as_published"] for row in runs} == {"false"}
    assert all(reason in row["reason"] for row in runs)
    assert {row["run"] for row in held["recurrent_published"]} == {None}
    assert {row["perplexity"] for row in held["recurrent_published"]} == {None}


def test_inan_is_compared_as_far_as_printed():
    held = made("inan_small", (0,))
    assert {row["as_published"] for row in held["recurrent_runs"]} == {"as far as printed"}
    assert len([row for row in held["recurrent_published"] if row["run"]]) == 8


def test_the_large_study_has_the_large_settings():
    params = make_params("press_wolf_large", (0,), "recurrent.body.layers=2")
    write_recurrent(params)
    runs = {row["run"]: row for row in scored(params)["recurrent_runs"]}
    assert runs["wt"]["as_published"] == "true" and runs["wt"]["parameters_agree"] is True
    assert runs["wt"]["published_row"] == "Large + WT"


def test_printed_rows():
    held = {(row.table, row.row): row for row in published_rows()}
    assert len(held) == 10 and tolerance() == 3
    row = held["Press and Wolf 2017, table 6, small", "Small + WT + PR"]
    assert row.printed == {"train": 53.5, "valid": 104.9, "test": 100.9}


def test_without_the_family_tables_are_empty():
    params = make_params().model_copy(update={"recurrent": None})
    held = tables(params, {}, {})
    assert len(held) == 6 and not any(rows for _, rows in held.values())


def test_the_cells_are_no_strays():
    params = make_params("press_wolf", (0,))
    write_recurrent(params)
    extra = Path("runs/small/recurrent/old-s0")
    extra.mkdir()
    assert strays(params) == [extra]


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("metrics.json", "test", "no key 'test'"),
        ("history.csv", "short", "a history that ends at 30"),
        ("history.csv", "header", "no column 'train_loss'"),
    ],
)
def test_damaged_cells_are_named(name, change, found):
    params = make_params("press_wolf", (0,))
    write_recurrent(params)
    path = Path("runs/small/recurrent/wt-s0") / name
    if change == "test":
        held = read_json(path, mend="")
        del held["test"]
        write_json(path, held)
    else:
        lines = path.read_text().splitlines(keepends=True)
        lines = [x.replace("train_loss", "loss") for x in lines] if change == "header" else lines
        write_text(path, "".join(lines[:-2] if change == "short" else lines))
    with pytest.raises(DataError) as error:
        scored(params)
    assert error.value.found == found
    assert "pretrain_recurrent@home_english-wt-0" in error.value.mend


def test_a_loss_that_is_no_number_is_refused():
    params = make_params("press_wolf", (0,))
    write_recurrent(params, {**LOSSES, "pr": (1.0, 2.0, 1234.5)})
    path = Path("runs/small/recurrent/pr-s0/metrics.json")
    text = path.read_text()
    loss = json.loads(text)["test"]["loss"]
    write_text(path, text.replace(f"{loss}", "Infinity"))
    with pytest.raises(DataError, match="found test loss inf"):
        scored(params)


def test_headlines_are_perplexities():
    rows = made("press_wolf", (0,))["recurrent_summary"]
    held = {(x["run"], x["metric"]): x["mean"] for x in score_recurrent.headline_rows(rows)}
    assert held["wt", "perplexity_test"] == where(rows, run="wt", split="test")[0]["perplexity"]


def test_cells_that_were_trained_here_are_scored(corpus):  # noqa: F811
    params = trained_params()
    group = params.recurrent
    group = group.model_copy(
        update={"runs": {run: group.runs[run] for run in ("baseline", "wt")}, "seeds": [0]}
    )
    params = params.model_copy(update={"recurrent": group})
    for cell in recurrent_cells(params):
        pretrain(params, cell.family, cell.run, cell.seed)
    held = scored(params)
    for row in held["recurrent_perplexity"]:
        path = Path("runs/small/recurrent") / f"{row['run']}-s0" / "metrics.json"
        said = read_json(path, mend="")["perplexity"][row["split"]]
        assert row["perplexity"] == pytest.approx(said, rel=1e-12)
    assert len(held["recurrent_perplexity"]) == 2 * 3
    last = where(held["recurrent_curves"], run="wt", epoch=3, split="train")
    assert last[0]["perplexity"] == where(
        held["recurrent_perplexity"], run="wt", split="train"
    )[0]["perplexity"]  # fmt: skip
    rows = score_tables.parameter_rows(params, {x: x.metrics() for x in recurrent_cells(params)})
    assert len(rows) == 2 * 8


def test_a_text_that_was_published_in_parts_is_told_whole(corpus):  # noqa: F811
    params = trained_params()
    params = params.model_copy(update={"corpora": {"t": params.corpora["t"]}, "labels": {}})
    rows = {
        (row["language"], row["part"], row["metric"]): row["value"]
        for row in score_tables.corpus_rows(params)
    }
    assert rows["en", "read", "strings"] == 60 + 10 + 12 and rows["all", "heldout", "strings"] == 0
    assert rows["en", "test", "tokens"] == 84 and rows["en", "train", "types"] == 20
    told = {row["item"]: row["value"] for row in score_tables.provenance_rows(params, {})}
    source = told["corpus t, source"]
    assert source.startswith("train: kind local") and "; test: kind local" in source
