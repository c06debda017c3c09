"""Learning curves: the validation loss between two validations, and whether it still falls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import mean_interval

Row = dict[str, Any]
Curve = Sequence[tuple[int, float]]
"""Tokens trained on and validation loss in nats, in the order of training."""
Curves = Mapping[tuple[str, str], Mapping[int, Curve]]
"""(family, run) -> seed -> curve."""

FLATTENED = ("family", "run", "seeds", "share", "drop", "low", "high", "nats", "flat")


def validation_curves(rows: Iterable[Mapping[str, Any]]) -> Curves:
    """Curves of the trained runs; the others have one validation, before any token.

    Args:
        rows: family, run, seed, tokens, metric, value; those of metric validation_loss are used.
    """
    curves: dict[tuple[str, str], dict[int, list[tuple[int, float]]]] = {}
    for row in rows:
        if row["metric"] == "validation_loss":
            group = curves.setdefault((row["family"], row["run"]), {})
            group.setdefault(row["seed"], []).append((row["tokens"], row["value"]))
    return {
        run: {seed: sorted(curve) for seed, curve in by_seed.items()}
        for run, by_seed in curves.items()
        if any(tokens for curve in by_seed.values() for tokens, _ in curve)
    }


def loss_at(curve: Curve, tokens: float) -> float:
    """The validation loss after so many tokens, linear between two validations.

    Raises:
        ValueError: the curve does not reach so far.
    """
    import numpy as np

    if not curve[0][0] <= tokens <= curve[-1][0]:
        raise ValueError(f"{tokens} tokens are not from {curve[0][0]} to {curve[-1][0]}")
    at, losses = (list(column) for column in zip(*curve, strict=True))
    return float(np.interp(tokens, at, losses))


def flattened_rows(curves: Curves, share: float, nats: float) -> Iterator[Row]:
    """One row per trained run: how far its loss fell at the end.

    Args:
        curves: those of `validation_curves`.
        share: the last share of the training tokens that is looked at.
        nats: a mean drop over it of less than this is flat.

    Yields:
        Rows with FLATTENED: mean drop over seeds with its t interval.
    """
    for (family, run), by_seed in curves.items():
        drops = [
            loss_at(curve, (1 - share) * curve[-1][0]) - curve[-1][1] for curve in by_seed.values()
        ]
        drop = mean_interval(drops)
        yield {
            "family": family,
            "run": run,
            "seeds": drop.n,
            "share": share,
            "drop": drop.mean,
            "low": drop.low,
            "high": drop.high,
            "nats": nats,
            "flat": drop.mean < nats,
        }


def unflattened(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """(family, run) of the rows of `flattened_rows` whose curve still falls."""
    return {(row["family"], row["run"]) for row in rows if not row["flat"]}


def falling(runs: Sequence[str]) -> str:
    """Why nothing is decided about runs whose curves still fall."""
    if len(runs) == 1:
        return f"the learning curve of {runs[0]} has not flattened"
    return f"the learning curves of {' and '.join(runs)} have not flattened"
