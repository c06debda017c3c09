"""The tables that the stage `initial_loss` writes, made up after theory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tiebench.analysis.initial_loss import (
    logits_of,
    norm_moments,
    product_moments,
    second_order,
)
from tiebench.analysis.tables import write_table
from tiebench.experiments.initial_loss_settings import (
    DISTRIBUTIONS,
    RAW,
    InitialLossSettings,
    Point,
)
from tiebench.model.settings import CouplingSettings

RESCALED = {"logit_scale": "inverse_sqrt_width"}
RUNS: dict[str, dict[str, Any]] = {
    "tied": {},
    "untied": {"tied": False},
    "fixed_std": {"std": 0.02},
    "untied_fixed_std": {"tied": False, "std": 0.02},
    "log_vocabulary": {"std": "log_vocabulary_over_width"},
    "rescaled": RESCALED,
    "std_1_rescaled": {"std": 1.0, **RESCALED},
    "rescaled_fixed_std": {"std": 0.02, **RESCALED},
    "half_swap": {"transform": [{"kind": "half_swap"}]},
    "bert_head": {"transform": [{"kind": "linear"}, {"kind": "gelu"}]},
    "shared_initialization": {"tied": False, "shared_initialization": True},
}
KEPT = {"standard": 0.02, "inverse_sqrt_depth": 0.1, "deep_norm": 0.99, "zero": 1.0}
"""Share of the own logit that the layers keep, by the branches."""


def coupling(**changes: Any) -> CouplingSettings:
    """One table with std 1/sqrt(d), no bias and no head, but for the changes."""
    usual = {"option": "made_up", "tied": True, "bias": False, "std": "inverse_sqrt_width"}
    return CouplingSettings.model_validate({**usual, **changes})


def initial_loss_settings(seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> dict[str, Any]:
    """The section of params.yaml."""
    body = {
        "option": "llama", "width": 64, "layers": 12, "heads": 1, "feedforward_width": 8,
        "causal": True, "norm": "rms_norm", "positions": "rotary", "feedforward": "swiglu",
        "bias": False,
    }  # fmt: skip
    return {
        "option": "initial_loss",
        "runs": {
            name: {"coupling": coupling(option=name, **changes).model_dump()}
            for name, changes in RUNS.items()
        },
        "grids": [
            {"vocabulary": 1000, "widths": [128, 512, 2048]},
            {"vocabulary": 8000, "widths": [128, 512], "runs": ["tied", "untied"]},
        ],
        "deep": {
            "body": body, "head_width": 64, "vocabulary": 8000, "widths": [128, 768],
            "branches": list(KEPT), "sequences": 2,
            "runs": ["fixed_std", "untied_fixed_std", "rescaled_fixed_std"],
        },
        "sequences": 4, "sequence_length": 32, "moments": 100, "moment_widths": [64],
        "tolerance": 0.02, "seeds": list(seeds),
    }  # fmt: skip


def write_initial_loss(
    folder: Path,
    settings: InitialLossSettings,
    loss: Callable[[Point, float], float] = lambda point, value: value,
    moment: Callable[[str, float], float] = lambda metric, value: value,
) -> None:
    """Write the tables of the experiment.

    Args:
        loss: what a model's loss is, given the one that theory has.
        moment: what a moment is, given the one that theory has.
    """
    losses: list[dict[str, Any]] = []
    for point in settings.points():
        width = point.body.width
        logits = logits_of(settings.runs[point.run].coupling, point.vocabulary, width)
        value, own = 7.4, 0.0
        if logits is not None:
            share = KEPT[point.branch] if point.branch else 1.0
            own = share * logits.own_mean
            kept = type(logits)(own, logits.own_variance, logits.other_variance)
            value = second_order(kept, point.vocabulary)
        for seed in settings.seeds:
            at = {
                "run": point.run, "body": point.body.option, "branch": point.branch,
                "layers": point.body.layers, "vocabulary": point.vocabulary, "width": width,
                "seed": seed,
            }  # fmt: skip
            noise = np.random.default_rng([seed, width]).normal(0, 0.01)
            losses.append({**at, "metric": "loss", "value": loss(point, value) + noise})
            losses.append({**at, "metric": "own_logit", "value": own})
    write_table(folder / "losses.csv", RAW["losses"], losses)
    write_table(folder / "moments.csv", RAW["moments"], _moments(settings, moment))


def _moments(
    settings: InitialLossSettings, moment: Callable[[str, float], float]
) -> list[dict[str, Any]]:
    rows = []
    for distribution, width, seed in product(DISTRIBUTIONS, settings.moment_widths, settings.seeds):
        theory = {
            "squared_norm": norm_moments(width, width**-0.5, distribution),
            "product": product_moments(width, width**-0.5),
        }
        for quantity, values in theory.items():
            for metric, value in zip(("mean", "variance"), values, strict=True):
                rows.append({
                    "distribution": distribution, "width": width, "seed": seed,
                    "quantity": quantity, "metric": metric,
                    "value": moment(f"{metric} of {quantity}", value) + 1e-6 * seed,
                })  # fmt: skip
    return rows
