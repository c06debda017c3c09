"""The subspace experiment: the measure, which runs it is of, its stage, scores and page."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.reporting.recurrent_artefacts import make_params as composed
from tests.training.test_recurrent import corpus, make_params, streams, training  # noqa: F401
from tiebench.analysis.tables import shown, write_table
from tiebench.checks import check
from tiebench.errors import DataError, SettingsError
from tiebench.evaluation import score_subspaces
from tiebench.experiments import tables
from tiebench.experiments.subspaces import least_constant, losses, outside
from tiebench.experiments.tables_settings import SUBSPACES, TablesSettings
from tiebench.model.lm import LanguageModel, load_model
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.reporting.results import Results
from tiebench.reporting.subspaces import findings, section
from tiebench.reporting.svg import styled, svg_of
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain
from tiebench.training.streams import Chunks
from tiebench.training.subspace_runs import Mixture, subspace_runs

COUPLING = {
    "option": "t", "tied": False, "bias": False, "std": 0.2, "output_std": 0.01,
    "input_operations": [{"kind": "unit_rows"}],
}  # fmt: skip
SETTINGS = {
    "option": "tables", "seed": 0, "bins": 2, "permutations": 2, "sample": 20, "neighbours": 3,
    "subspace": 4, "windows": 2,
}  # fmt: skip
FOLDER = Path("evals/small/tables/recurrent")
RUNS = {
    "plain": {}, "half": {"augmented": {"share": 0.5, "temperature": 10.0}},
    "all": {"augmented": {"share": 1.0, "temperature": 10.0}},
    "cold": {"augmented": {"share": 1.0, "temperature": 2.0}},
}  # fmt: skip


def test_the_residual_of_equal_orthogonal_and_random_subspaces():
    rng = np.random.default_rng(0)
    first, square = rng.normal(size=(3000, 30)), rng.normal(size=(30, 30))
    assert outside(first, first @ square) < 1e-6
    basis = np.linalg.qr(rng.normal(size=(3000, 60)))[0]
    inside, across = basis[:, :30], basis[:, 30:]
    assert outside(inside, across @ square) == pytest.approx(1)
    # |B| / sqrt(|A|^2 + |B|^2) where A lies inside and B does not
    assert outside(inside, 3 * inside + 4 * across) == pytest.approx(0.8)
    random = outside(first, rng.normal(size=(3000, 30)))
    assert random == pytest.approx(np.sqrt(1 - 30 / 3000), abs=2e-3)
    # the measure by scipy's projection (Bjoerck & Golub 1973)
    other = rng.normal(size=(3000, 7))
    left = other - first @ np.linalg.lstsq(first, other, rcond=None)[0]
    by_hand = np.linalg.norm(left) / np.linalg.norm(other)
    assert outside(first, other) == pytest.approx(by_hand, abs=1e-9)


def params_of(runs=RUNS, **more) -> Params:
    held = {name: {"coupling": COUPLING, "training": training} for name, training in runs.items()}
    params = make_params(runs=held, baseline=next(iter(runs)), **more)
    return params.model_copy(update={"tables": TablesSettings.model_validate(SETTINGS)})


def test_which_runs_it_is_of():
    weighted = {"augmented": {"weight": 1.0, "temperature": 10.0}}
    slower = {"learning_rate": 0.3, **RUNS["half"]}
    group = params_of({"plain": {}, "weighted": weighted, "half": slower}).recurrent
    assert subspace_runs(group) == {"plain": Mixture(0.0, None), "half": Mixture(0.5, 10.0)}
    group = params_of({"plain": {}, "weighted": weighted}).recurrent
    assert subspace_runs(group) == {}
    with pytest.raises(SettingsError, match=r"recurrent.runs.half.training.augmented.share") as x:
        params_of({"half": RUNS["half"]})
    assert "found 0.5, and no run without it" in str(x.value) and "share is 0" in str(x.value)
    with pytest.raises(SettingsError, match="no run without it"):
        params_of({"plain": {"projection_penalty": 0.0, "dropout": {"kind": "step", "output": 0.1}},
                   "half": RUNS["half"]})  # fmt: skip


@pytest.mark.parametrize("study", ["inan_subspace", "inan_subspace_ptb"])
def test_the_studies_have_the_curve(study):
    group = composed(study).recurrent
    found = subspace_runs(group)
    assert list(found) == list(group.runs) and len(group.seeds) >= 5
    assert {x.temperature for x in found.values()} == {None, 10.0, 2.0}
    assert [found[x].share for x in score_subspaces.curve(found, 10.0)][::4] == [0.0, 1.0]
    assert group.body.width == 300 and group.body.layers == 2
    assert group.training.dropout is None


@torch.no_grad()
def test_what_is_left_of_the_losses():
    rng = np.random.default_rng(0)
    body = BodySettings(option="t", kind="lstm", causal=True, width=6, layers=1)
    model = LanguageModel(CouplingSettings(**COUPLING), body, 20).initialize(0)
    text = rng.integers(20, size=60).astype(np.uint16)
    chunks = Chunks.of(text, training(batch_size=2, sequence_length=7))
    plain, soft = losses(model, chunks, 2.0)
    # two parts of 30 words, each from a state of zeros, of which four chunks of 7 are predicted
    parts = torch.from_numpy(text.astype(np.int64)).view(2, 30)
    logits, targets = model(parts[:, :28]).flatten(0, 1), parts[:, 1:29].flatten()
    assert plain == pytest.approx(float(F.cross_entropy(logits, targets)), rel=1e-5)
    similar = model.coupling.input_matrix()
    assert torch.allclose(similar.norm(dim=1), torch.ones(20))
    wanted = F.softmax(similar[targets] @ similar.T / 2, dim=1)
    peer = F.kl_div(F.log_softmax(logits / 2, dim=1), wanted, reduction="batchmean")
    assert soft == pytest.approx(float(peer), rel=1e-4)
    weights = torch.bincount(targets, minlength=20) / len(targets)
    found = least_constant(similar.double(), weights.double(), 2.0)
    mean = wanted.mean(dim=0, keepdim=True).log().expand_as(wanted)
    assert found == pytest.approx(float(F.kl_div(mean, wanted, reduction="batchmean")), rel=1e-4)
    assert losses(model, chunks, None)[1] == 0


def read() -> list[dict[str, str]]:
    with (FOLDER / "subspaces.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_trained_models_are_measured_and_scored(corpus):  # noqa: F811
    runs = {name: RUNS[name] for name in ("plain", "all")}
    params = params_of(runs, training={"learning_rate": 0.2})
    for run in runs:
        for seed in params.recurrent.seeds:
            pretrain(params, "recurrent", run, seed)
    with pytest.raises(DataError, match="tables_recurrent"):
        score_subspaces.tables(params)
    tables.run(params, "recurrent")
    held = {(x["run"], x["seed"], x["metric"]): float(x["value"]) for x in read()}
    coupling = load_model(Path("runs/small/recurrent/all-s1")).coupling
    both = [x.detach().double().numpy() for x in (coupling.input_matrix(), coupling.output_table)]
    assert held["all", "1", "residual"] == pytest.approx(outside(*both))
    assert held["all", "1", "chance"] == pytest.approx(np.sqrt(1 - 8 / 20))
    assert held["all", "1", "residual"] < held["plain", "1", "residual"]
    assert ("plain", "0", "augmented_loss") not in held and ("all", "0", "augmented_loss") in held
    scored = {name: rows for name, (_, rows) in score_subspaces.tables(params).items()}
    plain, mixed = scored["subspaces_summary"]
    values = [held["all", seed, "residual"] for seed in ("0", "1")]
    assert mixed["mean"] == pytest.approx(sum(values) / 2) and plain["augmented_loss"] is None
    (trend,) = scored["subspaces_trends"]
    assert (trend["from_share"], trend["to_share"]) == (0.0, 1.0)
    assert trend["spearman"] == pytest.approx(-1)
    assert trend["difference"] == pytest.approx(mixed["mean"] - plain["mean"])
    # four parts of 105 words, of which 20 chunks of 5 are predicted
    text = torch.from_numpy(streams()["train"].astype(np.int64)).view(4, 105)
    weights = torch.bincount(text[:, 1:101].flatten(), minlength=20).double() / 400
    constant = least_constant(coupling.input_matrix().detach().double(), weights, 10.0)
    assert held["all", "1", "augmented_constant"] == pytest.approx(100 * 20 * constant)
    rows = read()[:-1]
    write_table(FOLDER / "subspaces.csv", SUBSPACES, rows)
    with pytest.raises(DataError, match="no row of augmented_constant of all, seed 1"):
        score_subspaces.tables(params)


def test_words_that_no_target_reaches_add_nothing_to_the_least_constant():
    similar = 100 * torch.eye(4, dtype=torch.float64)
    weights = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)
    assert least_constant(similar, weights, 0.01) == pytest.approx(np.log(2))


def test_other_studies_have_no_such_table(corpus):  # noqa: F811
    params = params_of({"plain": {}}, seeds=[0])
    pretrain(params, "recurrent", "plain", 0)
    tables.run(params, "recurrent")
    assert not (FOLDER / "subspaces.csv").exists()
    assert all(not rows for _, rows in score_subspaces.tables(params).values())


VALUES = {"plain": 0.94, "half": 0.4, "all": 0.07, "cold": 0.1}


def results(seeds=(0, 1, 2, 3, 4), **values) -> Results:
    params = check(validate(Params, params_of(seeds=list(seeds)).model_dump()))
    rows = []
    for run, mixture in subspace_runs(params.recurrent).items():
        for seed in seeds:
            metrics = {
                "residual": {**VALUES, **values}[run] + 0.01 * (seed % 3),
                "initial_residual": 0.95, "chance": 0.954, "cross_entropy": 6.0,
            }  # fmt: skip
            if mixture.temperature:
                metrics |= {"augmented_loss": 3.0, "augmented_constant": 6.0}
            at = {"family": "recurrent", "run": run, "seed": seed}
            rows += [{**at, "metric": x, "value": value} for x, value in metrics.items()]
    write_table(FOLDER / "subspaces.csv", SUBSPACES, rows)
    held = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in found]
        for name, (_, found) in score_subspaces.tables(params).items()
    }
    held["runs"] = [
        {"family": "recurrent", "run": run, "trained": "true", "matches": "", "baseline": "false"}
        for run in RUNS
    ]
    return Results("t", held)


def test_the_page_says_what_the_tables_hold(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(findings(results()))
    assert "At temperature 10, the residual is 0.948 without the augmented loss and 0.078" in text
    assert "(-0.870 in the mean over 5 seeds; rank" in text.replace("−", "-")
    assert "0.95 beside 1.00 at share 0 and 0.08 beside 0.06 at share 1" in text
    assert "0.50 to 0.50 times that of the best prediction" in text
    assert "0.648 where it has 100%" in "\n".join(findings(results(all=0.64)))


@pytest.mark.parametrize("seeds", [(0, 1, 2, 3, 4), (0,)])
def test_everything_draws_and_is_told(tmp_path, monkeypatch, seeds):
    monkeypatch.chdir(tmp_path)
    part = section(results(seeds))
    for table in part.tables:
        assert table.rows and {len(row) for row in table.rows} == {len(table.header)}
    assert [row[1] for row in part.tables[0].rows] == ["0.00", "0.50", "1.00", "1.00"]
    with styled():
        assert svg_of(part.figures[0].draw()).startswith("<?xml")
