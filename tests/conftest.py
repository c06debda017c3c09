"""Copies of this repository, to change and run without touching it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start with the longest, so that two workers end at about the same time."""
    items.sort(key=lambda item: "test_pipeline" not in item.nodeid)


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
        done = subprocess.run(
            command, cwd=self.root, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env={
                **os.environ, **offline, "HF_HUB_OFFLINE": "1", "DVC_NO_ANALYTICS": "1",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(self.root / "src"), "TIEBENCH_THREADS": "1", **environment,
            },
        )  # fmt: skip
        assert (done.returncode != 0) == fails, (
            f"{' '.join(command)}: {done.returncode}\n{done.stdout}"
        )
        return done.stdout

    def tiebench(self, *arguments: str, fails: bool = False) -> str:
        return self.run(sys.executable, "-m", "tiebench", *arguments, fails=fails)

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace the one occurrence of a text in a file."""
        text = self.read(path)
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times in {path}"
        (self.root / path).write_text(text.replace(old, new), "utf-8")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A copy of the repository, which is also the working folder of the test."""
    monkeypatch.chdir(copy_tree(tmp_path))
    return Tree(tmp_path)
