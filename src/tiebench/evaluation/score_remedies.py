"""The tables of the study `remedies`: initial losses beside theory, speed and final losses.

Su (2023) says of his countermeasures against the initial loss of a shared table that std ln(n)/d
converges slowest, that the others are alike, and that all end at about the same loss.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from tiebench.analysis.initial_loss import logits_of, second_order
from tiebench.analysis.learning_curves import Unflattened, loss_at, validation_curves
from tiebench.evaluation.summaries import ESTIMATES, summarize
from tiebench.evaluation.verdicts import Contest, judge
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.settings import Params, families
from tiebench.training.settings import FamilySettings

Row = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

STUDY = "remedies"
"""The families with tables are those whose study's name begins so."""
SLOWEST = "tied_log_vocabulary"
"""The coupling that is said to be slowest."""
REMEDIES = (
    "untied_plain", SLOWEST, "tied_orthogonal", "tied_bert_head", "tied_half_swap",
    "tied_channel_shuffle",
)  # fmt: skip
"""The countermeasures of Su (2023), by the file of the coupling."""
CONTROLS = {"tied_matched_initial_loss": SLOWEST, "untied_orthogonal": "tied_orthogonal"}
"""By the coupling of a control, that of the run it is the control of."""
RATES = {"learning_rate", "table_learning_rate"}
"""What a run of the study may have of its own; with more it is another than the published one."""
SHARES = (0.125, 0.25, 0.5)
"""Shares of the training tokens at which losses are read, chosen before any run."""
LENGTHS = ("area", "loss")
"""Metrics that runs are judged in: the mean validation loss on the way, and at the end."""

REMEDY_VALUES = ("family", "run", "seed", "metric", "value")
SUMMARY = ("family", "run", "metric", *ESTIMATES)
RUNS = (
    "family", "run", "role", "branch", "option", "tied", "std", "logit_scale", "width", "d_sigma",
    "log_vocabulary", "theory", "learning_rate", "table_learning_rate",
)  # fmt: skip
PAIRS = (
    "family", "claim", "metric", "first", "second", "seeds", "difference", "low", "high",
    "p_adjusted", "detectable", "margin", "p_equivalence_adjusted", "verdict", "reason",
)  # fmt: skip


def tables(
    params: Params, headline: Rows, curves: Rows, unflattened: Unflattened
) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name.

    Args:
        params: families and statistics.
        headline: family, run, seed, metric, value.
        curves: family, run, seed, tokens, metric, value.
        unflattened: the learning curves that are not flat.
    """
    groups = {x: group for x, group in families(params).items() if _studied(group)}
    values = list(_value_rows(groups, headline, curves))
    summary = summarize(values, (), {family: group.baseline for family, group in groups.items()})
    runs = [row for family, group in groups.items() for row in _run_rows(params, family, group)]
    return {
        "remedies": (REMEDY_VALUES, values),
        "remedies_summary": (SUMMARY, summary),
        "remedies_runs": (RUNS, runs),
        "remedies_pairs": (PAIRS, list(_pair_rows(params, runs, values, unflattened))),
    }


def _studied(group: FamilySettings) -> bool:
    return group.study == STUDY or group.study.startswith(f"{STUDY}_")


def _value_rows(
    groups: Mapping[str, FamilySettings], headline: Rows, curves: Rows
) -> Iterator[Row]:
    """Per run and seed: initial and final loss, losses at SHARES, and the mean on the way.

    `area`: the area under the validation curve by trapezoids, over the training tokens.
    """
    for row in headline:
        if row["family"] in groups and row["metric"] in ("initial_loss", "loss"):
            yield {key: row[key] for key in REMEDY_VALUES}
    for (family, run), by_seed in validation_curves(curves).items():
        if family not in groups:
            continue
        for seed, curve in by_seed.items():
            at = {"family": family, "run": run, "seed": seed}
            end = curve[-1][0]
            for share in SHARES:
                value = loss_at(curve, share * end)
                yield {**at, "metric": f"loss_at_{share:g}", "value": value}
            area = sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(curve))
            yield {**at, "metric": "area", "value": area / end}


def _run_rows(params: Params, family: str, group: FamilySettings) -> Iterator[Row]:
    """What each run is and the loss that theory gives it before training."""
    tokenizer = params.corpora[group.corpus].tokenizer
    assert tokenizer is not None, "checked with the settings"
    for run, held in group.runs.items():
        coupling, body, training = held.coupling, group.body_of(run), group.training_of(run)
        std = coupling.table_std(tokenizer.vocabulary, coupling.widths(body.width)[1])
        yield {
            "family": family,
            "run": run,
            "role": _role(group, run),
            "branch": body.branch,
            "option": coupling.option,
            "tied": coupling.tied,
            "std": std,
            "logit_scale": coupling.logit_factor(body.width, tokenizer.vocabulary),
            "width": body.width,
            "d_sigma": body.width * std,
            "log_vocabulary": math.log(tokenizer.vocabulary),
            "theory": initial_loss(coupling, body, tokenizer.vocabulary),
            "learning_rate": training.learning_rate,
            "table_learning_rate": training.table_learning_rate,
        }


def _role(group: FamilySettings, run: str) -> str:
    """baseline, slowest, remedy, control or other, on the family's body; standard on another."""
    option = group.runs[run].coupling.option
    if group.body_of(run) != group.body:
        return "standard"
    if run == group.baseline:
        return "baseline"
    if set(group.runs[run].training) - RATES:
        return "other"
    if option in CONTROLS:
        return "control"
    known = "slowest" if option == SLOWEST else "remedy" if option in REMEDIES else "other"
    return known if group.runs[run].trained else "other"


def initial_loss(coupling: CouplingSettings, body: BodySettings, vocabulary: int) -> float | None:
    """The loss before training, in nats, by the second order of `analysis.initial_loss`.

    Returns:
        None where theory has none: a branch adds something at the start, or positions or a norm
        stand before the last norm, or the head is more than a map.
    """
    still = body.kind == "identity" or (body.branch == "zero" and body.norm_placement == "pre")
    added = body.kind != "identity" and body.positions != "rotary"
    logits = logits_of(coupling, vocabulary, body.width, body.norm_epsilon)
    if not still or added or body.embedding_norm or logits is None:
        return None
    return second_order(logits, vocabulary)


def _claims(runs: list[Row]) -> Iterator[tuple[str, str, str, str]]:
    """(claim, metric, first, second) of all that is compared."""
    by_role: dict[str, list[Row]] = defaultdict(list)
    for row in runs:
        by_role[row["role"]].append(row)
    names = {role: [row["run"] for row in rows] for role, rows in by_role.items()}
    remedies, slowest = names.get("remedy", []), names.get("slowest", [])
    for slow in slowest:
        for run in remedies:
            yield "slowest", "area", slow, run
    for second, first in combinations(remedies, 2):
        yield "alike", "area", first, second
    for second, first in combinations([*remedies, *slowest], 2):
        yield "finals", "loss", first, second
    for metric in LENGTHS:
        for row in by_role["control"]:
            wanted = CONTROLS[row["option"]]
            others = [*by_role["remedy"], *by_role["slowest"]]
            for other in (x for x in others if x["option"] == wanted):
                yield "control", metric, other["run"], row["run"]
        for base in (x for x in by_role["standard"] if x["option"] == "tied_plain"):
            for row in (x for x in by_role["standard"] if x is not base):
                yield "standard", metric, row["run"], base["run"]


def _pair_rows(
    params: Params, runs: list[Row], values: list[Row], unflattened: Unflattened
) -> Iterator[Row]:
    """Verdicts, p values corrected over the pairs of a claim and metric.

    A mean on the way is of the whole training, which need not have come to its end for it; finals
    are judged where curves have flattened.
    """
    held: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for row in values:
        held[row["family"], row["run"], row["metric"]][row["seed"]] = row["value"]
    for family in dict.fromkeys(row["family"] for row in runs):
        compared: dict[tuple[str, str], list[Contest]] = defaultdict(list)
        for claim, metric, first, second in _claims([x for x in runs if x["family"] == family]):
            pair = held.get((family, first, metric), {}), held.get((family, second, metric), {})
            if pair[0].keys() & pair[1].keys():
                contest = Contest(family, "loss", first, second, pair)
                compared[claim, metric].append(contest)
        for (claim, metric), contests in compared.items():
            falling = unflattened if metric == "loss" else {}
            for judgement in judge(contests, params.statistics, falling):
                contest, found = judgement.contest, judgement.difference
                yield {
                    "family": family, "claim": claim, "metric": metric,
                    "first": contest.first, "second": contest.second, "seeds": found.n,
                    "difference": found.mean, "low": found.low, "high": found.high,
                    "p_adjusted": judgement.p_adjusted, "detectable": judgement.detectable,
                    "margin": judgement.margin,
                    "p_equivalence_adjusted": judgement.p_equivalence_adjusted,
                    "verdict": judgement.verdict, "reason": judgement.reason,
                }  # fmt: skip
