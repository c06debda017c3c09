"""The tables of the word forms: by run and seed, over seeds, and resampled over lemmas."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tiebench.analysis.learning_curves import Unflattened
from tiebench.analysis.resampling import SampledEstimate, bootstrap_difference, bootstrap_interval
from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    Correction,
    correct,
    paired_difference,
)
from tiebench.analysis.tables import read_numbers
from tiebench.errors import DataError
from tiebench.evaluation.summaries import summarize, summary_columns
from tiebench.evaluation.verdicts import Contest, Judgement, judge
from tiebench.experiments.word_forms_settings import (
    ALL,
    CHOICE,
    DIFFERENCE,
    FAMILY,
    RAW,
    SIDES,
    UNIGRAM,
)
from tiebench.paths import evaluation_folder
from tiebench.settings import Params

Row = dict[str, Any]
Rows = Iterable[Row]

MEND = "run `dvc repro -f -s word_forms`"
GEOMETRY = ("forms", "matched", "contrast", "auc")
"""Mean cosine of forms, of their controls, the first less the second, and the AUC between them;
each the mean over lemmas."""
UNITS = ("positions", "lemmas")
"""What a mean of choices is over: each position counts the same, or each lemma."""
NUMBERS = {
    **dict.fromkeys(("forms", "matched", "auc", "value", *CHOICE), float),
    **dict.fromkeys(("seed", "positions", "pairs"), int),
}
JUDGED = {"form_loss": "loss", "lemma_loss": "loss", "accuracy": "accuracy"}
"""Metrics of choice with a verdict, and the margin that is theirs."""

WORD_FORMS = ("family", "run", "seed", "language", "side", "centring", "metric", "value")
CHOICES = ("family", "run", "seed", "language", "unit", "metric", "value")
SAMPLED = ("estimate", "lemmas", "mean", "low", "high", "varies")
LEMMAS = ("family", "run", "language", "side", "centring", "metric", *SAMPLED)
CHOICE_LEMMAS = ("family", "run", "baseline", "language", "metric", *SAMPLED)
CHOICE_PAIRS = (
    "family", "metric", "first", "second", "seeds", "first_mean", "second_mean", "difference",
    "low", "high", "varies", "p_adjusted", "detectable", "margin", "p_equivalence_adjusted",
    "verdict", "reason",
)  # fmt: skip
SUMMARIZED = ("language", "side", "centring")
COLUMNS: dict[str, tuple[str, ...]] = {
    "word_forms": WORD_FORMS,
    "word_forms_summary": (*summary_columns(SUMMARIZED), "p_adjusted", "verdict"),
    "word_forms_lemmas": LEMMAS,
    "word_forms_coverage": ("language", "metric", "value"),
    "form_choice": CHOICES,
    "form_choice_summary": summary_columns(("language", "unit")),
    "form_choice_lemmas": CHOICE_LEMMAS,
    "form_choice_pairs": CHOICE_PAIRS,
}


def tables(
    params: Params, unflattened: Unflattened
) -> dict[str, tuple[Sequence[str], Sequence[Row]]]:
    """Columns and rows of each table, by name; without rows where params has no word forms.

    Args:
        params: of these, the family, and how differences are judged.
        unflattened: the learning curves that are not flat.

    Raises:
        DataError: a table of the stage is missing, damaged, of other runs, seeds or languages, or
            holds a number that is not finite.
    """
    if params.word_forms is None or params.word_decoders is None:
        return {name: (columns, []) for name, columns in COLUMNS.items()}
    raw, baseline = _read(params), params.word_decoders.baseline
    geometry = _with_contrast(raw["geometry"])
    by_seed = list(_geometry_rows(geometry))
    chosen = list(_choice_rows(raw["choices"]))
    baselines = {FAMILY: baseline}
    rows: dict[str, Sequence[Row]] = {
        "word_forms": by_seed,
        "word_forms_summary": _with_verdicts(
            summarize(by_seed, SUMMARIZED, baselines), by_seed, params.statistics.correction
        ),
        "word_forms_lemmas": list(_geometry_lemmas(geometry)),
        "word_forms_coverage": raw["coverage"],
        "form_choice": [*chosen, *_unigram_rows(raw["baseline"])],
        "form_choice_summary": summarize(chosen, ("language", "unit"), baselines),
        "form_choice_lemmas": list(_choice_lemmas(raw["choices"], baseline)),
        "form_choice_pairs": list(_pair_rows(params, chosen, baseline, unflattened)),
    }
    return {name: (columns, rows[name]) for name, columns in COLUMNS.items()}


def _read(params: Params) -> dict[str, list[Row]]:
    """The raw tables with numbers, after a check that they are of these runs, seeds, languages."""
    family = params.word_decoders
    assert family is not None
    folder = evaluation_folder(params.name, "word_forms")
    held = {
        name: read_numbers(folder / f"{name}.csv", columns, NUMBERS, mend=MEND)
        for name, columns in RAW.items()
    }
    codes = params.corpora[family.corpus].languages
    expected = {
        (run, seed, code) for run in family.all_runs for seed in family.seeds_of(run)
        for code in codes
    }  # fmt: skip
    for name in ("geometry", "choices"):
        present = {(row["run"], row["seed"], row["language"]) for row in held[name]}
        if present != expected:
            run, seed, code = one = min(present ^ expected)
            raise DataError(
                folder / f"{name}.csv",
                found=f"{'a' if one in present else 'no'} row of {run}, seed {seed}, {code}",
                expected="the runs, seeds and languages of params.yaml",
                mend=MEND,
            )
    return held


def _with_contrast(rows: Rows) -> list[Row]:
    """With each lemma's contrast, and a `side` that is input less output."""
    held = [{**row, "contrast": row["forms"] - row["matched"]} for row in rows]
    keys = ("run", "seed", "language", "centring", "lemma")
    sides = {(row["side"], *(row[key] for key in keys)): row for row in held}
    for (side, *rest), row in list(sides.items()):
        if side == SIDES[0]:
            other = sides[SIDES[1], *rest]
            less = {metric: row[metric] - other[metric] for metric in GEOMETRY}
            held.append({**row, "side": DIFFERENCE, **less})
    return held


def _in_all(rows: Rows) -> Iterator[tuple[str, Row]]:
    """Each row under its language, and under ALL."""
    for row in rows:
        yield row["language"], row
        yield ALL, row


def _geometry_rows(rows: Rows) -> Iterator[Row]:
    """Means over lemmas, by run, seed, language, side and centring."""
    held: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for language, row in _in_all(rows):
        held[row["run"], row["seed"], language, row["side"], row["centring"]].append(row)
    for key, lemmas in held.items():
        at = dict(zip(WORD_FORMS[1:6], key, strict=True))
        for metric in GEOMETRY:
            value = math.fsum(row[metric] for row in lemmas) / len(lemmas)
            yield {"family": FAMILY, **at, "metric": metric, "value": value}


def _with_verdicts(summary: list[Row], by_seed: list[Row], correction: Correction) -> list[Row]:
    """With what a contrast is of zero: above, below or undecided; empty for other metrics.

    P values are corrected over the runs and sides of a language and centring; both sides of one
    table are one test.
    """
    values: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    tests: dict[tuple[str, str], dict[tuple[Any, ...], Row]] = defaultdict(dict)
    for row in by_seed:
        values[tuple(row[x] for x in ("run", *SUMMARIZED, "metric"))].append(row["value"])
    rows: list[Row] = [{**row, "p_adjusted": None, "verdict": ""} for row in summary]
    for row in rows:
        if row["metric"] == "contrast":
            held = values[tuple(row[x] for x in ("run", *SUMMARIZED, "metric"))]
            same = tests[row["language"], row["centring"]].setdefault((row["run"], *held), row)
            if same is row:
                row["p_adjusted"] = paired_difference(held, [0.0] * len(held)).p
    for group in tests.values():
        adjusted = correct([row["p_adjusted"] for row in group.values()], correction)
        for row, p in zip(group.values(), adjusted, strict=True):
            row["p_adjusted"] = p
    for row in rows:
        if row["metric"] == "contrast":
            held = values[tuple(row[x] for x in ("run", *SUMMARIZED, "metric"))]
            p = tests[row["language"], row["centring"]][row["run"], *held]["p_adjusted"]
            row |= {"p_adjusted": p, "verdict": _verdict(row["mean"], row["seeds"], p)}
    return rows


def _verdict(mean: float, seeds: int, p: float | None) -> str:
    if seeds < MINIMUM_SEEDS or p is None or p >= 1 - LEVEL:
        return "undecided"
    return "above" if mean > 0 else "below"


def _choice_rows(rows: Rows) -> Iterator[Row]:
    """Means over positions and over lemmas, by run, seed and language."""
    held: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for language, row in _in_all(rows):
        held[row["run"], row["seed"], language].append(row)
    for (run, seed, language), lemmas in held.items():
        for unit in UNITS:
            weights = [row["positions"] if unit == UNITS[0] else 1 for row in lemmas]
            for metric in CHOICE:
                total = math.fsum(w * row[metric] for w, row in zip(weights, lemmas, strict=True))
                yield {
                    "family": FAMILY, "run": run, "seed": seed, "language": language,
                    "unit": unit, "metric": metric, "value": total / sum(weights),
                }  # fmt: skip


def _unigram_rows(rows: Rows) -> Iterator[Row]:
    """What training frequencies alone choose; no seed."""
    return _choice_rows({**row, "run": UNIGRAM, "seed": None} for row in rows)


def _over_seeds(rows: Rows, keys: Sequence[str], metric: str) -> dict[tuple[Any, ...], Any]:
    """By `keys`, then by (language, lemma), the mean over seeds of a metric."""
    held: dict[tuple[Any, ...], dict[tuple[str, str], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for language, row in _in_all(rows):
        key = (language, *(row[x] for x in keys))
        held[key][row["language"], row["lemma"]].append(row[metric])
    return {key: {x: float(np.mean(v)) for x, v in found.items()} for key, found in held.items()}


def _sampled(name: str, found: SampledEstimate) -> Row:
    varies = "lemmas" if found.varies else None
    ends = {"mean": found.mean, "low": found.low, "high": found.high}
    return {"estimate": name, "lemmas": found.n, **ends, "varies": varies}


def _geometry_lemmas(rows: Rows) -> Iterator[Row]:
    """Bootstrap intervals over lemmas of the mean over seeds: about these models, other lemmas."""
    keys = ("run", "side", "centring")
    for (language, run, side, centring), found in _over_seeds(rows, keys, "contrast").items():
        yield {
            "family": FAMILY, "run": run, "language": language, "side": side,
            "centring": centring, "metric": "contrast",
            **_sampled("mean", bootstrap_interval(list(found.values()))),
        }  # fmt: skip


def _choice_lemmas(rows: Rows, baseline: str) -> Iterator[Row]:
    """The same of the choice of forms, each run less the baseline, each lemma counted once."""
    for metric in CHOICE:
        held = _over_seeds(rows, ("run",), metric)
        for (language, run), found in held.items():
            if run != baseline:
                other = held[language, baseline]
                pairs = list(found.values()), [other[lemma] for lemma in found]
                yield {
                    "family": FAMILY, "run": run, "baseline": baseline, "language": language,
                    "metric": metric, **_sampled("difference", bootstrap_difference(*pairs)),
                }  # fmt: skip


def _pair_rows(
    params: Params, rows: Rows, baseline: str, unflattened: Unflattened
) -> Iterator[Row]:
    """A verdict on every run against the baseline, over positions of all languages."""
    held: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if (row["language"], row["unit"]) == (ALL, UNITS[0]):
            held[row["metric"], row["run"]][row["seed"]] = row["value"]
    runs = dict.fromkeys(run for _, run in held if run != baseline)
    for metric, margin in JUDGED.items():
        contests = [
            Contest(FAMILY, margin, run, baseline, (held[metric, run], held[metric, baseline]))
            for run in runs
        ]
        for judgement in judge(contests, params.statistics, unflattened):
            yield _pair_row(metric, judgement)


def _pair_row(metric: str, judgement: Judgement) -> Row:
    contest, found = judgement.contest, judgement.difference
    values: Mapping[str, Any] = {
        "family": contest.family,
        "metric": metric,
        "first": contest.first,
        "second": contest.second,
        "seeds": found.n,
        "first_mean": judgement.means[0],
        "second_mean": judgement.means[1],
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "varies": found.varies,
        "p_adjusted": judgement.p_adjusted,
        "detectable": judgement.detectable,
        "margin": judgement.margin,
        "p_equivalence_adjusted": judgement.p_equivalence_adjusted,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }
    return dict(values)
