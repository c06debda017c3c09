"""What the scores of probing and transfer share: outcomes that belong to their cell, and counts."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiebench.analysis.statistics import Estimate
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell, read_outcomes
from tiebench.evaluation.keys import outcome_key
from tiebench.files import sha256_of
from tiebench.settings import Params

Row = dict[str, Any]


SUMMARY_KEYS = {
    "retrieval": ("pool", "zero_vectors", "equal_sentences"),
    "probing": ("layers", "tasks"),
    "transfer": ("learning_rate", "epoch", "development_accuracy", "parameters", "cut"),
}
"""By task, what is read from its summary.json."""


@dataclass(frozen=True)
class Scorer:
    """The `evaluate` module of labels, with what goes in and out of it."""

    metric: Any

    def score(self, table: Any, groups: np.ndarray, group_count: int) -> dict[str, np.ndarray]:
        """Values by group, `[group_count]`, and `hit` `[examples]`: 1 where right.

        Args:
            table: has columns `reference` and `prediction`, a pyarrow table.
            groups: `[examples]`.
            group_count: groups in all.
        """
        names, reference = codes(table["reference"])
        others, prediction = codes(table["prediction"])
        number = {name: index for index, name in enumerate(dict.fromkeys([*names, *others]))}
        reference = np.array([number[name] for name in names], dtype=np.int64)[reference]
        prediction = np.array([number[name] for name in others], dtype=np.int64)[prediction]
        values = self.metric.compute(
            predictions=prediction, references=reference, groups=groups, group_count=group_count
        )
        return {**values, "hit": (reference == prediction).astype(np.float64)}


def interval(estimate: Estimate) -> dict[str, Any]:
    """The columns of an estimate: n, mean, low, high, and what varies."""
    return {
        "n": estimate.n,
        "mean": estimate.mean,
        "low": estimate.low,
        "high": estimate.high,
        "varies": estimate.varies,
    }


def finite(rows: Iterable[Row], cell: Cell, task: str, data: str) -> Iterator[Row]:
    """The rows of a cell, each with a `metric` and a `value`.

    Raises:
        DataError: a value is none, or not finite; with the command that makes the cell's
            artefact of this task on this corpus or label set.
    """
    for row in rows:
        value = row["value"]
        if value is None or not math.isfinite(value):
            raise DataError(
                f"{cell.family}, run {cell.run}, seed {cell.seed}, {task} on {data}",
                found=f"{row['metric']} {value}",
                expected="a finite number",
                mend=f"run `{cell.again(task, data)}`",
            )
        yield row


@contextmanager
def scorer() -> Iterator[Scorer]:
    """A scorer whose `evaluate` module leaves nothing behind."""
    # `evaluate` reads this once, when it is imported
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    from tiebench.evaluation.metrics.classification_accuracy import ClassificationAccuracy

    with tempfile.TemporaryDirectory() as cache:
        yield Scorer(ClassificationAccuracy(cache_dir=cache))


def codes(column: Any) -> tuple[list[str], np.ndarray]:
    """The distinct values of a column of strings, and each row's place among them."""
    encoded = column.combine_chunks().cast("string").dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False)


def outcomes_of(params: Params, cell: Cell, task: str, data: str) -> tuple[Any, dict[str, Any]]:
    """Outcomes and summary of a cell, if they are of its model, these data and the settings.

    Raises:
        DataError: missing, damaged, or made from something else.
    """
    path, mend = cell.outcomes(task, data), f"run `{cell.repro(task, data)}`"
    table, summary = read_outcomes(cell, task, data), cell.summary(task, data)
    expected = outcome_key(params, task, cell.family, cell.run, cell.seed, data)
    if summary.get("key") != expected:
        raise DataError(
            path,
            found=f"outcomes with key {str(summary.get('key'))[:12]}",
            expected=f"{expected[:12]}, of the model in {cell.folder}, {data!r} and the settings "
            f"of {task} as they are",
            mend=mend,
        )
    digest = sha256_of(path)
    if summary.get("outcomes") != digest:
        raise DataError(
            path,
            found=f"sha256 {digest[:12]}",
            expected=f"{str(summary.get('outcomes'))[:12]}, as summary.json beside it says",
            mend=mend,
        )
    lacking = [key for key in SUMMARY_KEYS[task] if key not in summary]
    if lacking:
        raise DataError(
            path.with_name("summary.json"),
            found=f"no key {lacking[0]!r}",
            expected=f"the summary of {task}",
            mend=mend,
        )
    return table, summary
