"""Scoring: exact numbers from outcomes, exactly the cells that params.yaml names, same bytes."""

import json
import logging
import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from tests.reporting.recurrent_artefacts import make_params as recurrent_params
from tests.reporting.recurrent_artefacts import write_recurrent
from tiebench.analysis.published import compare, relative, verdict
from tiebench.analysis.tables import read_table
from tiebench.errors import DataError
from tiebench.evaluation.cells import cells, read_outcomes
from tiebench.evaluation.retrieval_settings import RetrievalSettings
from tiebench.evaluation.score import score
from tiebench.evaluation.score_retrieval import BY_LAYER, published_pair, published_protocol
from tiebench.evaluation.score_tables import control_of, replacements
from tiebench.evaluation.summaries import summarize
from tiebench.prune import strays
from tiebench.reporting.report import render
from tiebench.settings import Params

FAKE = runpy.run_path(str(Path(__file__).parents[1] / "reporting" / "artefacts.py"))
SMALL = {"runs": ("tied", "untied", "untrained"), "seeds": (0, 1), "languages": ("en", "de")}


def small_params(**changed: object) -> Params:
    return FAKE["make_params"](**{**SMALL, "pool": 30, **changed})


def searching(params: Params, **changed: object) -> Params:
    return params.model_copy(update={"retrieval": params.retrieval.model_copy(update=changed)})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the artefacts of every cell, scored once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        FAKE["write_artefacts"](small_params())
        score(small_params())
    return folder


@pytest.fixture
def workspace(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to damage, as the working folder."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(folder: Path, name: str) -> list[dict[str, str]]:
    return read_table(folder / "reports" / "small" / "tables" / f"{name}.csv", mend="")


def files(folder: Path) -> dict[str, bytes]:
    report = folder / "reports" / "small"
    return {str(p.relative_to(report)): p.read_bytes() for p in report.rglob("*") if p.is_file()}


def test_retrieval_equals_the_outcomes(made: Path) -> None:
    wanted = {
        "run": "untied", "seed": "1", "source": "de", "target": "en",
        "layer": "2", "distance": "cosine", "offset": "other_half",
    }  # fmt: skip
    outcomes = parquet.read_table(
        made / "evals/small/retrieval/encoders/home-untied-s1/outcomes.parquet"
    ).to_pandas()
    for key, value in wanted.items():
        if key in outcomes:
            outcomes = outcomes[outcomes[key] == value]
    rows = [r for r in table(made, "retrieval") if all(r[k] == v for k, v in wanted.items())]
    assert len(outcomes) == 30 and len(rows) == 4
    for row in rows:
        held = outcomes if row["subset"] == "all" else outcomes[~outcomes["shares_token"]]
        value = held["credit"] if row["metric"] == "accuracy" else 1 / held["rank"]
        assert float(row["value"]) == pytest.approx(value.mean(), rel=1e-6)
        assert int(row["n"]) == len(held)


def test_tables_have_a_row_for_every_number(made: Path) -> None:
    assert len(table(made, "retrieval")) == 6 * 2 * 6 * 2 * 3 * 2 * 2
    language_modeling = table(made, "language_modeling")
    assert {(r["language"], r["bin"]) for r in language_modeling} == {
        ("all", "all"), ("en", "all"), ("de", "all"),
        *(("all", b) for b in ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")),
    }  # fmt: skip
    curves = table(made, "learning_curves")
    assert {r["seed"] for r in curves} == {"0", "1"}
    assert [r["metric"] for r in curves if r["run"] == "untrained"] == ["validation_loss"] * 2
    parameters = {(r["run"], r["metric"]): int(r["value"]) for r in table(made, "parameters")}
    assert parameters["untied", "output_table"] == 8192 * 128
    assert parameters["tied", "output_table"] == 0
    assert parameters["tied", "fine_tuning"] == parameters["untied", "fine_tuning"]


def test_metrics_are_means_over_seeds(made: Path) -> None:
    metrics = json.loads((made / "reports/small/metrics.json").read_text())["encoders"]
    losses = [
        json.loads((made / f"runs/small/encoders/tied-s{s}/metrics.json").read_text())
        for s in (0, 1)
    ]
    mean = np.mean([held["validation"]["loss"] for held in losses])
    assert metrics["tied"]["loss"] == pytest.approx(mean, rel=1e-6)
    best, last = (metrics["tied"][f"retrieval_home_en_de_{x}"] for x in ("best", "last"))
    assert metrics["tied"]["retrieval_home_en_de_drop"] == pytest.approx(best - last, abs=1e-6)
    assert set(metrics) == {"tied", "untied", "untrained"}


def test_summary_pairs_with_the_baseline(made: Path) -> None:
    rows = {(r["run"], r["metric"]): r for r in table(made, "summary")}
    tied, untied = rows["tied", "loss"], rows["untied", "loss"]
    assert tied["difference"] == "" and untied["baseline"] == "tied"
    expected = float(untied["mean"]) - float(tied["mean"])
    assert float(untied["difference"]) == pytest.approx(expected, abs=1e-6)
    assert untied["varies"] == "seeds" and untied["seeds"] == "2"


def test_same_bytes_again(workspace: Path) -> None:
    before = files(workspace)
    score(small_params())
    assert files(workspace) == before


def test_a_dropped_run_and_seed_shrink_the_tables(workspace: Path) -> None:
    fewer = small_params(runs=("tied", "untied"), seeds=(1,))
    params = fewer.model_copy(update={"bigram": small_params().bigram})  # has seeds of its own
    (workspace / "reports/small/tables/old.csv").write_text("a\n1\n")
    score(params)
    assert {(r["run"], r["seed"]) for r in table(workspace, "retrieval")} == {
        ("tied", "1"), ("untied", "1"),
    }  # fmt: skip
    summary = table(workspace, "summary")
    assert {r["seeds"] for r in summary} == {"1"} and {r["low"] for r in summary} == {""}
    assert not (workspace / "reports/small/tables/old.csv").exists()


def test_strays_are_named_and_ignored(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = files(workspace)
    for stray in ("runs/small/encoders/gone-s0", "evals/small/retrieval/encoders/home-gone-s0"):
        (workspace / stray).mkdir()
        (workspace / stray / "metrics.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        score(small_params())
    assert "runs/small/encoders/gone-s0 is not a cell" in caplog.text
    assert "evals/small/retrieval/encoders/home-gone-s0 is not a cell" in caplog.text
    assert files(workspace) == before


def test_no_strays_among_the_cells(workspace: Path) -> None:
    assert strays(small_params()) == []


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("runs/small/encoders/untied-s1/metrics.json", "pretrain_encoders@home-untied-1"),
        ("runs/small/encoders/tied-s0/history.csv", "pretrain_encoders@home-tied-0"),
        (
            "evals/small/retrieval/encoders/home-tied-s1/outcomes.parquet",
            "retrieval_encoders@home-tied-1",
        ),
        ("evals/small/accounting/parameter_savings.csv", "accounting"),
        ("data/home/meta.json", "prepare@home"),
    ],
)
def test_a_missing_artefact_names_file_and_command(
    workspace: Path, path: str, command: str
) -> None:
    (workspace / path).unlink()
    with pytest.raises(DataError) as caught:
        score(small_params())
    assert caught.value.subject == path
    assert caught.value.found == "no such file"
    assert f"dvc repro {command}" in caught.value.mend


def test_a_missing_cell_is_an_error_even_where_others_remain(workspace: Path) -> None:
    with pytest.raises(DataError, match=r"tied-s2/metrics\.json.*pretrain_encoders@home-tied-2"):
        score(small_params(seeds=(0, 1, 2)))


def edit(path: Path, **changed: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_run_of_other_settings_is_refused(workspace: Path) -> None:
    path = workspace / "runs/small/encoders/untied-s0/metrics.json"
    held = json.loads(path.read_text())["parameters"]
    edit(path, parameters={**held, "body": held["body"] + 1})
    with pytest.raises(DataError, match="as params.yaml gives"):
        score(small_params())


def test_metrics_without_a_key_or_of_another_seed(workspace: Path) -> None:
    path = workspace / "runs/small/encoders/untied-s0/metrics.json"
    edit(path, seed=7)
    with pytest.raises(DataError, match="found seed 7; expected seed 0"):
        score(small_params())
    path.write_text("{}")
    with pytest.raises(DataError, match="no key 'objective'"):
        score(small_params())
    path.write_text("{")
    with pytest.raises(DataError, match="broken JSON"):
        score(small_params())


def test_numbers_that_are_not_finite_name_cell_and_command(workspace: Path) -> None:
    path = workspace / "runs/small/encoders/untied-s0/metrics.json"
    held = json.loads(path.read_text())
    edit(path, validation={**held["validation"], "loss": float("nan")})
    expected = r"encoders, run untied, seed 0, pretrain on home: found loss nan"
    with pytest.raises(DataError, match=expected) as caught:
        score(small_params())
    assert caught.value.mend == "run `dvc repro -f -s pretrain_encoders@home-untied-0`"
    edit(path, **held)
    path = next(cells(small_params())).outcomes("retrieval", "home")
    outcomes = parquet.read_table(path)
    wrong = outcomes.set_column(
        outcomes.schema.get_field_index("credit"), "credit", [[float("inf")] * len(outcomes)]
    )
    parquet.write_table(wrong, path)
    FAKE["owned"](path.parent)
    with pytest.raises(DataError, match="run tied, seed 0, retrieval on home: found accuracy inf"):
        score(small_params())


def test_the_rules_are_told_in_words(made: Path) -> None:
    held = {row["item"]: row["value"] for row in table(made, "provenance")}
    statistics = small_params().statistics
    assert statistics.correction == "holm"
    assert held["correction of p values"] == "Holm's method"
    assert held["margins of equivalence"] == (
        "loss 0.05 nats; in points of 100: accuracy 1, retrieval 2, probing 1, transfer 2"
    )
    assert held["rule of flat learning curves"] == (
        "the validation loss changes by less than 0.1 nats over the last 25% of the training "
        "tokens, in the mean over seeds"
    )


def test_equal_width_is_as_in_the_pairs(made: Path) -> None:
    keys = ("metric", "first", "second", "difference", "p_adjusted", "detectable", "verdict")
    pairs = {tuple(row[key] for key in keys) for row in table(made, "pairs")}
    shown = [row for row in table(made, "views") if row["view"] == "equal width"]
    assert shown and {tuple(row[key] for key in keys) for row in shown} <= pairs


def test_damaged_outcomes(workspace: Path) -> None:
    params = small_params()
    cell = next(cells(params))
    path = cell.outcomes("retrieval", "home")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"expected a Parquet file.*retrieval_encoders@home-tied-0"):
        read_outcomes(cell, "retrieval", "home")
    path.write_bytes(whole)
    parquet.write_table(parquet.read_table(path).drop(["credit"]), path)
    with pytest.raises(DataError, match="no column 'credit'"):
        read_outcomes(cell, "retrieval", "home")
    shutil.copy(path.parents[1] / "home-tied-s1" / path.name, path)
    parquet.write_table(parquet.read_table(path).slice(0, 0), path)
    with pytest.raises(DataError, match="no rows"):
        read_outcomes(cell, "retrieval", "home")


def test_outcomes_of_another_set_are_refused(workspace: Path) -> None:
    path = next(cells(small_params())).outcomes("retrieval", "home")
    held = parquet.read_table(path)
    other = held.set_column(0, "set", [["pud"] * len(held)])
    parquet.write_table(other, path)
    FAKE["owned"](path.parent)
    with pytest.raises(DataError, match="found set pud; expected home"):
        score(small_params())


def test_a_history_without_a_column(workspace: Path) -> None:
    path = workspace / "runs/small/encoders/tied-s1/history.csv"
    path.write_text(path.read_text().replace("validation_loss", "valid"))
    with pytest.raises(DataError, match="no column 'validation_loss'"):
        score(small_params())


def test_a_history_that_is_no_text(workspace: Path) -> None:
    path = workspace / "runs/small/encoders/tied-s0/history.csv"
    path.write_bytes(path.read_bytes()[:-3] + b"\xff\xff\xff")
    with pytest.raises(DataError, match=r"history\.csv: found a damaged file.*dvc repro -f -s pre"):
        score(small_params())


def test_metric_counts_credit_and_rank_by_group(tmp_path: Path) -> None:
    from tiebench.evaluation.metrics.retrieval_accuracy import RetrievalAccuracy

    metric = RetrievalAccuracy(cache_dir=str(tmp_path))
    credits, ranks = [1.0, 0.5, 0.0, 0.0], [1, 2, 4, 10]
    found = metric.compute(
        credits=credits, ranks=ranks, groups=np.array([0, 0, 2, 2]), group_count=3
    )
    assert found["n"].tolist() == [2, 0, 2]
    assert found["accuracy"][[0, 2]].tolist() == [0.75, 0.0] and np.isnan(found["accuracy"][1])
    assert found["reciprocal_rank"][[0, 2]] == pytest.approx([0.75, 0.175])
    chosen = {"some": np.array([True, False, True, False])}
    some = metric.compute(credits=credits, ranks=ranks, subsets=chosen)["some"]
    assert some == {"accuracy": 0.5, "reciprocal_rank": 0.625, "n": 2}
    overall = metric.compute(credits=credits, ranks=ranks)
    assert overall == {"accuracy": 0.375, "reciprocal_rank": pytest.approx(0.4625), "n": 4}


def test_metric_loads_by_path_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import evaluate

    from tiebench.evaluation.metrics import classification_accuracy, retrieval_accuracy

    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", True)
    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    metric = evaluate.load(retrieval_accuracy.__file__, cache_dir=str(tmp_path))
    assert metric.compute(credits=[1.0, 0.0], ranks=[1, 2])["accuracy"] == 0.5
    metric = evaluate.load(classification_accuracy.__file__, cache_dir=str(tmp_path))
    assert metric.compute(predictions=[0, 1], references=[0, 0])["accuracy"] == 0.5


def test_headline_is_the_published_protocol_where_it_was_run() -> None:
    def settings(distances: list[str], offsets: list[str]) -> RetrievalSettings:
        return RetrievalSettings.model_validate(
            {"sets": ["a"], "pool": 2, "distances": distances, "offsets": offsets}
        )

    both = settings(["cosine", "l2"], ["none", "scored_pairs"])
    assert published_protocol(both) == ("l2", "scored_pairs")
    assert published_protocol(settings(["cosine"], ["other_half"])) == ("cosine", "other_half")


def test_summary_uses_the_seeds_that_both_runs_have() -> None:
    values = {("a", 0): 1.0, ("a", 1): 2.0, ("b", 0): 1.5, ("b", 2): 9.0}
    rows = [
        {"family": "f", "run": run, "seed": seed, "metric": "loss", "value": value}
        for (run, seed), value in values.items()
    ]
    found = {row["run"]: row for row in summarize(rows, (), {"f": "a"})}
    assert found["b"]["difference"] == 0.5 and found["b"]["difference_low"] is None
    assert found["b"]["seeds"] == 2


def test_nothing_varies_where_all_seeds_give_the_same(made: Path) -> None:
    rows = table(made, "retrieval_summary")
    bags = [row for row in rows if row["layer"] == "tokens"]
    assert bags and {(row["low"], row["varies"]) for row in bags} == {("", "")}
    assert {row["varies"] for row in table(made, "summary")} >= {"seeds"}


def test_intervals_over_sentences(made: Path) -> None:
    from tiebench.analysis.resampling import bootstrap_interval

    wanted = {"run": "untied", "source": "en", "target": "de", "layer": "2"}
    rows = [
        r for r in table(made, "retrieval_sentences") if all(r[k] == v for k, v in wanted.items())
    ]
    assert {(r["distance"], r["offset"]) for r in rows} == {("l2", "scored_pairs")}
    assert {r["varies"] for r in rows} == {"sentences"}
    held = []
    for seed in (0, 1):
        path = made / f"evals/small/retrieval/encoders/home-untied-s{seed}/outcomes.parquet"
        frame = parquet.read_table(path).to_pandas()
        chosen = {**wanted, "distance": "l2", "offset": "scored_pairs"}
        del chosen["run"]
        for key, value in chosen.items():
            frame = frame[frame[key] == value]
        held.append(frame.sort_values("index"))
    credit = (held[0]["credit"].to_numpy() + held[1]["credit"].to_numpy()) / 2
    separate = ~held[0]["shares_token"].to_numpy()
    for row, values in zip(rows, (credit, credit[separate]), strict=True):
        expected = bootstrap_interval(values.astype(float))
        assert int(row["n"]) == len(values)
        assert float(row["mean"]) == pytest.approx(expected.mean, rel=1e-6)
        assert float(row["low"]) == pytest.approx(expected.low, rel=1e-6)
        assert float(row["high"]) == pytest.approx(expected.high, rel=1e-6)


def test_plotted_rows_are_the_headlines(made: Path) -> None:
    rows = table(made, "retrieval_by_layer")
    assert {(r["distance"], r["offset"]) for r in rows} == {("l2", "scored_pairs")}
    assert {r["layer"] for r in rows} == set("01234") and len(rows) == 6 * 2 * 5


def test_plotted_rows_are_what_was_run(workspace: Path) -> None:
    params = searching(small_params(), distances=["cosine"], offsets=["other_half"])
    with pytest.raises(DataError, match="found outcomes with key"):
        score(params)
    FAKE["write_artefacts"](params)
    score(params)
    rows = table(workspace, "retrieval_by_layer")
    assert rows and {(r["distance"], r["offset"]) for r in rows} == {("cosine", "other_half")}


def test_the_plot_takes_all_rows_of_that_table() -> None:
    root = Path(__file__).parents[2]
    template = (root / ".dvc/plots/retrieval.json").read_text()
    assert '"filter"' not in template
    assert set(re.findall(r"datum\.(\w+)", template)) <= {*BY_LAYER, "rev"}
    assert "tables/retrieval_by_layer.csv: value" in (root / "dvc.yaml").read_text()


def test_a_run_says_its_control_head_and_masking(made: Path) -> None:
    rows = {row["run"]: row for row in table(made, "runs")}
    assert rows["tied"]["control"] == rows["untied"]["control"] == "untrained"
    assert rows["untrained"]["control"] == "" and rows["untrained"]["masking"] == ""
    assert rows["tied"]["masking"] == "0.3" and rows["tied"]["other_head"] == "false"
    assert rows["untied"]["coupling"] == "untied" and rows["untied"]["other_tables"] == "false"
    assert (rows["tied"]["input_std"], rows["tied"]["output_std"]) == ("0.02", "0.02")
    assert rows["tied"]["tables"] == "normal, std 0.02"
    assert (rows["tied"]["data_share"], rows["untrained"]["data_share"]) == ("1", "")
    assert rows["tied"]["replaced"] == ""


def test_what_a_run_replaces_of_its_familys_training_is_said() -> None:
    replaced = {"clip": None, "augmented": {"weight": 0.5, "temperature": 2.0}, "decay": "cosine"}
    said = 'clip=null augmented.weight=0.5 augmented.temperature=2.0 decay="cosine"'
    assert replacements(replaced) == said


def test_controls_are_matched_by_the_input_tables_width() -> None:
    def run(
        name: str, width: int, *, trained: bool = False, **changed: object
    ) -> dict[str, object]:
        held = {"run": name, "trained": trained, "input_width": width, "output_width": 16}
        return {**held, "tied": False, "layers": 2, **changed}

    tied, narrow = run("a", 16, tied=True), run("b", 4, output_width=48)
    held = [narrow, tied, run("c", 4)]
    assert control_of(run("x", 16, trained=True), held) == "a"
    assert control_of(run("x", 4, trained=True, output_width=48), held) == "b"
    assert control_of(run("x", 4, trained=True), held) == "c"
    assert control_of(run("x", 8, trained=True), held) == "a"
    assert control_of(run("x", 8, trained=True), [narrow]) == "b"
    assert control_of(tied, held) is None and control_of(run("x", 16, trained=True), []) is None


def test_retrieval_is_compared_in_the_published_pair_and_protocol_only() -> None:
    assert published_pair(small_params()) == "retrieval_home_en_de"
    assert published_pair(small_params(languages=("en", "tr"))) is None
    assert published_pair(small_params(languages=("de", "en"))) == "retrieval_home_en_de"
    assert published_pair(small_params(languages=("tr", "en", "de"))) is None
    assert published_pair(searching(small_params(), distances=["cosine"])) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, 0.5, 5), ("agrees", "")),
        ((-1, 0.5, 5), ("disagrees at this scale", "")),
        ((-1, -0.5, 5), ("agrees", "")),
        ((0, 1, 5), ("inconclusive", "the interval includes zero")),
        ((1, 0, 5), ("inconclusive", "the published difference is zero")),
        ((1, 1, 4), ("inconclusive", "fewer than 5 seeds")),
        ((1, 1, 5, "not below the unigram loss"), ("inconclusive", "not below the unigram loss")),
    ],
)
def test_verdicts(arguments: tuple, expected: tuple[str, str]) -> None:
    assert verdict(*arguments) == expected


def described(name: str, **changed: object) -> dict[str, object]:
    held = {
        "family": "encoders", "run": name, "trained": True, "control": "untrained",
        "other_body": False, "other_head": False, "other_tables": False, "replaced": "", "objective": "masked",
        "tied": False,
        "input_width": 16, "output_width": 16, "width": 16,
    }  # fmt: skip
    return {**held, **changed}


def measured(name: str, metric: str, values: list[float]) -> list[dict[str, object]]:
    return [
        {"family": "encoders", "run": name, "seed": s, "metric": metric, "value": value}
        for s, value in enumerate(values)
    ]


RISING = [0.30, 0.31, 0.29, 0.30, 0.305]
LOW = [0.10, 0.12, 0.11, 0.10, 0.11]


def scores(name: str, accuracy: list[float], last: list[float]) -> list[dict[str, object]]:
    rows = measured(name, "loss", [3.0] * 5) + measured(name, "unigram_loss", [4.0] * 5)
    return (
        rows + measured(name, "accuracy", accuracy) + measured(name, "retrieval_a_en_de_last", last)
    )


def test_verdicts_are_between_measures_of_one_kind() -> None:
    runs = [described("one", tied=True), described("two")]
    cells = scores("one", LOW, LOW) + scores("two", RISING, RISING)
    rows = {row["measure"]: row for row in compare(runs, cells, "retrieval_a_en_de", {}, ())}
    # figure 2 has neither of the two; the average has no counterpart before fine-tuning
    assert set(rows) == {"average of six dev sets", "masked-token accuracy, %"}
    average = rows["average of six dev sets"]
    assert (average["metric"], average["verdict"], average["difference"]) == (None, None, None)
    assert average["reason"] == "its six tasks are not run here"
    accuracy = rows["masked-token accuracy, %"]
    assert (accuracy["first_run"], accuracy["second_run"]) == ("two", "one")
    assert (accuracy["metric"], accuracy["verdict"]) == ("accuracy", "agrees")


def test_only_runs_of_the_common_body_and_head_are_compared() -> None:
    cells = scores("one", LOW, LOW) + scores("two", RISING, RISING)
    one = described("one", tied=True)
    changes = {
        "other_body": True,
        "other_head": True,
        "other_tables": True,
        "trained": False,
        "replaced": "clip=null",
    }
    for changed in ({key: value} for key, value in changes.items()):
        assert list(compare([one, described("two", **changed)], cells, None, {}, ())) == []
    assert [relative(width, 16) for width in (8, 16, 48)] == ["narrow", "body", "wide"]


@pytest.mark.parametrize(
    ("control", "untrained", "said"),
    [
        ("untrained", [0.05, 0.06, 0.05, 0.06, 0.05], ("agrees", "")),
        ("untrained", [0.10, 0.11, 0.12, 0.11, 0.10], ("inconclusive", "not above the untrained control")),
        (None, [], ("inconclusive", "no untrained control")),
    ],
)  # fmt: skip
def test_retrieval_verdicts_need_both_runs_above_their_control(
    control: str | None, untrained: list[float], said: tuple[str, str]
) -> None:
    widths = {"input_width": 4, "control": control}
    runs = [described("wide", output_width=64, **widths), described("body", **widths)]
    cells = scores("wide", RISING, RISING) + scores("body", LOW, LOW)
    cells += measured("untrained", "retrieval_a_en_de_last", untrained)
    rows = {row["metric"]: row for row in compare(runs, cells, "retrieval_a_en_de", {}, ())}
    last = rows["retrieval_a_en_de_last"]
    assert (last["verdict"], last["reason"]) == said
    assert rows["accuracy"]["verdict"] == "agrees"
    assert "retrieval_a_en_de_last" not in {r["metric"] for r in compare(runs, cells, None, {}, ())}


def test_a_curve_that_still_falls_leaves_no_published_verdict() -> None:
    runs = [described("one", tied=True), described("two")]
    cells = scores("one", LOW, LOW) + scores("two", RISING, RISING)

    def accuracy(*unflattened: str) -> dict[str, object]:
        held = {("encoders", run): 0.2 for run in unflattened}
        rows = compare(runs, cells, None, held, ())
        return next(row for row in rows if row["metric"] == "accuracy")

    flat, one, both = accuracy(), accuracy("one"), accuracy("one", "two")
    assert (flat["verdict"], flat["reason"]) == ("agrees", "")
    assert (one["verdict"], one["reason"]) == (None, "the learning curve of one has not flattened")
    assert both["reason"] == "the learning curves of two and one have not flattened"
    assert {**one, "verdict": 0, "reason": 0} == {**flat, "verdict": 0, "reason": 0}
    assert accuracy("three") == flat


@pytest.mark.parametrize(
    ("said", "reason", "expected"),
    [
        ("different", "", ("agrees", "")),
        ("equivalent", "", ("inconclusive", "the two runs are equivalent, within the margin")),
        ("undecided", "the interval over sentences includes zero",
         ("inconclusive", "the interval over sentences includes zero")),
    ],
)  # fmt: skip
def test_published_verdicts_are_not_weaker_than_those_on_pairs(
    said: str, reason: str, expected: tuple[str, str]
) -> None:
    runs = [described("one", tied=True), described("two")]
    cells = scores("one", LOW, LOW) + scores("two", RISING, RISING)
    judged = {
        "family": "encoders", "metric": "accuracy", "first": "one", "second": "two",
        "verdict": said, "reason": reason,
    }  # fmt: skip

    def accuracy(*rows: dict[str, object]) -> tuple[str, str]:
        found = compare(runs, cells, None, {}, rows)
        row = next(row for row in found if row["metric"] == "accuracy")
        return row["verdict"], row["reason"]

    assert accuracy(judged) == expected
    # of other pairs, metrics and families nothing follows
    for changed in ({"metric": "loss"}, {"second": "three"}, {"family": "decoders"}):
        assert accuracy({**judged, **changed}) == ("agrees", "")
    few = [row for row in cells if row["seed"] < 4]
    (row,) = (row for row in compare(runs, few, None, {}, [judged]) if row["metric"] == "accuracy")
    assert (row["verdict"], row["reason"]) == ("inconclusive", "fewer than 5 seeds")


def test_probing_and_transfer_are_set_beside_the_published_ones() -> None:
    runs = [
        described(name, input_width=4, output_width=width)
        for name, width in (("narrow", 4), ("body", 16), ("wide", 64))
    ]
    held = {"narrow": LOW, "body": LOW, "wide": RISING, "untrained": [0.01, 0.02, 0.01, 0.02, 0.01]}
    metrics = ("probing_upos", "probing_deprel", "transfer")
    cells = [row for name in held if name != "untrained" for row in scores(name, LOW, LOW)]
    cells += [
        row for name in held for metric in metrics for row in measured(name, metric, held[name])
    ]
    rows = {
        (row["metric"], row["first_run"], row["second_run"]): row
        for row in compare(runs, cells, None, {}, ())
    }
    for metric, published in (("probing_upos", 0.1), ("probing_deprel", 0.2), ("transfer", 3.0)):
        row = rows[metric, "wide", "narrow"]
        assert (row["published_difference"], row["verdict"]) == (published, "agrees")
    assert rows["probing_upos", "wide", "narrow"]["source"] == "Chung et al. 2021, table 9"
    same = rows["probing_upos", "body", "narrow"]
    assert (same["verdict"], same["reason"]) == ("inconclusive", "the published difference is zero")
    alike = rows["transfer", "body", "narrow"]
    assert (alike["verdict"], alike["reason"]) == ("inconclusive", "the interval includes zero")


@pytest.mark.parametrize("metric", ["probing_deprel", "transfer"])
def test_what_untrained_runs_do_as_well_decides_nothing(metric: str) -> None:
    runs = [described("wide", input_width=4, output_width=64), described("body", input_width=4)]
    cells = scores("wide", LOW, LOW) + scores("body", LOW, LOW)
    cells += measured("wide", metric, RISING) + measured("body", metric, LOW)

    def reason(extra: list[dict[str, object]]) -> str:
        rows = compare(runs, cells + extra, None, {}, ())
        return next(row["reason"] for row in rows if row["metric"] == metric)

    assert reason([]) == "no untrained control"
    assert reason(measured("untrained", metric, LOW)) == "not above the untrained control"
    assert reason(measured("untrained", metric, [0.0, 0.01, 0.0, 0.01, 0.0])) == ""


def test_the_recurrent_family_is_scored_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = recurrent_params("press_wolf", (0, 1))
    texts = {"home_english": whole.corpora["home_english"]}
    params = small_params(seeds=(0,))
    params = params.model_copy(
        update={"recurrent": whole.recurrent, "corpora": params.corpora | texts}
    )
    FAKE["write_artefacts"](params)
    write_recurrent(params)
    assert not strays(params)
    score(params)
    rows = {row["run"]: row for row in table(tmp_path, "runs") if row["family"] == "recurrent"}
    assert len(rows) == 6 and rows["wt"]["layers"] == "2" and rows["wt"]["tied"] == "true"
    assert rows["wt"]["objective"] == "causal" and rows["wt"]["steps"] == "40"
    counts = [x for x in table(tmp_path, "parameters") if x["family"] == "recurrent"]
    assert len(counts) == 6 * 8
    words = [x for x in table(tmp_path, "language_modeling") if x["family"] == "recurrent"]
    assert len(words) == 6 * 2 * 3 and {x["metric"] for x in words} == {"loss"}
    others = [x for x in table(tmp_path, "language_modeling") if x["family"] == "encoders"]
    assert {(x["split"], x["perplexity"]) for x in others} == {("valid", "")}
    metrics = json.loads((tmp_path / "reports/small/metrics.json").read_text())["recurrent"]
    (summary,) = [
        x for x in table(tmp_path, "recurrent_summary") if (x["run"], x["split"]) == ("wt", "test")
    ]
    assert metrics["wt"]["perplexity_test"] == float(summary["perplexity"])
    assert metrics["wt"]["parameters_pretraining"] == int(rows["wt"]["vocabulary"]) * 65 + 66_048
    flat = {x["run"] for x in table(tmp_path, "flattened") if x["family"] == "recurrent"}
    assert flat == set(rows)
    assert not [x for x in table(tmp_path, "pairs") if x["family"] == "recurrent"]
    claims = {x["id"]: x for x in table(tmp_path, "claims")}
    assert claims["tying_lowers_test_perplexity"]["verdict"] == "inconclusive"
    render(params)
    page = (tmp_path / "reports/small/index.html").read_text()
    assert 'id="recurrent"' in page and 'id="recurrent-language' not in page
