"""Set-up: when .venv is built, and what `make repro` does before and after `dvc repro`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import ROOT, Tree


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/environment.py for an empty project, with its commands recorded instead of run."""
    spec = importlib.util.spec_from_file_location("environment", ROOT / "scripts/environment.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "requirements.lock").write_text("torch==2\n")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    for name, path in {
        "ROOT": "", "LOCK": "requirements.lock", "PROJECT": "pyproject.toml", "FOLDER": ".venv",
        "STAMP": ".venv/stamp.json",
    }.items():  # fmt: skip
        monkeypatch.setattr(module, name, tmp_path / path)

    module.done = []  # type: ignore[attr-defined]

    def run(*command: str) -> None:
        step = "venv" if "venv" in command else "lock" if "--requirement" in command else "project"
        if step == getattr(module, "breaks", None):
            sys.exit("cut short")
        (tmp_path / ".venv").mkdir(exist_ok=True)
        module.done.append(step)

    monkeypatch.setattr(module, "run", run)
    return module


def steps(environment: ModuleType) -> list[str]:
    environment.done.clear()
    environment.main()
    return list(environment.done)


def test_the_environment_is_built_once(environment: ModuleType) -> None:
    assert steps(environment) == ["venv", "lock", "project"]
    assert steps(environment) == []


def test_it_is_built_again_when_the_lock_changed(environment: ModuleType) -> None:
    steps(environment)
    environment.LOCK.write_text("torch==3\n")
    assert steps(environment) == ["venv", "lock", "project"]
    environment.PROJECT.write_text("[project]\nname = 'x'\n")
    assert steps(environment) == ["project"]


@pytest.mark.parametrize("step", ["lock", "project"])
def test_a_build_cut_short_is_done_again(environment: ModuleType, step: str) -> None:
    environment.breaks = step
    with pytest.raises(SystemExit):
        environment.main()
    environment.breaks = None
    assert steps(environment) == ["venv", "lock", "project"]
    environment.LOCK.write_text("torch==3\n")
    environment.breaks = step
    with pytest.raises(SystemExit):
        environment.main()
    environment.breaks = None
    assert steps(environment) == ["venv", "lock", "project"]


def test_a_moved_checkout_is_built_again(environment: ModuleType) -> None:
    steps(environment)
    stamp = json.loads(environment.STAMP.read_text())
    environment.STAMP.write_text(json.dumps({**stamp, "folder": "/elsewhere"}))
    assert steps(environment) == ["venv", "lock", "project"]


def test_another_python_is_refused(
    environment: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "PYTHON", (3, 2))
    with pytest.raises(SystemExit, match=r"expected 3\.2\. To mend: make PYTHON="):
        environment.main()
    assert environment.done == []


def test_make_explains_itself(tree: Tree) -> None:
    said = tree.run("make")
    assert re.findall(r"^(\w+) ", said, re.M) == [
        "help",
        "setup",
        "repro",
        "micro",
        "test",
        "lint",
        "bench",
    ]


def test_make_names_a_missing_python(tree: Tree) -> None:
    said = tree.run("make", "PYTHON=python3.11-nowhere", "environment", fails=True)
    assert "error: no python3.11-nowhere found" in said


def lock(note: str) -> str:
    """A dvc.lock that is whole and says something."""
    return f"{{schema: '2.0', stages: {{}}}} # {note}\n"


@pytest.fixture
def checkout(tree: Tree) -> Tree:
    """A copy in which `dvc repro` only notes that it was called."""
    fake = tree.root / "fake"
    fake.mkdir()
    (fake / "dvc").write_text(
        '#!/bin/sh\nname=$(sed -n "s/^name: //p" params.yaml)\nmkdir -p "reports/$name"\n'
        f'echo "{lock("ran $name").strip()}" > dvc.lock\n'
    )
    (fake / "tiebench").write_text(
        f'#!/bin/sh\n[ "$1" = plan ] || exec "{sys.executable}" -m tiebench "$@"\n'
    )
    for file in fake.iterdir():
        file.chmod(0o755)
    return tree


def repro(checkout: Tree, *, fails: bool = False, **environment: str) -> str:
    path = os.pathsep.join([str(checkout.root / "fake"), os.environ["PATH"]])
    return checkout.run("scripts/repro", fails=fails, PATH=path, **environment)


def test_repro_keeps_what_a_report_came_from(checkout: Tree) -> None:
    before = checkout.read("params.yaml")
    assert "The report: reports/small/index.html" in repro(checkout)
    assert checkout.read("reports/small/params.yaml") == checkout.read("params.yaml") == before
    assert checkout.read("reports/small/dvc.lock") == lock("ran small")


def test_a_size_is_composed_and_there_is_a_way_back(checkout: Tree) -> None:
    before = checkout.read("params.yaml")
    said = repro(checkout, SIZE="micro")
    assert "retrieval.pool: 1000 -> 40" in said
    assert checkout.read("reports/micro/dvc.lock") == lock("ran micro")
    back = re.search(r"The way back to the settings so far: (.+)", said)
    assert back is not None
    repro(checkout, SIZE="micro")
    checkout.run("bash", "-c", back[1])
    assert checkout.read("params.yaml") == before


def test_a_size_does_not_overwrite_hand_edits(checkout: Tree) -> None:
    checkout.edit("params.yaml", "pool: 1000", "pool: 500")
    edited = checkout.read("params.yaml")
    said = repro(checkout, fails=True, SIZE="base")
    assert "retrieval.pool: 500 in params.yaml" in said
    assert "FORCE=1" in said
    assert checkout.read("params.yaml") == edited
    said = repro(checkout, SIZE="base", FORCE="1")
    assert "size: small -> base" in said
    assert checkout.read(".scratch/before/params.yaml") == edited


def test_a_committed_report_is_put_in_place(checkout: Tree) -> None:
    repro(checkout, SIZE="micro")
    said = repro(checkout, SIZE="small")
    assert checkout.read("reports/small/dvc.lock") == lock("ran small")
    (checkout.root / "reports/micro/dvc.lock").write_text(lock("from the report"))
    said = repro(checkout, REPORT="micro")
    assert "The way back to the settings so far:" in said
    assert checkout.read("params.yaml") == checkout.read("reports/micro/params.yaml")
    assert checkout.read(".scratch/before/dvc.lock") == lock("ran small")
    assert "reports/nowhere holds no params.yaml" in repro(checkout, fails=True, REPORT="nowhere")
    assert "give one of the two" in repro(checkout, fails=True, REPORT="micro", SIZE="small")


def test_a_report_of_other_settings_changes_nothing(checkout: Tree) -> None:
    repro(checkout)
    before = {name: checkout.read(name) for name in ("params.yaml", "dvc.lock", "conf.lock.yaml")}
    checkout.edit("reports/small/params.yaml", "name: small\n", "title: small\n")
    said = repro(checkout, fails=True, REPORT="small")
    assert "the settings of reports/small are not of this version" in said
    assert {name: checkout.read(name) for name in before} == before


def test_a_report_with_the_same_settings_still_brings_its_lock(checkout: Tree) -> None:
    repro(checkout)
    (checkout.root / "reports/small/dvc.lock").write_text(lock("from the report"))
    said = repro(checkout, REPORT="small")
    assert "The way back" in said
    assert checkout.read(".scratch/before/dvc.lock") == lock("ran small")


def test_recorded_choices_are_not_lost_without_a_way_back(checkout: Tree) -> None:
    checkout.tiebench("params", "body@encoders.body=bert")
    chosen = checkout.read("params.yaml")
    assert "encoders.body.option: bert -> pre_norm" in repro(checkout, SIZE="small")
    assert checkout.read(".scratch/before/params.yaml") == chosen
    assert "option: bert" in checkout.read(".scratch/before/conf.lock.yaml")


def test_folders_that_no_cell_names_are_mentioned(checkout: Tree) -> None:
    assert "note: folders" not in repro(checkout)
    (checkout.root / "data/old").mkdir(parents=True)
    assert "note: folders that params.yaml does not name" in repro(checkout)


def test_micro_leaves_the_checkout_alone(
    checkout: Tree, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (checkout.root / "untracked.txt").write_text("taken along\n")
    (checkout.root / "data").mkdir()
    (checkout.root / "data" / "ignored.txt").write_text("not taken along\n")
    (checkout.root / "fake" / "dvc").write_text(
        '#!/bin/sh\nmkdir -p reports/micro\npwd\nls untracked.txt\nls data 2>/dev/null || echo "no data"\n'
        'sed -n "s/^size: /size /p" params.yaml\ncp params.yaml reports/micro/metrics.json\n'
    )
    before = {x: x.read_bytes() for x in checkout.root.rglob("*") if x.is_file()}
    path = os.pathsep.join(
        [str(checkout.root / "fake"), str(Path(sys.executable).parent), os.environ["PATH"]]
    )
    temporary = tmp_path_factory.mktemp("temporary")
    said = checkout.run("scripts/micro", PATH=path, TMPDIR=str(temporary)).splitlines()
    copy = said[0]
    assert Path(copy).parent == temporary
    assert said[1:4] == ["untracked.txt", "no data", "size micro"]
    assert said[-1] == f"The report: {copy}/reports/micro/index.html (the checkout is as it was)"
    after = {x: x.read_bytes() for x in checkout.root.rglob("*") if x.is_file()}
    assert {x for x in after if "__pycache__" not in x.parts} == {
        x for x in before if "__pycache__" not in x.parts
    }
    assert all(after[x] == before[x] for x in before if ".git" not in x.parts)
