"""Figures of the recurrent runs: perplexity by epoch, beside printed ones, and differences."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.paths import RECURRENT
from tiebench.reporting.curves import PUBLISHED, line
from tiebench.reporting.dots import forest
from tiebench.reporting.naming import capital
from tiebench.reporting.plotting import (
    COLOURS,
    GREY,
    WIDTH,
    legend,
    new_figure,
    run_styles,
    wrapped,
)
from tiebench.reporting.recurrent_findings import EFFECTS, circumstances
from tiebench.reporting.results import Results, Row

VERDICTS = {
    "different": (COLOURS[0], "o"),
    "equivalent": (COLOURS[2], "s"),
    "undecided": (GREY, "d"),
}


def curves(results: Results, split: str) -> Any:
    """Perplexity by epoch of each run, from the first one on."""
    figure, axes = new_figure()
    for run, style in run_styles(results, RECURRENT).items():
        losses: dict[int, list[float]] = defaultdict(list)
        for row in results.where("recurrent_curves", run=run, split=split):
            losses[int(row["epoch"])].append(float(row["loss"]))
        points = [(float(x), _estimate(losses[x])) for x in sorted(losses) if x]
        size = {"markersize": 3.5 if len(points) < 20 else 0}
        line(axes, points, results.called(RECURRENT, run), style | size)
    if not axes.lines:
        return None
    _perplexities(axes.yaxis, axes.get_ylim())
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("epoch")
    axes.set_ylabel("perplexity")
    legend(figure, axes)
    return figure


def _estimate(losses: list[float]) -> Row:
    """The exponentials of a mean loss and of the ends of its interval."""
    found = mean_interval(losses)
    ends = {"mean": found.mean, "low": found.low, "high": found.high}
    return {name: "" if x is None else repr(math.exp(x)) for name, x in ends.items()}


def _perplexities(axis: Any, limits: tuple[float, float]) -> None:
    """A logarithmic axis with whole numbers at it."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    axis.axes.set_yscale("log") if axis.axis_name == "y" else axis.axes.set_xscale("log")
    wide = limits[1] > 8 * limits[0]
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))


def tests(results: Results) -> Any:
    """Test perplexity of each run, beside the printed one where the settings are those."""
    rows = {row["run"]: row for row in results.where("recurrent_summary", split="test")}
    if not rows:
        return None
    figure, axes = new_figure(WIDTH, 1.2 + 0.36 * len(rows))
    styles = run_styles(results, RECURRENT)
    printed = {x["run"]: x for x in results.where("recurrent_published", split="test") if x["run"]}
    for y, (run, row) in enumerate(rows.items()):
        if row["perplexity_low"]:
            ends = (float(row[f"perplexity_{x}"]) for x in ("low", "high"))
            axes.hlines(y, *ends, color=styles[run]["color"])
        axes.plot(
            float(row["perplexity"]), y, color=styles[run]["color"], marker=styles[run]["marker"],
            markersize=6,
        )  # fmt: skip
        if run in printed:
            for key, marker, words in (
                ("published", "D", "printed"), ("released", "s", "released code"),
                ("reproduction", "x", "independent reproduction"),
            ):  # fmt: skip
                if printed[run][key]:
                    axes.plot(
                        float(printed[run][key]), y + 0.22, color=PUBLISHED[0], marker=marker,
                        markerfacecolor="none", markersize=5.5, linestyle="",
                        label=words if words not in axes.get_legend_handles_labels()[1] else "_",
                    )  # fmt: skip
    names = [wrapped(results.called(RECURRENT, run), 20) for run in rows]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("test perplexity")
    if printed:
        legend(figure, axes)
    return figure


def compared(results: Results, split: str) -> list[Row]:
    """Pairs that differ in one thing, the effects in order."""
    rows = list(results.where("recurrent_pairs", split=split))
    return [row for effect in EFFECTS for row in rows if row["differs"] == effect]


def differences(results: Results, split: str) -> Any:
    """Differences in log perplexity of the pairs that differ in one thing."""
    rows = compared(results, split)
    if not rows:
        return None
    figure, axes = new_figure(WIDTH, 1.2 + 0.62 * len(rows))
    names = [
        f"{wrapped(capital(row['differs']), 30)}\n{wrapped(circumstances(row), 34)}" for row in rows
    ]
    forest(axes, rows, names, [VERDICTS[row["verdict"]] for row in rows], 1.0)
    axes.locator_params(axis="x", nbins=4)
    for verdict in dict.fromkeys(row["verdict"] for row in rows):
        colour, marker = VERDICTS[verdict]
        axes.plot([], [], color=colour, marker=marker, label=verdict)
    axes.set_xlabel("log perplexity, with minus without")
    legend(figure, axes, 3)
    return figure
