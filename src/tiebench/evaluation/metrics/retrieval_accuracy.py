"""Nearest-neighbour translation accuracy as an `evaluate` module.

A direct subclass, so that nothing is looked up on a hub; `evaluate.load` of this file works too.
"""

from __future__ import annotations

from collections.abc import Mapping
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
                "groups, group_count (optional): a whole number below the count for each example. "
                "subsets (optional): masks by name; each subset is scored by itself."
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
        group_count: int = 1,
        subsets: Mapping[str, np.ndarray] | None = None,
    ) -> dict[str, Any]:
        """`accuracy`, `reciprocal_rank` and `n`; with `subsets`, those by name of subset.

        Args:
            credits, ranks: `[examples]`.
            groups: `[examples]`, or None for a single group.
            group_count: groups in all.
            subsets: masks `[examples]`.

        Returns:
            Floats for a single group, else arrays `[group_count]`; an empty group has NaN.
        """
        if subsets is not None:
            return {
                name: self._compute(
                    credits[mask],
                    ranks[mask],
                    None if groups is None else groups[mask],
                    group_count,
                )
                for name, mask in subsets.items()
            }
        of = np.zeros(len(ranks), dtype=np.int64) if groups is None else groups
        n = np.bincount(of, minlength=group_count)
        filled = np.where(n > 0, n, np.nan)
        values = {
            "accuracy": np.bincount(of, credits.astype(np.float64), group_count) / filled,
            "reciprocal_rank": np.bincount(of, 1 / ranks, group_count) / filled,
            "n": n,
        }
        return {k: v[0].item() if groups is None else v for k, v in values.items()}
