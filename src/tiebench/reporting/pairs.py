"""Which runs differ, which are alike, and about which nothing can be said."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import Any

from tiebench.analysis.statistics import LEVEL
from tiebench.reporting.estimates import CORRECTED, DETECTABLE, FEW, PERCENT, alone, count_of_seeds
from tiebench.reporting.naming import (
    better,
    capital,
    counted,
    joined,
    metric_name,
    number,
    signed,
    unit,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.plotting import COLOURS, GREY, WIDTH, legend, new_figure, wrapped
from tiebench.reporting.results import Results, Row

MOST = 6
"""Pairs that there is room for; of more, those with the baseline are drawn and told."""
SIGNS = ("different, first better", "different, first worse", "equivalent", "undecided")
FILLS = dict(zip(SIGNS, (COLOURS[0], COLOURS[1], COLOURS[2], GREY), strict=True))
SINGLE = ("none", "false discovery rate")
"""Starts of the corrections whose strictest level is that of one test."""
CURVES, UNSETTLED = "the learning curve", "a learning curve is not flat"
"""How reasons that are about curves start, and what is said of them all."""


def section(results: Results, family: str, title: str) -> Section:
    """Verdicts on every pair of trained main runs, and whether their curves have flattened."""
    held, drawn = list(results.where("pairs", family=family)), _drawn(results, family)
    left_out = "" if len(drawn) == len(held) else " Only pairs with the baseline are drawn."
    return Section(
        f"{family}-pairs",
        f"Differences between runs{title}",
        findings(results, family),
        [
            Figure(
                f"{family}_pairs",
                f"First minus second run of each pair, {_mean(results, family)}in the unit of its "
                "row; the colour is the verdict: blue, different and the first is better (for the "
                "loss: lower); orange, different and the first is worse; green, equivalent within "
                f"the margin; grey outline, undecided.{left_out}",
                partial(matrix, results, family, drawn),
            )
        ],
        [convergence(results, family), verdicts(results, family)],
        notes(results, family),
    )


def _mean(results: Results, family: str) -> str:
    return "" if alone(results, family) else "in the mean over seeds, "


def _drawn(results: Results, family: str) -> list[Row]:
    held = list(results.where("pairs", family=family))
    if len({(row["first"], row["second"]) for row in held}) <= MOST:
        return held
    baseline = results.baseline(family)
    return [row for row in held if baseline in (row["first"], row["second"])]


def findings(results: Results, family: str) -> list[str]:
    """How the verdicts fall and why there are none; the baseline's pairs; which curves fall."""
    rows = list(results.where("pairs", family=family))
    found = Counter(row["verdict"] for row in rows)
    count = len({(row["first"], row["second"]) for row in rows})
    metrics = len({row["metric"] for row in rows})
    said = [f"{found[x]} {x}" for x in ("different", "equivalent", "undecided") if found[x]]
    first = (
        f"{counted(count, 'pair')} of trained main runs in {counted(metrics, 'metric')}, "
        f"{counted(len(rows), 'comparison')}: {joined(said)}."
    )
    undecided = [[row["reason"]] for row in rows if row["verdict"] == "undecided"]
    if shown := reasons(results, family, undecided):
        first += f" Undecided because: {shown}."
    return [first, *_with_baseline(results, family), *flattened(results, family)]


def reasons(results: Results, family: str, given: list[list[str]]) -> str:
    """How often each reason is among those given for comparisons, the commonest first."""
    found = Counter(
        part
        for texts in given
        for part in dict.fromkeys(
            UNSETTLED if part.startswith(CURVES) else results.reason(family, part)
            for text in texts
            for part in filter(None, text.split("; "))
        )
    )
    return "; ".join(f"{reason} ({n})" for reason, n in found.most_common())


def _with_baseline(results: Results, family: str) -> list[str]:
    """What the verdicts say of each run against the baseline, in words."""
    baseline = results.baseline(family)
    held: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in results.where("pairs", family=family, second=baseline):
        kind = _verdict(row).removeprefix("different, first ")
        if kind != "undecided":
            name = metric_name(row["metric"]).split(" (")[0]
            held[results.called(family, row["first"])][kind].append(name)
    if not held:
        return []
    runs = [
        capital(f"{run} is {'; '.join(f'{kind} in {joined(x)}' for kind, x in kinds.items())}.")
        for run, kinds in held.items()
    ]
    return [f"Against {results.called(family, baseline)}: {' '.join(runs)}"]


def notes(results: Results, family: str) -> list[str]:
    """Differences and equivalences with their size, by pair, and how far each curve falls."""
    sentences: list[str] = []
    for verdict, words in (("different", "Different"), ("equivalent", "Equivalent")):
        held: dict[str, list[str]] = defaultdict(list)
        for row in _drawn(results, family):
            if row["verdict"] == verdict:
                what, scale, digits = unit(row["metric"])
                size = signed(row["difference"], digits, scale)
                held[_pair(results, family, row)].append(
                    f"{metric_name(row['metric'])} ({size} {what})"
                )
        sentences += (f"{words}, {pair}: {joined(x)}." for pair, x in held.items())
    if len(_drawn(results, family)) < len(list(results.where("pairs", family=family))):
        sentences.append("Pairs without the baseline are in the table.")
    falls = [
        f"{results.called(family, row['run'])} by {_drop(row)}"
        for row in results.where("flattened", family=family)
        if row["flat"] != "true"
    ]
    if falls:
        sentences.append(f"Fall of the curves that are not flat, in nats: {joined(falls)}.")
    return sentences


def _pair(results: Results, family: str, row: Row) -> str:
    return " minus ".join(results.called(family, row[key]) for key in ("first", "second"))


def flattened(results: Results, family: str) -> list[str]:
    """Which learning curves have flattened, by the rule that was set before."""
    rows = list(results.where("flattened", family=family))
    if not rows:
        return []
    share, nats = number(rows[0]["share"], 0, 100), f"{float(rows[0]['nats']):g}"
    flat = [results.called(family, row["run"]) for row in rows if row["flat"] == "true"]
    moving = [results.called(family, row["run"]) for row in rows if row["flat"] != "true"]
    rule = (
        f"A learning curve counts as flat when its validation loss changes by less than {nats} "
        f"nats over the last {share}% of the training tokens"
        f"{'' if alone(results, family) else ', in the mean over seeds'}"
    )
    if not moving:
        return [f"{rule}: all are."]
    if flat:
        return [f"{rule}; not flat: {joined(moving)}. Pairs with such a run have no verdict."]
    falling = all(float(row["drop"]) > 0 for row in rows)
    return [
        f"{rule}. Since {'every curve still falls' if falling else 'no curve is flat'}, no verdict "
        "is given: the runs compare how fast the couplings learn, and longer training may change "
        "the order."
    ]


def _drop(row: Row) -> str:
    text = number(row["drop"], 3)
    if row["low"]:
        text += f" ({number(row['low'], 3)} to {number(row['high'], 3)})"
    return text


def convergence(results: Results, family: str) -> Table:
    """How far each curve falls at its end."""
    rows = [
        [
            results.called(family, row["run"]),
            _drop(row),
            f"{float(row['nats']):g}",
            row["seeds"],
            "yes" if row["flat"] == "true" else "no",
        ]
        for row in results.where("flattened", family=family)
    ]
    first = results.one("flattened", family=family)
    share = number(first["share"], 0, 100) if first else ""
    seeds = count_of_seeds(results, family, matched=True)
    if not alone(results, family):
        seeds = f"mean over {seeds} with the ends of its {PERCENT} t interval"
    caption = (
        f"Fall of the validation loss over the last {share}% of the training tokens (nats, "
        f"{seeds}; below zero it rises), and the limit below which a curve counts as flat."
    )
    header = ["run", "fall (nats)", "limit (nats)", "seeds", "flat"]
    return Table(f"{family}_flattened", caption, header, rows)


def verdicts(results: Results, family: str) -> Table:
    """Every pair in every metric."""
    rows = []
    for row in results.where("pairs", family=family):
        what, scale, digits = unit(row["metric"])
        rows.append(
            [
                f"{metric_name(row['metric'])} ({what})",
                _pair(results, family, row).replace(" minus ", " − "),
                signed(row["difference"], digits, scale),
                _ends(row["low"], row["high"], digits, scale),
                _ends(row["sentence_low"], row["sentence_high"], digits, scale),
                _p(row["p_adjusted"]),
                number(row["margin"], digits, scale),
                _p(row["p_equivalence_adjusted"]),
                number(row["detectable"], digits, scale),
                worded(results, family, row),
            ]
        )
    method = correction(results)
    corrected = ""
    if method != "none":
        corrected = (
            f" p is corrected{f' ({method})' if method else ''} over the pairs of one metric, not "
            "over metrics."
        )
    caption = (
        f"Pairs of trained main runs, {_intervals(results, family)}; loss and token "
        f"accuracy are judged over seeds alone.{corrected} Different: "
        f"{'' if method == 'none' else 'corrected '}p below {1 - LEVEL:.2g} and any interval over "
        "sentences on the same side of zero. "
        "Equivalent: shown to be within the margin, which was set before the runs, as is any "
        "interval over sentences. "
        f"{capital(FEW)}. {smallest(results)}"
    )
    p = "p" if method == "none" else "p, corrected"
    header = ["metric", "runs", "difference", "over seeds", "over sentences", p, "margin",
              p.replace("p", "p of equivalence", 1), "smallest detectable", "verdict"]  # fmt: skip
    return Table(f"{family}_pairs", caption, header, rows, long=len(rows) > 12)


def _intervals(results: Results, family: str) -> str:
    """Which intervals the table of verdicts has."""
    seeds = count_of_seeds(results, family)
    drawn = "bootstrap interval over sentences or strings"
    if alone(results, family):
        return f"{seeds}, {PERCENT} {drawn}"
    return f"paired by seed; {seeds}, {PERCENT} t interval over seeds and {drawn}"


def worded(results: Results, family: str, row: Row) -> str:
    """The verdict on two runs, with its reason in brackets."""
    reason = f" ({results.reason(family, row['reason'])})" if row["reason"] else ""
    return f"{row['verdict']}{reason}"


def correction(results: Results) -> str:
    """How p values are corrected; empty where the tables do not say."""
    row = results.one("provenance", item="correction of p values")
    return row["value"] if row else ""


def smallest(results: Results) -> str:
    """What the smallest detectable difference is, of tests that may be corrected."""
    return DETECTABLE if correction(results).startswith(SINGLE) else CORRECTED


def _ends(low: str, high: str, digits: int, scale: float) -> str:
    return f"{signed(low, digits, scale)} to {signed(high, digits, scale)}" if low else ""


def _p(cell: str) -> str:
    if not cell:
        return ""
    return f"{float(cell):.3f}" if float(cell) >= 0.001 else "< 0.001"


def matrix(results: Results, family: str, rows: list[Row]) -> Any:
    """Differences as a table of coloured cells: a row per metric, a column per pair."""
    from matplotlib.patches import Rectangle

    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    pairs = list(dict.fromkeys((row["first"], row["second"]) for row in rows))
    if not rows:
        return None
    figure, axes = new_figure(WIDTH, 1.5 + 0.36 * len(metrics))
    for row in rows:
        x, y = pairs.index((row["first"], row["second"])), metrics.index(row["metric"])
        fill = FILLS[_verdict(row)]
        decided = row["verdict"] != "undecided"
        axes.add_patch(
            Rectangle(
                (x - 0.46, y - 0.42), 0.92, 0.84, facecolor=fill if decided else "none",
                edgecolor=fill, alpha=0.35 if decided else 0.9, linewidth=0.9,
            )
        )  # fmt: skip
        _, scale, digits = unit(row["metric"])
        text = signed(row["difference"], min(digits, 2), scale)
        axes.text(x, y, text, ha="center", va="center", fontsize=9)
    what = [f"{wrapped(metric_name(m).split(' (')[0], 24)} ({unit(m)[0]})" for m in metrics]
    axes.set_yticks(range(len(metrics)), [wrapped(x, 26) for x in what], fontsize=8.5)
    names = [
        f"{wrapped(results.called(family, a), 14)}\n− {wrapped(results.called(family, b), 14)}"
        for a, b in pairs
    ]
    axes.set_xticks(range(len(pairs)), names, fontsize=8.5)
    axes.set_xlim(-0.5, len(pairs) - 0.5)
    axes.set_ylim(len(metrics) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for words, colour in FILLS.items():
        if words in {_verdict(row) for row in rows}:
            axes.plot(
                [], [], color=colour, marker="s", linestyle="", markersize=7, label=words,
                markerfacecolor="none" if words == "undecided" else colour,
            )  # fmt: skip
    legend(figure, axes)
    return figure


def _verdict(row: Row) -> str:
    if row["verdict"] == "different":
        return SIGNS[0] if float(row["difference"]) * better(row["metric"]) > 0 else SIGNS[1]
    return row["verdict"]
