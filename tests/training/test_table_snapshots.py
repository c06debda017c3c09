"""Rows of the tables that are kept in training: which, when, and the same bytes after a stop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import ROOT
from tests.training.cells import Stop, strays
from tests.training.test_recurrent import (
    OUTPUTS,
    corpus,  # noqa: F401
    make_params,
    streams,
    training,
)
from tiebench.composition import compose, parse
from tiebench.errors import SettingsError
from tiebench.model.lm import LanguageModel, load_model
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain
from tiebench.training.recurrent import RecurrentLoop
from tiebench.training.recurrent_settings import RecurrentTrainingSettings
from tiebench.training.table_snapshots import FILE, spread_words

KEPT = {"words": 20, "updates": [1, 7], "epochs": [1, 3]}
"""Of 20 updates an epoch: before training and after updates 1, 7, 20 and 60."""
UPDATES = [0, 1, 7, 20, 60]


def read(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_words_are_spread_by_frequency_rank():
    ids = np.repeat([5, 0, 3, 1, 4], [1, 9, 4, 4, 2])  # falling: 0, 1 and 3, 4, 5; 2 has none
    assert spread_words(ids, 2).tolist() == [0, 3]
    assert spread_words(ids, 3).tolist() == [0, 1, 4]
    assert spread_words(ids, 9).tolist() == [0, 1, 3, 4, 5]


@pytest.mark.parametrize("run", ["baseline", "wt_pr"])
def test_rows_are_those_of_the_model_at_the_time(corpus, monkeypatch, run):  # noqa: F811
    params, seen, update = make_params(training={"table_snapshots": KEPT}), {}, RecurrentLoop.update

    def noting(self, cell):
        update(self, cell)
        if self.steps_done in UPDATES:
            coupling = self.model.coupling
            seen[self.steps_done] = [
                x.detach().clone() for x in (coupling.input_table, coupling.output_table)
            ]

    monkeypatch.setattr(RecurrentLoop, "update", noting)
    folder = pretrain(params, "recurrent", run, 1)
    group = params.recurrent
    model = LanguageModel(group.runs[run].coupling, group.body_of(run), 20).initialize(1)
    seen[0] = [model.coupling.input_table, model.coupling.output_table]
    held = load_file(folder / FILE)
    names = ["input_matrix", "output_matrix"][: 2 if run == "baseline" else 1]
    assert held.keys() == {"words", "updates", *names}
    assert held["updates"].tolist() == UPDATES
    words = held["words"]
    assert words.tolist() == spread_words(streams()["train"], 20).tolist()
    for index, name in enumerate(names):
        assert torch.equal(held[name], torch.stack([seen[x][index][words] for x in UPDATES]))
    last = load_model(folder).coupling.input_table
    assert torch.equal(held["input_matrix"][-1], last[words])


def test_nothing_else_depends_on_what_is_kept(corpus):  # noqa: F811
    """All other files have the same bytes, and settings without snapshots do not name them."""
    without = read(pretrain(make_params(), "recurrent", "baseline", 0).rename("without"))
    params = make_params(training={"table_snapshots": KEPT})
    found = read(pretrain(params, "recurrent", "baseline", 0))
    assert found.pop(FILE) and found == without and sorted(without) == OUTPUTS
    assert "table_snapshots" not in training().model_dump()
    assert "table_snapshots" not in make_params().model_dump(mode="json")["recurrent"]["training"]
    held = training(table_snapshots=KEPT)
    assert validate(RecurrentTrainingSettings, held.model_dump(), "") == held
    assert params.recurrent.training_of("pr").table_snapshots == held.table_snapshots


@pytest.mark.parametrize("step", [1, 8, 20, 60])
def test_a_stopped_run_keeps_the_same_rows(corpus, monkeypatch, step):  # noqa: F811
    params = make_params(training={"table_snapshots": KEPT})
    whole = read(pretrain(params, "recurrent", "baseline", 0).rename("whole"))
    update = RecurrentLoop.update

    def stopping(self, cell):
        if self.steps_done == step:
            raise Stop
        update(self, cell)

    def stop(*_):
        raise Stop

    with monkeypatch.context() as patched:
        patched.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
        if step < 60:
            patched.setattr(RecurrentLoop, "update", stopping)
        else:  # while the outputs are written
            patched.setattr("tiebench.training.pretrain_recurrent.save_cell", stop)
        with pytest.raises(Stop):
            pretrain(params, "recurrent", "baseline", 0)
    assert read(pretrain(params, "recurrent", "baseline", 0)) == whole
    assert strays() == []


def test_an_untrained_run_keeps_none(corpus):  # noqa: F811
    params = make_params(training={"table_snapshots": KEPT})
    runs = params.recurrent.runs
    runs = {**runs, "wt": runs["wt"].model_copy(update={"trained": False})}
    group = params.recurrent.model_copy(update={"runs": runs})
    folder = pretrain(params.model_copy(update={"recurrent": group}), "recurrent", "wt", 0)
    assert not (folder / FILE).exists()


def test_an_update_after_the_first_epoch_is_refused(corpus):  # noqa: F811
    for late in (20, 21):
        params = make_params(training={"table_snapshots": {**KEPT, "updates": [3, late]}})
        told = rf"table_snapshots.updates: found {late}; expected .* first epoch, which has 20"
        with pytest.raises(SettingsError, match=told):
            pretrain(params, "recurrent", "wt", 0)


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({"updates": [], "epochs": []}, "updates or epochs to keep rows after"),
        ({"updates": [7, 1]}, r"rising values \(\[7, 1\]\)"),
        ({"updates": [1, 1]}, r"rising values \(\[1, 1\]\)"),
        ({"epochs": [2, 2]}, r"rising values \(\[2, 2\]\)"),
        ({"updates": [0]}, "table_snapshots.updates"),
        ({"epochs": [0]}, "table_snapshots.epochs"),
        ({"epochs": [1, 4]}, r"table_snapshots.epochs of at most epochs \(4, 3\)"),
        ({"words": 19}, "table_snapshots.words"),
    ],
)
def test_settings_that_do_nothing_are_refused(replaced, expected):
    with pytest.raises(SettingsError, match=expected):
        training(table_snapshots={**KEPT, **replaced})


def test_runs_of_a_family_keep_the_same():
    values = parse(compose((), ROOT / "conf")[0])
    values["recurrent"]["runs"]["wt"]["training"] = {"table_snapshots": KEPT}
    params = validate(Params, values)
    with pytest.raises(SettingsError, match="all runs of a family see the same batches"):
        params.recurrent.training_of("wt")
    assert params.recurrent.training.table_snapshots is not None
    small = parse(compose(["study@recurrent=press_wolf_small"], ROOT / "conf")[0])
    assert "table_snapshots" not in small["recurrent"]["training"]
