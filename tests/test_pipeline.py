"""The whole pipeline at the micro size, once, in a copy of the repository; then what reruns.

The tests share one copy and build on each other, in the order of the file: each starts from the
settings that it writes, and takes the cells of the ones before from the DVC cache.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, Tree, copy_tree
from tests.foreign import write_bert, write_llama
from tiebench.digests import BOUNDARIES, DISTRIBUTIONS, NOT_DIGESTED, WITHOUT_EFFECT

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
SWEEPS = {f"sweeps@{name}" for name in ("pilot", "stability", "regularization", "underflow")}
TABLES_OF_WORDS = "tables_word_decoders@home_words"
BESIDE = {
    "prepare@home_words", "prepare@home_small_vocabulary", *WORDS, *DECODERS, *SWEEPS,
    "word_forms", "bigram", "initial_loss", "domains", "tables_decoders@home_small_vocabulary",
    TABLES_OF_WORDS,
}  # fmt: skip
"""Stages that no setting of the encoders or of their tasks reruns."""
PASSED = {"settings", "code", "tables_encoders@home"}
LAST = {"score", "report"}
STAGES = sorted({x.stem for x in (ROOT / "stages").glob("*.py")} - NOT_DIGESTED - {"import_model"})
"""The scripts that the micro size runs, which has no model from elsewhere."""
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


def readme(marker: str) -> str:
    """The shell block of README.md that follows a marker."""
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"<!-- test: {marker} -->\n```bash\n(.*?)```", text, re.S)
    assert found, f"README.md has no block marked {marker}"
    assert len(found[1].splitlines()) <= 12
    return found[1]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy of the tree with its own, empty DVC cache, set to the micro size."""
    made = Tree(copy_tree(tmp_path_factory.mktemp("tree")))
    (made.root / "dvc.lock").unlink(missing_ok=True)
    made.run("git", "add", "--all")
    made.run("git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "copy")
    made.tiebench("params", "size=micro")
    return made


def test_the_whole_pipeline_runs_offline_from_nothing(copy: Tree) -> None:
    (copy.root / IMPORTS).mkdir(parents=True)
    ran, said = repro(copy, TESTS_RECORD_IMPORTS=str(copy.root / IMPORTS))
    assert ran == every(*DATA) | BESIDE | LAST | {
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
    boundaries = frozenset({"tiebench.digests"}) if stage == "settings" else BOUNDARIES
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
    ("override", "direct", "fed"),
    [
        ("encoders.training.clip=0.5", every("pretrain"), every(*EVALUATIONS)),
        ("retrieval.pool=30", every("retrieval"), set()),
        ("probing.hidden=8", every("probing"), set()),
        ("transfer.epochs=2", every("transfer"), set()),
        ("labels.home_purposes.minimum=6", {"labels@home_purposes"}, every("transfer")),
        ("statistics.margins.loss=0.1", set(), set()),
        ("word_decoders.training.clip=0.5", {*WORDS, "word_forms"}, {TABLES_OF_WORDS}),
        ("word_forms.minimum=5", {"word_forms"}, set()),
        ("bigram.updates=6", {"bigram"}, set()),
        ("corpora.home.valid_share=0.1", {"prepare@home"}, every(*DATA)),
    ],
)
def test_a_change_reruns_the_cells_it_feeds(
    copy: Tree, override: str, direct: set[str], fed: set[str]
) -> None:
    """`--dry` shows the cells whose own settings changed; the plan also those that they feed."""
    copy.tiebench("params", "size=micro", override)
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
