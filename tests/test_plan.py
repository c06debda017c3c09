"""The plan: which cells run, why, and for how long."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from tests.reporting.recurrent_artefacts import make_params
from tiebench import plan
from tiebench.errors import DataError
from tiebench.experiments.sweep_settings import trial
from tiebench.plan import describe_plan, measure_rate, plan_cells
from tiebench.settings import FamilySettings, all_groups, families, load_params
from tiebench.training.flops import training_flops


def test_without_a_lock_everything_runs(tree) -> None:
    tree.tiebench("params", "size=micro")
    (tree.root / "dvc.lock").unlink(missing_ok=True)
    cells = plan_cells()
    count = {stage: sum(x.stage == stage for x in cells) for stage in {x.stage for x in cells}}
    assert count == {
        "prepare": 4, "pretrain_recurrent": 4, "labels": 2, "accounting": 1, "evidence": 1,
        "score": 1, "report": 1,
        "pretrain_decoders": 3, "pretrain_word_decoders": 2, "sweeps": 4,
        **dict.fromkeys(
            (
                "initial_loss", "bigram", "domains", "word_forms", "tables_encoders",
                "tables_decoders", "tables_word_decoders", "tables_recurrent",
            )
        , 1),
        **{f"{task}_encoders": 10 for task in ("pretrain", "retrieval", "probing", "transfer")},
        **{f"{task}_encoders_matched": 2 for task in ("pretrain", "retrieval", "probing", "transfer")},
    }  # fmt: skip
    assert {x.reasons for x in cells} == {("not run before",)}
    order = [x.stage for x in cells]
    assert (
        order.index("prepare")
        < order.index("pretrain_encoders")
        < order.index("retrieval_encoders")
        < order.index("score")
    )


def test_the_estimate_is_operations_over_the_measured_rate(
    tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.root / "dvc.lock").unlink(missing_ok=True)
    params = load_params()
    family = params.encoders

    def operations(group: FamilySettings, names: Iterable[str]) -> float:
        vocabulary = params.corpora[group.corpus].tokenizer.vocabulary
        return sum(
            len(group.seeds_of(run))
            * training_flops(held.coupling, group.body_of(run), vocabulary, group.training_of(run))
            for run, held in group.all_runs.items()
            if run in names and held.trained
        )

    main = operations(family, family.runs)
    total = sum(operations(group, group.all_runs) for group in families(params).values())
    assert params.bigram is not None
    total += params.bigram.operations()
    decoders, vocabulary = (
        params.decoders,
        params.corpora["home_small_vocabulary"].tokenizer.vocabulary,
    )
    for sweep in params.sweeps.values():
        held = [
            trial(decoders, sweep, run, point) for run in sweep.runs for point in sweep.points()
        ]
        flops = [training_flops(x.coupling, x.body, vocabulary, x.training) for x in held]
        total += len(sweep.seeds) * sum(flops)
    folder = tree.root / "logs" / params.name / "pretrain"
    folder.mkdir(parents=True)
    for name in all_groups(params):
        for i, rate in enumerate([1e9, 2e9, 9e9]):
            (folder / f"{name}-r-s{i}.json").write_text(json.dumps({"flops_per_second": rate}))
    assert measure_rate(params, "encoders") == measure_rate(params, "bigram") == 2e9
    monkeypatch.setattr(plan, "CELL_SECONDS", 0.0)
    monkeypatch.setattr(plan, "TASK_SECONDS", {})
    text = describe_plan(params)
    cells = len(family.runs) * len(family.seeds)
    shown = plan._duration(main / 2e9)
    assert f"{cells} of {cells} cells, about {shown} (not run before)" in text
    shown = plan._duration(total / 2e9)
    assert ": 2.0 (encoders, decoders, word_decoders, " in text
    assert text.endswith(f"In all: about {shown}.")
    for path in folder.glob("encoders-*.json"):
        path.write_text(json.dumps({"flops_per_second": 5e9}))
    assert (measure_rate(params, "encoders"), measure_rate(params, "decoders")) == (5e9, 2e9)
    assert ": 5.0 (encoders), 2.0 (decoders, " in describe_plan(params)
    path.write_text(json.dumps({"flops_per_second": "fast"}))
    with pytest.raises(DataError, match="encoders-r-s.*found flops_per_second 'fast'; expected a"):
        measure_rate(params, "decoders")


@pytest.mark.parametrize(
    ("study", "tokens"),
    [
        ("inan_small", 929589),  # as published
        ("inan_subspace_ptb", 20000),  # kept of it
        ("inan_subspace", 20000),
        ("inan", 0),  # not known before it is prepared
    ],
)
def test_a_recurrent_run_reads_what_is_kept_of_its_text(tmp_path, monkeypatch, study, tokens):
    monkeypatch.chdir(tmp_path)
    params = make_params(study)
    assert plan._training_tokens(params, params.recurrent.corpus) == tokens


def test_without_earlier_runs_the_rate_is_measured(tree) -> None:
    assert measure_rate(load_params(), "encoders") > 1e6


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.2, "1 s"), (89.6, "90 s"), (150, "2 min"), (5399, "90 min"), (9000, "2.5 h")],
)
def test_durations(seconds: float, shown: str) -> None:
    assert plan._duration(seconds) == shown
