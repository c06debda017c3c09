"""The pipeline against its budgets, in copies of the project, offline, wall-clock time.

- Preparing the default corpus: `python stages/prepare.py home` with the default settings, from the
  pinned package in the cache (`make setup` puts it there) to the corpus folder.
- `dvc repro` of the default size when nothing has changed. The default study takes an hour, so that
  its outputs are stand-ins here: `tiebench params`, the stages `settings` and `code` as they are,
  then a file of one line for every output, in folders of FILES files, which `dvc commit` records.
  What DVC does afterwards is the same for them, since it knows an unchanged file by its time and
  size and does not read it.
- The micro pipeline from nothing: scripts/micro, as `make micro` runs it after its set-up.
- `dvc repro` in the copy that the micro pipeline has just left: true outputs, nothing changed.

The peer of each is its budget in seconds; the ratio is the share of it that was used.

Run: python benchmarks/pipeline.py [--skip-micro]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dvc.repo import Repo

from support.results import record

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = {"prepare": 60.0, "nothing to do": 10.0, "micro": 300.0}
"""In seconds."""
FILES = 8
"""In every folder of outputs that stands in for a true one: more than most have."""
UP_TO_DATE = "Data and pipelines are up to date."


def copy_project(folder: Path) -> None:
    """Copy what git would commit, and make a repository of it, as DVC needs one."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout  # fmt: skip
    for name in filter(None, listing.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "dvc.lock").unlink(missing_ok=True)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)


def run(folder: Path, *command: str, **environment: str) -> tuple[float, str]:
    """Seconds of a command in a copy, which uses the copy's code; and what it printed.

    Raises:
        SystemExit: the command failed.
    """
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "DVC_NO_ANALYTICS": "1"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    start = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env={**os.environ, **offline, "PATH": path, "PYTHONPATH": f"{folder}/src", **environment},
    )  # fmt: skip
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return seconds, done.stdout


def stand_in(folder: Path) -> int:
    """Make every output that is not there, with what the stages read in it; count the stages."""
    stages = Repo(str(folder)).index.stages
    read = {folder / dep.def_path for stage in stages for dep in stage.deps}
    written = {folder / out.def_path for stage in stages for out in stage.outs}
    for path in sorted(written):
        if path.exists():
            continue
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{path.name}\n", "utf-8")
            continue
        inside = {x for x in read if path in x.parents and x not in written}
        inside |= {path / f"{number}.txt" for number in range(FILES - len(inside))}
        for file in inside:
            if file.suffix:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"{file.relative_to(folder)}\n", "utf-8")
            else:
                file.mkdir(parents=True, exist_ok=True)
                (file / "one.txt").write_text(f"{file.relative_to(folder)}\n", "utf-8")
    return len(stages)


def nothing_to_do(folder: Path) -> float:
    """Seconds of `dvc repro` that finds all up to date.

    Raises:
        SystemExit: it found something to run.
    """
    seconds, said = run(folder, "dvc", "repro")
    if UP_TO_DATE not in said or "Running stage" in said:
        sys.exit(f"error: `dvc repro` found something to run in a finished pipeline:\n{said}")
    return seconds


def budget(name: str, seconds: float, of: str) -> None:
    """Record seconds against a budget."""
    record(f"{name}, against its budget", seconds, BUDGETS[of], "s", "at most 1")


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--skip-micro", action="store_true", help="leave out the micro pipeline")
    skip_micro = parser.parse_args().skip_micro
    with tempfile.TemporaryDirectory(prefix="tiebench-bench.") as name:
        folder = Path(name)
        copy_project(folder)
        run(folder, "python", "-m", "tiebench", "params")
        seconds, _ = run(folder, "python", "stages/prepare.py", "home")
        budget("preparing the default corpus", seconds, "prepare")
        for stage in ("code", "settings"):
            run(folder, "python", f"stages/{stage}.py")
        stages = stand_in(folder)
        run(folder, "dvc", "commit", "--force")
        budget(
            f"`dvc repro` of the default size when nothing has changed, {stages} stages with "
            "stand-ins for the outputs",
            nothing_to_do(folder),
            "nothing to do",
        )
    if skip_micro:
        return
    with tempfile.TemporaryDirectory(prefix="tiebench-bench.") as name:
        seconds, _ = run(ROOT, "scripts/micro", TMPDIR=name)
        budget("the micro pipeline from nothing", seconds, "micro")
        [folder] = Path(name).glob("tiebench-micro.*")
        seconds = nothing_to_do(folder)
        budget("`dvc repro` of the micro size when nothing has changed", seconds, "nothing to do")


if __name__ == "__main__":
    main()
