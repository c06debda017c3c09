"""What `dvc repro` would run, why, and for about how long.

DVC itself knows only what it has run: a changed setting shows in the stages below once those above
it are done. Here dvc.lock is compared with params.yaml and with the code as it is, and a cell whose
input would be made anew counts as one that runs, although an equal input will spare it.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from statistics import median
from typing import TYPE_CHECKING, Any

from tiebench.digests import digest_text
from tiebench.errors import DataError
from tiebench.experiments.sweep_settings import FAMILY, trial
from tiebench.files import read_json
from tiebench.paths import IMPORTED, PARAMS, corpus_folder, log_folder
from tiebench.settings import (
    FamilySettings,
    Params,
    RecurrentFamilySettings,
    all_groups,
    families,
    read_params,
)
from tiebench.training.flops import recurrent_flops, training_flops

if TYPE_CHECKING:
    from dvc.repo import Repo
    from dvc.stage import Stage

PREPARATORY = ("settings", "code")
"""Stages that check and digest: always quick, and their outputs stand for what is compared here."""
ABSENT = object()
CODE_FOLDER = "code"
SOURCES = ("params.yaml", "requirements.lock", "claims", "reports")
"""What stages depend on and none makes; of reports, those of another name."""
BIGRAM = "stages/bigram.py"
SWEEP = "stages/sweep.py"
PRETRAIN = "stages/pretrain.py"
"""The script of the stages that train; family, run and seed follow it."""
CELL_SECONDS = 10.0
"""A guess: what a cell takes beside pretraining (start of the process, DVC, reading, writing)."""
TASK_SECONDS = {
    "stages/domains.py": 60.0, "stages/probing.py": 15.0, "stages/tables.py": 60.0,
    "stages/transfer.py": 25.0,
}  # fmt: skip
"""A guess: the same for cells that train something small themselves."""
TRAINING_EFFICIENCY = 0.5
"""A guess: the rate of training small models as a share of the rate of a matrix product."""


@dataclass(frozen=True)
class Cell:
    """One execution of a stage: its address, its stage, the words of its command, and why it would
    run (empty: it would not)."""

    address: str
    stage: str
    command: tuple[str, ...]
    reasons: tuple[str, ...]


class Places:
    """Outputs by path, to look up those at a path, above it or below it."""

    def __init__(self) -> None:
        self._at: dict[PurePosixPath, list[str]] = defaultdict(list)
        self._below: dict[PurePosixPath, list[str]] = defaultdict(list)

    def add(self, path: str, stage: str) -> None:
        """Add an output and the stage that makes it."""
        place = PurePosixPath(path)
        self._at[place].append(stage)
        for above in place.parents:
            self._below[above].append(stage)

    def overlapping(self, path: PurePosixPath | str) -> list[str]:
        """The stages whose outputs hold a path or lie below it."""
        place = PurePosixPath(path)
        held = [name for x in (place, *place.parents) for name in self._at.get(x, ())]
        return held + self._below.get(place, [])


def plan_cells(root: Path = Path()) -> list[Cell]:
    """All cells of the pipeline, upstream first, but those that only check and digest."""
    from dvc.repo import Repo

    remade = Places()
    digests: dict[str, str] = {}
    params = read_params(root / PARAMS)  # once: DVC reads it for every stage
    cells = []
    with Repo(str(root)) as repo:
        for stage in _in_order(repo):
            name, _, _ = stage.addressing.partition("@")
            if name in PREPARATORY:
                continue
            reasons = dict.fromkeys(_reasons(repo, stage, root, params, remade, digests))
            if reasons:
                for out in stage.outs:
                    remade.add(out.def_path, stage.addressing)
            cells.append(Cell(stage.addressing, name, tuple(stage.cmd.split()), tuple(reasons)))
    return cells


def describe_plan(params: Params, root: Path = Path()) -> str:
    """The plan as text: cells by stage, why they run, and an estimate of the time."""
    cells = plan_cells(root)
    lines, total = [f"What dvc repro runs for the report {params.name!r}:"], 0.0
    rates: dict[str, float] = {}
    for stage in dict.fromkeys(cell.stage for cell in cells):
        of_stage = [cell for cell in cells if cell.stage == stage]
        running = [cell for cell in of_stage if cell.reasons]
        line = f"  {stage:<20}{len(running):>4} of {len(of_stage)} cells"
        if running:
            seconds = sum(TASK_SECONDS.get(x.command[1], CELL_SECONDS) for x in running)
            operations = sum(_operations(params, cell) for cell in running)
            if operations:
                family = _family(running[0])
                if family not in rates:
                    rates[family] = measure_rate(params, family)
                seconds += operations / rates[family]
            total += seconds
            reasons = list(dict.fromkeys(reason for cell in running for reason in cell.reasons))
            shown = "; ".join(reasons[:4]) + ("; ..." if len(reasons) > 4 else "")
            line += f", about {_duration(seconds)} ({shown})"
        lines.append(line)
    if any(cell.stage.endswith(IMPORTED) and cell.reasons for cell in cells):
        lines.append("  Imported models take longer the larger they are: more than is said here.")
    if rates:
        said: dict[str, list[str]] = {}
        for family, rate in rates.items():
            said.setdefault(f"{rate / 1e9:,.1f}", []).append(family)
        told = ", ".join(f"{rate} ({', '.join(names)})" for rate, names in said.items())
        lines.append(f"  Training is estimated at these GFLOP/s on this machine: {told}.")
    lines.append(f"  In all: about {_duration(total)}." if total else "  In all: nothing to run.")
    return "\n".join(lines)


def measure_rate(params: Params, family: str) -> float:
    """Floating-point operations per second to expect in the training of a family.

    From the side files of its earlier runs in this report, else of all runs of the report, else
    from a short matrix product.

    Raises:
        DataError: a side file that is damaged.
    """
    held: dict[Path, float] = {}
    for path in sorted((log_folder(params.name) / "pretrain").glob("*.json")):
        mend = f"delete {path}"
        rate = read_json(path, mend=mend).get("flops_per_second")
        if isinstance(rate, int | float) and rate > 0:
            held[path] = float(rate)
        elif rate:
            raise DataError(
                path, found=f"flops_per_second {rate!r}", expected="a number", mend=mend
            )
    own = [rate for path, rate in held.items() if path.name.startswith(f"{family}-")]
    rates = own or list(held.values())
    return median(rates) if rates else _product_rate()


@cache
def _product_rate() -> float:
    import torch

    from tiebench.runtime import prepare_runtime

    device = prepare_runtime()
    matrix = torch.ones(1024, 1024, device=device)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        float((matrix @ matrix)[0, 0])
        best = min(best, time.perf_counter() - start)
    return 2 * 1024**3 / best * TRAINING_EFFICIENCY


def _in_order(repo: Repo) -> Iterator[Stage]:
    """The stages of the pipeline, each after those that make its inputs."""
    waiting = {stage.addressing: stage for stage in repo.index.stages}
    makers = Places()
    for name, stage in waiting.items():
        for out in stage.outs:
            makers.add(out.def_path, name)
    done: set[str] = set()

    def visit(name: str) -> Iterator[Stage]:
        if name in done:
            return
        done.add(name)
        for dep in waiting[name].deps:
            for maker in makers.overlapping(dep.def_path):
                yield from visit(maker)
        yield waiting[name]

    for name in list(waiting):
        yield from visit(name)


def _reasons(
    repo: Repo,
    stage: Stage,
    root: Path,
    params: Mapping[str, Any],
    remade: Places,
    digests: dict[str, str],
) -> Iterator[str]:
    if not any(out.hash_info for out in stage.outs):
        yield "not run before"
        return
    if stage.cmd_changed:
        yield "another command"
    for dep in stage.params:
        recorded = dep.hash_info.value or {}
        yield from sorted(x for x in dep.params if recorded.get(x, ABSENT) != _value(params, x))
    parameters = set(map(id, stage.params))
    for dep in stage.deps:
        path = PurePosixPath(dep.def_path)
        if id(dep) in parameters:
            continue
        if path.parts[0] == CODE_FOLDER:
            if path.stem not in digests:
                text = digest_text(path.stem, root.resolve())
                digests[path.stem] = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
            if dep.hash_info.value != digests[path.stem]:
                yield "its code"
        elif remade.overlapping(path):
            yield "its input"
        elif path.parts[0] in SOURCES and dep.changed_checksum():
            yield str(path)
    for out in stage.outs:
        if not out.exists and not (out.use_cache and _in_cache(repo, out)):
            yield f"{out.def_path} is missing"
        elif out.exists and out.changed_checksum():
            yield f"{out.def_path} was changed"


def _in_cache(repo: Repo, out: Any) -> bool:
    return Path(repo.cache.local.oid_to_path(out.hash_info.value)).exists()


def _value(params: Mapping[str, Any], key: str) -> Any:
    """The value of a dotted key, or ABSENT."""
    found: Any = params
    for part in key.split("."):
        found = found.get(part, ABSENT) if isinstance(found, dict) else ABSENT
    return found


def _family(cell: Cell) -> str:
    """Whose models a cell trains, or the stage where they are of no family."""
    if PRETRAIN in cell.command:
        return cell.command[2]
    return FAMILY if SWEEP in cell.command else cell.stage


def _operations(params: Params, cell: Cell) -> float:
    """Floating-point operations of a cell that trains; 0 for others and for untrained runs."""
    if BIGRAM in cell.command and params.bigram is not None:
        return params.bigram.operations()
    if SWEEP in cell.command:
        return _sweep_operations(params, cell.command[-1])
    if PRETRAIN not in cell.command:
        return 0.0
    _, _, name, run, _ = cell.command
    group = all_groups(params)[name]
    tokenizer = params.corpora[group.corpus].tokenizer
    if tokenizer is None or not group.all_runs[run].trained:
        return 0.0
    coupling, body = group.all_runs[run].coupling, group.body_of(run)
    if isinstance(group, RecurrentFamilySettings):
        training, length = group.training_of(run), _training_tokens(params, group.corpus)
        tokens = round(training.epochs * training.data_share * length)
        steps = tokens // (training.batch_size * training.sequence_length)
        return recurrent_flops(coupling, body, tokenizer.vocabulary, training, tokens, steps)
    assert isinstance(group, FamilySettings), "the other kind"
    return training_flops(coupling, body, tokenizer.vocabulary, group.training_of(run))


def _training_tokens(params: Params, corpus: str) -> int:
    """How long a text of one language is; before it is prepared, as kept, as published or 0."""
    held, path = params.corpora[corpus], corpus_folder(corpus) / "meta.json"
    if held.kept is not None:
        return held.kept.train
    if held.published is not None:
        return held.published.train.tokens
    if not path.is_file():
        return 0
    counts = read_json(path, mend=f"delete {path.parent} and run `dvc repro`")["train"]
    return sum(int(part["tokens"]) for part in counts.values())


def _sweep_operations(params: Params, name: str) -> float:
    family, sweep = families(params)[FAMILY], params.sweeps[name]
    tokenizer = params.corpora[family.corpus].tokenizer
    assert tokenizer is not None, "checked with the settings"
    trials = [trial(family, sweep, run, point) for run in sweep.runs for point in sweep.points()]
    return len(sweep.seeds) * sum(
        training_flops(x.coupling, x.body, tokenizer.vocabulary, x.training) for x in trials
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
