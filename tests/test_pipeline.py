"""The whole pipeline at the micro size, once, and what each setting would rerun.

The tests share one copy and build on each other, in the order of the file: each starts from the
settings that it writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Tree
from tests.pipeline import (
    ALL_CELLS,
    BESIDE,
    DATA,
    EVALUATIONS,
    IMPORTS,
    LAST,
    PASSED,
    TABLES_OF_WORDS,
    WORDS,
    cells,
    every,
    executed,
    finished_copy,
    held_cells,
    outputs,
    repro,
)
from tiebench.digests import AROUND, BOUNDARIES, DISTRIBUTIONS, NOT_DIGESTED, WITHOUT_EFFECT

STAGES = sorted({x.stem for x in (ROOT / "stages").glob("*.py")} - NOT_DIGESTED - {"import_model"})
"""The scripts that the micro size runs, which has no model from elsewhere."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tree, str]:
    return finished_copy(tmp_path_factory)


@pytest.fixture(scope="module")
def copy(finished: tuple[Tree, str]) -> Tree:
    return finished[0]


def test_the_whole_pipeline_runs_offline_from_nothing(finished: tuple[Tree, str]) -> None:
    copy, said = finished
    assert executed(said) == every(*DATA) | BESIDE | LAST | {
        "prepare@home", "labels@turkish_treebanks", "labels@home_purposes", "accounting", "evidence@small",
    }  # fmt: skip
    assert "In all: about" in said and "Running stage 'tables_encoders@home'" in said
    assert held_cells(copy) == ALL_CELLS
    assert "<html" in copy.read("reports/micro/index.html")
    tracked = copy.run("git", "status", "--porcelain", "--untracked-files=all").split("\n")
    assert {line[3:].split("/")[0] for line in tracked if line} == {
        "conf.lock.yaml", "dvc.lock", "params.yaml", "reports",
    }  # fmt: skip


def test_a_second_time_nothing_runs(copy: Tree) -> None:
    assert "Data and pipelines are up to date" in repro(copy)[1]
    assert copy.run("dvc", "status").strip() == "Data and pipelines are up to date."
    assert copy.tiebench("plan").strip().endswith("In all: nothing to run.")
    path = copy.root / "evals/micro/bigram/runs.csv"
    held = path.read_bytes()
    path.write_bytes(held + b"x")
    assert "evals/micro/bigram was changed" in copy.tiebench("plan")
    path.write_bytes(held)


def reached(edges: dict[str, set[str]], boundaries: frozenset[str]) -> tuple[set[str], set[str]]:
    """Ours, and the libraries, that a script came to import without passing a boundary."""
    ours: set[str] = set()
    libraries: set[str] = set()
    waiting = list(edges["__main__"])
    while waiting:
        name = waiting.pop()
        if name.partition(".")[0] != "tiebench":
            libraries.add(name.partition(".")[0])
        elif name not in ours | boundaries:
            ours.add(name)
            waiting += [name.rpartition(".")[0], *edges.get(name, [])] if "." in name else []
    return ours, libraries


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_imports_is_in_its_code(copy: Tree, stage: str) -> None:
    """What its runs imported in the first test, lazily or not, without passing a boundary."""
    edges: dict[str, set[str]] = {}
    for path in (copy.root / IMPORTS).glob(f"{stage}-*.json"):
        for name, names in json.loads(path.read_text()).items():
            edges.setdefault(name, set()).update(names)
    boundaries = AROUND if stage == "settings" else BOUNDARIES
    ours, libraries = reached(edges, boundaries)
    lines = copy.read(f"code/{stage}.txt").splitlines()
    files = {Path(line.split("  ")[1]).with_suffix("") for line in lines if "  " in line}
    modules = {".".join(x.parts[1:]).removesuffix(".__init__") for x in files}
    assert len(ours) > 5
    assert ours <= modules
    pinned = {line.partition("==")[0].lower() for line in lines if "==" in line}
    third = libraries - sys.stdlib_module_names - WITHOUT_EFFECT
    assert {DISTRIBUTIONS.get(x, x).replace("_", "-") for x in third} <= pinned


def test_metrics_and_plots_are_declared(copy: Tree) -> None:
    assert "encoders.tied.loss" in copy.run("dvc", "metrics", "show")
    for plot in ("training", "retrieval"):
        assert '"detail": {"field": "line"' in copy.run("dvc", "plots", "show", "--show-vega", plot)


@pytest.mark.parametrize(
    ("overrides", "direct", "fed"),
    [
        (
            ("encoders.training.clip=0.5", "word_decoders.training.clip=0.5", "bigram.updates=6"),
            every("pretrain") | WORDS | {"word_forms", "bigram"},
            every(*EVALUATIONS) | {TABLES_OF_WORDS},
        ),
        (
            ("retrieval.pool=30", "labels.home_purposes.minimum=6", "word_forms.minimum=5"),
            every("retrieval") | {"labels@home_purposes", "word_forms"},
            every("transfer"),
        ),
        (
            ("probing.hidden=8", "transfer.epochs=2", "statistics.margins.loss=0.1"),
            every("probing", "transfer"),
            set(),
        ),
        (("corpora.home.valid_share=0.1",), {"prepare@home"}, every(*DATA)),
        (("statistics.margins.loss=0.1",), set(), set()),
    ],
)
def test_changes_rerun_the_cells_they_feed(
    copy: Tree, overrides: tuple[str, ...], direct: set[str], fed: set[str]
) -> None:
    """`--dry` shows the cells whose own settings changed; the plan also those that they feed."""
    copy.tiebench("params", "size=micro", *overrides)
    assert repro(copy, "--dry")[0] - LAST == direct
    code = "from tiebench.plan import plan_cells; print(*(x.address for x in plan_cells() if x.reasons))"
    assert set(copy.run("python", "-c", code).split()) - PASSED == direct | fed | LAST


def test_code_reruns_its_stage_and_a_comment_nothing(copy: Tree) -> None:
    copy.tiebench("params", "size=micro")
    module = copy.root / "src/tiebench/evaluation/retrieval.py"
    before = module.read_bytes()
    found = []
    for added in (b"# A comment.\n", b"UNUSED = 1\n"):
        module.write_bytes(before + added)
        repro(copy, "code")
        found.append(repro(copy, "--dry")[0])
    module.write_bytes(before)
    repro(copy, "code")
    assert found == [set(), every("retrieval") | {"score"}]  # score names the code of every stage


def test_forced_again_the_bytes_are_the_same(copy: Tree) -> None:
    """One cell of each stage, and all that the two last ones write."""
    before, lock = outputs(copy), copy.read("dvc.lock")
    again = cells(*DATA, runs=["tied"], seeds=[0]) | LAST | {
        "prepare@home_words", "labels@home_purposes", "accounting", "word_forms", "bigram",
        "initial_loss", "domains", "sweeps@stability", "evidence@small", TABLES_OF_WORDS,
        "pretrain_decoders@home_small_vocabulary-tied-0", "pretrain_word_decoders@home_words-tied-0",
    }  # fmt: skip
    assert repro(copy, "--force", "--single-item", *sorted(again))[0] == again
    assert outputs(copy) == before
    assert copy.read("dvc.lock") == lock
