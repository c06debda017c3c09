"""Verdicts on two runs: different, equivalent, or undecided and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiebench.analysis.learning_curves import falling
from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    PairedDifference,
    SampledEstimate,
    bootstrap_difference,
    correct,
    equivalence,
    paired_difference,
    shared_seeds,
)
from tiebench.evaluation.settings import MarginSettings, StatisticsSettings

Key = tuple[str, str, str]
"""(family, run, metric)."""
BySeed = Mapping[int, float]
Sampled = Mapping[Key, tuple[Any, Any]]
"""By run and metric: the outcome of each example in the mean over seeds, `[n]`, and the sentence
of each, `[n]`; the same examples in the same order for all runs."""


@dataclass(frozen=True)
class Contest:
    """Two runs of a family in one metric."""

    family: str
    metric: str
    first: str
    second: str
    values: tuple[BySeed, BySeed]
    """Of the first and the second."""
    sampled: SampledEstimate | None = None
    """The difference over sentences, where the metric has outcomes of examples."""
    note: str = ""
    """What to know about it whatever the verdict."""


@dataclass(frozen=True)
class Judgement:
    """What is said about a contest, and from what."""

    contest: Contest
    means: tuple[float, float]
    """Of the first and the second, over the seeds that both have."""
    difference: PairedDifference
    """First minus second."""
    p_adjusted: float | None
    margin: float
    p_equivalence: float | None
    verdict: str
    """different, equivalent or undecided."""
    reason: str


def judged(metric: str) -> bool:
    """Whether a headline metric is one of those that runs are compared in.

    Loss, accuracy, retrieval at the last layer, every probing task, and transfer in the mean over
    languages: what else is a headline follows from these, or is chosen after the fact.
    """
    if metric.startswith("retrieval_"):
        return metric.endswith("_last")
    return metric in ("loss", "accuracy", "transfer") or metric.startswith("probing_")


def margin(metric: str, margins: MarginSettings) -> float:
    """The margin of a metric that is `judged`."""
    return float(getattr(margins, metric.split("_")[0]))


def contest_of(
    values: Mapping[Key, BySeed],
    sampled: Sampled,
    family: str,
    metric: str,
    first: str,
    second: str,
) -> Contest | None:
    """Two runs in one metric; None when they share no seed in it.

    Raises:
        ValueError: their outcomes are not of the same examples.
    """
    keys = [(family, run, metric) for run in (first, second)]
    ours, theirs = (values.get(key, {}) for key in keys)
    if not ours.keys() & theirs.keys():
        return None
    over = None
    if all(key in sampled for key in keys):
        (outcomes, sentences), (baseline, others) = (sampled[key] for key in keys)
        if list(sentences) != list(others):
            raise ValueError(f"{first} and {second} have other examples of {metric}")
        over = bootstrap_difference(outcomes, baseline, sentences)
    return Contest(family, metric, first, second, (ours, theirs), over)


def judge(
    contests: Sequence[Contest],
    settings: StatisticsSettings,
    unflattened: Collection[tuple[str, str]],
) -> list[Judgement]:
    """A verdict on each of the contests, whose p values are corrected for their number.

    `different`: the corrected p value is below 1 - LEVEL, and the interval over sentences, where
    there is one, is on the same side of zero; this may be a difference within the margin.
    `equivalent`: else, when the difference is shown to be within the margin. Both need
    MINIMUM_SEEDS seeds and curves that have flattened.

    Args:
        contests: of one family and metric.
        settings: margins and the kind of correction.
        unflattened: (family, run) whose learning curve still falls.
    """
    pairs = [shared_seeds(*contest.values) for contest in contests]
    differences = [paired_difference(*pair) for pair in pairs]
    adjusted = correct([found.p for found in differences], settings.correction)
    judgements = []
    for contest, pair, found, p in zip(contests, pairs, differences, adjusted, strict=True):
        within = equivalence(*pair, margin(contest.metric, settings.margins))
        runs = (contest.first, contest.second)
        fallen = [run for run in runs if (contest.family, run) in unflattened]
        hindrances = [f"fewer than {MINIMUM_SEEDS} seeds"] * (found.n < MINIMUM_SEEDS)
        hindrances += [falling(fallen)] if fallen else []
        verdict, reason = "undecided", "; ".join(hindrances)
        if not hindrances:
            verdict, reason = _verdict(found, p, within.p, contest.sampled)
        judgements.append(
            Judgement(
                contest,
                (sum(pair[0]) / found.n, sum(pair[1]) / found.n),
                found,
                p,
                within.margin,
                within.p,
                verdict,
                "; ".join(filter(None, (reason, contest.note))),
            )
        )
    return judgements


def _verdict(
    found: PairedDifference,
    p: float | None,
    p_equivalence: float | None,
    sampled: SampledEstimate | None,
) -> tuple[str, str]:
    """The verdict where nothing hinders one, and why it is none."""
    if p is None or p_equivalence is None:
        return "undecided", "the difference is the same in every seed"
    sentences = sampled is None or sampled.low is None or sampled.sign * found.mean > 0
    if p < 1 - LEVEL and sentences:
        return "different", ""
    if p_equivalence < 1 - LEVEL:
        return "equivalent", ""
    if not sentences and p < 1 - LEVEL:
        return "undecided", "the interval over sentences includes zero"
    return "undecided", "neither a difference nor equivalence is shown"
