"""The tables of the 2-gram laboratory: summaries over seeds, curves, and what differs from what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

from tiebench.analysis.initial_loss import logits_of, second_order
from tiebench.analysis.learning_curves import Curves, flattened_rows, unflattened
from tiebench.analysis.statistics import mean_interval
from tiebench.analysis.tables import check_seeds, read_numbers, shown
from tiebench.errors import DataError
from tiebench.evaluation.statistics_settings import StatisticsSettings
from tiebench.evaluation.summaries import ESTIMATES, summarize
from tiebench.evaluation.verdicts import Contest, Judgement, judge
from tiebench.experiments.bigram_settings import (
    NEXT,
    REFERENCES,
    TABLES,
    WINDOW,
    BigramSettings,
)
from tiebench.paths import evaluation_folder
from tiebench.settings import Params

Row = dict[str, Any]
MEND = "run `dvc repro bigram`"
NUMBERS = {
    "seed": int, "update": int,
    **dict.fromkeys(("value", "loss", "area", "learning_rate"), float),
}  # fmt: skip
SUMMARY = ("objective", "run", "metric", *ESTIMATES)
CURVES = ("objective", "run", "metric", "update", "seeds", "mean", "low", "high")
PAIRS = (
    "objective", "metric", "first", "second", "seeds", "difference", "low", "high", "p_adjusted",
    "detectable", "margin", "p_equivalence_adjusted", "verdict", "reason",
)  # fmt: skip
RUNS = (
    "objective", "run", "group", "role", "option", "tied", "shared_initialization", "width", "std",
    "input_gradient_scale", "output_gradient_scale", "untie_after", "tie_penalty",
    "parameters", "learning_rate", "edge", "predicted",
)  # fmt: skip
JUDGED = ("loss", "valid_loss", "area")
"""Metrics that runs are compared in, all in nats."""
CURVE_OF = {"loss": "train_loss", "valid_loss": "valid_loss"}
"""The curve that must be flat for a verdict; the area is about the way and not its end."""


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where params.yaml has no laboratory.

    Raises:
        DataError: a table of the laboratory is missing, damaged, of other runs or seeds, or holds
            a number that is not finite.
    """
    columns = {
        "bigram": TABLES["runs"], "bigram_summary": SUMMARY, "bigram_curves": CURVES,
        "bigram_pairs": PAIRS, "bigram_runs": RUNS, "bigram_rates": TABLES["rates"],
        "bigram_objectives": TABLES["objectives"],
    }  # fmt: skip
    rows = {} if params.bigram is None else _rows(params, params.bigram)
    return {name: (held, rows.get(name, [])) for name, held in columns.items()}


def _rows(params: Params, settings: BigramSettings) -> dict[str, list[Row]]:
    raw = _read(params.name, settings)
    values, curves = raw["runs"], raw["curves"]
    baselines = dict.fromkeys((NEXT, WINDOW), settings.tied)
    summary = summarize([_as_family(row) for row in values], (), baselines)
    return {
        "bigram": values,
        "bigram_summary": [_as_objective(row) for row in summary],
        "bigram_curves": list(_curve_rows(curves)),
        "bigram_pairs": list(_pair_rows(params.statistics, settings, values, curves)),
        "bigram_runs": list(_run_rows(settings, values, raw["rates"])),
        "bigram_rates": raw["rates"],
        "bigram_objectives": raw["objectives"],
    }


def _as_family(row: Row) -> Row:
    return {**row, "family": row["objective"]}


def _as_objective(row: Row) -> Row:
    return {"objective": row["family"], **{k: v for k, v in row.items() if k != "family"}}


def _read(name: str, settings: BigramSettings) -> dict[str, list[Row]]:
    """The raw tables of a report with numbers, once they are known to be of these settings."""
    folder = evaluation_folder(name, "bigram")
    held = {
        table: read_numbers(
            folder / f"{table}.csv",
            columns,
            NUMBERS,
            optional=("loss", "area"),
            keys=("learning_rate",),
            mend=MEND,
        )
        for table, columns in TABLES.items()
    }
    wanted = {(NEXT, run) for run in settings.runs}
    wanted |= {(WINDOW, run) for run in settings.window_runs}
    expected = {(*run, seed) for run in wanted for seed in settings.seeds}
    for table in ("runs", "curves"):
        present = {(row["objective"], row["run"], row["seed"]) for row in held[table]}
        if present != expected:
            objective, run, seed = one = min(present ^ expected)
            raise DataError(
                folder / f"{table}.csv",
                found=f"{'a' if one in present else 'no'} row of {run} ({objective}), seed {seed}",
                expected="the runs and seeds of params.yaml",
                mend=MEND,
            )
    path = folder / "runs.csv"
    kept = [x for x in held["runs"] if not x["metric"].startswith("updates_to_")]
    check_seeds(path, kept, ("objective", "run"), ("metric",), mend=MEND)
    points = ("metric", "update")
    check_seeds(folder / "curves.csv", held["curves"], ("objective", "run"), points, mend=MEND)
    tried = {(x["objective"], x["run"], shown(x["learning_rate"])) for x in held["rates"]}
    asked = {(*run, shown(rate)) for run in wanted for rate in settings.learning_rates}
    told = {(x["objective"], x["metric"]) for x in held["objectives"]}
    known = set(
        product(
            dict.fromkeys(objective for objective, _ in wanted),
            (*REFERENCES, *(f"level_{x:g}" for x in settings.milestones)),
        )
    )
    parts: dict[str, set[tuple[str, ...]]]
    parts = {"rates": {*tried} ^ {*asked}, "objectives": {*told} ^ {*known}}
    for table, off in parts.items():
        if off:
            row = min(off)
            raise DataError(
                folder / f"{table}.csv",
                found=f"{'a' if row in tried | told else 'no'} row {', '.join(row)}",
                expected="the runs, learning rates and milestones of params.yaml",
                mend=MEND,
            )
    chosen = [(x["objective"], x["run"]) for x in held["rates"] if x["chosen"] == "true"]
    if sorted(chosen) != sorted(wanted):
        raise DataError(
            folder / "rates.csv",
            found=f"{len(chosen)} chosen learning rates",
            expected=f"one for each of the {len(wanted)} runs of params.yaml",
            mend=MEND,
        )
    return held


def _curve_rows(curves: list[Row]) -> Iterator[Row]:
    """Mean and t interval of each point of a curve."""
    held: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in curves:
        held[tuple(row[key] for key in CURVES[:4])].append(row["value"])
    for key, values in held.items():
        found = mean_interval(values)
        ends = {"seeds": found.n, "mean": found.mean, "low": found.low, "high": found.high}
        yield {**dict(zip(CURVES[:4], key, strict=True)), **ends}


def _run_rows(settings: BigramSettings, values: list[Row], rates: list[Row]) -> Iterator[Row]:
    """What each run is, its parameters, and the learning rate that its pilot chose.

    `edge`: lowest or highest, where the chosen rate is at an end of the grid. `predicted`: the
    initial loss in nats by theory, which takes no target to be its input; None without a theory.
    """
    roles = {settings.slowest: "slowest", settings.tied: "tied", settings.untied: "untied"}
    grid = settings.learning_rates
    edges = {min(grid): "lowest", max(grid): "highest"} if len(grid) > 1 else {}
    sizes = {r["run"]: r["value"] for r in values if r["metric"] == "parameters"}
    for rate in rates:
        if rate["chosen"] == "true":
            run = settings.runs[rate["run"]]
            width = run.coupling.input_width or settings.width
            moments = logits_of(run.coupling, settings.vocabulary, settings.width)
            yield {
                "objective": rate["objective"],
                "run": rate["run"],
                "group": run.group,
                "role": roles.get(rate["run"], ""),
                "option": run.coupling.option,
                "tied": run.coupling.tied,
                "shared_initialization": run.coupling.shared_initialization,
                "width": width,
                "std": run.coupling.table_std(settings.vocabulary, width),
                **run.training.model_dump(),
                "parameters": sizes[rate["run"]],
                "learning_rate": rate["learning_rate"],
                "edge": edges.get(rate["learning_rate"], ""),
                "predicted": moments and second_order(moments, settings.vocabulary),
            }


def contests(settings: BigramSettings, objective: str) -> list[tuple[str, str]]:
    """The pairs of runs that are compared: each with the tied and the untied one, and all remedies,
    the untied table among them, with each other."""
    runs = list(settings.runs) if objective == NEXT else settings.window_runs
    pairs = [(run, settings.tied) for run in runs if run != settings.tied]
    pairs += [(run, settings.untied) for run in runs if run not in (settings.tied, settings.untied)]
    remedies = [run for run in runs if settings.runs[run].group == "remedy"]
    return pairs + [(second, first) for first, second in combinations(remedies, 2)]


def _pair_rows(
    statistics: StatisticsSettings, settings: BigramSettings, values: list[Row], curves: list[Row]
) -> Iterator[Row]:
    """Verdicts; p values are corrected over the pairs of an objective and metric."""
    rule = statistics.flattened
    held: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for row in values:
        held[row["objective"], row["metric"], row["run"]][row["seed"]] = row["value"]
    falling = {
        metric: unflattened(flattened_rows(_curves_of(curves, curve), rule.share, rule.nats))
        for metric, curve in CURVE_OF.items()
    }
    for objective in dict.fromkeys(row["objective"] for row in values):
        for metric in JUDGED:
            compared = [
                Contest(objective, "loss", first, second,
                        (held[objective, metric, first], held[objective, metric, second]))
                for first, second in contests(settings, objective)
            ]  # fmt: skip
            of = falling.get(metric, {})
            for judgement in judge(compared, statistics, of):
                yield _pair_row(metric, judgement)


def _curves_of(rows: list[Row], metric: str) -> Curves:
    curves: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] = {}
    for row in rows:
        if row["metric"] == metric:
            by_seed = curves.setdefault((row["objective"], row["run"]), {})
            by_seed.setdefault(row["seed"], []).append((row["update"], row["value"]))
    return curves


def _pair_row(metric: str, judgement: Judgement) -> Row:
    contest, found = judgement.contest, judgement.difference
    return {
        "objective": contest.family,
        "metric": metric,
        "first": contest.first,
        "second": contest.second,
        "seeds": found.n,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "p_adjusted": judgement.p_adjusted,
        "detectable": judgement.detectable,
        "margin": judgement.margin,
        "p_equivalence_adjusted": judgement.p_equivalence_adjusted,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }
