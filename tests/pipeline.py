"""The micro pipeline as the tests run it: its stages, what DVC says of them, and one run of all."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from tests.conftest import Tree, copy_tree

RUNS = ("tied", "untied", "narrow_input_wide_output", "untrained", "untrained_narrow_input")
MATCHED = ("tied_equal_pretraining", "narrow_input_wide_output_equal_fine_tuning")
SEEDS = (0, 1)
MATCHED_SEEDS = (0,)
DATA = {
    "pretrain": "home", "retrieval": "home",
    "probing": "turkish_treebanks", "transfer": "home_purposes",
}  # fmt: skip
"""By task, the corpus or label set of its cells."""
EVALUATIONS = tuple(DATA)[1:]
NO_MATCHED = (*(f"~encoders.matched.{run}" for run in MATCHED), "encoders.matched_seeds=[]")
FEW = (
    "encoders.seeds=[0]",
    "~encoders.runs.untied",
    "~encoders.runs.narrow_input_wide_output",
    "~encoders.runs.untrained_narrow_input",
    *NO_MATCHED,
)
LEFT = (("tied", "untrained"), (0,))
"""The runs and seeds that FEW leaves."""
WORDS = {f"pretrain_word_decoders@home_words-{run}-0" for run in ("tied", "untied")}
DECODERS = {
    f"pretrain_decoders@home_small_vocabulary-{run}-0"
    for run in ("tied", "untied", "orthogonal_standard")
}
RECURRENT = {
    f"pretrain_recurrent@home_english-{run}-0" for run in ("baseline", "wt", "pr", "wt_pr")
}
SWEEPS = {f"sweeps@{name}" for name in ("pilot", "stability", "regularization", "underflow")}
TABLES_OF_WORDS = "tables_word_decoders@home_words"
BESIDE = {
    "prepare@home_words", "prepare@home_small_vocabulary", "prepare@home_english",
    *WORDS, *DECODERS, *RECURRENT, *SWEEPS,
    "word_forms", "bigram", "initial_loss", "domains", "tables_decoders@home_small_vocabulary",
    TABLES_OF_WORDS, "tables_recurrent@home_english",
}  # fmt: skip
"""Stages that no setting of the encoders or of their tasks reruns."""
PASSED = {"settings", "code", "tables_encoders@home"}
LAST = {"score", "report"}
IMPORTS = ".scratch/imports"
"""Where the runs of the first test write what they imported (tests/offline/imports.py)."""


def cells(*tasks: str, runs=RUNS, seeds=SEEDS, data: str = "") -> set[str]:
    """Addresses of the main runs' cells."""
    return {
        f"{task}_encoders@{data or DATA[task]}-{run}-{seed}"
        for task in tasks for run in runs for seed in seeds
    }  # fmt: skip


def matched(*tasks: str) -> set[str]:
    """Addresses of the matched runs' cells."""
    return {
        f"{task}_encoders_matched@{DATA[task]}-{run}-{seed}"
        for task in tasks for run in MATCHED for seed in MATCHED_SEEDS
    }  # fmt: skip


def left(*tasks: str) -> set[str]:
    """Addresses of the cells that FEW leaves."""
    return cells(*tasks, runs=LEFT[0], seeds=LEFT[1])


def every(*tasks: str) -> set[str]:
    """Addresses of all cells of some tasks."""
    return cells(*tasks) | matched(*tasks)


def executed(said: str) -> set[str]:
    """The stages that DVC says it ran, without those that check and digest, and without
    `tables_encoders`, which runs after any of the encoders."""
    return set(re.findall(r"^Running stage '(.+)':$", said, re.M)) - PASSED


def repro(copy: Tree, *arguments: str, **environment: str) -> tuple[set[str], str]:
    """Run `dvc repro`; the stages that it executed, and its output."""
    said = copy.run("dvc", "repro", *arguments, **environment)
    return executed(said), said


def outputs(copy: Tree) -> dict[str, bytes]:
    places = ("data", "labels", "runs", "evals", "reports/micro")
    files = [x for place in places for x in (copy.root / place).rglob("*") if x.is_file()]
    return {str(x.relative_to(copy.root)): x.read_bytes() for x in files}


def table(copy: Tree, name: str) -> list[dict[str, str]]:
    with (copy.root / "reports/micro/tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


ALL_CELLS = {(run, str(seed)) for run in RUNS for seed in SEEDS} | {
    (run, str(seed)) for run in MATCHED for seed in MATCHED_SEEDS
}


def held_cells(copy: Tree, name: str = "language_modeling") -> set[tuple[str, str]]:
    """The runs and seeds of the encoders in a table."""
    return {(x["run"], x["seed"]) for x in table(copy, name) if x["family"] == "encoders"}


def finished_copy(factory: pytest.TempPathFactory) -> tuple[Tree, str]:
    """A copy of the repository in which the micro pipeline ran, and what DVC said.

    It runs once for all test processes, offline and from an empty cache; each takes a copy.
    """
    folder = factory.getbasetemp()
    folder = (folder.parent if folder.name.startswith("popen-") else folder) / "pipeline"
    folder.mkdir(exist_ok=True)
    said = folder / "said.txt"
    with FileLock(folder / "lock"):
        if not said.exists():
            shutil.rmtree(folder / "tree", ignore_errors=True)
            said.write_text(_run(folder / "tree"), "utf-8")
    root = factory.mktemp("tree") / "copy"
    shutil.copytree(folder / "tree", root, symlinks=True)
    return Tree(root), said.read_text("utf-8")


def _run(root: Path) -> str:
    root.mkdir()
    made = Tree(copy_tree(root))
    (made.root / "dvc.lock").unlink(missing_ok=True)
    made.run("git", "add", "--all")
    made.run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "copy")
    made.tiebench("params", "size=micro")
    (made.root / IMPORTS).mkdir(parents=True)
    return made.run("dvc", "repro", TESTS_RECORD_IMPORTS=str(made.root / IMPORTS))
