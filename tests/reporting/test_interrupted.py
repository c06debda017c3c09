"""Scoring and rendering that stop half-way: what was there stays whole, and is made again alike."""

import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import FullDisk
from tiebench.evaluation.score import score
from tiebench.reporting.report import render
from tiebench.settings import Params

FAKE = runpy.run_path(str(Path(__file__).with_name("artefacts.py")))
REPORT = Path("reports/small")
WORK = {"score": score, "render": render}
STOPPED = """
import os, signal, sys
from tiebench.evaluation.score import score
from tiebench.reporting.report import render
from tiebench.settings import Params
left, fsync = int(sys.argv[2]), os.fsync
def kill(handle):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(handle)
os.fsync = kill
{"score": score, "render": render}[sys.argv[1]](Params.model_validate_json(sys.stdin.read()))
"""
"""Kills itself when it has written a given file, and before that is in place."""


def params() -> Params:
    return FAKE["make_params"](runs=("tied", "untied"), seeds=(0,), languages=("en", "de"), pool=20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        FAKE["write_artefacts"](params())
        score(params())
        render(params())
    return folder


@pytest.fixture
def workspace(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """A copy as the working folder, whose report is of other results; what it should be."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    wanted = contents()
    for path in (REPORT / "metrics.json", REPORT / "claims.html", REPORT / "index.html"):
        path.write_text("old\n")
    for folder in ("tables", "figures", "rendered"):
        (REPORT / folder / "old.csv").write_text("a\n1\n")
    return wanted


def contents() -> dict[str, bytes]:
    """Every file of the report."""
    held = {str(x.relative_to(REPORT)): x for x in REPORT.rglob("*") if x.is_file()}
    return {name: path.read_bytes() for name, path in held.items()}


def parts(held: dict[str, bytes]) -> dict[str, dict[str, bytes]]:
    """The files of a report by what is made whole; hidden ones are what a kill leaves."""
    found: dict[str, dict[str, bytes]] = {}
    for name, content in held.items():
        found.setdefault(name.partition("/")[0], {})[name] = content
    return {name: files for name, files in found.items() if not name.startswith(".")}


def wholly_old_or_new(before: dict[str, bytes], wanted: dict[str, bytes]) -> set[str]:
    """The parts that are new; each must be all of the one or all of the other."""
    now, old, new = map(parts, (contents(), before, wanted))
    assert now.keys() == old.keys() == new.keys()
    for name, files in now.items():
        assert files in (old[name], new[name]), name
    return {name for name in now if now[name] != old[name]}


MADE = {
    "score": {"tables", "metrics.json"},
    "render": {"figures", "rendered", "claims.html", "index.html"},
}


@pytest.mark.parametrize(
    ("work", "number"), [pytest.param("score", 12, marks=pytest.mark.slow), ("render", 40)]
)
def test_a_kill_leaves_no_half(workspace: dict[str, bytes], work: str, number: int) -> None:
    before = contents()
    done = subprocess.run(
        [sys.executable, "-c", STOPPED, work, str(number)],
        input=params().model_dump_json(), text=True, check=False, capture_output=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list(REPORT.rglob(".*"))
    assert wholly_old_or_new(before, workspace) <= {"figures"}
    WORK[work](params())
    assert wholly_old_or_new(before, workspace) == MADE[work]
    assert not list(REPORT.rglob(".*"))


@pytest.mark.parametrize("work", list(WORK))
def test_a_full_disk_leaves_no_half(
    workspace: dict[str, bytes], full_disk: FullDisk, work: str
) -> None:
    before = contents()
    files = sum(name.partition("/")[0] in MADE[work] for name in workspace)
    assert full_disk.refuse(lambda: WORK[work](params()), files - 1)
    assert wholly_old_or_new(before, workspace) <= {"figures", "rendered"}
    assert not list(REPORT.rglob(".*"))
