"""A kill at any moment, and a restart: the bytes of a run that was never stopped."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT, Tree, communicate, copy_tree, offline_path
from tests.dying import MOMENTS
from tests.training.cells import (
    make_params,
    read,
    steps_of,
    strays,
    wait_for_checkpoint,
    write_corpus,
    write_params,
)
from tiebench.errors import BusyError, DataError, WriteError
from tiebench.files import holding, replacing, replacing_folder, write_text
from tiebench.mending import is_whole, keep_lock, mend
from tiebench.paths import SCRATCH
from tiebench.training.pretrain import pretrain

STAGE = ROOT / "stages" / "pretrain.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "TIEBENCH_THREADS": "1", "TIEBENCH_CHECKPOINT_SECONDS": "0"}


def start(*command: str, root: Path = ROOT, **environment: str) -> subprocess.Popen:
    """A command in the working folder, with a session of its own as in a terminal."""
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, start_new_session=True,
        env={
            **os.environ, **ONE_THREAD, "DVC_NO_ANALYTICS": "1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": offline_path(root, root / "src"), **environment,
        },
    )  # fmt: skip


def finish(*command: str, **options) -> str:
    process = start(*command, **options)
    said = communicate(process)[0]
    assert process.returncode == 0, said
    return said


def family(process: subprocess.Popen) -> list[psutil.Process]:
    """What a process has started, and what that has."""
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def test_killed_in_the_training_and_in_every_kind_of_writing(tmp_path, monkeypatch):
    folders = {}
    for i, moment in enumerate(MOMENTS):
        folders[moment] = tmp_path / str(i)
        folders[moment].mkdir()
        monkeypatch.chdir(folders[moment])
        if i:
            shutil.copytree(tmp_path / "0" / "data", "data")
        else:
            write_corpus()
            whole = read(pretrain(make_params(), "encoders", "tied", 0).rename(tmp_path / "whole"))
        if "old outputs" in moment:
            shutil.copytree(tmp_path / "whole", "runs/t/encoders/tied-s0")
    pairs = [str(x) for moment, folder in folders.items() for x in (folder, moment)]
    finish(sys.executable, str(ROOT / "tests" / "dying.py"), *pairs)

    steps = steps_of(monkeypatch)
    first = dict.fromkeys(MOMENTS, 30) | {
        "in an update": 17, "half of a checkpoint": 8, "half of the last checkpoint": 29,
    }  # fmt: skip
    for moment, folder in folders.items():
        monkeypatch.chdir(folder)
        steps.clear()
        assert read(pretrain(make_params(), "encoders", "tied", 0)) == whole, moment
        assert steps == list(range(first[moment], 30)), moment
        assert strays() == [], moment


STEPS = 100


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """A DVC pipeline of one stage, which pretrains a cell."""
    monkeypatch.chdir(tmp_path)
    write_corpus()
    write_params(steps=STEPS)
    finish("dvc", "init", "--no-scm", "--quiet")
    Path("dvc.yaml").write_text(
        f"stages:\n  pretrain:\n    cmd: python {STAGE} encoders tied 0\n"
        "    deps: [data/t]\n    params: [encoders]\n    outs: [runs/t/encoders/tied-s0]\n"
    )
    return tmp_path / "runs" / "t" / "encoders" / "tied-s0"


def test_a_killed_dvc_takes_its_stage_along(pipeline, monkeypatch):
    """The shell that waits for the stage is the one that dash is; bash replaces itself."""
    whole = read(pretrain(write_params(steps=STEPS), "encoders", "tied", 0))
    shutil.rmtree("runs")
    first = start("dvc", "repro", SHELL="/bin/sh")
    wait_for_checkpoint(first)
    started = family(first)
    (stage,) = (x for x in started if x.cmdline()[:2] == ["python", str(STAGE)])
    stage.suspend()  # so that it does not end before it is looked at
    second = start("dvc", "repro")  # refused while the first is at work
    refused = communicate(second)[0]
    assert second.returncode != 0 and f"(PID {first.pid})" in refused, refused
    assert stage.is_running()
    stage.resume()
    os.kill(first.pid, signal.SIGKILL)
    assert psutil.wait_procs(started, timeout=60)[1] == []
    communicate(first)
    assert not pipeline.exists()
    finish("dvc", "repro")
    assert read(pipeline) == whole
    assert strays() == []

    # A kill while DVC writes dvc.lock: put back, and nothing is trained again.
    content = Path("dvc.lock").read_bytes()
    Path("dvc.lock").write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"dvc\.lock: found a damaged file"):
        mend()
    write_text(SCRATCH / "dvc.lock", "schema: '2.0'\nstages: {}\n")  # as before the stage
    Path(".dvc/tmp/rwlock").write_text('{"write": {"/ru')
    assert len(mend()) == 2
    assert "Running stage" not in finish("dvc", "repro").replace("is cached", "")
    assert Path("dvc.lock").read_bytes() == content
    assert mend() == []


def test_what_counts_as_a_whole_lock(tmp_path, monkeypatch):
    from dvc.schema import COMPILED_LOCKFILE_SCHEMA
    from dvc.utils.serialize import dumps_yaml, parse_yaml

    def files(*names: str) -> list[dict[str, object]]:
        return [{"path": x, "hash": "md5", "md5": "0" * 32 + ".dir", "nfiles": 3} for x in names]

    stages = {
        f"pretrain_encoders@{run}-0": {
            "cmd": f"python stages/pretrain.py encoders {run} 0",
            "deps": files("code/pretrain.txt", "data/t"),
            "params": {"params.yaml": {"encoders": {"seeds": [0, 1], "training": {"steps": 30}}}},
            "outs": files(f"runs/t/encoders/{run}-s0"),
        }
        for run in ("tied", "wide")
    }
    content = dumps_yaml({"schema": "2.0", "stages": stages}).encode()
    assert is_whole(content)
    rng = random.Random(0)
    for _ in range(60):
        cut = content[: rng.randrange(len(content))]
        for held in (cut, cut[: cut.rfind(b"\n") + 1]):
            if is_whole(held):  # then DVC reads it too
                COMPILED_LOCKFILE_SCHEMA(parse_yaml(held.decode(), "dvc.lock"))
    monkeypatch.chdir(tmp_path)
    keep_lock()
    assert mend() == [] and not SCRATCH.exists()
    Path("dvc.lock").write_bytes(content)
    keep_lock()
    Path("dvc.lock").write_bytes(content[:-9])
    keep_lock()
    assert len(mend()) == 1
    assert Path("dvc.lock").read_bytes() == content


def test_temporary_files_of_a_dead_process_go_and_those_of_a_living_one_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    kept = [tmp_path / f".a.{os.getppid()}.partial", tmp_path / f".b.{dead.pid}.partial"]
    for path in (
        *kept,
        tmp_path / f".a.{dead.pid}.partial",
        tmp_path / f".a.{os.getpid()}.partial",
    ):
        path.write_text("half")
    write_text(tmp_path / "a", "whole")
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "a"])


def test_a_folder_whose_replacing_was_killed_is_put_back(tmp_path):
    folder, before = tmp_path / "a", tmp_path / ".a.before.partial"
    before.mkdir()
    (before / "x").write_text("old")
    with pytest.raises(RuntimeError), replacing_folder(folder):
        raise RuntimeError
    assert (folder / "x").read_text() == "old"
    with replacing_folder(folder) as partial:
        (partial / "x").write_text("new")
    assert (folder / "x").read_text() == "new"
    assert list(tmp_path.iterdir()) == [folder]


def test_the_number_of_a_dead_process_is_not_shown(tmp_path):
    lock = tmp_path / "a.lock"
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with holding(lock, "a"):
        lock.write_text(str(dead.pid))  # as it is between taking the lock and writing
        with pytest.raises(BusyError, match="found another process at work"), holding(lock, "a"):
            pass


def full(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("place", ["checkpoint", "model", "lock"])
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    write_corpus()
    whole = read(pretrain(make_params(), "encoders", "tied", 0))
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
    calls, fsync, mkdir = [], os.fsync, Path.mkdir

    def failing(*arguments):
        calls.append(None)
        if len(calls) > {"checkpoint": 12, "model": 30}[place]:
            full()
        return fsync(*arguments)

    with monkeypatch.context() as patched:
        if place == "lock":
            patched.setattr(
                Path,
                "mkdir",
                lambda self, *x, **y: full() if self == SCRATCH else mkdir(self, *x, **y),
            )
        else:
            patched.setattr(os, "fsync", failing)
        shown = {
            "checkpoint": r"checkpoint\.safetensors", "model": r"model\.safetensors", "lock": r"s0\.lock"
        }  # fmt: skip
        with pytest.raises(WriteError, match=f"{shown[place]}: found No space left"):
            pretrain(make_params(), "encoders", "tied", 0)
    assert read(Path("runs/t/encoders/tied-s0")) == whole  # what was there before
    steps = steps_of(monkeypatch)
    assert read(pretrain(make_params(), "encoders", "tied", 0)) == whole
    assert steps == list(range({"checkpoint": 12, "model": 30, "lock": 0}[place], 30))
    assert strays() == []


def test_an_error_of_reading_is_not_taken_for_one_of_writing(tmp_path):
    with pytest.raises(PermissionError, match="source"):
        with replacing_folder(tmp_path / "a"):
            raise PermissionError(13, "Permission denied", "source")
    with pytest.raises(WriteError), replacing(tmp_path / "a"):
        full()


CELLS = ("pretrain_encoders@home-tied-0", "pretrain_encoders@home-untied-1")


@pytest.fixture
def prepared(tmp_path):
    """A copy of the tree at the micro size, with its corpus prepared."""
    tree = Tree(copy_tree(tmp_path / "prepared"))
    (tree.root / "dvc.lock").unlink(missing_ok=True)
    tree.tiebench("params", "size=micro", "encoders.training.steps=60")
    tree.run("dvc", "repro", "prepare@home")
    return tree.root


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "moments"), [("stage", 7), ("dvc", 7), ("both", 6)])
def test_killed_at_random_moments(prepared, monkeypatch, kind, moments):
    """Of the training process alone, of DVC alone, and of both; in a tree of its own each time.

    Every second moment is drawn from the whole time, the others from the time of training.
    """
    rng = random.Random(kind)
    seen = {"resumed": 0, "damaged": 0}

    def fresh(name: str) -> Path:
        root = prepared.parent / name
        shutil.copytree(prepared, root, symlinks=True)
        monkeypatch.chdir(root)
        return root

    def outputs() -> dict[str, bytes]:
        return {str(x): x.read_bytes() for x in Path("runs").rglob("*") if x.is_file()}

    def has_checkpoint() -> bool:
        return any(SCRATCH.glob("*/checkpoint.safetensors"))

    root = fresh("whole")
    began = time.monotonic()
    finish("dvc", "repro", *CELLS, root=root)
    seconds, whole = time.monotonic() - began, outputs()
    assert len(whole) == 12
    for number in range(moments):
        root = fresh(str(number))
        process = start("dvc", "repro", *CELLS, root=root)
        if number % 2:
            while not has_checkpoint() and process.poll() is None:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 1))
        else:
            time.sleep(rng.uniform(0, seconds))
        started = family(process)
        if kind != "stage" and process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        if kind != "dvc":
            for child in started:
                if child.is_running():
                    child.kill()
        said = communicate(process)[0]
        assert psutil.wait_procs(started, timeout=60)[1] == [], (number, said)
        seen["resumed"] += has_checkpoint()
        seen["damaged"] += "damaged" in finish("tiebench", "mend", root=root)
        finish("dvc", "repro", *CELLS, root=root)
        assert outputs() == whole, (number, said)
        assert [x for x in strays() if "dvc.lock" not in x] == [], number  # which mend keeps
        shutil.rmtree(root)
    print(kind, json.dumps(seen))
    assert seen["resumed"]
