"""What the 2-gram laboratory shows, in sentences made from its tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting.bigram_dial import dial, relaxed
from tiebench.reporting.bigram_results import (
    ALIKE,
    DIFFERENT,
    INDEFINITE,
    UNDECIDED,
    Laboratory,
)
from tiebench.reporting.estimates import seeds_of, value
from tiebench.reporting.naming import capital, counted, joined

ENOUGH = 2.0
"""d sigma over ln n from which a shared table's first loss stands well above ln n."""


def findings(held: Sequence[Laboratory]) -> list[str]:
    """Su's claims, the form of the logits, the window, the dial, relaxed tying, validation."""
    first = held[0]
    if first.seeds < MINIMUM_SEEDS:
        return [start(first), few(first)]
    told = [start(first), slowest(first), alike_in_speed(first), alike_in_the_end(first)]
    told += [form(first), *(window(first, other) for other in held[1:])]
    told += [*dial(first), *relaxed(first), validation(first)]
    return told


def few(held: Laboratory) -> str:
    """Nothing is decided with few seeds."""
    tied, untied = (held.mean(held.role(role), "loss") for role in ("tied", "untied"))
    return (
        f"In the mean over {seeds_of(held.seeds)}, without a claim, one table ends at {tied:.3f} "
        f"nats and two at {untied:.3f}."
    )


def start(held: Laboratory) -> str:
    """Initial losses, and whether the effect exists at this width."""
    tied, entries = held.role("tied"), held.reference["vocabulary"]
    row = held.rows[tied]
    scale = float(row["std"]) * float(row["width"])
    ratio = scale / math.log(entries)
    exists = "at least twice" if ratio >= ENOUGH else "less than twice"
    losses = (held.summary(run, "initial_loss") for run in (tied, *held.remedies))
    shown = [
        f"{held.called(run)} {value(loss, 2)}"
        for run, loss in zip((tied, *held.remedies), losses, strict=True)
        if loss
    ]
    return (
        f"With {entries:.0f} entries and width {row['width']}, d sigma is {scale:.1f} for "
        f"{held.called(tied)}, {exists} ln n = {math.log(entries):.2f}. Initial losses: "
        f"{joined(shown)}.{_theory(held)}"
    )


def _theory(held: Laboratory) -> str:
    """How far the initial losses are from theory."""
    apart = {
        run: abs(held.mean(run, "initial_loss") / float(row["predicted"]) - 1)
        for run, row in held.rows.items()
        if row["predicted"]
    }
    if not apart:
        return ""
    worst = max(apart, key=lambda run: apart[run])
    return (
        f" Theory gives the initial losses of {len(apart)} of the {len(held.rows)} runs to "
        f"{max(apart.values()):.1%} or better (farthest off: {held.called(worst)})."
    )


def _split(
    held: Laboratory, metric: str, run: str, others: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The others by how a run stands to them, with the run's difference from each."""
    found: dict[str, dict[str, float]] = {}
    for other in others:
        size, standing, _ = held.pair(metric, run, other)
        where = standing if standing != DIFFERENT else "above" if size > 0 else "below"
        found.setdefault(where, {})[other] = size
    return found


def _sizes(sizes: Sequence[float]) -> str:
    low, high = min(map(abs, sizes)), max(map(abs, sizes))
    return f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"


def slowest(held: Laboratory) -> str:
    """Su: std = ln(n)/d converges the slowest of the countermeasures."""
    run = held.role("slowest")
    others = [other for other in held.remedies if other != run]
    found = _split(held, "area", run, others)
    claim = f"Su 2023 found that {held.called(run)} (std = ln(n)/d) converges the slowest."
    measure = "in the mean loss over the updates"
    above = found.get("above", {})
    if len(above) == len(others):
        return (
            f"{claim} So it does here: {measure} it is {_sizes(list(above.values()))} nats above "
            f"each of the {len(others)} other countermeasures."
        )
    parts = [
        f"{words} {joined(held.names(list(found[where])))}"
        for where, words in (
            ("above", "it is slower than"), ("below", "it is faster than"),
            (ALIKE, f"alike within {held.margin:g} nats are"), (UNDECIDED, "undecided is"),
        )
        if where in found
    ]  # fmt: skip
    verdict = "Not so here" if found.keys() & {"below", ALIKE} else "Not decided here"
    return f"{claim} {verdict}: {measure} {'; '.join(parts)}."


def alike_in_speed(held: Laboratory) -> str:
    """Su: the other countermeasures converge at similar rates."""
    others = [run for run in held.remedies if run != held.role("slowest")]
    start = "Su 2023 found the others to converge at similar rates."
    return f"{start} {_alike(held, 'area', others, 'in the mean loss over the updates')}"


def alike_in_the_end(held: Laboratory) -> str:
    """Su: in the end all perform more or less the same."""
    start = "Su 2023 found all of them more or less the same in the end."
    return f"{start} {_alike(held, 'loss', held.remedies, 'in the final training loss')}"


def _alike(held: Laboratory, metric: str, runs: Sequence[str], where: str) -> str:
    """How many pairs are alike, and which run is how far above which others."""
    pairs = [(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    standings = [held.pair(metric, *pair)[1] for pair in pairs]
    count, undecided = standings.count(ALIKE), standings.count(UNDECIDED)
    within = f"alike within {held.margin:g} nats {where}"
    if count == len(pairs):
        return f"So they are here: {count} of {counted(len(pairs), 'pair')} are {within}."
    worse = []
    for run in runs:
        others = [x for x in runs if x != run]
        above = _split(held, metric, run, others).get("above", {})
        if above:
            of = "all others" if len(above) == len(others) else joined(held.names(list(above)))
            worse.append(f"{held.called(run)} is {_sizes(list(above.values()))} above {of}")
    verdict = "Not all are here" if worse else "Not decided here"
    text = f"{verdict}: {count} of {counted(len(pairs), 'pair')} are {within}"
    text += f", {undecided} undecided" if undecided else ""
    return f"{text}; {'; '.join(worse)}." if worse else f"{text}."


def form(held: Laboratory) -> str:
    """Which logits are a symmetric form, and what the text is."""
    symmetric, untied = held.symmetric, held.role("untied")
    text = f"the shares of the pairs have an asymmetry of {held.reference['asymmetry']:.2f}"
    if not symmetric:
        return f"No run's logits are symmetric; {text}."
    said = (
        f"Up to a factor per row, the norm's, the logits of {joined(held.names(symmetric))} are "
        f"symmetric (to {max(held.highest(run, 'form_asymmetry') for run in symmetric):.0e}); "
        f"those of {held.called(untied)} have an asymmetry of "
        f"{held.mean(untied, 'form_asymmetry'):.2f}, and {text}."
    )
    for run in symmetric:
        if run in held.group("remedy") and held.mean(run, "form_negative") > INDEFINITE:
            size, standing, _ = held.pair("loss", run, untied)
            said += (
                f" So {held.called(run)} is not equivalent to two tables of half the width once "
                "trained. Unlike a table's product with itself, its form can be negative "
                f"({held.mean(run, 'form_negative'):.0%} of its eigenvalues by size)."
            )
            if standing == DIFFERENT:
                said += (
                    f" It ends {abs(size):.2f} nats {'above' if size > 0 else 'below'} "
                    f"{held.called(untied)}, whose two tables have the full width."
                )
    return said


def window(held: Laboratory, other: Laboratory) -> str:
    """What is left of the handicap of one table when the counts are symmetric."""
    tied, untied = other.role("tied"), other.role("untied")
    size, standing, _ = other.pair("loss", tied, untied)
    said = (
        f"With the symmetric counts of a window, where symmetry costs nothing, one table ends "
        f"{abs(size):.2f} nats {'above' if size > 0 else 'below'} two ({standing}), against "
        f"{held.gap:.2f} for the next token."
    )
    for run in other.symmetric:
        if other.mean(run, "form_negative") > INDEFINITE:
            own, how, _ = other.pair("loss", run, untied)
            said += f" {capital(other.called(run))}, symmetric too, is {own:+.3f} from two ({how})"
            said += (
                f": what one table lacks there is a form that can be negative. It expects "
                f"{other.mean(tied, 'repeats'):.1%} of the pairs to be of a token with itself, "
                f"where {other.reference['repeats']:.1%} are."
                if size > 0 and standing == DIFFERENT and own < size / 2
                else "."
            )
    return said


def validation(held: Laboratory) -> str:
    """The best run on pairs that were not trained on."""
    best = min(held.rows, key=lambda run: held.mean(run, "valid_loss"))
    untied, smoothed = held.role("untied"), held.reference["valid_bigram"]
    row = held.summary(best, "valid_loss")
    assert row is not None, "every run has a validation loss"
    said = (
        f"The lowest validation loss is that of {held.called(best)}, {value(row, 3)}; pairs "
        f"smoothed by Witten and Bell give {smoothed:.3f}"
    )
    if best == untied:
        return f"{said}."
    size, standing, _ = held.pair("valid_loss", best, untied)
    return f"{said}, and it is {size:+.3f} from {held.called(untied)} ({standing})."
