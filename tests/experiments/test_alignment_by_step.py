"""The stage `tables` on rows that recurrent models kept in training, and what is scored from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.experiments.test_tables_recurrent import FOLDER, SETTINGS, read
from tests.training.test_recurrent import corpus, make_params  # noqa: F401
from tiebench.analysis.alignment import Table, distances
from tiebench.analysis.tables import write_table
from tiebench.analysis.token_frame import make_frame
from tiebench.errors import DataError
from tiebench.evaluation import score_alignment_by_step as scoring
from tiebench.experiments import tables
from tiebench.experiments.tables_settings import BY_STEP, TablesSettings
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain
from tiebench.training.table_snapshots import FILE

KEPT = {"words": 30, "updates": [7], "epochs": [1, 3]}
"""All 20 words, before training and after updates 7, 20 and 60."""
RUNS = ("baseline", "wt")
PATH = FOLDER / "alignment_by_step.csv"


def settings(kept: object = KEPT, seeds: tuple[int, ...] = (0, 1)) -> Params:
    params = make_params(training={"table_snapshots": kept}, seeds=list(seeds))
    runs = {run: params.recurrent.runs[run] for run in RUNS}
    return params.model_copy(
        update={
            "recurrent": params.recurrent.model_copy(update={"runs": runs}),
            "tables": TablesSettings.model_validate({**SETTINGS, "similarity": None}),
        }
    )


def trained(**given: object) -> Params:
    params = settings(**given)
    for run in RUNS:
        for seed in params.recurrent.seeds:
            pretrain(params, "recurrent", run, seed)
    return params


def scored(params: Params, monkeypatch) -> dict[str, list[dict[str, object]]]:
    monkeypatch.setattr(scoring, "all_groups", lambda p: {"recurrent": p.recurrent})
    return {name: rows for name, (_, rows) in scoring.tables(params).items()}


def test_after_the_last_update_the_distances_are_those_of_the_saved_models(corpus):  # noqa: F811
    tables.run(trained(), "recurrent")
    found = {
        (x["first"], x["second"], x["pair"], x["initialization"], x["seed"], x["step"]): x
        for x in read("alignment_by_step")
    }
    assert len(found) == 3 * 2 * 2 * 4 and {x["words"] for x in found.values()} == {"20"}
    assert {x[-1] for x in found} == {"0", "7", "20", "60"}
    after = [x for x in read("alignment") if x["metric"] == "distances"]
    after = [x for x in after if x["pair"] in ("input-output", "input-tied", "output-tied")]
    assert len(after) == 12
    for row in after:
        keys = ("first", "second", "pair", "initialization", "seed")
        other = found[*(row[key] for key in keys), "60"]
        assert (row["value"], row["floor"]) == (other["value"], other["floor"])
    start = found["baseline", "wt", "input-tied", "same", "1", "0"]
    assert start["value"] == "1"  # tables of one seed and name start alike


def test_a_step_compares_the_rows_kept_there(corpus):  # noqa: F811
    tables.run(trained(), "recurrent")
    kept = {run: load_file(f"runs/small/recurrent/{run}-s{run == 'wt':d}/{FILE}") for run in RUNS}
    counts = np.arange(20)  # the sample is all words, whatever their frequency
    frame = make_frame(counts, bins=1, permutations=1, sample=20, neighbours=3, subspace=4, seed=0)
    first, second = (
        Table(kept[run][name][1].astype(np.float64), frame)
        for run, name in (("baseline", "output_matrix"), ("wt", "input_matrix"))
    )
    (row,) = (
        x
        for x in read("alignment_by_step")
        if (x["pair"], x["initialization"], x["seed"], x["step"]) == ("output-tied", "other", "0", "7")
    )  # fmt: skip
    assert float(row["value"]) == pytest.approx(distances(first, second)[0], rel=1e-6)


def test_without_kept_rows_no_table_is_written(corpus, monkeypatch):  # noqa: F811
    params = trained(kept=None)
    tables.run(params, "recurrent")
    assert FOLDER.is_dir() and not PATH.exists()
    assert scored(params, monkeypatch) == {name: [] for name in scoring.tables(params)}


def test_rows_that_are_missing_or_others_are_named(corpus):  # noqa: F811
    params = trained()
    path = Path(f"runs/small/recurrent/wt-s1/{FILE}")
    whole = path.read_bytes()
    held = load_file(path)
    again = r"run `dvc repro -f -s pretrain_recurrent@t-wt-1`"

    def refused(found: str) -> None:
        with pytest.raises(DataError, match=rf"wt-s1.*{found}.*{again}"):
            tables.run(params, "recurrent")

    path.unlink()
    refused("found no such file")
    path.write_bytes(whole[:-9])
    refused("found a damaged file")
    shutil.copy(Path(f"runs/small/recurrent/baseline-s1/{FILE}"), path)
    refused("found the tensors input_matrix, output_matrix, updates, words")
    save_file({**held, "words": held["words"] + 1}, path)
    refused("found other words than of the first run and seed")
    save_file({**held, "updates": held["updates"][:3]}, path)
    refused("found input_matrix of shape")
    save_file({**held, "input_matrix": held["input_matrix"] * np.float32(np.inf)}, path)
    refused("or not finite")
    assert not PATH.exists()


def write_raw(
    values: dict[int, tuple[float, float]], seeds: int = 5, floor: tuple[float, float] = (0.1, 0.1)
) -> None:
    """A made-up table: by step, how alike the tied table is to the output and the input table."""
    rows = []
    for step, alike in values.items():
        for kind in ("same", "other") if seeds > 1 else ("same",):
            for seed in range(seeds):
                noise = 0.01 * (-1) ** seed + 0.001 * seed
                for pair, value, low in (
                    ("output-tied", alike[0] + noise, floor[0]),
                    ("input-tied", alike[1] - noise, floor[1]),
                    ("input-output", 0.15 + noise, 0.05),
                ):
                    second = "baseline" if pair == "input-output" else "wt"
                    rows.append(
                        ("recurrent", "baseline", second, pair, kind, seed, step, 20, value, low)
                    )
    columns = BY_STEP["alignment_by_step"]
    write_table(PATH, columns, [dict(zip(columns, row, strict=True)) for row in rows])


def test_scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = settings({**KEPT, "epochs": [1]}, seeds=(0, 1, 2, 3, 4))
    write_raw({0: (0.1, 0.1), 7: (0.2, 0.4), 60: (0.6, 0.3)}, floor=(0.3, 0.1))
    held = scored(params, monkeypatch)
    assert len(held["alignment_by_step"]) == 3 * 2 * 5 * 3
    (row,) = (
        x
        for x in held["alignment_by_step_summary"]
        if (x["pair"], x["initialization"], x["step"]) == ("output-tied", "other", 60)
    )
    noise = [0.01 * (-1) ** seed + 0.001 * seed for seed in range(5)]
    assert row["mean"] == pytest.approx(0.6 + np.mean(noise), abs=1e-6)
    half = 2.776445 * np.std(noise, ddof=1) / 5**0.5
    assert row["high"] - row["low"] == pytest.approx(2 * half, rel=1e-4)
    assert row["excess"] == pytest.approx(row["mean"] - 0.3) and row["seeds"] == 5
    told = {
        (x["step"], x["over"]): x
        for x in held["alignment_by_step_differences"]
        if x["initialization"] == "other"
    }
    assert {key: x["verdict"] for key, x in told.items()} == {
        (0, "nothing"): "undecided", (0, "floor"): "input", (7, "nothing"): "input",
        (7, "floor"): "input", (60, "nothing"): "output", (60, "floor"): "output",
    }  # fmt: skip
    assert told[60, "floor"]["mean"] == pytest.approx(0.1 + 2 * np.mean(noise), abs=1e-6)
    tested = sorted((told[step, "nothing"] for step in (0, 7, 60)), key=lambda x: x["p"])
    assert [x["step"] for x in tested] == [60, 7, 0]
    assert tested[0]["p_adjusted"] == pytest.approx(3 * tested[0]["p"])  # Holm's, over the updates


def test_rows_of_other_seeds_pairs_and_updates_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    whole = {0: (0.1, 0.1), 7: (0.2, 0.4), 20: (0.2, 0.4), 60: (0.2, 0.4)}
    write_raw(whole)
    with pytest.raises(DataError, match=r"a row of baseline, .*tables_recurrent"):
        scored(settings(), monkeypatch)
    with pytest.raises(DataError, match="no row of baseline, .*, 5, 0; expected one of each"):
        scored(settings(seeds=(0, 1, 2, 3, 4, 5)), monkeypatch)
    params = settings(seeds=(0, 1, 2, 3, 4))
    assert scored(params, monkeypatch)["alignment_by_step"]
    lines = PATH.read_text("utf-8").splitlines(keepends=True)
    for lost in (1, 2, len(lines) - 1):
        PATH.write_text("".join(lines[:lost] + lines[lost + 1 :]), "utf-8")
        with pytest.raises(DataError, match="found no row of baseline, "):
            scored(params, monkeypatch)
    write_raw({step: whole[step] for step in (0, 7, 60)})
    with pytest.raises(DataError, match="found 3 updates; expected 4, as training.table_snapshots"):
        scored(params, monkeypatch)
