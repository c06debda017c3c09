"""The probing tables of a report, from the outcomes of the cells that params.yaml names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiebench.analysis.resampling import Outcomes, bootstrap_interval
from tiebench.evaluation.cells import Cell, evaluated
from tiebench.evaluation.scoring import Scorer, codes, finite, interval, outcomes_of
from tiebench.progress import progress
from tiebench.settings import Params

Row = dict[str, Any]

PROBING_KEYS = ("labels", "task", "probe")
PROBING = ("family", "run", "seed", *PROBING_KEYS, "metric", "value", "n")
WEIGHTS_KEYS = ("labels", "task", "layer")
WEIGHTS = ("family", "run", "seed", *WEIGHTS_KEYS, "value")
SENTENCES = ("family", "run", *PROBING_KEYS, "metric", "n", "mean", "low", "high", "varies")
MIX, CONTROL = "mix", "control"
"""The probe that mixes all layers, and the same on the labels of the control task."""
LEAST_GAIN = 0.01
"""Accuracy that the layers must add for it to be said where: the expected layer is a quotient by
this gain, and with a smaller one says how a few targets happened to fall."""


@dataclass
class Probing:
    """Rows of the probing tables.

    `sampled` holds, by (family, run, metric of the headline), what the mix got right of each
    target.
    """

    rows: list[Row] = field(default_factory=list)
    weights: list[Row] = field(default_factory=list)
    sentences: list[Row] = field(default_factory=list)
    sampled: dict[tuple[str, str, str], Outcomes] = field(default_factory=dict)


def score_probing(params: Params, cells: Iterable[Cell], scorer: Scorer) -> Probing:
    """Accuracy and macro-averaged F1 of every probe, what the mixes weigh, and intervals.

    Raises:
        DataError: outcomes are missing or damaged, or belong to another model, label set or
            settings.
    """
    scored, labels = Probing(), params.probing.labels
    hits: dict[tuple[str, ...], list[np.ndarray]] = defaultdict(list)
    sentences: dict[str, np.ndarray] = {}
    for cell in progress(evaluated(params, cells, "probing"), desc="score probing", unit="cell"):
        table, summary = outcomes_of(params, cell, "probing", labels)
        (tasks, task), (probes, probe) = codes(table["task"]), codes(table["probe"])
        group = task * len(probes) + probe
        found = scorer.score(table, group, len(tasks) * len(probes))
        accuracy: dict[tuple[str, str], float] = {}
        rows: list[Row] = []
        weights: list[Row] = []
        for at in np.flatnonzero(found["n"]):
            key = tasks[at // len(probes)], probes[at % len(probes)]
            accuracy[key] = float(found["accuracy"][at])
            for metric in ("accuracy", "macro_f1"):
                value, n = float(found[metric][at]), int(found["n"][at])
                rows.append(_row(cell, labels, *key, metric, value, n))
            inside = group == at
            hits[cell.family, cell.run, *key].append(found["hit"][inside])
            if key[1] == MIX:
                sentences[key[0]] = table["sentence"].to_numpy()[inside]
        for name, held in summary["tasks"].items():
            n = int(found["n"][tasks.index(name) * len(probes) + probes.index(MIX)])
            for metric, value in _of_mix(name, held["weights"], accuracy):
                rows.append(_row(cell, labels, name, MIX, metric, value, n))
            weights += (
                {
                    "family": cell.family, "run": cell.run, "seed": cell.seed, "labels": labels,
                    "task": name, "layer": layer, "metric": "weight", "value": weight,
                }
                for layer, weight in enumerate(held["weights"])
            )  # fmt: skip
        scored.rows += finite(rows, cell, "probing", labels)
        scored.weights += finite(weights, cell, "probing", labels)
    for (family, run, task_, probe_), by_seed in hits.items():
        values = np.mean(by_seed, axis=0)
        scored.sentences.append(
            {
                "family": family, "run": run, "labels": labels, "task": task_, "probe": probe_,
                "metric": "accuracy",
                **interval(bootstrap_interval(values, clusters=sentences[task_])),
            }
        )  # fmt: skip
        if probe_ == MIX:
            scored.sampled[family, run, f"probing_{task_}"] = Outcomes(values, sentences[task_])
    return scored


def _row(cell: Cell, labels: str, task: str, probe: str, metric: str, value: float, n: int) -> Row:
    return {
        "family": cell.family, "run": cell.run, "seed": cell.seed,
        "labels": labels, "task": task, "probe": probe,
        "metric": metric, "value": value, "n": n,
    }  # fmt: skip


def _of_mix(
    task: str, weights: list[float], accuracy: dict[tuple[str, str], float]
) -> Iterator[tuple[str, float]]:
    """What is said of a mix: selectivity, and two answers to which layer knows the task.

    Selectivity is accuracy less that on the control task (Hewitt and Liang 2019, section 2.2).
    The centre of gravity is the mean layer by mix weight; the expected layer weighs each layer by
    what the mix of those up to it gains over the mix before (Tenney et al. 2019b, section 3). A
    layer that takes away counts as one that adds nothing, so that the expected layer is one of
    those from the first to the last; it is not given where all layers together add LEAST_GAIN or
    less.
    """
    yield "selectivity", accuracy[task, MIX] - accuracy[task, CONTROL]
    yield "center_of_gravity", float(np.dot(np.arange(len(weights)), weights))
    last = len(weights) - 1
    probes = ["layer_0", *(f"mix_upto_{layer}" for layer in range(1, last)), *[MIX] * (last > 0)]
    upto = [accuracy.get((task, probe), np.nan) for probe in probes]
    if np.isfinite(upto).all() and upto[-1] - upto[0] > LEAST_GAIN:
        gains = np.diff(upto).clip(min=0)
        yield "expected_layer", float(np.dot(np.arange(1, last + 1), gains) / gains.sum())


def headline_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """The accuracy of the mix by task, as metrics that a run is judged by."""
    for row in rows:
        if row["probe"] == MIX and row["metric"] == "accuracy":
            yield {
                "family": row["family"], "run": row["run"], "seed": row["seed"],
                "metric": f"probing_{row['task']}", "value": row["value"],
            }  # fmt: skip
