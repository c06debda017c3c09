"""The tables that the stage `bigram` writes, made up and deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tiebench.analysis.tables import write_table
from tiebench.experiments.bigram import curve_points
from tiebench.experiments.bigram_settings import NEXT, TABLES, WINDOW, BigramSettings

RANK = [{"kind": "low_rank_addition", "rank": 1}]
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "tied": ("reference", {"tied": True}, {}),
    "untied": ("reference", {"tied": False}, {}),
    "log_std": ("remedy", {"tied": True, "std": "log_vocabulary_over_width"}, {}),
    "swap": ("remedy", {"tied": True, "transform": [{"kind": "half_swap"}]}, {}),
    "map": ("remedy", {"tied": True, "transform": [{"kind": "linear", "bias": False}]}, {}),
    "shared": ("dial", {"tied": False, "shared_initialization": True}, {}),
    "one_side": ("dial", {"tied": True}, {"input_gradient_scale": 0.0}),
    "weak": ("dial", {"tied": False}, {"tie_penalty": 1e-4}),
    "strong": ("dial", {"tied": False}, {"tie_penalty": 1e-1}),
    "low_rank": ("relaxed", {"tied": True, "output_operations": RANK}, {}),
}
"""By run: group, what differs in its coupling, and its training."""
LOSS = {
    "tied": 5.0, "untied": 3.6, "log_std": 4.99, "swap": 4.1, "map": 3.61, "shared": 3.62,
    "one_side": 5.6, "weak": 3.7, "strong": 4.9, "low_rank": 3.9,
}  # fmt: skip
AREA = {run: loss + 0.1 for run, loss in LOSS.items()} | {"log_std": 5.05}
WINDOW_LOSS = {"tied": 5.5, "untied": 5.35, "swap": 5.35}
SYMMETRIC = ("tied", "log_std", "swap", "one_side")


def bigram_settings(corpus: str = "home", *, seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Any:
    """The section of params.yaml."""
    runs = {
        run: {
            "group": group,
            "coupling": {"option": run, "bias": False, "std": "inverse_sqrt_width", **coupling},
            "training": training,
        }
        for run, (group, coupling, training) in RUNS.items()
    }
    return {
        "option": "bigram", "corpus": corpus, "vocabulary": 60, "width": 144, "window": 2,
        "window_runs": list(WINDOW_LOSS), "updates": 20, "learning_rates": [0.01, 0.1],
        "pilot_tolerance": 0.01, "pilot_seed": 100, "seeds": list(seeds),
        "milestones": [0.5, 0.9], "tied": "tied", "untied": "untied", "slowest": "log_std",
        "runs": runs,
    }  # fmt: skip


def write_bigram(
    folder: Path,
    settings: BigramSettings,
    loss: Mapping[str, float] = LOSS,
    area: Mapping[str, float] = AREA,
    window: Mapping[str, float] = WINDOW_LOSS,
) -> None:
    """Write the tables of the laboratory.

    Args:
        loss, area, window: by run, its final loss, its mean loss over the updates, and its final
            loss in the window objective, each in the mean over seeds but for a little noise.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for objective, finals in ((NEXT, loss), (WINDOW, window)):
        for run in settings.runs if objective == NEXT else settings.window_runs:
            at = {"objective": objective, "run": run}
            for rate in settings.learning_rates:
                tried = {"loss": finals[run], "area": finals[run] + 1, "chosen": rate == 0.01}
                rows["rates"].append({**at, "learning_rate": rate, **tried})
            for seed in settings.seeds:
                noise = np.random.default_rng([seed, len(rows["runs"])]).normal(0, 0.002, 3)
                values = _values(settings, run, finals[run], noise)
                values["area"] = (area[run] if objective == NEXT else finals[run]) + noise[2]
                for metric, value in values.items():
                    rows["runs"].append({**at, "seed": seed, "metric": metric, "value": value})
                for update in curve_points(settings.updates):
                    value = finals[run] + noise[0] + 5 * np.exp(-update)
                    point = {"seed": seed, "update": update, "value": value}
                    for metric in ("train_loss", "valid_loss"):
                        rows["curves"].append({**at, **point, "metric": metric})
        values = {
            "vocabulary": settings.vocabulary, "train_pairs": 5000, "valid_pairs": 400,
            "coverage": 0.8, "repeats": 0.003, "asymmetry": 1.39 if objective == NEXT else 0.0,
            "train_unigram": 5.8, "train_bigram": 3.5, "valid_unigram": 5.8, "valid_bigram": 3.7,
            "level_0.5": 4.65, "level_0.9": 3.73,
        }  # fmt: skip
        rows["objectives"] += (
            {"objective": objective, "metric": metric, "value": value}
            for metric, value in values.items()
        )
    for name, columns in TABLES.items():
        write_table(folder / f"{name}.csv", columns, rows[name])


def _values(settings: BigramSettings, run: str, loss: float, noise: np.ndarray) -> dict[str, float]:
    penalty = settings.runs[run].training.tie_penalty
    values = {
        "initial_loss": 12 + noise[0], "loss": loss + noise[0], "valid_loss": loss + 0.1 + noise[1],
        "rank": 140, "effective_rank": 90 + noise[0],
        "asymmetry": 0.2 + noise[0], "form_asymmetry": 1e-7 if run in SYMMETRIC else 1.4,
        "form_negative": 0.0 if run in ("tied", "log_std", "one_side") else 0.5,
        "repeats": 0.1 if run == "tied" else 0.003, "distance": 0.05 if penalty == 0.1 else 1.2,
        "parameters": 1000 * (1 + (not settings.runs[run].coupling.tied) + 0.05 * (run == "low_rank")),
    }  # fmt: skip
    if loss < 4.65:
        values["updates_to_0.5"] = 4
    return values
