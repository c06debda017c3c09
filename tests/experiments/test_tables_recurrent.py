"""The stage `tables` on recurrent models that were trained here, and what is scored from it."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.training.test_recurrent import corpus, make_params  # noqa: F401
from tiebench.evaluation import score_alignment
from tiebench.experiments import tables
from tiebench.experiments.tables_settings import TablesSettings
from tiebench.model.lm import load_model
from tiebench.prune import strays
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain

SETTINGS = {
    "option": "tables", "seed": 0, "bins": 2, "permutations": 2, "sample": 20, "neighbours": 3,
    "subspace": 4, "windows": 2,
}  # fmt: skip
FOLDER = Path("evals/small/tables/recurrent")


def trained() -> Params:
    params = make_params()
    group = params.recurrent
    kept = {run: group.runs[run] for run in ("baseline", "wt")}
    params = params.model_copy(
        update={
            "recurrent": group.model_copy(update={"runs": kept}),
            "tables": TablesSettings.model_validate(SETTINGS),
        }
    )
    for run in kept:
        for seed in group.seeds:
            pretrain(params, "recurrent", run, seed)
    return params


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_of_recurrent_models_are_compared(corpus, monkeypatch):  # noqa: F811
    params = trained()
    tables.run(params, "recurrent")
    assert FOLDER not in strays(params)
    pairs = {(x["first"], x["second"], x["pair"]) for x in read("alignment")}
    assert {("baseline", "wt", "input-tied"), ("baseline", "wt", "output-tied")} <= pairs
    assert ("baseline", "baseline", "input-output") in pairs
    assert read("logit_lens") == []
    norms = {
        (row["run"], row["table"]): float(row["value"])
        for row in read("table_geometry")
        if (row["seed"], row["bin"], row["metric"]) == ("0", "all", "norm")
    }
    assert set(norms) == {("baseline", "input"), ("baseline", "output"), ("wt", "tied")}
    table = load_model(Path("runs/small/recurrent/wt-s0")).coupling.input_table
    # every type is of the text, the line end too
    assert abs(norms["wt", "tied"] / float(table.detach().norm(dim=1).mean()) - 1) < 1e-5
    monkeypatch.setattr(score_alignment, "all_groups", lambda p: {"recurrent": p.recurrent})
    held = {name: rows for name, (_, rows) in score_alignment.tables(params).items()}
    told = [x for x in held["alignment_differences"] if x["metric"] == "distances"]
    assert {(x["untied"], x["tied"]) for x in told} == {("baseline", "wt")}
    assert {x["verdict"] for x in told} == {"undecided"} and not held["logit_lens"]
