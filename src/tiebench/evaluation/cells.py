"""The cells that params.yaml names: where each one's artefacts are, and what else lies there."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench import paths
from tiebench.errors import DataError
from tiebench.files import read_json
from tiebench.settings import Params, all_groups, families

METRICS_KEYS = frozenset(
    {"objective", "seed", "steps", "tokens", "train_flops", "parameters", "validation"}
)
RECURRENT_KEYS = frozenset({"epochs", "train_loss", "test", "perplexity"})
"""What the metrics.json of a recurrent run has beside METRICS_KEYS."""
IMPORTED_KEYS = frozenset({"folder", "architecture", "files", "notes"})
VALIDATION_KEYS = frozenset(
    {
        "loss", "accuracy", "predicted_tokens", "initial_loss", "unigram_loss", "bits_per_byte",
        "by_language", "by_frequency",
    }
)  # fmt: skip
HISTORY_COLUMNS = frozenset(
    {"step", "tokens", "loss", "learning_rate", "gradient_norm", "validation_loss"}
)
RECURRENT_COLUMNS = HISTORY_COLUMNS - {"loss"} | {"epoch", "train_loss"}
OUTCOME_COLUMNS = {
    "retrieval": (
        "set", "source", "target", "layer", "distance", "offset", "index",
        "rank", "credit", "shares_token", "seen_in_training",
    ),
    "probing": ("task", "probe", "target", "sentence", "reference", "prediction"),
    "transfer": ("lang", "example", "reference", "prediction", "seen"),
}  # fmt: skip
"""By task, what its outcomes.parquet has."""


@dataclass(frozen=True)
class Cell:
    """One run of a family, or one imported model, with one seed."""

    report: str
    family: str
    corpus: str
    """What it is trained on; empty for an imported model, whose text is not known."""
    run: str
    seed: int
    matched: bool = False
    """One of the family's matched runs."""

    @property
    def folder(self) -> Path:
        """Its run folder."""
        return paths.run_folder(self.report, self.family, self.run, self.seed)

    @property
    def pretrain(self) -> str:
        """The command that makes it."""
        if not self.corpus:
            return f"dvc repro {self.family}@{self.run}"
        return self.repro("pretrain", self.corpus)

    def repro(self, task: str, data: str) -> str:
        """The command that runs a task of this cell on a corpus or label set."""
        stage = f"{task}_{self.family}{'_matched' if self.matched else ''}"
        return f"dvc repro {stage}@{data}-{self.run}-{self.seed}"

    def again(self, task: str, data: str) -> str:
        """As `repro`, for outcomes that are there but cannot be used."""
        return _forced(self.repro(task, data))

    def outcomes(self, task: str, data: str) -> Path:
        """Its outcomes in a task on a corpus or label set."""
        folder = paths.outcome_folder(self.report, task, self.family, self.run, self.seed, data)
        return folder / "outcomes.parquet"

    def summary(self, task: str, data: str) -> dict[str, Any]:
        """The summary.json beside its outcomes.

        Raises:
            DataError: missing or damaged.
        """
        path = self.outcomes(task, data).with_name("summary.json")
        held: dict[str, Any] = read_json(path, mend=f"run `{self.repro(task, data)}`")
        return held

    def metrics(self) -> dict[str, Any]:
        """Its metrics.json.

        Raises:
            DataError: missing, damaged, without a key, or of another seed.
        """
        path = self.folder / "metrics.json"
        held: dict[str, Any] = read_json(path, mend=f"run `{self.pretrain}`")
        recurrent = self.family == paths.RECURRENT
        keys, expected = METRICS_KEYS, VALIDATION_KEYS
        if recurrent:
            keys, expected = METRICS_KEYS | RECURRENT_KEYS, VALIDATION_KEYS - {"initial_loss"}
        lacking = sorted(keys - held.keys())
        if not lacking:
            validation = held["validation"] if isinstance(held["validation"], dict) else {}
            lacking = [f"validation.{key}" for key in sorted(expected - validation.keys())]
            kinds = {"by_language": dict, "by_frequency": list}
            lacking += [
                f"validation.{key} of type {kind.__name__}"
                for key, kind in kinds.items()
                if not lacking and not isinstance(validation[key], kind)
            ]
        if lacking or held["seed"] != self.seed:
            raise DataError(
                path,
                found=f"no key {lacking[0]!r}" if lacking else f"seed {held['seed']}",
                expected="the metrics of a run" if lacking else f"seed {self.seed}",
                mend=f"run `{_forced(self.pretrain)}`",
            )
        return held

    def imported(self) -> dict[str, Any]:
        """The imported.json of an imported model.

        Raises:
            DataError: missing, damaged, or without a key.
        """
        path = self.folder / "imported.json"
        held: dict[str, Any] = read_json(path, mend=f"run `{self.pretrain}`")
        lacking = sorted(IMPORTED_KEYS - held.keys())
        if lacking:
            raise DataError(
                path,
                found=f"no key {lacking[0]!r}",
                expected="the record of an import",
                mend=f"run `{_forced(self.pretrain)}`",
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
        except (UnicodeDecodeError, csv.Error) as error:
            found, mend = f"a damaged file ({error})", f"run `{_forced(self.pretrain)}`"
            raise DataError(path, found=found, expected="a CSV", mend=mend) from None
        columns = RECURRENT_COLUMNS if self.family == paths.RECURRENT else HISTORY_COLUMNS
        lacking = sorted(columns - set(reader.fieldnames or ()))
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
                mend=f"run `{_forced(self.pretrain)}`",
            )
        return rows


def cells(params: Params) -> Iterator[Cell]:
    """Every cell that is trained on windows of text, in the order of params.yaml."""
    for family, group in families(params).items():
        for run in group.all_runs:
            for seed in group.seeds_of(run):
                yield Cell(params.name, family, group.corpus, run, seed, run in group.matched)


def recurrent_cells(params: Params) -> Iterator[Cell]:
    """Every cell of the recurrent family."""
    group = all_groups(params).get(paths.RECURRENT)
    if group is not None:
        for run in group.all_runs:
            for seed in group.seeds_of(run):
                yield Cell(params.name, paths.RECURRENT, group.corpus, run, seed)


def imported_cells(params: Params) -> Iterator[Cell]:
    """Every imported model with every seed."""
    for model in params.imported.models:
        for seed in params.imported.seeds:
            yield Cell(params.name, paths.IMPORTED, "", model, seed)


def evaluations(params: Params, cell: Cell) -> list[tuple[str, str]]:
    """The tasks that a cell runs, each with the corpus or label set that it runs on.

    An imported model is searched once, with the first seed: none shapes its states.
    """
    if cell.family not in paths.EVALUATED:
        return []
    once = cell.family == paths.IMPORTED and cell.seed != params.imported.seeds[0]
    searched = [] if once else [("retrieval", name) for name in params.retrieval.sets]
    return [*searched, ("probing", params.probing.labels), ("transfer", params.transfer.labels)]


def evaluated(params: Params, cells: Iterable[Cell], task: str) -> list[Cell]:
    """The cells that run a task."""
    return [x for x in cells if task in (name for name, _ in evaluations(params, x))]


def read_outcomes(cell: Cell, task: str, data: str) -> Any:
    """The outcomes of a cell in a task on a corpus or label set, a pyarrow table.

    Raises:
        DataError: missing, damaged, without a column, or empty.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path, columns = cell.outcomes(task, data), OUTCOME_COLUMNS[task]
    expected, mend = f"{task} outcomes", f"run `{cell.repro(task, data)}`"
    if not path.exists():
        raise DataError(path, found="no such file", expected=expected, mend=mend)
    try:
        present = set(parquet.read_schema(path).names)
        lacking = [column for column in columns if column not in present]
        if not lacking:
            table = parquet.read_table(path, columns=list(columns))
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(path, found=str(error), expected="a Parquet file", mend=mend) from None
    if lacking or not len(table):
        found = f"no column {lacking[0]!r}" if lacking else "no rows"
        raise DataError(path, found=found, expected=expected, mend=mend)
    return table


def _forced(command: str) -> str:
    return command.replace("dvc repro ", "dvc repro -f -s ")
