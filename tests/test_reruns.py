"""What a change of settings reruns, in a finished copy of the pipeline at the micro size.

The tests share one copy and build on each other, in the order of the file: each starts from the
settings that it writes, and takes the cells of the ones before from the DVC cache.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.conftest import ROOT, Tree
from tests.foreign import write_bert, write_llama
from tests.pipeline import (
    ALL_CELLS,
    DATA,
    EVALUATIONS,
    FEW,
    LAST,
    LEFT,
    NO_MATCHED,
    cells,
    executed,
    finished_copy,
    held_cells,
    left,
    outputs,
    repro,
    table,
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return finished_copy(tmp_path_factory)[0]


def readme(marker: str) -> str:
    """The shell block of README.md that follows a marker."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"<!-- test: {marker} -->\n```bash\n(.*?)```", text, re.S)
    assert found, f"README.md has no block marked {marker}"
    assert len(found[1].splitlines()) <= 12
    return found[1]


def test_one_changed_run_reruns_its_cells_only(copy: Tree) -> None:
    copy.tiebench("params", "size=micro", "encoders.runs.untied.coupling.std=0.03")
    before = outputs(copy)
    assert repro(copy)[0] == cells(*DATA, runs=["untied"]) | LAST
    after = outputs(copy)
    changed = {x for x in after if after[x] != before[x] and x.startswith(("runs", "evals"))}
    changed -= {x for x in changed if x.startswith("evals/micro/tables/encoders/")}  # of all runs
    assert "runs/micro/encoders/untied-s0/model.safetensors" in changed
    assert all("untied-s" in x for x in changed)


def test_dropped_runs_and_seeds_shrink_the_report(copy: Tree) -> None:
    copy.tiebench("params", "size=micro", *FEW)
    assert repro(copy)[0] == LAST
    for name in ("language_modeling", "retrieval", "probing", "transfer", "learning_curves"):
        assert held_cells(copy, name) == {("tied", "0"), ("untrained", "0")}
    assert set(json.loads(copy.read("reports/micro/metrics.json"))["encoders"]) == {
        "tied",
        "untrained",
    }
    strays = copy.tiebench("prune")
    assert "runs/micro/encoders/tied-s1\n" in strays
    assert "evals/micro/retrieval/encoders/home-untied-s0\n" in strays


def test_score_alone_names_missing_and_stray_cells(copy: Tree) -> None:
    cell, aside = copy.root / "runs/micro/encoders/tied-s0", copy.root / "tied-s0"
    said = copy.run("python", "stages/score.py")
    assert "tied-s1" in said
    assert "untied-s0" in said
    for folder in (cell, copy.root / "evals/micro/retrieval/encoders/home-tied-s0"):
        shutil.move(folder, aside)
        said = copy.run("python", "stages/score.py", fails=True)
        assert str(folder.relative_to(copy.root)) in said
        assert "dvc repro " in said
        shutil.move(aside, folder)


def test_a_changed_evaluation_runs_what_it_feeds(copy: Tree) -> None:
    said = copy.run("dvc", "exp", "run", "--no-hydra", "-S", "retrieval.pool=30")
    assert executed(said) == left("retrieval") | LAST
    assert "pool: 30" in copy.read("params.yaml")  # and the dropped runs are still dropped


def test_an_added_seed_runs_its_cells_only(copy: Tree) -> None:
    copy.tiebench("params", "size=micro", *FEW, "encoders.seeds=[0,2]")
    assert repro(copy)[0] == cells(*DATA, runs=LEFT[0], seeds=[2]) | LAST
    assert {x["seed"] for x in table(copy, "language_modeling")} == {"0", "2"}


def test_exp_run_composes_and_takes_known_cells_from_the_cache(copy: Tree) -> None:
    said = copy.run("dvc", "exp", "run", "-S", "size=micro")
    assert not re.search(
        r"^Running stage '(prepare|labels|pretrain|retrieval|probing|transfer)", said, re.M
    )
    assert copy.tiebench("params", "size=micro") == "no key changed\n"
    assert held_cells(copy) == ALL_CELLS


def snippet(copy: Tree, marker: str) -> set[str]:
    """Run a block of README.md, with one seed; the stages that it executed."""
    few = " ".join(["encoders.seeds=[0]", *(f"'{x}'" for x in NO_MATCHED)])
    block = readme(marker).replace("size=micro", f"size=micro {few}")
    return executed(copy.run("bash", "-euc", block))


def test_readme_adds_a_run(copy: Tree) -> None:
    assert snippet(copy, "add-run") == cells(*DATA, runs=["tanh_head"], seeds=[0]) | LAST
    assert "tanh_head" in {x["run"] for x in table(copy, "language_modeling")}


def test_readme_adds_a_corpus(copy: Tree) -> None:
    new = cells("retrieval", seeds=[0], data="swedish")
    assert snippet(copy, "add-corpus") == {"prepare@swedish", *new, "score", "report"}
    assert {x["target"] for x in table(copy, "retrieval") if x["set"] == "swedish"} == {"en", "sv"}


def test_readme_adds_a_task(copy: Tree) -> None:
    assert snippet(copy, "add-task") == cells("retrieval", seeds=[0]) | LAST
    assert {(x["distance"], x["offset"]) for x in table(copy, "retrieval")} == {("cosine", "none")}


def test_imported_models_are_evaluated_beside_the_runs(copy: Tree) -> None:
    write_bert(copy.root / "external" / "tiny_bert")
    write_llama(copy.root / "external" / "tiny_llama")
    models = ("bert", "llama")
    chosen = [f"+imported.models.{x}.folder=tiny_{x}" for x in models]
    copy.tiebench("params", "size=micro", *FEW, *chosen)
    evaluated = {
        f"{task}_imported@{DATA[task]}-{model}-0" for task in EVALUATIONS for model in models
    }
    ran, said = repro(copy)
    assert ran == {f"imported@{model}" for model in models} | evaluated | LAST
    assert "Imported models take longer the larger they are" in said
    for name in EVALUATIONS:
        held = {(x["family"], x["run"]) for x in table(copy, name)}
        assert held == {("encoders", x) for x in LEFT[0]} | {("imported", x) for x in models}
    assert [x["architecture"] for x in table(copy, "imported")] == [
        "BertForMaskedLM", "LlamaForCausalLM",
    ]  # fmt: skip
    assert 'id="imported"' in copy.read("reports/micro/index.html")
