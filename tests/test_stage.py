"""Stage scripts: what a user can mend is one line, anything else stays a traceback."""

import errno
import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.training.cells import as_worker
from tiebench import stage as module
from tiebench.errors import DataError, LostError
from tiebench.lifeline import STAGE, _is_stranger
from tiebench.stage import run_stage
from tiebench.training.workers import LAUNCHER, LOST


def raising(error):
    raise error


def test_an_error_to_mend_is_printed_without_a_traceback():
    error = DataError("file", found="this", expected="that", mend="so")
    with pytest.raises(SystemExit, match="error: file: found this; expected that. To mend: so"):
        run_stage(raising, error)


def test_a_full_disk_is_named():
    with pytest.raises(SystemExit, match="error: runs/x: found No space left"):
        run_stage(raising, OSError(errno.ENOSPC, "No space left on device", "runs/x"))


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("size", [1, 10**6])
def test_a_reader_that_has_seen_enough_ends_a_stage(size, unbuffered):
    code = f"from tiebench.stage import run_stage\nrun_stage(lambda: print('x' * {size}))"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 128 + signal.SIGPIPE


def test_another_pipe_that_breaks_is_a_defect():
    with pytest.raises(BrokenPipeError):
        run_stage(raising, BrokenPipeError(errno.EPIPE, "Broken pipe"))


@pytest.mark.parametrize("error", [ValueError("a defect"), OSError(errno.EIO, "I/O error", "x")])
def test_a_defect_is_not_hidden(error):
    with pytest.raises(type(error)):
        run_stage(raising, error)


def as_own_worker(monkeypatch, rank):
    """As one of two workers that this process' parent has started."""
    as_worker(monkeypatch, rank, 2)
    monkeypatch.setenv(LAUNCHER, str(os.getppid()))
    monkeypatch.setattr(module, "end_with_parent", lambda: None)
    monkeypatch.setattr(module, "OTHERS_SECONDS", 0.0)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_leaves_it_to_the_launcher_to_say_which_other_ended(monkeypatch, rank):
    error = {"found": "this", "expected": "that", "mend": "so"}
    as_own_worker(monkeypatch, rank)
    monkeypatch.setattr(module.os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as left:
        run_stage(raising, LostError("another", **error))
    assert left.value.code == LOST
    with pytest.raises(SystemExit, match="error: file: found this"):
        run_stage(raising, DataError("file", **error))
    monkeypatch.delenv(LAUNCHER)
    with pytest.raises(SystemExit, match="error: another: found this"):
        run_stage(raising, LostError("another", **error))


def test_a_worker_whose_launcher_is_gone_does_not_start(monkeypatch):
    as_own_worker(monkeypatch, 0)
    monkeypatch.setenv(LAUNCHER, "1")
    with pytest.raises(SystemExit):
        run_stage(raising, AssertionError())


WORK = """
import time
from tiebench.stage import run_stage
run_stage(lambda: (print("at work", flush=True), time.sleep(600)))
"""
START = """
import os, subprocess, sys
subprocess.run(sys.argv[1:], env={**os.environ, **dict.fromkeys(%s, "a")})
"""
"""What DVC does: a command, with the stage's name in its environment."""


def start(folder, command, names):
    """A process that starts a command, which starts a stage; and what is below it, once at work."""
    (folder / "work.py").write_text(WORK)
    parent = subprocess.Popen(
        [sys.executable, "-c", START % names, *command], cwd=folder, stdout=subprocess.PIPE, text=True,
        env={x: y for x, y in os.environ.items() if x != STAGE},
    )  # fmt: skip
    assert parent.stdout.readline() == "at work\n"
    return parent, psutil.Process(parent.pid).children(recursive=True)


@pytest.mark.parametrize(("shells", "killed"), [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)])
def test_a_stage_ends_with_dvc_and_with_each_shell_between(tmp_path, shells, killed):
    command = [sys.executable, "work.py"]
    for _ in range(shells):  # none that replaces itself by the command
        command = ["/bin/sh", "-c", '"$@"; exit', "sh", *command]
    dvc, below = start(tmp_path, command, [STAGE])
    chain = [psutil.Process(dvc.pid), *below]
    assert len(chain) == shells + 2
    chain[killed].kill()
    assert psutil.wait_procs(chain[-1:], timeout=60)[1] == []
    dvc.communicate()


def test_without_dvc_a_stage_outlives_its_parent(tmp_path):
    parent, (work,) = start(tmp_path, [sys.executable, "work.py"], [])
    parent.kill()
    parent.wait()
    with pytest.raises(psutil.TimeoutExpired):
        work.wait(1)
    assert work.status() != psutil.STATUS_ZOMBIE and work.ppid() != parent.pid
    work.kill()
    parent.communicate()


def test_who_is_no_parent_of_its_own():
    assert not _is_stranger(os.getpid())
    if os.getsid(1) != os.getsid(0):
        assert _is_stranger(1)


@pytest.mark.parametrize(
    "error",
    [MemoryError("Unable to allocate 8 GiB"), RuntimeError("you can't allocate memory: 8 bytes")],
)
def test_too_little_memory_is_no_traceback(error):
    with pytest.raises(SystemExit, match=r"memory: found too little.*allocate.*smaller sizes"):
        run_stage(raising, error)


def test_ctrl_c_ends_quietly():
    with pytest.raises(SystemExit) as ended:
        run_stage(raising, KeyboardInterrupt())
    assert ended.value.code == 130


@pytest.mark.parametrize("arguments", [(), ("a", "b")])
def test_arguments_that_are_missing_are_named(arguments):
    def main(family: str) -> None:
        raise AssertionError

    with pytest.raises(SystemExit, match=r"expected FAMILY"):
        run_stage(main, *arguments)
