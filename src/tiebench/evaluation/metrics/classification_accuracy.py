"""Accuracy and macro-averaged F1 as an `evaluate` module.

A direct subclass, so that nothing is looked up on a hub; `evaluate.load` of this file works too.
"""

from __future__ import annotations

from typing import Any

import datasets
import evaluate
import numpy as np


class ClassificationAccuracy(evaluate.Metric):  # type: ignore[misc]
    """Share of correct predictions, and the mean over labels of their F1, group by group."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Accuracy (micro-averaged F1 of single labels) and macro-averaged F1.",
            citation="Manning, Raghavan and Schuetze 2008, section 13.6",
            inputs_description=(
                "predictions, references: label numbers from 0. "
                "groups, group_count (optional): a whole number below the count for each example."
            ),
            features=datasets.Features(
                {"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}
            ),
            format="numpy",
        )

    def _compute(
        self,
        predictions: np.ndarray,
        references: np.ndarray,
        groups: np.ndarray | None = None,
        group_count: int = 1,
    ) -> dict[str, Any]:
        """`accuracy`, `macro_f1` and `n`.

        The macro average is over the labels that a group has as reference or prediction.

        Args:
            predictions, references: `[examples]`.
            groups: `[examples]`, or None for a single group.
            group_count: groups in all.

        Returns:
            Floats for a single group, else arrays `[group_count]`; an empty group has NaN.
        """
        of = np.zeros(len(references), dtype=np.int64) if groups is None else groups
        labels = 1 + max(int(references.max(initial=0)), int(predictions.max(initial=0)))
        hit = predictions == references

        def counted(label: np.ndarray, weight: Any = None) -> np.ndarray:
            flat = np.bincount(of * labels + label, weight, group_count * labels)
            return flat.reshape(group_count, labels)

        said = counted(predictions) + counted(references)
        f1 = 2 * counted(references, hit) / np.where(said > 0, said, 1)
        n = np.bincount(of, minlength=group_count)
        filled = np.where(n > 0, n, np.nan)
        values = {
            "accuracy": np.bincount(of, hit, group_count) / filled,
            "macro_f1": f1.sum(1) / np.where(n > 0, (said > 0).sum(1), np.nan),
            "n": n,
        }
        return {k: v[0].item() if groups is None else v for k, v in values.items()}
