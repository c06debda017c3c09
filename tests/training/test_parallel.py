"""Several processes that train one model: the curve of one, and the end of all with one."""

import csv
import json
import os
import runpy
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from safetensors.numpy import load_file

from tests.conftest import ROOT, communicate, offline_path
from tests.training.cells import (
    as_worker,
    make_params,
    read,
    steps_of,
    stop_before,
    strays,
    wait_for_checkpoint,
    write_corpus,
    write_params,
)
from tests.training.together import STOPPED_AT, UNTYING
from tiebench import paths
from tiebench.errors import LostError, SettingsError, TrainingError
from tiebench.runtime import checkpoint_seconds, prepare_runtime
from tiebench.training import parallel
from tiebench.training.batches import Schedule
from tiebench.training.parallel import Team, processes_to_start
from tiebench.training.pretrain import pretrain
from tiebench.training.workers import LOST

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
        stdin=subprocess.DEVNULL, start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TIEBENCH_THREADS": "1", "PYTHONPATH": path, **environment},
    )  # fmt: skip


def run(*command, **environment):
    process = start(*command, **environment)
    said = communicate(process)
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


@pytest.mark.parametrize("cell", [pytest.param("tied", marks=pytest.mark.slow), "wide"])
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


def test_in_two_processes(corpus, monkeypatch):
    params = make_params()
    whole = {x: pretrain(params, "encoders", x, 0).rename(f"whole-{x}") for x in ("tied", "wide")}
    untied = pretrain(make_params(**UNTYING), "encoders", "tied", 2).rename("untied")
    stop_before(monkeypatch, 17)
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
    steps = steps_of(monkeypatch)
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
    # A share without predictions adds nothing.
    idle = found("idle")
    assert [x["predictions"] for x in idle] == [8, 0]
    assert all(x["difference"] < 1e-6 and x["largest"] > 0.1 for x in idle)
    # What is added to the loss is added once, and what is frozen has no gradient.
    added = found("added")
    assert [x["predictions"] for x in added] == [12, 4]
    assert all(x["difference"] < 1e-6 and x["largest"] > 0.01 for x in added)
    # One table becomes two in both.
    assert_close(paths.run_folder("t", "encoders", "tied", 2), untied)
    # torch's own wrapper keeps the tie: one entry, one state, the gradient of both uses.
    for held in (update for rank in found("wrapped") for update in rank.items()):
        coupling, update = held
        assert update["names"] and update["difference"] < 1e-4, held
        assert update["states"] == update["trained"], held
        assert update["tables"] == 2 - update["tied"], held
        assert update["tied"] == coupling.startswith("tied"), held


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


@pytest.mark.parametrize(
    ("wanted", "run", "said"),
    [
        ("5", "tied", "batch_size: found 4 windows for 5 processes"),
        ("2", "gone", "no such run"),
        ("2", "untrained", None),
    ],
)
def test_processes_are_not_started_for_nothing(corpus, monkeypatch, wanted, run, said):
    write_params()
    monkeypatch.setenv("TIEBENCH_PROCESSES", wanted)
    main, launched = runpy.run_path(STAGE)["main"], []
    monkeypatch.setitem(main.__globals__, "launch", lambda *x: launched.append(x))
    with pytest.raises(SettingsError, match=said) if said else nullcontext():
        main("encoders", run, "0")
    assert not launched
    assert paths.run_folder("t", "encoders", run, 0).exists() == (said is None)
    monkeypatch.setenv("TIEBENCH_PROCESSES", "2")
    main("encoders", "tied", "0")
    assert launched == [(2, sys.argv)]


@pytest.mark.parametrize("given", ["0", "-1", "two", "", "1.5", "²", "1025", "9" * 5000])
@pytest.mark.parametrize(
    ("name", "read_it"),
    [("TIEBENCH_PROCESSES", processes_to_start), ("TIEBENCH_THREADS", prepare_runtime)],
)
def test_a_number_that_is_none(monkeypatch, name, read_it, given):
    monkeypatch.setenv(name, given)
    with pytest.raises(SettingsError, match=f"{name}: found .* a whole number from 1 to 1024"):
        read_it()


@pytest.mark.parametrize(
    ("given", "device", "built", "found"),
    [
        ("mkl", "cuda", True, "'mkl'"), ("", "cpu", True, "''"),
        ("onednn", "cuda", True, "'onednn' with TIEBENCH_DEVICE=cuda"),
        ("onednn", "cpu", False, "'onednn', and torch was built without it"),
    ],
)  # fmt: skip
def test_products_that_nobody_computes(monkeypatch, given, device, built, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: built)
    monkeypatch.setenv("TIEBENCH_DEVICE", device)
    monkeypatch.setenv("TIEBENCH_PRODUCTS", given)
    with pytest.raises(
        SettingsError, match=f"TIEBENCH_PRODUCTS: found {found}; expected torch, or"
    ):
        prepare_runtime()
    monkeypatch.setenv("TIEBENCH_DEVICE", "tpu")
    with pytest.raises(SettingsError, match="TIEBENCH_DEVICE: found 'tpu'"):
        prepare_runtime()


def test_who_starts_processes(monkeypatch):
    assert processes_to_start() == 1
    monkeypatch.setenv("TIEBENCH_PROCESSES", "3")
    assert processes_to_start() == 3
    as_worker(monkeypatch, 1, 3)
    assert processes_to_start() == 1
    as_worker(monkeypatch, 1, 2)
    with pytest.raises(SettingsError, match="TIEBENCH_PROCESSES: found 3, beside a launcher of 2"):
        processes_to_start()


def test_accelerate_that_does_not_tell_the_number(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert processes_to_start() == 1
    monkeypatch.setenv("MASTER_PORT", "29500")
    with pytest.raises(SettingsError, match="TIEBENCH_PROCESSES=2"):
        processes_to_start()


def test_accelerate_and_the_environment_tell_the_same_number(monkeypatch):
    words = ["python", "accelerate", "launch", "--num_processes", "4", "x.py"]
    monkeypatch.setattr(psutil, "Process", lambda _: SimpleNamespace(cmdline=lambda: words))
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert processes_to_start() == 4
    monkeypatch.setenv("TIEBENCH_PROCESSES", "4")
    assert processes_to_start() == 4
    monkeypatch.setenv("TIEBENCH_PROCESSES", "2")
    with pytest.raises(SettingsError, match="TIEBENCH_PROCESSES: found 2, beside a launcher of 4"):
        processes_to_start()


def failing(monkeypatch, name, message):
    """A function of torch.distributed that fails."""

    def fail(*_, **__):
        raise RuntimeError(message)

    monkeypatch.setattr(parallel.dist, name, fail)


NCCL = "NCCL error in: x.cpp:1, unhandled cuda error\nncclUnhandledCudaError: a call failed.\n"


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("[x/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:5", LostError),
        ("writev [127.0.0.1]:5: Broken pipe", LostError),
        ("Timed out waiting 100ms for recv operation to complete", LostError),
        ("NCCL error in: x.cpp:1, remote process exited\nncclRemoteError: a call", LostError),
        ("CUDA out of memory. Tried to allocate 2 GiB", RuntimeError),
        (NCCL + "Last error:\nCuda failure 2 'out of memory' in transport connect", RuntimeError),
        ("Tensors must be contiguous", RuntimeError),
    ],
)
def test_what_is_taken_for_the_end_of_another(monkeypatch, message, error):
    failing(monkeypatch, "all_reduce", message)
    with pytest.raises(error) as raised:
        Team(0, 2).agree("cell", 1)
    assert raised.type is error and message.partition("\n")[0] in str(raised.value)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("[enforce fail] Unable to find address for: nosuch0", TrainingError),
        ("", TrainingError),
        (NCCL + "Cuda failure 2 'out of memory'", RuntimeError),
    ],
)
def test_processes_that_do_not_reach_each_other(monkeypatch, message, error):
    failing(monkeypatch, "init_process_group", message)
    monkeypatch.setattr(parallel.signal, "signal", lambda *_: None)
    with pytest.raises(error) as raised, parallel.connected(Team(0, 2)):
        pass
    assert raised.type is error and message.partition("\n")[0] in str(raised.value)


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ({1: -signal.SIGKILL, 0: LOST}, "process 1 of 2: found it ended by SIGKILL"),
        ({0: -signal.SIGTERM, 1: -signal.SIGKILL}, "process 1 of 2: found it ended by SIGKILL"),
        ({1: -signal.SIGSEGV, 0: -signal.SIGKILL}, "process 1 of 2: found it ended by SIGSEGV"),
        ({0: LOST, 1: LOST}, "2 processes of one training: found that each lost the others"),
        ({0: LOST, 1: -signal.SIGTERM}, "2 processes of one training: found that each lost"),
    ],
)
def test_who_is_said_to_have_ended(codes, said):
    assert str(parallel._cause(codes, 2)).startswith(said)


@pytest.mark.parametrize("given", ["-1", "nan", "inf", "soon", ""])
def test_a_time_between_checkpoints_that_is_none(monkeypatch, given):
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", given)
    with pytest.raises(SettingsError, match="TIEBENCH_CHECKPOINT_SECONDS: found"):
        checkpoint_seconds()


def in_progress(process):
    """The workers of a training that has written a checkpoint, by rank."""
    wait_for_checkpoint(process)
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
    _, error = communicate(process)
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
    _, error = communicate(process)
    assert process.returncode == 1
    assert error.count("error: ") == 1 and error.count("\n") == 1 and "valid.safetensors" in error


@pytest.mark.slow
def test_a_network_that_is_none_is_said_once(corpus):
    write_params()
    process = start(
        STAGE, "encoders", "tied", "0", TIEBENCH_PROCESSES="2", GLOO_SOCKET_IFNAME="nosuch0"
    )
    _, error = communicate(process)
    assert process.returncode == 1
    assert error.count("\n") == 1 and "found no connection (" in error and "nosuch0" in error
