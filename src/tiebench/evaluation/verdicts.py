"""Verdicts on two runs: different, equivalent, or undecided and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tiebench.analysis.learning_curves import Unflattened, unsettled
from tiebench.analysis.resampling import Sampled, SampledEstimate, bootstrap_difference
from tiebench.analysis.statistics import (
    LEVEL,
    MINIMUM_SEEDS,
    PairedDifference,
    correct,
    corrected_over,
    equivalence,
    paired_difference,
    shared_seeds,
    smallest_detectable,
)
from tiebench.evaluation.statistics_settings import MarginSettings, StatisticsSettings

Key = tuple[str, str, str]
"""(family, run, metric)."""
BySeed = Mapping[int, float]


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
    hindrance: str = ""
    """Why nothing is decided whatever the numbers; empty if something may be."""


@dataclass(frozen=True)
class Judgement:
    """What is said about a contest, and from what."""

    contest: Contest
    means: tuple[float, float]
    """Of the first and the second, over the seeds that both have."""
    difference: PairedDifference
    """First minus second."""
    p_adjusted: float | None
    detectable: float | None
    """At the level of the corrected test."""
    margin: float
    p_equivalence_adjusted: float | None
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
        mine, other = (sampled[key] for key in keys)
        if list(mine.sentences) != list(other.sentences):
            raise ValueError(f"{first} and {second} have other examples of {metric}")
        over = bootstrap_difference(mine.values, other.values, mine.sentences, mine.groups)
    return Contest(family, metric, first, second, (ours, theirs), over)


def judge(
    contests: Sequence[Contest], settings: StatisticsSettings, unflattened: Unflattened
) -> list[Judgement]:
    """A verdict on each of the contests, whose p values are corrected for their number.

    `different`: the corrected p value is below 1 - LEVEL, and the interval over sentences, where
    there is one, is on the same side of zero; this may be a difference within the margin.
    `equivalent`: else, when the corrected p value of equivalence is below 1 - LEVEL, and the
    interval over sentences, where there is one, within the margin too. Both need MINIMUM_SEEDS
    seeds and curves that have flattened. Loss and masked accuracy have no outcomes of examples:
    they are judged over seeds alone.

    The smallest detectable difference is at the level of the corrected test: for `holm` and
    `bonferroni` that of one test over the number of tests, for `fdr_bh` and `none` that of one.

    Args:
        contests: of one family and metric.
        settings: margins and the kind of correction.
        unflattened: the learning curves that are not flat.
    """
    pairs = [shared_seeds(*contest.values) for contest in contests]
    margins = [margin(contest.metric, settings.margins) for contest in contests]
    differences = [paired_difference(*pair) for pair in pairs]
    raw = [found.p for found in differences]
    adjusted = correct(raw, settings.correction)
    tests = corrected_over(raw, settings.correction)
    within = correct(
        [equivalence(*pair, limit) for pair, limit in zip(pairs, margins, strict=True)],
        settings.correction,
    )
    judgements = []
    for contest, pair, limit, found, p, p_equivalence in zip(
        contests, pairs, margins, differences, adjusted, within, strict=True
    ):
        hindrances = (
            f"fewer than {MINIMUM_SEEDS} seeds" if found.n < MINIMUM_SEEDS else "",
            unsettled(contest.family, (contest.first, contest.second), unflattened),
            contest.hindrance,
        )
        verdict, reason = "undecided", "; ".join(filter(None, hindrances))
        if not reason:
            verdict, reason = _verdict(found, p, p_equivalence, limit, contest.sampled)
        judgements.append(
            Judgement(
                contest,
                (sum(pair[0]) / found.n, sum(pair[1]) / found.n),
                found,
                p,
                smallest_detectable(pair[0], pair[1], tests),
                limit,
                p_equivalence,
                verdict,
                reason,
            )
        )
    return judgements


def _verdict(
    found: PairedDifference,
    p: float | None,
    p_equivalence: float | None,
    limit: float,
    sampled: SampledEstimate | None,
) -> tuple[str, str]:
    """The verdict where nothing hinders one, and why it is none."""
    if p is None or p_equivalence is None:
        return "undecided", "the difference is the same in every seed"
    same_side = inside = True
    if sampled is not None and sampled.low is not None and sampled.high is not None:
        same_side = sampled.sign * found.mean > 0
        inside = -limit <= sampled.low and sampled.high <= limit
    differs, alike = p < 1 - LEVEL, p_equivalence < 1 - LEVEL
    if differs and same_side:
        return "different", ""
    if alike and inside:
        return "equivalent", ""
    reasons = ["the interval over sentences includes zero"] * differs
    reasons += ["the interval over sentences passes the margin"] * alike
    return "undecided", "; ".join(reasons) or "neither a difference nor equivalence is shown"
