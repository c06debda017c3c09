"""What the mechanism dial and relaxed tying show, in sentences made from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tiebench.reporting.bigram_results import ALIKE, DIFFERENT, UNDECIDED, Laboratory
from tiebench.reporting.naming import joined


def dial(held: Laboratory) -> Iterator[str]:
    """What of the gap between one table and two lies in initial values, gradients and capacity."""
    tied, untied = held.role("tied"), held.role("untied")
    size, standing, _ = held.pair("loss", tied, untied)
    yield (
        f"Two tables end {abs(size):.2f} nats {'below' if size > 0 else 'above'} one ({standing})."
    )
    if standing != DIFFERENT or size <= 0:
        return
    runs = [run for run in held.group("dial") if not float(held.rows[run]["tie_penalty"])]
    shares = [f"{held.called(run)} {held.recovered(run):.0%}{_still(held, run)}" for run in runs]
    if shares:
        yield f"Of these {size:.2f} nats are recovered by {joined(shares)}."
    for run in runs:
        row = held.rows[run]
        if row["shared_initialization"] == "true":
            yield _initialization(held, run)
    yield from _gradients(held, runs)
    yield from _capacity(held)


def _still(held: Laboratory, run: str) -> str:
    undecided = held.pair("loss", run, held.role("tied"))[1] == UNDECIDED
    return " (undecided)" if undecided else ""


def _initialization(held: Laboratory, run: str) -> str:
    untied = held.role("untied")
    final, speed = (held.pair(metric, run, untied) for metric in ("loss", "area"))
    ends = {
        ALIKE: "end alike", UNDECIDED: "end at a loss that is not decided",
        DIFFERENT: f"end {abs(final[0]):.2f} nats {'above' if final[0] > 0 else 'below'}",
    }[final[1]]  # fmt: skip
    on_the_way = f"{speed[0]:+.2f} nats in the mean over the updates ({speed[1]})"
    verdict = (
        " The initial values are not what tying costs here."
        if final[1] == ALIKE
        else " The initial values are part of what tying costs here."
        if final[1] == DIFFERENT and final[0] > 0
        else ""
    )
    return (
        f"Two tables that start with the same values {ends} against two that do not, with "
        f"{on_the_way}.{verdict}"
    )


def _gradients(held: Laboratory, runs: Sequence[str]) -> Iterator[str]:
    """Whether the table is better off with the gradient of one side alone."""
    tied = held.role("tied")
    found = {}
    for run in runs:
        scales = [float(held.rows[run][f"{side}_gradient_scale"]) for side in ("input", "output")]
        if 0.0 in scales:
            found[run] = held.pair("loss", run, tied)
    if not found:
        return
    shown = [f"{held.called(run)} {size:+.2f} ({how})" for run, (size, how, _) in found.items()]
    worse = all(size > 0 and how == DIFFERENT for size, how, _ in found.values())
    better = [run for run, (size, how, _) in found.items() if size < 0 and how == DIFFERENT]
    verdict = (
        "one side's gradient alone is worse, so that their conflict is not what tying costs here"
        if worse
        else f"the gradient of the other side hinders: {joined(held.names(better))}"
        if better
        else "not decided"
    )
    yield f"One table with the gradient of one side, against both: {joined(shown)}; {verdict}."


def _capacity(held: Laboratory) -> Iterator[str]:
    """How the loss goes from two free tables to one as they are drawn together."""
    points = held.dial
    if len(points) < 2:
        return
    losses = [held.mean(run, "loss") for _, run in points]
    (low, free), (high, bound) = points[0], points[-1]
    rising = all(a <= b for a, b in pairwise(losses))
    half = next((p for p, run in points if held.recovered(run) < 0.5), None)
    apart = [held.mean(run, "distance") for run in (free, bound)]
    shown = rising and half is not None and _gains(held, free)
    yield (
        f"A penalty on the distance of two tables leads from {losses[0]:.3f} nats at {low:g} to "
        f"{losses[-1]:.3f} at {high:g} as they come from {apart[0]:.2f} to {apart[1]:.2f} of their "
        "norm, "
        + ("rising at each step" if rising else "not rising at each step")
        + (f"; half of the gap is lost at {half:g}." if half is not None else ".")
        + (" What tying costs here is what the two sides may differ by." if shown else "")
    )


def relaxed(held: Laboratory) -> Iterator[str]:
    """What operations on a shared table buy for their parameters."""
    runs = [run for run in held.group("relaxed") if held.rows[run]["tied"] == "true"]
    tied = held.role("tied")
    _, standing, _ = held.pair("loss", tied, held.role("untied"))
    if not runs or standing != DIFFERENT or held.gap <= 0:
        return
    shares = {run: (held.parameters(run), held.recovered(run)) for run in runs}
    gaining = [run for run in runs if _gains(held, run)]
    best = max(gaining, key=lambda run: shares[run][1] / shares[run][0], default=None)
    listed = [
        f"{held.called(run)} {gain:.0%} for {cost:.1%}{_still(held, run)}"
        for run, (cost, gain) in shares.items()
    ]
    yield (
        f"Relaxed tying, share of the gap recovered for share of the second table's parameters: "
        f"{joined(listed)}." + (f" Most for its parameters: {held.called(best)}." if best else "")
    )


def _gains(held: Laboratory, run: str) -> bool:
    """Whether a run ends below the tied one by the corrected verdict."""
    size, standing, _ = held.pair("loss", run, held.role("tied"))
    return standing == DIFFERENT and size < 0
