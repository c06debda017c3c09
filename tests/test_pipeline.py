"""The whole pipeline at the micro size, once, in a copy of the repository; then what reruns.

The tests share one copy and build on each other, in the order of the file: each starts from the
settings that it writes, and takes the cells of the ones before from the DVC cache.
"""

from __future__ import annotations

import csv
import json
import re
import shutil

import pytest

from tests.conftest import ROOT, Tree, copy_tree

RUNS = ("tied", "untied", "narrow_input_wide_output", "untrained", "untrained_narrow_input")
SEEDS = (0, 1)
FEW = (
    "encoders.seeds=[0]",
    "~encoders.runs.untied",
    "~encoders.runs.narrow_input_wide_output",
    "~encoders.runs.untrained_narrow_input",
)


def pretraining(runs=RUNS, seeds=SEEDS) -> set[str]:
    return {f"pretrain_encoders@home-{run}-{seed}" for run in runs for seed in seeds}


def retrieval(runs=RUNS, seeds=SEEDS, sets=("home",)) -> set[str]:
    return {
        f"retrieval_encoders@{name}-{run}-{seed}" for name in sets for run in runs for seed in seeds
    }


def executed(said: str) -> set[str]:
    """The stages that DVC says it ran, without the two that check and digest."""
    return set(re.findall(r"^Running stage '(.+)':$", said, re.M)) - {"settings", "code"}


def repro(copy: Tree, *arguments: str) -> tuple[set[str], str]:
    """Run `dvc repro`; the stages that it executed, and its output."""
    said = copy.run("dvc", "repro", *arguments)
    return executed(said), said


def outputs(copy: Tree) -> dict[str, bytes]:
    places = ("data", "runs", "evals", "reports/micro")
    files = [x for place in places for x in (copy.root / place).rglob("*") if x.is_file()]
    return {str(x.relative_to(copy.root)): x.read_bytes() for x in files}


def table(copy: Tree, name: str) -> list[dict[str, str]]:
    with (copy.root / "reports/micro/tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


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
    ran, said = repro(copy)
    assert ran == pretraining() | retrieval() | {"prepare@home", "accounting", "score", "report"}
    assert "In all: about" in said
    assert {(x["run"], x["seed"]) for x in table(copy, "language_modeling")} == {
        (run, str(seed)) for run in RUNS for seed in SEEDS
    }
    assert "<html" in copy.read("reports/micro/index.html")
    tracked = copy.run("git", "status", "--porcelain", "--untracked-files=all").split("\n")
    assert {line[3:].split("/")[0] for line in tracked if line} == {
        "conf.lock.yaml", "dvc.lock", "params.yaml", "reports",
    }  # fmt: skip


def test_a_second_time_nothing_runs(copy: Tree) -> None:
    assert "Data and pipelines are up to date" in repro(copy)[1]
    assert copy.run("dvc", "status").strip() == "Data and pipelines are up to date."
    assert copy.tiebench("plan").strip().endswith("In all: nothing to run.")


def test_metrics_and_plots_are_declared(copy: Tree) -> None:
    assert "encoders.tied.loss" in copy.run("dvc", "metrics", "show")
    for plot in ("training", "retrieval"):
        assert '"detail": {"field": "line"' in copy.run("dvc", "plots", "show", "--show-vega", plot)


@pytest.mark.parametrize(
    ("override", "direct", "fed"),
    [
        ("encoders.runs.tied.coupling.std=0.03", pretraining(["tied"]), retrieval(["tied"])),
        ("encoders.training.clip=0.5", pretraining(), retrieval()),
        ("retrieval.pool=30", retrieval(), set()),
        ("corpora.home.valid_share=0.1", {"prepare@home"}, pretraining() | retrieval()),
    ],
)
def test_a_change_reruns_the_cells_it_feeds(
    copy: Tree, override: str, direct: set[str], fed: set[str]
) -> None:
    """`--dry` shows the cells whose own settings changed; the plan also those that they feed."""
    copy.tiebench("params", "size=micro", override)
    assert repro(copy, "--dry")[0] - {"score", "report"} == direct
    code = "from tiebench.plan import plan_cells; print(*(x.address for x in plan_cells() if x.reasons))"
    assert set(copy.run("python", "-c", code).split()) == direct | fed | {"score", "report"}


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
    assert found == [set(), retrieval() | {"score"}]  # score names the code of every stage


def test_one_changed_run_reruns_its_cells_only(copy: Tree) -> None:
    copy.tiebench("params", "size=micro", "encoders.runs.untied.coupling.std=0.03")
    before = outputs(copy)
    assert repro(copy)[0] == pretraining(["untied"]) | retrieval(["untied"]) | {"score", "report"}
    after = outputs(copy)
    changed = {x for x in after if after[x] != before[x] and x.startswith(("runs", "evals"))}
    assert "runs/micro/encoders/untied-s0/model.safetensors" in changed
    assert all("untied-s" in x for x in changed)


def test_dropped_runs_and_seeds_shrink_the_report(copy: Tree) -> None:
    copy.tiebench("params", "size=micro", *FEW)
    assert repro(copy)[0] == {"score", "report"}
    for name in ("language_modeling", "retrieval", "learning_curves"):
        assert {(x["run"], x["seed"]) for x in table(copy, name)} == {
            ("tied", "0"),
            ("untrained", "0"),
        }
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
    before, lock = outputs(copy), copy.read("dvc.lock")
    few = (["tied", "untrained"], [0])
    assert repro(copy, "--force")[0] == pretraining(*few) | retrieval(*few) | {
        "prepare@home", "accounting", "score", "report",
    }  # fmt: skip
    assert outputs(copy) == before
    assert copy.read("dvc.lock") == lock


def test_changed_evaluation_and_corpus_run_what_they_feed(copy: Tree) -> None:
    few = (["tied", "untrained"], [0])
    said = copy.run("dvc", "exp", "run", "--no-hydra", "-S", "retrieval.pool=30")
    assert executed(said) == retrieval(*few) | {"score", "report"}
    assert "pool: 30" in copy.read("params.yaml")  # and the dropped runs are still dropped
    copy.edit("params.yaml", "valid_share: 0.05", "valid_share: 0.1")
    everything = {"prepare@home"} | pretraining(*few) | retrieval(*few) | {"score", "report"}
    assert repro(copy)[0] == everything


def test_an_added_seed_runs_its_cells_only(copy: Tree) -> None:
    copy.tiebench("params", "size=micro", *FEW, "encoders.seeds=[0,2]")
    added = (["tied", "untrained"], [2])
    assert repro(copy)[0] == pretraining(*added) | retrieval(*added) | {"score", "report"}
    assert {x["seed"] for x in table(copy, "language_modeling")} == {"0", "2"}


def test_exp_run_composes_and_takes_known_cells_from_the_cache(copy: Tree) -> None:
    said = copy.run("dvc", "exp", "run", "-S", "size=micro")
    assert not re.search(r"^Running stage '(prepare|pretrain|retrieval)", said, re.M)
    assert copy.tiebench("params", "size=micro") == "no key changed\n"
    assert {(x["run"], x["seed"]) for x in table(copy, "language_modeling")} == {
        (run, str(seed)) for run in RUNS for seed in SEEDS
    }


def snippet(copy: Tree, marker: str) -> set[str]:
    """Run a block of README.md, with one seed; the stages that it executed."""
    block = readme(marker).replace("size=micro", "size=micro encoders.seeds=[0]")
    return executed(copy.run("bash", "-euc", block))


def test_readme_adds_a_run(copy: Tree) -> None:
    new = (["tanh_head"], [0])
    assert snippet(copy, "add-run") == pretraining(*new) | retrieval(*new) | {"score", "report"}
    assert "tanh_head" in {x["run"] for x in table(copy, "language_modeling")}


def test_readme_adds_a_corpus(copy: Tree) -> None:
    new = retrieval(seeds=[0], sets=["swedish"])
    assert snippet(copy, "add-corpus") == {"prepare@swedish", *new, "score", "report"}
    assert {x["target"] for x in table(copy, "retrieval") if x["set"] == "swedish"} == {"en", "sv"}


def test_readme_adds_a_task(copy: Tree) -> None:
    assert snippet(copy, "add-task") == retrieval(seeds=[0]) | {"score", "report"}
    assert {(x["distance"], x["offset"]) for x in table(copy, "retrieval")} == {("cosine", "none")}
