"""The transfer tables of a report, from the outcomes of the cells that params.yaml names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tiebench.analysis.resampling import Outcomes, bootstrap_interval
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell, evaluated
from tiebench.evaluation.scoring import Scorer, codes, finite, interval, outcomes_of
from tiebench.labels.read import read_baselines, read_purposes
from tiebench.paths import IMPORTED, labels_folder
from tiebench.progress import progress
from tiebench.settings import Params

Row = dict[str, Any]

TRANSFER_KEYS = ("labels", "language", "subset")
TRANSFER = ("family", "run", "seed", *TRANSFER_KEYS, "metric", "value", "n")
SENTENCES = ("family", "run", *TRANSFER_KEYS, "metric", "n", "mean", "low", "high", "varies")
OTHERS = "others"
"""Names the mean over the languages that are not trained on."""
SUBSETS = ("all", "not_in_training")
CELLS = ("family", "run", "seed", "labels", "metric", "value")
CHOSEN = ("learning_rate", "epoch", "parameters", "cut")
"""What is said of a cell as a whole, from its summary; no results, so not summarized over seeds."""


@dataclass
class Transfer:
    """Rows of the transfer tables; `sampled` as in `Probing`, the mean over other languages."""

    rows: list[Row] = field(default_factory=list)
    cells: list[Row] = field(default_factory=list)
    sentences: list[Row] = field(default_factory=list)
    sampled: dict[tuple[str, str, str], Outcomes] = field(default_factory=dict)


def score_transfer(params: Params, cells: Iterable[Cell], scorer: Scorer) -> Transfer:
    """Accuracy by language, and its excess over the surface baseline on the same strings.

    Raises:
        DataError: outcomes are missing or damaged, or belong to another model, label set or
            settings.
    """
    scored, labels = Transfer(), params.transfer.labels
    folder = labels_folder(labels)
    keys = np.unique(read_purposes(folder).key, return_inverse=True)[1]
    surface = _surface(read_baselines(folder).columns, len(keys))
    first, *others = params.labels[labels].languages
    hits: dict[tuple[str, str], list[np.ndarray]] = defaultdict(list)
    where: dict[str, dict[str, np.ndarray]] = {}
    languages: list[str] = []
    for cell in progress(evaluated(params, cells, "transfer"), desc="score transfer", unit="cell"):
        table, summary = outcomes_of(params, cell, "transfer", labels)
        languages, language = codes(table["lang"])
        example, fresh = table["example"].to_numpy(), ~table["seen"].to_numpy()
        if set(languages) != {first, *others}:
            raise DataError(
                cell.outcomes("transfer", labels),
                found=f"languages {', '.join(languages)}",
                expected=", ".join((first, *others)),
                mend=f"run `{cell.again('transfer', labels)}`",
            )
        # A group per subset and language: the second subset's examples are in the first as well.
        twice = np.concatenate([language, language + len(languages)])
        inside = np.concatenate([np.ones_like(fresh), fresh])
        found = scorer.score(
            table.take(np.tile(np.arange(len(table)), 2)[inside]),
            twice[inside],
            2 * len(languages),
        )
        easy = surface[example]
        by_form = np.bincount(
            twice[inside], np.tile(easy, 2)[inside], 2 * len(languages)
        ) / np.maximum(found["n"], 1)
        values = {
            "accuracy": found["accuracy"],
            "macro_f1": found["macro_f1"],
            "excess": found["accuracy"] - by_form,
        }
        rows: list[Row] = []
        for at, subset in enumerate(_subsets(cell.family)):
            of = {x: at * len(languages) + i for i, x in enumerate(languages)}
            held = [x for x in (first, *others) if found["n"][of[x]]]
            for metric, value in values.items():
                for name in held:
                    n = int(found["n"][of[name]])
                    share = float(value[of[name]])
                    rows.append(_row(cell, labels, name, subset, metric, share, n))
                if set(others) <= set(held):
                    mean = float(np.mean([value[of[x]] for x in others]))
                    n = sum(int(found["n"][of[x]]) for x in others)
                    rows.append(_row(cell, labels, OTHERS, subset, metric, mean, n))
        metric = "development_accuracy"
        rows.append(_row(cell, labels, first, "all", metric, summary[metric], 1))
        scored.rows += finite(rows, cell, "transfer", labels)
        chosen = (
            {
                "family": cell.family, "run": cell.run, "seed": cell.seed,
                "labels": labels, "metric": metric, "value": summary[metric],
            }
            for metric in CHOSEN
        )  # fmt: skip
        scored.cells += finite(chosen, cell, "transfer", labels)
        hits[cell.family, cell.run].append(found["hit"][: len(table)])
        where[cell.family] = {
            "language": np.array(languages)[language], "fresh": fresh, "easy": easy,
            "key": keys[example],
        }  # fmt: skip
    for (family, run), by_seed in hits.items():
        right, place = np.mean(by_seed, axis=0), where[family]
        scored.sentences += _sentence_rows(family, run, labels, right, place, (first, *others))
        other = place["language"] != first
        scored.sampled[family, run, "transfer"] = Outcomes(
            right[other], place["key"][other], place["language"][other]
        )
    return scored


def _subsets(family: str) -> tuple[str, ...]:
    """All strings; and those not trained on, where what was trained on is known."""
    return SUBSETS[:1] if family == IMPORTED else SUBSETS


def _surface(columns: Mapping[str, np.ndarray], examples: int) -> np.ndarray:
    """`[examples]`: 1 where the surface baseline is right; 0 for what is not tested."""
    chosen = columns["baseline"] == "surface"
    right = np.zeros(examples)
    right[columns["example"][chosen]] = (columns["reference"] == columns["prediction"])[chosen]
    return right


def _row(
    cell: Cell, labels: str, language: str, subset: str, metric: str, value: float, n: int
) -> Row:
    return {
        "family": cell.family, "run": cell.run, "seed": cell.seed,
        "labels": labels, "language": language, "subset": subset,
        "metric": metric, "value": value, "n": n,
    }  # fmt: skip


def _sentence_rows(
    family: str,
    run: str,
    labels: str,
    right: np.ndarray,
    where: dict[str, np.ndarray],
    languages: tuple[str, ...],
) -> Iterator[Row]:
    """Accuracy and excess by language and subset, with intervals over strings.

    Translations of one string are drawn together; each draw has a mean of the languages of its
    own.
    """
    for subset, name in ((s, x) for s in _subsets(family) for x in (*languages, OTHERS)):
        inside = where["language"] == name if name != OTHERS else where["language"] != languages[0]
        if subset != "all":
            inside = inside & where["fresh"]
        language = where["language"][inside]
        if not set(language) >= ({name} if name != OTHERS else set(languages[1:])):
            continue
        for metric, values in (("accuracy", right), ("excess", right - where["easy"])):
            estimate = bootstrap_interval(values[inside], where["key"][inside], language)
            yield {
                "family": family, "run": run, "labels": labels, "language": name,
                "subset": subset, "metric": metric, **interval(estimate),
            }  # fmt: skip


def headline_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """The few numbers that a run is judged by: accuracy by language, their mean, the excess."""
    names = {"accuracy": "transfer_{}", "excess": "transfer_excess_{}"}
    for row in rows:
        if row["subset"] == "all" and row["metric"] in names:
            name = names[row["metric"]].format(row["language"])
            if row["language"] == OTHERS or row["metric"] == "accuracy":
                yield {
                    "family": row["family"], "run": row["run"], "seed": row["seed"],
                    "metric": name.removesuffix(f"_{OTHERS}"), "value": row["value"],
                }  # fmt: skip
