"""Sweeps: grids that are refused, measures by hand, a sweep in process, its tables, resuming."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.training.cells import make_params as make_cells
from tests.training.cells import write_corpus
from tiebench.analysis.tables import read_table, write_table
from tiebench.errors import DataError, SettingsError
from tiebench.evaluation.score_sweeps import tables
from tiebench.experiments import sweep as sweeping
from tiebench.experiments.sweep_measures import SPIKE_WINDOW, spikes, unigram_loss, vanishing
from tiebench.experiments.sweep_settings import RAW, SweepSettings, check_sweep, named, trial
from tiebench.model.lm import LanguageModel
from tiebench.prune import strays
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.training.batches import Batch

PLAIN = {"bias": False, "std": "inverse_sqrt_width"}
RUNS = {
    "tied": {"coupling": {"option": "tied_plain", "tied": True, **PLAIN}},
    "untied": {"coupling": {"option": "untied_plain", "tied": False, **PLAIN}},
}
CPU = torch.device("cpu")
FOLDER = Path("evals/t/sweeps")


def grid(purpose: str, axes: dict[str, Any], **changed: Any) -> dict[str, Any]:
    held = {"option": "x", "purpose": purpose, "runs": list(RUNS), "axes": axes}
    return {**held, "seeds": [2] if purpose == "pilot" else [0, 1], "steps": 12, **changed}


RATES = {"training": {"learning_rate": [1e-2, 1e9]}}
SWEEPS = {
    "pilot": grid("pilot", {"training": {"table_learning_rate": [0.3, 1.0]}}),
    "stability": grid("stability", RATES),
    "regularization": grid("regularization", {"training": {"data_share": [0.3, 1.0]}}),
    "underflow": grid("underflow", {"coupling": {"std": [1e-9, 0.02]}}, runs=["tied"]),
}


def make_params(**sweeps: dict[str, Any]) -> Params:
    values = make_cells(steps=40, objective="causal", masking=None).model_dump(mode="json")
    body = {**values["encoders"]["body"], "causal": True}
    values["decoders"] = {**values["encoders"], "body": body, "runs": RUNS}
    return Params.model_validate({**values, "sweeps": sweeps})


def checked(sweep: dict[str, Any]) -> None:
    check_sweep("sweeps.x", validate(SweepSettings, sweep, "sweeps.x"), make_params().decoders)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (grid("stability", {"training": {"clip": [1.0]}}), "axis training.learning_rate"),
        (grid("regularization", RATES), "axis training.data_share"),
        (grid("underflow", RATES), "axis coupling.std"),
        (grid("pilot", {"body": {"width": [16, 32]}}), "a run's own training in a pilot"),
        (grid("pilot", {"training": {"data_share": [0.5]}}), "a run's own training in a pilot"),
        (grid("stability", {}), "at least one axis"),
        (
            grid("stability", {"training": {"learning_rate": [1e-3, 1.00000001e-3]}}),
            "distinct values",
        ),
        (grid("stability", {"training": {"objective": ["masked"]}}), "no axis training.objective"),
        (grid("stability", {"body": {"causal": [False]}}), "no axis body.causal"),
        (grid("stability", {"training": {"learning_rate": []}}), "at least 1 item"),
        (grid("stability", {**RATES, "optimizer": {"x": [1]}}), "a known key"),
        (grid("stability", RATES, steps=None), "steps"),
        (grid("stability", {"training": {"learning_rate": [0.1], "steps": [9]}}), "steps null"),
        (grid("stability", RATES, seeds=[0, 0]), "distinct seeds"),
        (grid("stability", {**RATES, "body": {"wdth": [16]}}), "wdth: found a key"),
        (grid("stability", {**RATES, "body": {"width": [17]}}), "heads that divide the width"),
        (grid("stability", {"training": {"learning_rate": [-1.0]}}), "greater than 0"),
        (
            grid("stability", {"training": {"learning_rate": [0.1], "sequence_length": [32]}}),
            "at most body.maximum_length",
        ),
        (
            grid("stability", {"training": {"learning_rate": [0.1], "tie_penalty": [0.1]}}),
            "tie_penalty: found 0.1 with one table",
        ),
        (grid("stability", RATES, runs=["tied", "none"]), "'none'; expected trained runs"),
        (grid("pilot", RATES, seeds=[1]), "seeds that are not reported"),
        (
            grid("stability", {**RATES, "coupling": {"tied": [True]}}),
            "the same training for tied at learning_rate 0.01",
        ),
    ],
)
def test_a_grid_that_says_nothing_or_the_impossible_is_refused(
    sweep: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as error:
        checked(sweep)
    assert message in str(error.value)


def test_a_sweep_without_decoders_is_refused() -> None:
    with pytest.raises(SettingsError, match="expected trained runs of decoders"):
        check_sweep("sweeps.x", validate(SweepSettings, SWEEPS["pilot"]), None)


def test_warm_up_keeps_its_share_and_an_axis_wins() -> None:
    group = make_params().decoders
    assert group is not None and group.training.warmup_steps * 12 == 36
    sweep = validate(SweepSettings, SWEEPS["stability"])
    held = trial(group, sweep, "tied", {"training.learning_rate": 1e-2})
    assert (held.training.steps, held.training.warmup_steps) == (12, 1)
    axes = {"training": {"learning_rate": [1e-2], "steps": [8, 20], "warmup_steps": [4]}}
    longer = validate(SweepSettings, grid("stability", axes, steps=None))
    found = [trial(group, longer, "tied", point).training for point in longer.points()]
    assert [(x.steps, x.warmup_steps, x.validate_every) for x in found] == [(8, 4, 8), (20, 4, 20)]


# measures


def test_spikes_are_far_above_the_lowest_window() -> None:
    calm = [2.0 - 0.01 * i + 0.02 * (-1) ** i for i in range(SPIKE_WINDOW + 20)]
    assert spikes(calm) == 0
    assert spikes([*calm, 5.0, calm[-1], 5.0]) == 2
    assert spikes([5.0, *calm[1:]]) == 0  # too early to say
    assert spikes([*calm, *[4.0] * 30]) == 30  # a level that stays: the lowest window counts
    assert spikes(calm[:3]) == 0


def test_the_unigram_loss_is_that_of_frequencies() -> None:
    tokens = {"a": np.array([0, 0, 0, 1])}
    targets = {"a": np.array([0, 1])}
    expected = -(math.log(4 / 6) + math.log(2 / 6)) / 2
    assert unigram_loss(tokens, targets, 2) == pytest.approx(expected)


def test_vanishing_counts_what_a_format_cannot_hold() -> None:
    group = make_params().decoders
    assert group is not None
    ids = np.array([[0, 5, 6, 7]])
    batch = Batch(ids, np.array([0, 1, 2]), np.array([5, 6, 7]))
    model = LanguageModel(group.runs["untied"].coupling, group.body, 20).initialize(0)
    found = vanishing(model, batch, CPU)
    tables = [model.coupling.input_table, model.coupling.output_table]
    loss = model.summed_loss(*(torch.from_numpy(x) for x in (ids, batch.where, batch.targets))) / 3
    entries = torch.cat([x.flatten() for x in torch.autograd.grad(loss, tables)]).abs()
    assert found["zero"] == pytest.approx(17 / 40)  # of 20 rows of the input table 3 are read
    held = entries[entries > 0]
    for name, kind in (("float16", torch.float16), ("bfloat16", torch.bfloat16)):
        lost = (held.to(kind) == 0).double().mean()
        # what rounds up to the smallest number counts as below it
        assert 0 <= found[f"{name}_below_subnormal"] - float(lost) < 0.02
        assert found[f"{name}_below_subnormal"] <= found[f"{name}_below_normal"]
    assert found["float16_below_normal"] == pytest.approx(float((held < 2**-14).double().mean()))


# a sweep in process


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every sweep, trained once."""
    folder = tmp_path_factory.mktemp("sweeps")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_corpus()
        for name in SWEEPS:
            sweeping.run(make_params(**SWEEPS), name)
    return folder


@pytest.fixture
def swept(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    return made


def scored() -> dict[str, list[dict[str, Any]]]:
    return {name: rows for name, (_, rows) in tables(make_params(**SWEEPS)).items()}


def test_a_sweep_has_every_run_point_and_seed(swept: Path) -> None:
    rows = read_table(FOLDER / "stability/results.csv", mend="")
    assert len({(x["run"], x["point"], x["seed"]) for x in rows}) == 8
    assert not list(Path(".scratch").glob("sweep-*/*"))
    assert not strays(make_params(**SWEEPS))
    assert strays(make_params()) == [Path("evals/t/sweeps")]


def test_a_rate_that_breaks_a_training_is_a_result(swept: Path) -> None:
    rows = [x for x in scored()["stability"] if x["learning_rate"] == 1e9]
    assert [(x["run"], x["broke"], x["diverged"], x["loss"]) for x in rows] == [
        ("tied", 1, 1, None), ("untied", 1, 1, None),
    ]  # fmt: skip
    calm = [x for x in scored()["stability"] if x["learning_rate"] == 1e-2]
    assert [x["broke"] for x in calm] == [0, 0] and calm[1]["baseline"] == "tied"
    assert calm[1]["difference"] == pytest.approx(calm[1]["loss"] - calm[0]["loss"])


def test_a_pilot_chooses_the_lowest_loss_and_says_what_is_used(swept: Path) -> None:
    held = {(x["run"], x["point"]): x for x in scored()["sweeps"] if x["metric"] == "loss"}
    for row in scored()["sweep_choices"]:
        losses = {v: held[row["run"], f"table_learning_rate {v:g}"]["value"] for v in (0.3, 1.0)}
        best = min(losses, key=lambda value: losses[value])
        assert (row["chosen"], row["used"], row["same"]) == (best, 1.0, best == 1.0)
        assert (row["loss"], row["used_loss"]) == (losses[best], losses[1.0])
        assert row["edge"] == ("lowest" if best == 0.3 else "highest")


def test_a_gap_is_validation_minus_training_loss(swept: Path) -> None:
    rows = scored()["regularization"]
    for row in rows:
        assert row["gap"] == pytest.approx(row["loss"] - row["train_loss"], abs=1e-6)
        assert row["epochs"] == pytest.approx(12 * 4 * 15 / (row["data_share"] * 6000), rel=1e-3)
    assert [x["verdict"] for x in rows if x["run"] == "untied"] == ["undecided"] * 2
    assert {x["reason"] for x in rows if x["run"] == "untied"} == {"fewer than 5 seeds"}


def test_a_small_std_loses_gradients(swept: Path) -> None:
    rows = [x for x in scored()["underflow"] if (x["format"], x["when"]) == ("float16", "start")]
    shares = {(x["deviation"], x["limit"]): x["share"] for x in rows}
    assert shares[1e-9, "normal"] > shares[0.02, "normal"]


def test_a_killed_sweep_goes_on_and_ends_with_the_same_bytes(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus()
    work, trained = sweeping.train, []

    def stopping(*arguments: Any) -> Any:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(arguments)
        return work(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(sweeping, "train", stopping)
        with pytest.raises(KeyboardInterrupt):
            sweeping.run(make_params(**SWEEPS), "stability")
    assert not FOLDER.exists() or not (FOLDER / "stability").exists()
    again: list[Any] = []
    monkeypatch.setattr(sweeping, "train", lambda *x: (again.append(x), work(*x))[1])
    sweeping.run(make_params(**SWEEPS), "stability")
    assert len(again) == 8 - 3
    path = FOLDER / "stability/results.csv"
    assert path.read_bytes() == (made / path).read_bytes()


# damaged results


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [], "found no rows"),
        (lambda rows: [r for r in rows if r["seed"] != "1"], "found no row of tied at"),
        (lambda rows: [{**rows[0], "seed": "9"}, *rows], "found a row of tied at"),
        (lambda rows: [{**rows[0], "value": "inf"}, *rows], "line 2: found value 'inf'"),
        (lambda rows: rows[1:], "found no row logit_std_start of tied"),
        (lambda rows: [{**rows[0], "value": "many"}, *rows], "line 2: found value 'many'"),
    ],
)
def test_results_that_are_not_of_the_settings_are_refused(
    change: Any, message: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = read_table(made / FOLDER / "stability/results.csv", mend="")
    monkeypatch.chdir(tmp_path)
    write_table(FOLDER / "stability/results.csv", RAW, change(rows))
    with pytest.raises(DataError) as error:
        tables(make_params(stability=SWEEPS["stability"]))
    assert message in str(error.value) and "dvc repro sweeps@stability" in str(error.value)


def test_a_point_is_named_by_its_values() -> None:
    point = {"training.learning_rate": 2e-3, "training.clip": None, "body.width": 64}
    assert named(point) == "learning_rate 0.002, clip None, width 64"


def test_an_unknown_sweep_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"sweeps\.nope: found no such sweep; expected one of"):
        sweeping.run(make_params(**SWEEPS), "nope")
