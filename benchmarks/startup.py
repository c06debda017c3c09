"""Start-up of a stage that runs a model, against the libraries that it cannot do without.

Ours: a process that imports all that stages/pretrain.py or stages/retrieval.py imports, without
running it, and what their functions import later (LATER). The peer: a process that imports torch
and pyarrow.parquet. Every cell of a study pays for it once. Left out on both sides is pandas, which
pyarrow itself imports when it first makes a table of Python values.

What counts is the processor time of the process, user and system, from start to end, as the system
charges it to a child that has ended: it does not grow while another process has the processor. The
processes take turns; the median of each, after one turn that fills the caches.

Run: python benchmarks/startup.py [--turns N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

from support.results import record

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("pretrain", "retrieval")
LATER = "omegaconf, tokenizers, pyarrow.parquet"
"""Modules that functions of these stages import when they are called."""
PEER = "import torch, pyarrow.parquet"


def program(stage: str) -> str:
    """Python code that imports what a stage imports."""
    return f"import runpy; runpy.run_path('stages/{stage}.py', run_name='stage'); import {LATER}"


def processor_seconds(code: str) -> float:
    """User and system time of a Python process that runs `code` in the project's folder."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    after = os.times()
    return sum(
        getattr(after, kind) - getattr(before, kind)
        for kind in ("children_user", "children_system")
    )


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7, help="processes of each kind")
    turns = parser.parse_args().turns
    programs = {"peer": PEER} | {stage: program(stage) for stage in STAGES}
    taken: dict[str, list[float]] = defaultdict(list)
    for turn in range(turns + 1):
        for name, code in programs.items():
            seconds = processor_seconds(code)
            if turn:
                taken[name].append(seconds)
    seconds = {name: median(values) for name, values in taken.items()}
    for stage in STAGES:
        record(
            f"start-up of stages/{stage}.py, against `{PEER}`, processor time",
            seconds[stage],
            seconds["peer"],
            "s",
            "at most 1.4",
        )


if __name__ == "__main__":
    main()
