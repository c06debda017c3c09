"""The cells that params.yaml names: where each one's artefacts are, and what else lies there."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench import paths
from tiebench.errors import DataError
from tiebench.files import read_json
from tiebench.settings import Params, families

SEARCHED = frozenset({"encoders"})
"""Families whose models are searched for translations."""
METRICS_KEYS = frozenset(
    {"objective", "seed", "steps", "tokens", "train_flops", "parameters", "validation"}
)
VALIDATION_KEYS = frozenset(
    {
        "loss", "accuracy", "predicted_tokens", "initial_loss", "unigram_loss", "bits_per_byte",
        "by_language", "by_frequency",
    }
)  # fmt: skip
HISTORY_COLUMNS = frozenset(
    {"step", "tokens", "loss", "learning_rate", "gradient_norm", "validation_loss"}
)
OUTCOME_COLUMNS = (
    "set", "source", "target", "layer", "distance", "offset", "index",
    "rank", "credit", "shares_token", "seen_in_training",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One run of a family with one seed."""

    report: str
    family: str
    corpus: str
    run: str
    seed: int

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return paths.run_folder(self.report, self.family, self.run, self.seed)

    @property
    def pretrain(self) -> str:
        """The command that makes it."""
        return f"dvc repro pretrain_{self.family}@{self.corpus}-{self.run}-{self.seed}"

    def outcomes(self, name: str) -> Path:
        """The outcomes of its retrieval on the corpus `name`."""
        folder = paths.retrieval_folder(self.report, self.family, self.run, self.seed, name)
        return folder / "outcomes.parquet"

    def search(self, name: str) -> dict[str, int]:
        """The summary.json of its retrieval on the corpus `name`.

        Raises:
            DataError: missing or damaged.
        """
        mend = f"run `dvc repro retrieval_{self.family}@{name}-{self.run}-{self.seed}`"
        held: dict[str, int] = read_json(self.outcomes(name).parent / "summary.json", mend=mend)
        return held

    def metrics(self) -> dict[str, Any]:
        """Its metrics.json.

        Raises:
            DataError: missing, damaged, without a key, or of another seed.
        """
        path = self.folder / "metrics.json"
        held: dict[str, Any] = read_json(path, mend=f"run `{self.pretrain}`")
        lacking = sorted(METRICS_KEYS - held.keys())
        if not lacking:
            validation = held["validation"] if isinstance(held["validation"], dict) else {}
            lacking = [f"validation.{key}" for key in sorted(VALIDATION_KEYS - validation.keys())]
        if lacking or held["seed"] != self.seed:
            raise DataError(
                path,
                found=f"no key {lacking[0]!r}" if lacking else f"seed {held['seed']}",
                expected="the metrics of a run" if lacking else f"seed {self.seed}",
                mend=f"run `dvc repro -f -s {self.pretrain.removeprefix('dvc repro ')}`",
            )
        return held

    def history(self) -> list[dict[str, str]]:
        """Rows of its history.csv, all cells as text.

        Raises:
            DataError: missing, with other columns, or cut short.
        """
        path = self.folder / "history.csv"
        mend = f"run `{self.pretrain}`"
        try:
            with path.open(encoding="utf-8", newline="") as file:
                reader = csv.DictReader(file)
                rows = list(reader)
        except FileNotFoundError:
            raise DataError(path, found="no such file", expected="a CSV", mend=mend) from None
        lacking = sorted(HISTORY_COLUMNS - set(reader.fieldnames or ()))
        if lacking:
            raise DataError(
                path, found=f"no column {lacking[0]!r}", expected="a training history", mend=mend
            )
        steps = str(self.metrics()["steps"])
        ends = rows[-1]["step"] if rows and None not in rows[-1].values() else "a row cut short"
        if ends != steps:
            raise DataError(
                path,
                found=f"a history that ends at {ends}",
                expected=f"one that ends at step {steps}",
                mend=f"run `dvc repro -f -s {self.pretrain.removeprefix('dvc repro ')}`",
            )
        return rows


def cells(params: Params) -> Iterator[Cell]:
    """Every cell, in the order of params.yaml."""
    for family, group in families(params).items():
        for run in group.runs:
            for seed in group.seeds:
                yield Cell(params.name, family, group.corpus, run, seed)


def read_outcomes(cell: Cell, name: str) -> Any:
    """The retrieval outcomes of a cell on the corpus `name`, a pyarrow table.

    Raises:
        DataError: missing, damaged, without a column, or empty.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = cell.outcomes(name)
    mend = f"run `dvc repro retrieval_{cell.family}@{name}-{cell.run}-{cell.seed}`"
    if not path.exists():
        raise DataError(path, found="no such file", expected="retrieval outcomes", mend=mend)
    try:
        present = set(parquet.read_schema(path).names)
        lacking = [column for column in OUTCOME_COLUMNS if column not in present]
        if not lacking:
            table = parquet.read_table(path, columns=list(OUTCOME_COLUMNS))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(path, found=str(error), expected="a Parquet file", mend=mend) from None
    if lacking or not len(table):
        found = f"no column {lacking[0]!r}" if lacking else "no rows"
        raise DataError(path, found=found, expected="retrieval outcomes", mend=mend)
    return table


def strays(params: Params) -> list[Path]:
    """Folders of runs and outcomes beside those that params.yaml names, sorted."""
    named = {cell.folder for cell in cells(params)}
    searched = [cell for cell in cells(params) if cell.family in SEARCHED]
    named |= {cell.outcomes(name).parent for cell in searched for name in params.retrieval.sets}
    parents = {paths.run_folder(params.name, family, "x", 0).parent for family in families(params)}
    parents |= {cell.outcomes("x").parent.parent for cell in searched}
    found = {
        child
        for parent in parents
        if parent.is_dir()
        for child in parent.iterdir()
        if child.is_dir() and not child.name.startswith(".")
    }
    return sorted(found - named)
