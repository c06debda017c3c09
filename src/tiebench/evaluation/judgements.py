"""Tables of judgements: flat learning curves, all pairs of runs, and four views of the runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

from tiebench.analysis import learning_curves
from tiebench.analysis.learning_curves import (
    Curve,
    Curves,
    Unflattened,
    loss_at,
    validation_curves,
)
from tiebench.analysis.resampling import Sampled
from tiebench.evaluation.verdicts import (
    BySeed,
    Contest,
    Judgement,
    Key,
    contest_of,
    judge,
    judged,
)
from tiebench.settings import Params, families
from tiebench.training.settings import FamilySettings

Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]]

PAIRS = (
    "family", "metric", "first", "second", "seeds", "difference", "low", "high", "varies",
    "p", "p_adjusted", "detectable", "margin", "p_equivalence_adjusted",
    "sentences", "sentence_low", "sentence_high", "verdict", "reason",
)  # fmt: skip
VIEWS = (
    "family", "view", "metric", "first", "second", "first_mean", "second_mean",
    "quantity", "second_quantity", "seeds", "difference", "low", "high", "varies",
    "detectable", "p_adjusted", "verdict", "reason",
)  # fmt: skip
PARAMETER_VIEWS = {
    "pretraining": "equal pretraining parameters",
    "fine_tuning": "equal fine-tuning parameters",
}


class Viewed(NamedTuple):
    """A contest in a view, still to be judged."""

    view: str
    quantities: tuple[float, float]
    """What is equal, of the first and the second: body width, parameters, or training FLOPs."""
    contest: Contest


def flattened_rows(params: Params, curves: Rows) -> Iterator[Row]:
    """Whether the learning curve of each trained run, matched ones included, has flattened.

    Args:
        params: of these, the statistics' share of the tokens and smallest drop.
        curves: family, run, seed, tokens, metric, value.

    Yields:
        Rows with FLATTENED.
    """
    flat = params.statistics.flattened
    return learning_curves.flattened_rows(validation_curves(curves), flat.share, flat.nats)


def judge_pairs(
    params: Params, headline: Rows, sampled: Sampled, unflattened: Unflattened
) -> list[Judgement]:
    """Every pair of trained main runs of a family, in every metric that is `judged`.

    P values, those of equivalence too, are corrected over the pairs of a metric within a family.

    Args:
        params: families and statistics.
        headline: family, run, seed, metric, value.
        sampled: outcomes of examples, for the metrics that have them.
        unflattened: the learning curves that are not flat.

    Returns:
        By family and metric. `first` is the later of the two in params.yaml, and never the
        baseline, so that a difference has the sign of a run minus its baseline.
    """
    values, judgements = _values(headline), []
    for family, group in families(params).items():
        runs = sorted(_trained(group), key=lambda run: run != group.baseline)
        pairs = [(first, second) for second, first in combinations(runs, 2)]
        for metric in _metrics(family, values):
            found = (contest_of(values, sampled, family, metric, *pair) for pair in pairs)
            contests = [contest for contest in found if contest]
            judgements += judge(contests, params.statistics, unflattened)
    return judgements


def pair_rows(judgements: Iterable[Judgement]) -> Iterator[Row]:
    """The judgements of `judge_pairs`.

    Yields:
        Rows with PAIRS. `p_adjusted`, `p_equivalence_adjusted` and `detectable` are of the
        corrected tests, see `judge`. `sentences` and its interval are empty for loss and masked
        accuracy, which are judged over seeds alone.
    """
    for judgement in judgements:
        sampled = judgement.contest.sampled
        yield {
            **_row(judgement),
            "p": judgement.difference.p,
            "margin": judgement.margin,
            "p_equivalence_adjusted": judgement.p_equivalence_adjusted,
            "sentences": sampled and sampled.sentences,
            "sentence_low": sampled and sampled.low,
            "sentence_high": sampled and sampled.high,
        }


def view_rows(
    params: Params,
    headline: Rows,
    curves: Rows,
    parameters: Rows,
    runs: Rows,
    unflattened: Unflattened,
    sampled: Sampled,
    pairs: Iterable[Judgement],
) -> Iterator[Row]:
    """Runs that are equal in something else than their coupling.

    The trained main runs against the baseline at the body's width and at training FLOPs; each
    matched run against the run that it matches, at parameters. At the body's width these are
    pairs that `judge_pairs` has judged, and so are p and verdict. In the other views p values are
    corrected over the rows of a view and metric.

    Args:
        params: families and statistics.
        headline: family, run, seed, metric, value.
        curves: family, run, seed, tokens, metric, value.
        parameters: family, run, metric, value; of these, pretraining and fine_tuning.
        runs: family, run, train_flops (of a whole run).
        unflattened: the learning curves that are not flat.
        sampled: outcomes of examples, for the metrics that have them.
        pairs: those of `judge_pairs`.

    Yields:
        Rows with VIEWS; `p_adjusted` and `detectable` are of the corrected tests, see `judge`.
    """
    values, validated = _values(headline), validation_curves(curves)
    flops = {(row["family"], row["run"]): float(row["train_flops"]) for row in runs}
    counts = {(row["family"], row["run"], row["metric"]): row["value"] for row in parameters}
    judged = list(pairs)
    for family, group in families(params).items():
        yield from _equal_width(family, group, judged)
        held: dict[tuple[str, str], list[Viewed]] = defaultdict(list)
        for viewed in (
            *_equal_parameters(family, group, values, counts, sampled),
            *_equal_flops(family, group, flops, validated),
        ):
            held[viewed.view, viewed.contest.metric].append(viewed)
        for several in held.values():
            contests = [viewed.contest for viewed in several]
            for viewed, judgement in zip(
                several, judge(contests, params.statistics, unflattened), strict=True
            ):
                yield _view_row(viewed.view, viewed.quantities, judgement)


def _values(rows: Rows) -> dict[Key, dict[int, float]]:
    values: dict[Key, dict[int, float]] = defaultdict(dict)
    for row in rows:
        values[row["family"], row["run"], row["metric"]][row["seed"]] = row["value"]
    return dict(values)


def _trained(group: FamilySettings) -> list[str]:
    return [run for run, settings in group.runs.items() if settings.trained]


def _metrics(family: str, values: Mapping[Key, BySeed]) -> list[str]:
    return list(dict.fromkeys(m for held, _, m in values if held == family and judged(m)))


def _equal_width(family: str, group: FamilySettings, pairs: Iterable[Judgement]) -> Iterator[Row]:
    for judgement in pairs:
        contest = judgement.contest
        if contest.family == family and contest.second == group.baseline:
            widths = [group.body_of(run).width for run in (contest.first, contest.second)]
            if widths[0] == widths[1]:
                yield _view_row("equal width", (widths[0], widths[1]), judgement)


def _equal_parameters(
    family: str,
    group: FamilySettings,
    values: Mapping[Key, BySeed],
    counts: Mapping[Key, float],
    sampled: Sampled,
) -> Iterator[Viewed]:
    for metric in _metrics(family, values):
        for run, settings in group.matched.items():
            matches = settings.matches
            contest = contest_of(values, sampled, family, metric, run, matches.run)
            if contest:
                ours, theirs = (counts[family, x, matches.parameters] for x in (run, matches.run))
                yield Viewed(PARAMETER_VIEWS[matches.parameters], (ours, theirs), contest)


def _equal_flops(
    family: str, group: FamilySettings, flops: Mapping[tuple[str, str], float], curves: Curves
) -> Iterator[Viewed]:
    """Both runs at the cost of the cheaper one; what a run costs grows as its tokens.

    The dearer one is then read in the middle of its schedule. Its loss there is higher than that
    of a run planned for so few tokens, so the numbers are given and nothing is decided; but where
    its learning rate does not decay.
    """
    baseline = group.baseline
    for run in _trained(group):
        if run == baseline or not curves.keys() >= {(family, run), (family, baseline)}:
            continue
        costs = {x: flops[family, x] for x in (run, baseline)}
        budget = min(costs.values())
        ours, theirs = (
            {seed: _loss_after(budget / cost, curve) for seed, curve in curves[family, x].items()}
            for x, cost in costs.items()
        )
        dearer = [
            x for x, cost in costs.items()
            if cost > budget and group.training_of(x).decay != "constant"
        ]  # fmt: skip
        early = f"{dearer[0]} is read before its learning rate has decayed" if dearer else ""
        if ours.keys() & theirs.keys():
            contest = Contest(family, "loss", run, baseline, (ours, theirs), hindrance=early)
            yield Viewed("equal training FLOPs", (budget, budget), contest)


def _loss_after(share: float, curve: Curve) -> float:
    """The validation loss after a share of the training tokens."""
    return loss_at(curve, share * curve[-1][0])


def _view_row(view: str, quantities: tuple[float, float], judgement: Judgement) -> Row:
    return {
        **_row(judgement),
        "view": view,
        "first_mean": judgement.means[0],
        "second_mean": judgement.means[1],
        "quantity": quantities[0],
        "second_quantity": quantities[1],
    }


def _row(judgement: Judgement) -> Row:
    """What both tables say of two runs."""
    contest, found = judgement.contest, judgement.difference
    return {
        "family": contest.family,
        "metric": contest.metric,
        "first": contest.first,
        "second": contest.second,
        "seeds": found.n,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "varies": found.varies,
        "p_adjusted": judgement.p_adjusted,
        "detectable": judgement.detectable,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }
