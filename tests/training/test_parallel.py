"""Several processes that train one model: the curve of one, and the end of all with one."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.numpy import load_file

from tests.conftest import ROOT, offline_path
from tests.training.cells import make_params, read, strays, write_corpus, write_params
from tests.training.together import STOPPED_AT
from tiebench import paths
from tiebench.errors import SettingsError
from tiebench.runtime import checkpoint_seconds
from tiebench.training.batches import Schedule
from tiebench.training.parallel import Team, processes_to_start
from tiebench.training.pretrain import Loop, pretrain

STAGE = str(ROOT / "stages" / "pretrain.py")
ACCELERATE = "from accelerate.commands.accelerate_cli import main; main()"


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_corpus()


def start(*command, **environment):
    """A process in the working folder."""
    path = offline_path(ROOT, ROOT / "src")
    return subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TIEBENCH_THREADS": "1", "PYTHONPATH": path, **environment},
    )  # fmt: skip


def run(*command, **environment):
    process = start(*command, **environment)
    said = process.communicate()
    assert process.returncode == 0, said
    return said


def history(folder):
    rows = list(csv.DictReader((folder / "history.csv").open()))
    return {
        int(row["step"]): {k: float(x) for k, x in row.items() if x and k != "step"} for row in rows
    }


def assert_close(first, second, loss=1e-4, weights=1e-4):
    """Two folders of a cell: losses relative to their size, weights to the largest of a tensor."""
    a, b = history(first), history(second)
    assert a.keys() == b.keys()
    for step in a:
        assert a[step] == pytest.approx(b[step], rel=loss), step
    a, b = (load_file(x / "model.safetensors") for x in (first, second))
    for name in a:
        assert np.abs(a[name] - b[name]).max() <= weights * max(1.0, np.abs(a[name]).max()), name


@pytest.mark.parametrize("cell", ["tied", "wide"])
def test_two_processes_give_the_curve_of_one(corpus, cell):
    params = write_params()
    alone = pretrain(params, "encoders", cell, 0).rename("alone")
    command = ("launch", "--num_processes", "2", STAGE, "encoders", cell, "0")
    run("-c", ACCELERATE, *command)
    together = paths.run_folder("t", "encoders", cell, 0)
    log = json.loads(Path(f"logs/t/pretrain/encoders-{cell}-s0.json").read_text())
    assert log["processes"] == 2 and log["threads"] == 1
    assert_close(alone, together)
    assert (alone / "model.safetensors").read_bytes() != (
        together / "model.safetensors"
    ).read_bytes()  # the sums of two shares round differently: there were two
    assert strays() == []


def stop_at(monkeypatch, params, cell, step):
    """Train alone, with a checkpoint after every update, and stop before one."""
    update = Loop._update

    def stopping(self, batch, name):
        if self.steps_done == step:
            raise KeyboardInterrupt
        update(self, batch, name)

    with monkeypatch.context() as patched:
        patched.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
        patched.setattr(Loop, "_update", stopping)
        with pytest.raises(KeyboardInterrupt):
            pretrain(params, "encoders", cell, 0)


def test_in_two_processes(corpus, monkeypatch):
    params = make_params()
    whole = {x: pretrain(params, "encoders", x, 0).rename(f"whole-{x}") for x in ("tied", "wide")}
    stop_at(monkeypatch, params, "tied", 17)
    run(str(ROOT / "tests" / "training" / "together.py"), TIEBENCH_CHECKPOINT_SECONDS="0")

    def found(check):
        return [json.loads(Path(f"{check}-{rank}.json").read_text()) for rank in (0, 1)]

    # From the checkpoint of one process to two.
    assert found("resumed") == [list(range(17, 30))] * 2
    folder = paths.run_folder("t", "encoders", "tied", 0)
    assert_close(folder, whole["tied"])
    before, after = history(whole["tied"]), history(folder)
    assert all(before[step] == after[step] for step in (0, 4, 8, 10, 12, 16))
    # From the checkpoint of two processes to one.
    assert found("stopped") == [True, True]
    steps, update = [], Loop._update
    monkeypatch.setattr(
        Loop, "_update", lambda self, *x: (steps.append(self.steps_done), update(self, *x))
    )
    assert_close(pretrain(params, "encoders", "wide", 0), whole["wide"])
    assert steps == list(range(STOPPED_AT, 30))
    # A loss that is not finite in one stops both, with the checkpoint of the update before.
    first, second = found("broken")
    assert first == second and "at step 8, largest gradient in" in first
    assert len(list(paths.SCRATCH.glob("t-encoders-tied-s1-*/checkpoint.safetensors"))) == 1
    assert not paths.run_folder("t", "encoders", "tied", 1).exists()
    # Other files in one of them are noticed.
    first, second = found("disagreeing")
    assert first == second and "checkpoints in another of 2 processes" in first
    # torch's own wrapper keeps the tie: one entry, one state, the gradient of both uses.
    for held in found("wrapped"):
        assert held["names"] and held["difference"] < 1e-7
        assert held["states"] == held["parameters"] and held["table_states"] == 1


@pytest.mark.parametrize("objective", ["masked", "causal"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_shares_are_the_batch(size, objective):
    training = make_params(batch_size=5).encoders.training
    if objective == "causal":
        training = training.model_copy(update={"objective": objective, "masking": None})
    tokens = {"a": np.arange(4, 290, dtype=np.uint16)}
    batch = Schedule(tokens, training, 300, 0).batch(3)
    shares = [Team(rank, size).share(batch) for rank in range(size)]
    assert np.array_equal(np.concatenate([x.ids for x in shares]), batch.ids)
    assert np.array_equal(np.concatenate([x.targets for x in shares]), batch.targets)
    assert all(len(x.targets) and len(x.ids) for x in shares)
    rows = np.cumsum([0, *(len(x.ids) for x in shares)])
    where = [x.where + row * 16 for x, row in zip(shares, rows, strict=False)]
    assert np.array_equal(np.concatenate(where), batch.where)


def test_a_share_without_predictions():
    training = make_params(batch_size=2).encoders.training
    tokens = {"a": np.full(100, 3, dtype=np.uint16)}  # separators, which are never predicted
    batch = Schedule(tokens, training, 300, 0).batch(0)
    assert len(Team(1, 2).share(batch).targets) == 0


def as_worker(monkeypatch, rank, size):
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    for name, value in zip(names, (rank, rank, size, size), strict=True):
        monkeypatch.setenv(name, str(value))


def test_more_processes_than_windows_are_refused(corpus, monkeypatch):
    as_worker(monkeypatch, 0, 5)
    with pytest.raises(SettingsError, match="batch_size: found 4 windows for 5 processes"):
        pretrain(make_params(), "encoders", "tied", 0)


def test_an_untrained_run_is_saved_by_the_first_process_alone(corpus, monkeypatch):
    alone = read(pretrain(make_params(), "encoders", "untrained", 0).rename("alone"))
    as_worker(monkeypatch, 1, 2)
    assert not pretrain(make_params(), "encoders", "untrained", 0).exists()
    as_worker(monkeypatch, 0, 2)
    assert read(pretrain(make_params(), "encoders", "untrained", 0)) == alone


@pytest.mark.parametrize("given", ["0", "-1", "two", "", "1.5", "²"])
def test_a_number_of_processes_that_is_none(monkeypatch, given):
    monkeypatch.setenv("TIEBENCH_PROCESSES", given)
    with pytest.raises(SettingsError, match="TIEBENCH_PROCESSES: found .* a whole number above 0"):
        processes_to_start()


def test_who_starts_processes(monkeypatch):
    assert processes_to_start() == 1
    monkeypatch.setenv("TIEBENCH_PROCESSES", "3")
    assert processes_to_start() == 3
    as_worker(monkeypatch, 1, 2)
    assert processes_to_start() == 1


def test_accelerate_that_does_not_tell_the_number(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setenv("MASTER_PORT", "29500")
    with pytest.raises(SettingsError, match="TIEBENCH_PROCESSES=2"):
        processes_to_start()


@pytest.mark.parametrize("given", ["-1", "nan", "inf", "soon", ""])
def test_a_time_between_checkpoints_that_is_none(monkeypatch, given):
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", given)
    with pytest.raises(SettingsError, match="TIEBENCH_CHECKPOINT_SECONDS: found"):
        checkpoint_seconds()


def in_progress(process):
    """The workers of a training that has written a checkpoint, by rank."""
    while not list(paths.SCRATCH.glob("*/checkpoint.safetensors")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    workers = psutil.Process(process.pid).children()
    return sorted(workers, key=lambda x: x.environ()["RANK"])


@pytest.mark.parametrize(
    ("whom", "how", "status", "said"),
    [
        ("worker", signal.SIGKILL, 1, "error: process 1 of 2: found it ended by SIGKILL"),
        *(
            pytest.param(whom, how, status, said, marks=pytest.mark.slow)
            for whom, how, status, said in [
                ("first", signal.SIGKILL, 1, "error: process 0 of 2: found it ended by SIGKILL"),
                ("launcher", signal.SIGKILL, -signal.SIGKILL, ""),
                ("launcher", signal.SIGTERM, -signal.SIGTERM, ""),
                ("launcher", signal.SIGINT, -signal.SIGINT, ""),
            ]
        ),
    ],
)  # fmt: skip
def test_all_end_with_one(corpus, monkeypatch, whom, how, status, said):
    write_params(steps=10**5, validate_every=10**4)
    process = start(
        STAGE, "encoders", "tied", "0", TIEBENCH_PROCESSES="2", TIEBENCH_CHECKPOINT_SECONDS="0"
    )
    workers = in_progress(process)
    if whom == "worker":  # a second training is refused while this one is at work
        with pytest.raises(SystemExit):
            refused(monkeypatch, workers[0].pid)
    killed = {"first": workers[0], "worker": workers[1], "launcher": process}[whom]
    os.kill(killed.pid, how)
    _, error = process.communicate()
    assert process.returncode == status
    assert error.startswith(said) and error.count("\n") == bool(said), error
    assert psutil.wait_procs(workers, timeout=30)[1] == []


def refused(monkeypatch, pid):
    """The message of a second process names the first worker."""
    from tiebench.settings import load_params
    from tiebench.stage import run_stage

    try:
        run_stage(pretrain, load_params(), "encoders", "tied", 0)
    except SystemExit as error:
        assert f"process {pid} at work" in str(error)
        raise


@pytest.mark.slow
def test_what_is_wrong_is_said_once(corpus):
    write_params()
    (corpus / "valid.safetensors").unlink()
    process = start(STAGE, "encoders", "tied", "0", TIEBENCH_PROCESSES="2")
    _, error = process.communicate()
    assert process.returncode == 1
    assert error.count("error: ") == 1 and error.count("\n") == 1 and "valid.safetensors" in error
