"""Learning curves: the validation loss between two validations, and whether it has settled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import mean_interval

Row = dict[str, Any]
Curve = Sequence[tuple[int, float]]
"""Tokens trained on and validation loss in nats, in the order of training."""
Curves = Mapping[tuple[str, str], Mapping[int, Curve]]
"""(family, run) -> seed -> curve."""
Unflattened = Mapping[tuple[str, str], float]
"""(family, run) of the curves that are not flat -> mean drop; below zero where the loss rises."""

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
        nats: a mean change over it of less than this, in either direction, is flat.

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
            "flat": abs(drop.mean) < nats,
        }


def unflattened(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], float]:
    """The rows of `flattened_rows` whose curve still falls, or rises, as Unflattened."""
    return {(row["family"], row["run"]): row["drop"] for row in rows if not row["flat"]}


def unsettled(family: str, runs: Sequence[str], curves: Unflattened) -> str:
    """Why nothing is decided about runs whose curves still fall or rise; empty if they are flat."""
    drops = {run: curves[family, run] for run in runs if (family, run) in curves}
    falling = [run for run, drop in drops.items() if drop > 0]
    rising = [run for run in drops if run not in falling]
    said = []
    for held, one, several in (
        (falling, "has not flattened", "have not flattened"),
        (rising, "rises", "rise"),
    ):
        if len(held) == 1:
            said.append(f"the learning curve of {held[0]} {one}")
        elif held:
            said.append(f"the learning curves of {' and '.join(held)} {several}")
    return "; ".join(said)
