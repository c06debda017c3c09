"""Copies of this repository, to change and run without touching it."""

from __future__ import annotations

import errno
import itertools
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.memo import memoize
from tiebench import composition
from tiebench.errors import WriteError

ROOT = Path(__file__).resolve().parents[1]
os.environ.pop("TIEBENCH_PRODUCTS", None)  # bytes are compared
OFFLINE = ROOT / "tests" / "offline"
"""First on the path of every Python process of the tests: its `sitecustomize` refuses networks."""

runpy.run_path(str(OFFLINE / "sitecustomize.py"))
memoize(composition)

MEANWHILE = ("tests/model/", "tests/training/", "tests/evaluation/", "tests/analysis/")
"""What takes about as long as the micro pipeline."""


def offline_path(*folders: object) -> str:
    """A PYTHONPATH of some folders, for processes that see no network."""
    return os.pathsep.join(map(str, (OFFLINE, *folders)))


os.environ["PYTHONPATH"] = offline_path(
    *(x for x in os.environ.get("PYTHONPATH", "").split(os.pathsep) if x not in ("", str(OFFLINE)))
)


def communicate(process: subprocess.Popen[str], seconds: float = 300) -> tuple[str, str]:
    """What a process says until it ends; its group, of its own, is killed if it takes longer."""
    try:
        return process.communicate(timeout=seconds)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the longest, so that two workers end at about the same time.

    `test_reruns` needs what `test_pipeline` first makes, in the time that the other folders take.
    """

    def order(item: pytest.Item) -> int:
        name = item.nodeid
        if "test_pipeline" in name:
            return 0
        return 2 if "test_reruns" in name else 1 if any(x in name for x in MEANWHILE) else 3

    items.sort(key=order)


def copy_tree(target: Path) -> Path:
    """Copy what git would commit: tracked files, and untracked ones that are not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    subprocess.run(["git", "init", "--quiet"], cwd=target, check=True)
    return target


@dataclass(frozen=True)
class Tree:
    """A copy of the repository, and commands in it that see its code and no network."""

    root: Path

    def run(self, *command: str, fails: bool = False, **environment: str) -> str:
        """Run a command and return what it printed; its failure, or success, is a test failure."""
        offline = {"PIP_NO_INDEX": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # fmt: skip
        process = subprocess.Popen(
            command, cwd=self.root, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={
                **os.environ, **offline, "HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": offline_path(self.root / "src"), "TIEBENCH_THREADS": "1", **environment,
            },
        )  # fmt: skip
        said, _ = communicate(process, 3600)  # slow machines are no failure
        assert (process.returncode != 0) == fails, (
            f"{' '.join(command)}: {process.returncode}\n{said}"
        )
        return said

    def tiebench(self, *arguments: str, fails: bool = False) -> str:
        return self.run(sys.executable, "-m", "tiebench", *arguments, fails=fails)

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace the one occurrence of a text in a file."""
        text = self.read(path)
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {path}"
        (self.root / path).write_text(text.replace(old, new), "utf-8")


class FullDisk:
    """A disk that has no room for a given file."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch, self.fsync = patch, os.fsync

    def refuse(self, work: Callable[[], object], number: int) -> bool:
        """Run `work`, which has no room for its file `number` from 1; whether it was refused."""
        written = itertools.count(1)

        def fsync(handle: int) -> None:
            if next(written) == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self.fsync(handle)

        with self.patch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            try:
                work()
            except WriteError as error:
                assert "found No space left on device; expected room" in str(error)
                return True
        return False


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    """Refuses one file of a piece of work."""
    return FullDisk(monkeypatch)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A copy of the repository, which is also the working folder of the test."""
    monkeypatch.chdir(copy_tree(tmp_path))
    return Tree(tmp_path)
