"""Figures of the sweeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tiebench.reporting.curves import line
from tiebench.reporting.naming import plain
from tiebench.reporting.plotting import COLOURS, DASHES, MARKERS, legend, new_figure
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

Series = dict[tuple[str, str], list[Row]]
"""(run, the other axes) -> rows in the order of the axis."""


def _series(rows: Iterable[Row]) -> Series:
    held: Series = defaultdict(list)
    for row in rows:
        held[row["run"], row["others"]].append(row)
    return dict(held)


def _lines(axes: Any, series: Series, axis: str, metric: str) -> None:
    """A line with its band for each series: a colour a run, a dash a value of the other axes."""
    runs = list(dict.fromkeys(run for run, _ in series))
    others = list(dict.fromkeys(other for _, other in series))
    for (run, other), rows in series.items():
        at = runs.index(run)
        style = {
            "color": COLOURS[at % len(COLOURS)],
            "marker": MARKERS[at % len(MARKERS)],
            "linestyle": DASHES[others.index(other) % len(DASHES)],
        }
        points = [(float(row[axis]), {**row, "mean": row[metric]}) for row in rows if row[metric]]
        line(axes, sorted(points, key=lambda point: point[0]), _label(run, other), style)


def _label(run: str, other: str) -> str:
    return f"{plain(run)}, {plain(other)}" if other else plain(run)


def stability(results: Results, sweep: str) -> Any:
    """Loss against learning rate; the loss of token frequencies as a level."""
    figure, axes = new_figure()
    _lines(axes, _series(results.where("stability", sweep=sweep)), "learning_rate", "loss")
    level = results.one("sweeps", sweep=sweep, metric="unigram_loss")
    if not axes.lines or level is None:
        return None
    axes.axhline(float(level["value"]), color=TEXT, linewidth=1, linestyle=":", label="unigram")
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("nats per predicted token")
    legend(figure, axes)
    return figure


def regularization(results: Results, sweep: str) -> Any:
    """The gap against the share of the text that is used."""
    figure, axes = new_figure()
    _lines(axes, _series(results.where("regularization", sweep=sweep)), "data_share", "gap")
    if not axes.lines:
        return None
    axes.axhline(0, color=TEXT, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("share of the training text")
    axes.set_ylabel("validation minus training loss (nats)")
    legend(figure, axes)
    return figure


def underflow(results: Results, sweep: str) -> Any:
    """Shares of small entries against the initial std, before training and at the end."""
    figure, axes = new_figure()
    rows = list(results.where("underflow", sweep=sweep, format="float16"))
    run = rows[0]["run"] if rows else ""
    for index, limit in enumerate(("normal", "subnormal")):
        for dash, when in enumerate(("start", "end")):
            of = [
                row for row in rows
                if (row["run"], row["limit"], row["when"]) == (run, limit, when)
            ]  # fmt: skip
            points = [(float(row["deviation"]), {**row, "mean": row["share"]}) for row in of]
            style = {
                "color": COLOURS[index], "marker": MARKERS[index], "linestyle": DASHES[dash],
                "markerfacecolor": "none" if dash else COLOURS[index],
            }  # fmt: skip
            name = "before training" if when == "start" else "at the end"
            points.sort(key=lambda point: point[0])
            line(axes, points, f"below the smallest {limit}, {name}", style, percent=True)
    if not axes.lines:
        return None
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("initial std of the table")
    axes.set_ylabel("entries (%), float16")
    legend(figure, axes, 1)
    return figure
