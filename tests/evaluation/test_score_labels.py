"""Scoring of probing and transfer: exact numbers from outcomes, and outcomes of this cell only."""

import json
import runpy
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from sklearn.metrics import f1_score

from tiebench.analysis.tables import read_table
from tiebench.errors import DataError
from tiebench.evaluation.score import score
from tiebench.evaluation.score_probing import _of_mix
from tiebench.settings import Params

FAKE = runpy.run_path(str(Path(__file__).parents[1] / "reporting" / "artefacts.py"))


def small_params(**changed: object) -> Params:
    held = {"runs": ("tied", "untied", "untrained"), "seeds": (0, 1), "languages": ("en", "de")}
    return FAKE["make_params"](**{**held, "pool": 30, **changed})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the artefacts of every cell, scored once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        FAKE["write_artefacts"](small_params(languages=("en", "de", "es")))
        score(small_params(languages=("en", "de", "es")))
    return folder


@pytest.fixture
def workspace(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to damage, as the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path, name: str, **cells: str) -> list[dict[str, str]]:
    held = read_table(folder / "reports/small/tables" / f"{name}.csv", mend="")
    return [row for row in held if all(row[key] == value for key, value in cells.items())]


def value(folder: Path, name: str, column: str = "value", **cells: str) -> float:
    (row,) = rows(folder, name, **cells)
    return float(row[column])


def outcomes(folder: Path, task: str, name: str):
    path = folder / f"evals/small/{task}/encoders/{name}/outcomes.parquet"
    return parquet.read_table(path).to_pandas()


def test_probing_equals_the_outcomes(made: Path) -> None:
    frame = outcomes(made, "probing", "treebank-untied-s1")
    for probe in ("mix", "layer_2", "mix_upto_1", "control"):
        held = frame[(frame["task"] == "deprel") & (frame["probe"] == probe)]
        at = {"run": "untied", "seed": "1", "task": "deprel", "probe": probe}
        right = (held["reference"] == held["prediction"]).mean()
        assert value(made, "probing", **at, metric="accuracy") == pytest.approx(right, rel=1e-6)
        f1 = f1_score(held["reference"], held["prediction"], average="macro")
        assert value(made, "probing", **at, metric="macro_f1") == pytest.approx(f1, rel=1e-6)
        (row,) = rows(made, "probing", **at, metric="accuracy")
        assert int(row["n"]) == len(held) == 120


def test_probing_has_a_row_for_every_probe_and_a_headline(made: Path) -> None:
    probes = {row["probe"] for row in rows(made, "probing", task="upos")}
    assert probes == {
        *(f"layer_{x}" for x in range(5)),
        *(f"mix_upto_{x}" for x in (1, 2, 3)),
        "mix",
        "control",
    }
    at = {"run": "tied", "seed": "0", "task": "upos", "probe": "mix"}
    mix = value(made, "probing", **at, metric="accuracy")
    control = value(made, "probing", **{**at, "probe": "control"}, metric="accuracy")
    assert value(made, "probing", **at, metric="selectivity") == pytest.approx(
        mix - control, abs=1e-6
    )
    both = [value(made, "probing", **{**at, "seed": s}, metric="accuracy") for s in "01"]
    summary = value(made, "summary", "mean", run="tied", metric="probing_upos")
    assert summary == pytest.approx(np.mean(both), rel=1e-6)
    assert [
        row["varies"]
        for row in rows(made, "probing_sentences", run="tied", task="upos", probe="mix")
    ] == ["sentences"]


def test_where_a_task_is_known() -> None:
    accuracy = {
        ("t", "layer_0"): 0.5,
        ("t", "mix_upto_1"): 0.6,
        ("t", "mix"): 0.9,
        ("t", "control"): 0.2,
    }
    said = dict(_of_mix("t", [0.2, 0.3, 0.5], accuracy))
    assert said["selectivity"] == pytest.approx(0.7)
    assert said["center_of_gravity"] == pytest.approx(1.3)
    assert said["expected_layer"] == pytest.approx((1 * 0.1 + 2 * 0.3) / 0.4)
    # no layer adds anything, all add too little, a probe is missing or has no targets
    for changed in (
        {("t", "mix"): 0.5}, {("t", "mix"): 0.505}, {("t", "mix"): 0.4},
        {("t", "mix_upto_1"): float("nan")},
    ):  # fmt: skip
        said = dict(_of_mix("t", [0.2, 0.3, 0.5], {**accuracy, **changed}))
        assert "expected_layer" not in said
    without = {key: value for key, value in accuracy.items() if key[1] != "mix_upto_1"}
    assert "expected_layer" not in dict(_of_mix("t", [0.2, 0.3, 0.5], without))


def test_a_layer_that_takes_away_adds_nothing() -> None:
    accuracy = {("t", "layer_0"): 0.5, ("t", "control"): 0.2, ("t", "mix"): 0.6}
    upto = {("t", f"mix_upto_{layer}"): value for layer, value in ((1, 0.3), (2, 0.4))}
    said = dict(_of_mix("t", [0.25] * 4, {**accuracy, **upto}))
    # -0.2, 0.1, 0.2: without clipping 4 layers on a scale that ends at 3
    assert said["expected_layer"] == pytest.approx((2 * 0.1 + 3 * 0.2) / 0.3)
    assert 0 <= said["expected_layer"] <= 3


def test_mix_weights_sum_to_one(made: Path) -> None:
    weights = rows(made, "probing_weights", run="tied", seed="0", task="upos")
    assert [row["layer"] for row in weights] == list("01234")
    assert sum(float(row["value"]) for row in weights) == pytest.approx(1, abs=1e-5)
    assert len(rows(made, "probing_weights_summary", run="tied", task="upos")) == 5


def test_transfer_equals_the_outcomes_by_language_and_subset(made: Path) -> None:
    frame = outcomes(made, "transfer", "purposes-tied-s0")
    frame["right"] = frame["reference"] == frame["prediction"]
    at = {"run": "tied", "seed": "0", "metric": "accuracy"}
    means = {}
    for subset, held in (("all", frame), ("not_in_training", frame[~frame["seen"]])):
        for language, part in held.groupby("lang"):
            found = value(made, "transfer", **at, language=language, subset=subset)
            assert found == pytest.approx(part["right"].mean(), rel=1e-6)
            means[subset, language] = part["right"].mean()
        others = np.mean([means[subset, x] for x in ("de", "es")])
        found = value(made, "transfer", **at, language="others", subset=subset)
        assert found == pytest.approx(others, rel=1e-6)
    surface = value(
        made,
        "label_baselines",
        labels="purposes",
        language="de",
        baseline="surface",
        metric="accuracy",
    )
    excess = value(made, "transfer", **{**at, "metric": "excess"}, language="de", subset="all")
    assert excess == pytest.approx(means["all", "de"] - surface, abs=1e-6)
    metrics = {row["metric"] for row in rows(made, "summary", run="tied")}
    assert {"transfer", "transfer_de", "transfer_en", "transfer_excess"} <= metrics


def test_transfer_intervals_are_about_the_point(made: Path) -> None:
    for language in ("en", "de", "others"):
        for metric in ("accuracy", "excess"):
            at = {"run": "untied", "language": language, "subset": "all", "metric": metric}
            (row,) = rows(made, "transfer_sentences", **at)
            seeds = [value(made, "transfer", **at, seed=s) for s in "01"]
            assert float(row["mean"]) == pytest.approx(np.mean(seeds), abs=1e-6)
            assert float(row["low"]) < float(row["mean"]) < float(row["high"])
            assert row["varies"] == "sentences" and row["n"] == (
                "80" if language == "others" else "40"
            )


def test_the_interval_of_the_others_is_over_their_mean_in_each_draw(made: Path) -> None:
    from tiebench.analysis.resampling import drawn_counts

    held = [outcomes(made, "transfer", f"purposes-untied-s{s}") for s in (0, 1)]
    frame = held[0].assign(
        right=sum((x["reference"] == x["prediction"]).astype(float) for x in held) / 2,
        key=parquet.read_table(made / "labels/purposes/examples.parquet")["key"]
        .to_pandas()[held[0]["example"]]
        .to_numpy(),
    )
    frame = frame[~frame["seen"] & (frame["lang"] != "en")]
    parts = [
        part.groupby("key")["right"].agg(["sum", "count"]) for _, part in frame.groupby("lang")
    ]
    keys = sorted(set(frame["key"]))
    slow = []
    for counts in drawn_counts(len(keys), 0):
        drawn = [key for key, n in zip(keys, counts, strict=True) for _ in range(n)]
        means = []
        for part in parts:
            chosen = part.loc[[key for key in drawn if key in part.index]]
            means.append(chosen["sum"].sum() / chosen["count"].sum())
        slow.append(np.mean(means))
    at = {"run": "untied", "language": "others", "subset": "not_in_training", "metric": "accuracy"}
    (row,) = rows(made, "transfer_sentences", **at)
    low, high = np.quantile(slow, (0.025, 0.975))
    assert (float(row["low"]), float(row["high"])) == pytest.approx((low, high), rel=1e-6)


owned = FAKE["owned"]


@pytest.mark.parametrize(
    ("task", "name"),
    [("retrieval", "home"), ("probing", "treebank"), ("transfer", "purposes")],
)
def test_outcomes_of_another_run_or_cut_short_are_refused(
    workspace: Path, task: str, name: str
) -> None:
    params = small_params(languages=("en", "de", "es"))
    path = workspace / f"evals/small/{task}/encoders/{name}-tied-s0/outcomes.parquet"
    whole = path.read_bytes()
    shutil.copy(path.parents[1] / f"{name}-untied-s0/outcomes.parquet", path)
    with pytest.raises(DataError, match="found sha256 .* as summary.json beside it says"):
        score(params)
    path.write_bytes(whole)
    parquet.write_table(parquet.read_table(path).slice(5), path)
    with pytest.raises(DataError, match=f"dvc repro {task}_encoders@{name}-tied-0"):
        score(params)


def test_a_summary_without_a_key_is_named(workspace: Path) -> None:
    path = workspace / "evals/small/transfer/encoders/purposes-tied-s0/summary.json"
    held = json.loads(path.read_text())
    del held["cut"]
    path.write_text(json.dumps(held))
    with pytest.raises(DataError, match="found no key 'cut'; expected the summary of transfer"):
        score(small_params(languages=("en", "de", "es")))


def test_a_file_that_outcomes_were_made_from_is_missing(workspace: Path) -> None:
    for path in ("labels/treebank/meta.json", "data/home/seen.parquet"):
        (workspace / path).unlink()
        with pytest.raises(DataError, match=f"{path}: found no such file"):
            score(small_params(languages=("en", "de", "es")))


def test_a_mean_over_languages_needs_all_of_them(workspace: Path) -> None:
    params = small_params(languages=("en", "de", "es"))
    for run in ("tied", "untied", "untrained"):
        for seed in (0, 1):
            path = workspace / f"evals/small/transfer/encoders/purposes-{run}-s{seed}"
            table = parquet.read_table(path / "outcomes.parquet").to_pandas()
            table["seen"] |= table["lang"] == "es"
            table.to_parquet(path / "outcomes.parquet")
            owned(path)
    score(params)
    for name in ("transfer", "transfer_sentences"):
        held = rows(workspace, name, subset="not_in_training", metric="accuracy")
        assert {row["language"] for row in held} == {"en", "de"}


def test_what_was_chosen_is_told(made: Path) -> None:
    at = {"run": "tied", "seed": "1", "labels": "purposes"}
    held = rows(made, "transfer_cells", **at)
    assert {row["metric"]: float(row["value"]) for row in held} == {
        "learning_rate": 5e-4, "epoch": 2, "parameters": 900_002, "cut": 0,
    }  # fmt: skip
    said = {**at, "language": "en", "subset": "all", "metric": "development_accuracy"}
    assert value(made, "transfer", **said) == 0.8
    # settings are no results: nothing is averaged or compared
    known = {"accuracy", "macro_f1", "excess", "development_accuracy"}
    for name in ("transfer", "transfer_summary"):
        assert {row["metric"] for row in rows(made, name)} == known


def test_label_sets_and_baselines(made: Path) -> None:
    assert value(made, "label_sets", labels="treebank", part="test", metric="sentences") == 60
    assert (
        value(made, "label_sets", labels="treebank", part="test", task="upos", metric="targets")
        == 120
    )
    assert (
        value(
            made, "label_sets", labels="treebank", task="upos", label="past_limit", metric="dropped"
        )
        == 3
    )
    assert value(made, "label_sets", labels="purposes", label="ambiguous", metric="dropped") == 7
    assert (
        value(
            made,
            "label_sets",
            labels="purposes",
            part="test",
            language="es",
            label="title",
            metric="examples",
        )
        == 20
    )
    others = value(
        made,
        "label_baselines",
        labels="purposes",
        language="others",
        baseline="majority",
        metric="accuracy",
    )
    assert others == 0.5


@pytest.mark.parametrize(
    ("task", "name", "what"),
    [("retrieval", "home-tied-s1", "model"), ("transfer", "purposes-tied-s0", "labels"),
     ("probing", "treebank-tied-s1", "labels"), ("transfer", "purposes-tied-s0", "settings"),
     ("retrieval", "home-tied-s0", "texts")],
)  # fmt: skip
def test_outcomes_of_something_else_are_refused(
    workspace: Path, task: str, name: str, what: str
) -> None:
    params, (labels, run) = small_params(languages=("en", "de", "es")), name.split("-", 1)
    if what == "model":
        (workspace / "runs/small/encoders" / run / "model.safetensors").write_text("other")
    elif what == "texts":
        (workspace / "data/home/seen.parquet").write_text("others")
    elif what == "labels":
        path = next((workspace / "labels" / labels).glob("[e,t]*.parquet"))
        parquet.write_table(parquet.read_table(path), path, compression="none")
    else:
        changed = params.transfer.model_copy(update={"epochs": 9})
        params = params.model_copy(update={"transfer": changed})
    with pytest.raises(
        DataError, match=r"found outcomes with key \w{12}; expected \w{12}, of the model"
    ) as caught:
        score(params)
    assert f"dvc repro {task}_encoders@{labels}" in caught.value.mend


def test_missing_outcomes_name_their_cell(workspace: Path) -> None:
    params = small_params(languages=("en", "de", "es"))
    path = workspace / "evals/small/probing/encoders/treebank-tied-s1/summary.json"
    held = path.read_bytes()
    path.unlink()
    with pytest.raises(DataError, match="dvc repro probing_encoders@treebank-tied-1"):
        score(params)
    path.write_bytes(held)
    shutil.rmtree(workspace / "labels/purposes")
    with pytest.raises(DataError, match="labels/purposes"):
        score(params)


def test_matched_runs_have_their_own_seeds_and_stage(workspace: Path) -> None:
    params = small_params(
        languages=("en", "de", "es"), seeds=(0, 1, 2, 3), matched=("tied_equal_pretraining",)
    )
    FAKE["write_artefacts"](params)
    score(params)
    (row,) = rows(workspace, "runs", run="tied_equal_pretraining")
    assert (row["seeds"], row["matches"], row["matched_in"]) == ("0 1 2", "untied", "pretraining")
    assert row["feedforward_width"] == "1536"
    assert {r["seed"] for r in rows(workspace, "probing", run="tied_equal_pretraining")} == set(
        "012"
    )
    shutil.rmtree(workspace / "evals/small/transfer/encoders/purposes-tied_equal_pretraining-s2")
    with pytest.raises(
        DataError, match="transfer_encoders_matched@purposes-tied_equal_pretraining-2"
    ):
        score(params)


def test_metric_by_group_and_alone(tmp_path: Path) -> None:
    from tiebench.evaluation.metrics.classification_accuracy import ClassificationAccuracy

    metric = ClassificationAccuracy(cache_dir=str(tmp_path))
    draw = np.random.default_rng(0)
    references, predictions = draw.integers(0, 4, 200), draw.integers(0, 4, 200)
    groups = draw.integers(0, 3, 200) * 2  # groups 1 and 3 are empty
    found = metric.compute(
        predictions=predictions, references=references, groups=groups, group_count=5
    )
    for group in (0, 2, 4):
        inside = groups == group
        assert found["n"][group] == inside.sum()
        assert found["accuracy"][group] == pytest.approx((predictions == references)[inside].mean())
        f1 = f1_score(references[inside], predictions[inside], average="macro")
        assert found["macro_f1"][group] == pytest.approx(f1)
    assert np.isnan(found["accuracy"][1]) and np.isnan(found["macro_f1"][3])
    alone = metric.compute(predictions=[0, 1, 1], references=[0, 1, 2])
    assert alone == {
        "accuracy": pytest.approx(2 / 3),
        "macro_f1": pytest.approx((1 + 2 / 3 + 0) / 3),
        "n": 3,
    }


def test_same_bytes_again_whatever_was_drawn_before(workspace: Path) -> None:
    folder = workspace / "reports/small"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    np.random.seed(7)
    np.random.random(100)
    score(small_params(languages=("en", "de", "es")))
    assert {path: path.read_bytes() for path in before} == before
    assert json.loads((folder / "metrics.json").read_text())["encoders"]["tied"]["probing_upos"]
