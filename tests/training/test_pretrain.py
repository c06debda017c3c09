"""A pretraining cell: it learns, repeats itself to the byte, resumes exactly, and is held once."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from tests.training.cells import (
    OUTPUTS,
    Stop,
    make_params,
    read,
    steps_of,
    stop_before,
    strays,
    write_corpus,
)
from tiebench import paths
from tiebench.errors import BusyError, DataError, SettingsError, TrainingError
from tiebench.files import holding
from tiebench.training import pretrain as module
from tiebench.training.pretrain import Loop, pretrain
from tiebench.training.validation import summarize


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A prepared corpus of two made-up languages, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return write_corpus()


@pytest.mark.parametrize("run", ["tied", "wide"])
def test_learns_and_records(corpus, run):
    folder = pretrain(make_params(), "encoders", run, 0)
    assert sorted(x.name for x in folder.iterdir()) == OUTPUTS
    metrics = json.loads((folder / "metrics.json").read_text())
    validation = metrics["validation"]
    assert validation["initial_loss"] == pytest.approx(np.log(300), abs=0.1)
    assert validation["loss"] < validation["initial_loss"] - 0.5
    assert metrics["tokens"] == 30 * 4 * 16
    assert validation["bits_per_byte"] is None
    parts = validation["by_frequency"]
    assert sum(x["predicted_tokens"] for x in parts) == validation["predicted_tokens"]
    total = sum(x["predicted_tokens"] * x["loss"] for x in parts) / validation["predicted_tokens"]
    assert total == pytest.approx(validation["loss"])
    rows = list(csv.DictReader((folder / "history.csv").open()))
    assert [int(x["step"]) for x in rows] == [0, 4, 8, 10, 12, 16, 20, 24, 28, 30]
    assert [x["step"] for x in rows if x["validation_loss"]] == ["0", "10", "20", "30"]
    assert float(rows[-1]["validation_loss"]) == validation["loss"]
    assert strays() == []


def test_untrained_is_saved_as_initialized(corpus):
    params = make_params()
    folder = pretrain(params, "encoders", "untrained", 1)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["steps"] == metrics["tokens"] == metrics["train_flops"] == 0
    assert metrics["validation"]["loss"] == metrics["validation"]["initial_loss"]
    fresh = module.LanguageModel(
        params.encoders.runs["tied"].coupling, params.encoders.body, 300
    ).initialize(1)
    ids = torch.arange(4, 12)[None]
    assert torch.equal(module_load(folder)(ids), fresh(ids))


def module_load(folder):
    from tiebench.model.lm import load_model

    return load_model(folder)


def test_causal_reports_bits_per_byte(corpus):
    params = make_params(objective="causal", masking=None)
    family = params.encoders.model_copy(
        update={"body": params.encoders.body.model_copy(update={"causal": True})}
    )
    params = params.model_copy(update={"encoders": family})
    folder = pretrain(params, "encoders", "tied", 0)
    validation = json.loads((folder / "metrics.json").read_text())["validation"]
    tokenizer = module.load_corpus_tokenizer(corpus / "tokenizer.json")
    valid = module.read_tokens(corpus / "valid.safetensors", corpus / "tokenizer.json", ["a", "b"])
    batches = module.validation_batches(valid, params.encoders.training, 300)
    targets = np.concatenate([b.targets for parts in batches.values() for b in parts])
    size = module.byte_lengths(tokenizer)[targets].sum()
    assert validation["predicted_tokens"] == len(targets) == 2 * 3 * 15
    bits = validation["loss"] * len(targets) / np.log(2) / size
    assert validation["bits_per_byte"] == pytest.approx(bits)


def test_same_bytes_twice(corpus):
    first = read(pretrain(make_params(), "encoders", "wide", 0))
    assert read(pretrain(make_params(), "encoders", "wide", 0)) == first
    assert read(pretrain(make_params(), "encoders", "wide", 1)) != first


@pytest.mark.parametrize(
    "at", [1, 17, *(pytest.param(at, marks=pytest.mark.slow) for at in (10, 29))]
)
def test_resumed_run_has_the_same_bytes(corpus, monkeypatch, at):
    whole = read(pretrain(make_params(), "encoders", "tied", 0))
    stop_before(monkeypatch, at)
    steps = steps_of(monkeypatch)
    assert read(pretrain(make_params(), "encoders", "tied", 0)) == whole
    assert steps[0] == at


def test_other_settings_never_resume(corpus, monkeypatch):
    stop_before(monkeypatch, 12)
    steps = steps_of(monkeypatch)
    pretrain(make_params(learning_rate=2e-2), "encoders", "tied", 0)
    assert steps[0] == 0


def poison(monkeypatch, before):
    """Make weights infinite before an update."""
    update = Loop._update

    def poisoned(self, batch, cell):
        if self.steps_done == before:
            with torch.no_grad():
                self.model.body.blocks[0].feedforward.up.weight.fill_(float("inf"))
        update(self, batch, cell)

    monkeypatch.setattr(Loop, "_update", poisoned)


def kept_steps():
    """The updates done at each checkpoint, whose weights are finite."""
    steps = []
    for path in paths.SCRATCH.glob("*/checkpoint.safetensors"):
        assert all(bool(torch.isfinite(x).all()) for x in load_file(path).values())
        with safe_open(path, framework="pt") as file:
            steps.append(int(file.metadata()["step"]))
    return steps


def test_a_diverging_run_stops_with_the_checkpoint_before_it_broke(corpus, monkeypatch):
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
    whole = read(pretrain(make_params(learning_rate=5e-3), "encoders", "tied", 0))
    folder = paths.run_folder("t", "encoders", "tied", 0).rename("whole")
    said = []
    for _ in range(2):  # with equal settings it stops again, and says the same
        with monkeypatch.context() as patched:
            poison(patched, 7)
            with pytest.raises(TrainingError, match="at step 8, largest gradient in") as error:
                pretrain(make_params(), "encoders", "tied", 0)
        said.append(str(error.value))
        assert kept_steps() == [7]
    assert said[0] == said[1]
    assert not paths.run_folder("t", "encoders", "tied", 0).exists()
    steps = steps_of(monkeypatch)  # with a lower learning rate it starts anew
    assert read(pretrain(make_params(learning_rate=5e-3), "encoders", "tied", 0)) == whole
    assert steps[0] == 0 and folder.exists() and kept_steps() == []


def test_an_update_that_breaks_the_weights_is_not_kept(corpus, monkeypatch):
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
    params = make_params(learning_rate=1e38, table_learning_rate=10.0)
    for _ in range(2):
        with pytest.raises(TrainingError, match=r"found weights in .* after step 1;"):
            pretrain(params, "encoders", "tied", 0)
        assert kept_steps() == []


def test_a_last_update_that_breaks_the_model_writes_nothing(corpus, monkeypatch):
    step = torch.optim.AdamW.step

    def breaking(self):
        step(self)
        self.param_groups[0]["params"][0].data.mul_(float("nan") if self.broken() else 1.0)

    monkeypatch.setattr(torch.optim.AdamW, "step", breaking)
    counts = iter([False] * 29 + [True])
    monkeypatch.setattr(torch.optim.AdamW, "broken", lambda _: next(counts), raising=False)
    with pytest.raises(TrainingError, match="found validation loss nan after step 30"):
        pretrain(make_params(), "encoders", "tied", 0)
    assert not paths.run_folder("t", "encoders", "tied", 0).exists()


def test_a_second_process_is_refused_with_the_pid_of_the_first(corpus):
    lock = paths.SCRATCH / "t-encoders-untrained-s0.lock"
    code = (
        "import sys, time, pathlib; from tiebench.files import holding\n"
        "with holding(pathlib.Path(sys.argv[1]), 'cell'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(BusyError, match=f"process {other.pid} at work"):
            pretrain(make_params(), "encoders", "untrained", 0)
        os.kill(other.pid, signal.SIGKILL)
    with holding(lock, "cell"):  # the lock of a killed process is free
        pass


@pytest.mark.parametrize(
    ("family", "run", "message"),
    [
        ("encoders", "gone", "no such run; expected one of tied"),
        ("others", "tied", "no such family"),
    ],
)
def test_a_cell_that_params_does_not_name(corpus, family, run, message):
    with pytest.raises(SettingsError, match=message):
        pretrain(make_params(), family, run, 0)


def test_scratch_of_other_settings_is_removed_when_the_cell_is_done(corpus):
    old = paths.SCRATCH / f"t-encoders-tied-s0-{'0' * 16}"
    other = paths.SCRATCH / f"t-encoders-tied-s01-{'0' * 16}"
    old.mkdir(parents=True)
    other.mkdir()
    pretrain(make_params(), "encoders", "tied", 0)
    assert not old.exists() and other.exists()


def test_a_damaged_checkpoint_is_named(corpus, monkeypatch):
    stop_before(monkeypatch, 5)
    (path,) = paths.SCRATCH.glob("*/checkpoint.safetensors")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TrainingError, match="a damaged checkpoint"):
        pretrain(make_params(), "encoders", "tied", 0)


def test_a_checkpoint_without_its_record_is_named(corpus, monkeypatch):
    save_file({"x": torch.zeros(1)}, "plain.safetensors")
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
    with monkeypatch.context() as patched:
        patched.setattr(module, "_save", raise_stop)
        with pytest.raises(Stop):
            pretrain(make_params(), "encoders", "tied", 0)
    (path,) = paths.SCRATCH.glob("*/checkpoint.safetensors")
    Path("plain.safetensors").rename(path)
    with pytest.raises(TrainingError, match="a damaged checkpoint"):
        pretrain(make_params(), "encoders", "tied", 0)


def raise_stop(*_):
    raise Stop


def test_nothing_is_trained_again_when_only_the_saving_failed(corpus, monkeypatch):
    whole = read(pretrain(make_params(), "encoders", "tied", 0))
    with monkeypatch.context() as patched:
        patched.setattr(module, "_save", raise_stop)
        with pytest.raises(Stop):
            pretrain(make_params(), "encoders", "tied", 0)
    monkeypatch.setattr(Loop, "_update", raise_stop)
    assert read(pretrain(make_params(), "encoders", "tied", 0)) == whole


def test_tokens_of_another_tokenizer_are_refused(corpus):
    (corpus / "tokenizer.json").write_text((corpus / "tokenizer.json").read_text() + "\n")
    with pytest.raises(DataError, match="tokenizer"):
        pretrain(make_params(), "encoders", "tied", 0)


def test_the_unigram_loss_knows_the_language():
    counts = {"a": np.array([0, 0, 0, 0, 3, 0]), "b": np.array([0, 0, 0, 0, 0, 1])}
    held = {
        "a": {"loss": np.array([1.0]), "correct": np.array([True]), "target": np.array([4])},
        "b": {"loss": np.array([3.0]), "correct": np.array([False]), "target": np.array([5])},
    }
    found = summarize(held, counts, np.ones(6), causal=False)
    assert found["loss"] == 2.0 and found["accuracy"] == 0.5
    assert found["unigram_loss"] == pytest.approx(-(np.log(4 / 9) + np.log(2 / 7)) / 2)
    assert [x["bin"] for x in found["by_frequency"]] == ["1-9"]
