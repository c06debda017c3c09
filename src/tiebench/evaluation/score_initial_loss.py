"""The tables of the experiment `initial_loss`: measurement beside theory."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from statistics import stdev
from typing import Any

from tiebench.analysis import initial_loss as theory
from tiebench.analysis.statistics import mean_interval
from tiebench.analysis.tables import read_numbers
from tiebench.errors import DataError
from tiebench.experiments.initial_loss_settings import (
    DISTRIBUTIONS,
    EPSILON,
    METRICS,
    QUANTITIES,
    RAW,
    InitialLossSettings,
)
from tiebench.paths import evaluation_folder
from tiebench.settings import Params

Row = dict[str, Any]
MEND = "run `dvc repro initial_loss`"
INITIAL_LOSS = (
    "run", "option", "tied", "body", "branch", "layers", "vocabulary", "width", "std", "d_sigma",
    "log_vocabulary", "seeds", "mean", "low", "high", "se", "theory", "theory_second_order",
    "relative_difference", "tolerance", "agrees", "own_logit", "own_logit_theory",
)  # fmt: skip
"""One row for each model. The theory is that of the identity body, with the norm's epsilon where
the body has one; of two tables it knows no own logit. `agrees`: with the second order, within the
tolerance; empty on another body."""
CURVES = ("run", "vocabulary", "width", "theory", "theory_second_order")
"""Theory between the measured widths."""
STEPS = 8
"""Points of a curve to an octave of widths."""
MOMENTS = (
    "distribution", "width", "quantity", "metric", "seeds", "mean", "low", "high", "theory",
)  # fmt: skip


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name.

    Raises:
        DataError: a table of the experiment is missing, damaged, or of other settings.
    """
    columns = {
        "initial_loss": INITIAL_LOSS,
        "initial_loss_curves": CURVES,
        "initial_loss_moments": MOMENTS,
    }
    settings, rows = params.initial_loss, dict[str, list[Row]]()
    if settings is not None:
        raw = _read(params, settings)
        rows = {
            "initial_loss": list(_loss_rows(settings, raw["losses"])),
            "initial_loss_curves": list(_curve_rows(settings)),
            "initial_loss_moments": list(_moment_rows(raw["moments"])),
        }
    return {name: (held, rows.get(name, [])) for name, held in columns.items()}


def _read(params: Params, settings: InitialLossSettings) -> dict[str, list[Row]]:
    """The raw tables with numbers, once they are known to be of these settings."""
    folder = evaluation_folder(params.name, "initial_loss")
    return {
        name: _checked(folder / f"{name}.csv", columns, wanted)
        for (name, columns), wanted in zip(RAW.items(), _wanted(settings), strict=True)
    }


def _wanted(settings: InitialLossSettings) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """All cells but the value of every row of the raw tables."""
    models = [
        (p.run, p.body.option, p.branch, p.body.layers, p.vocabulary, p.body.width)
        for p in settings.points()
    ]
    moments = product(DISTRIBUTIONS, settings.moment_widths)
    return (
        {tuple(map(str, (*m, s, x))) for m in models for s in settings.seeds for x in METRICS},
        {
            tuple(map(str, (*m, s, *x)))
            for m in moments
            for s in settings.seeds
            for x in product(QUANTITIES, ("mean", "variance"))
        },
    )


def _checked(path: Path, columns: Sequence[str], wanted: set[tuple[str, ...]]) -> list[Row]:
    rows: list[Row] = read_numbers(path, columns, {"value": float}, mend=MEND)
    present = [tuple(row[column] for column in columns[:-1]) for row in rows]
    if set(present) != wanted or len(present) != len(wanted):
        extra = sorted(set(present) ^ wanted) or [
            x for i, x in enumerate(present) if x in present[:i]
        ]
        kind = "no" if extra[0] not in present else "a" if extra[0] not in wanted else "a second"
        raise DataError(
            path,
            found=f"{kind} row {','.join(extra[0])}",
            expected="one row for each model and seed of params.yaml",
            mend=MEND,
        )
    return rows


def _loss_rows(settings: InitialLossSettings, rows: list[Row]) -> Iterator[Row]:
    keys = ("run", "body", "branch", "layers", "vocabulary", "width")
    held: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        held[tuple(row[key] for key in keys)][row["metric"]].append(row["value"])
    for group, values in held.items():
        run, body, branch, layers, vocabulary, width = group
        coupling, n, d = settings.runs[run].coupling, int(vocabulary), int(width)
        std, estimate = coupling.table_std(n, d), mean_interval(values["loss"])
        # in the post-norm of DeepNorm the last norm sees states of size 1, not the rows
        last = 0.0 if branch == "deep_norm" else settings.deep.body.norm_epsilon
        epsilon = last if branch else EPSILON
        logits = theory.logits_of(coupling, n, d, epsilon)
        second = None if logits is None else theory.second_order(logits, n)
        difference = None if second is None or branch else estimate.mean / second - 1
        yield {
            "run": run, "option": coupling.option, "tied": coupling.tied, "body": body,
            "branch": branch, "layers": int(layers), "vocabulary": n, "width": d, "std": std,
            "d_sigma": d * std, "log_vocabulary": math.log(n), "seeds": estimate.n,
            "mean": estimate.mean, "low": estimate.low, "high": estimate.high,
            "se": _standard_error(values["loss"]),
            "theory": None if logits is None else theory.first_order(logits, n),
            "theory_second_order": second, "relative_difference": difference,
            "tolerance": settings.tolerance,
            "agrees": None if difference is None else abs(difference) <= settings.tolerance,
            "own_logit": mean_interval(values["own_logit"]).mean,
            "own_logit_theory": None if logits is None else logits.own_mean,
        }  # fmt: skip


def _standard_error(values: list[float]) -> float | None:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def _curve_rows(settings: InitialLossSettings) -> Iterator[Row]:
    """Theory at STEPS widths to each octave, all multiples of 8, as the settings' own."""
    for grid in settings.grids:
        octaves = math.log2(max(grid.widths) / min(grid.widths))
        steps = range(round(STEPS * octaves) + 1)
        between = {round(min(grid.widths) * 2 ** (step / STEPS) / 8) * 8 for step in steps}
        for run in grid.runs or settings.runs:
            for width in sorted(between | set(grid.widths)):
                logits = theory.logits_of(settings.runs[run].coupling, grid.vocabulary, width)
                if logits is not None:
                    yield {
                        "run": run, "vocabulary": grid.vocabulary, "width": width,
                        "theory": theory.first_order(logits, grid.vocabulary),
                        "theory_second_order": theory.second_order(logits, grid.vocabulary),
                    }  # fmt: skip


def _moment_rows(rows: list[Row]) -> Iterator[Row]:
    held: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        keys = ("distribution", "width", "quantity", "metric")
        held[tuple(row[key] for key in keys)].append(row["value"])
    for group, values in held.items():
        distribution, width, quantity, metric = group
        sigma, estimate = int(width) ** -0.5, mean_interval(values)
        by_theory = (
            theory.norm_moments(int(width), sigma, distribution)
            if quantity == "squared_norm"
            else theory.product_moments(int(width), sigma)
        )
        yield {
            "distribution": distribution, "width": int(width), "quantity": quantity,
            "metric": metric, "seeds": estimate.n, "mean": estimate.mean, "low": estimate.low,
            "high": estimate.high, "theory": by_theory[metric == "variance"],
        }  # fmt: skip
