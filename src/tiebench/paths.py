"""Where each artefact lives, relative to the working folder (the repository's root)."""

from __future__ import annotations

import os
from pathlib import Path

PARAMS = Path("params.yaml")
SCRATCH = Path(".scratch")
EXTERNAL = Path("external")
IMPORTED = "imported"
"""The section of params.yaml that names imported models; they stand where a family of runs does."""
RECURRENT = "recurrent"
"""The section of the family that reads one stream of words."""
EVALUATED = frozenset({"encoders", IMPORTED})
"""Families whose models are searched for translations, probed and fine-tuned."""


def corpus_folder(corpus: str) -> Path:
    """The prepared corpus: tokenizer, token files, held-out sentences, meta.json."""
    return Path("data") / corpus


def labels_folder(labels: str) -> Path:
    """A prepared label set: examples with labels by part, the surface baseline, meta.json."""
    return Path("labels") / labels


def cell_name(run: str, seed: int) -> str:
    """The name of a run and seed, as in `tied-s0`."""
    return f"{run}-s{seed}"


def run_folder(name: str, family: str, run: str, seed: int) -> Path:
    """A pretrained model with its training record; an imported one is the same for all seeds."""
    return Path("runs") / name / family / (run if family == IMPORTED else cell_name(run, seed))


def evaluation_folder(name: str, task: str) -> Path:
    """The outcomes of one evaluation task; a folder per cell, or the folder of a single stage."""
    return Path("evals") / name / task


def outcome_folder(name: str, task: str, family: str, run: str, seed: int, data: str) -> Path:
    """The outcomes of one model in one task (`retrieval`, `probing`, `transfer`) on one corpus or
    label set."""
    return evaluation_folder(name, task) / family / f"{data}-{cell_name(run, seed)}"


def evidence_folder(name: str, report: str) -> Path:
    """Tables of another report that claims are decided from."""
    return evaluation_folder(name, "evidence") / report


def report_folder(name: str) -> Path:
    """What a run regenerated: tables, figures, page."""
    return Path("reports") / name


def log_folder(name: str) -> Path:
    """Side files (times, host): nothing depends on them and git ignores them."""
    return Path("logs") / name


def cache_folder() -> Path:
    """Downloads, keyed by sha256; `TIEBENCH_CACHE` overrides ~/.cache/tiebench."""
    override = os.environ.get("TIEBENCH_CACHE")
    return Path(override) if override else Path.home() / ".cache" / "tiebench"
