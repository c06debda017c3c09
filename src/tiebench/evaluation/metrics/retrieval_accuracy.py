"""Nearest-neighbour translation accuracy as an `evaluate` module.

A direct subclass, so that nothing is looked up on a hub; `evaluate.load` of this file works too.
"""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np


class RetrievalAccuracy(evaluate.Metric):  # type: ignore[misc]
    """Mean credit, and mean reciprocal rank of the best correct answer, group by group."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Share of sources whose nearest target is a correct answer, and MRR.",
            citation="Pires et al. 2019, section 5; Chung et al. 2021, appendix A.9",
            inputs_description=(
                "credits: chance of a correct answer among the nearest, 0 to 1. "
                "ranks: rank of the best correct answer, 1 is nearest. "
                "groups (optional): a whole number below `group_count` for each example."
            ),
            features=datasets.Features(
                {"credits": datasets.Value("float32"), "ranks": datasets.Value("int32")}
            ),
            format="numpy",
        )

    def _compute(
        self,
        credits: np.ndarray,
        ranks: np.ndarray,
        groups: np.ndarray | None = None,
        group_count: int | None = None,
    ) -> dict[str, Any]:
        """`accuracy`, `reciprocal_rank` and `n`: floats, or arrays `[group_count]`.

        An empty group has NaN.
        """
        single = groups is None
        groups = np.zeros(len(ranks), dtype=np.int64) if groups is None else groups
        n = np.bincount(groups, minlength=group_count or 1)
        filled = np.where(n > 0, n, np.nan)
        values = {
            "accuracy": np.bincount(groups, credits.astype(np.float64), len(n)) / filled,
            "reciprocal_rank": np.bincount(groups, 1 / ranks, len(n)) / filled,
            "n": n,
        }
        return {name: value[0].item() if single else value for name, value in values.items()}
