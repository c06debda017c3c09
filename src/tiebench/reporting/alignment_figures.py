"""Figures of vocabulary tables: alignment with floor and ceiling, norms by frequency, the lens."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tiebench.reporting.curves import line
from tiebench.reporting.plotting import (
    COLOURS,
    DASHES,
    GREY,
    WIDTH,
    legend,
    new_figure,
    run_styles,
    wrapped,
)
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

SIDES = {"tied": "table", "input": "input table", "output": "output table"}
"""The sides of a table in words."""
ORDER = (
    "output-tied", "input-tied", "input-output", "tied-tied", "output-output", "input-input",
    "initial input-output",
)  # fmt: skip
"""Pairs from the question to what it is held against."""
MOST = 4
"""Runs in a figure of curves, of which each may have two tables."""


def pair_name(results: Results, row: Row) -> str:
    """A pair of tables in words."""
    start = "before training: " if row["pair"].startswith("initial ") else ""
    sides = row["pair"].removeprefix("initial ").split("-")
    names = [results.called(row["family"], row[key]) for key in ("first", "second")]
    if names[0] == names[1]:
        which = " and ".join(dict.fromkeys(SIDES[side] for side in sides))
        seeds = ", two seeds" if row["initialization"] == "other" else ""
        return f"{start}{names[0]}, {which}{seeds}"
    return f"{start}{names[0]}, {SIDES[sides[0]]}; {names[1]}"


def runs_shown(results: Results, family: str, most: int = 0) -> set[str]:
    """The trained runs, if at most so many; else the two that the first answer is about."""
    trained = {row["run"] for row in results.trained(family)}
    answer = results.one("alignment_differences", family=family)
    if answer is None or len(trained) <= most:
        return trained
    return {answer["untied"], answer["tied"]}


def aligned(results: Results, family: str, metric: str, initialization: str) -> list[Row]:
    """Summary rows of a metric, in the order of ORDER; what is before training in any case."""
    rows = [
        row
        for row in results.where("alignment_summary", family=family, metric=metric)
        if row["pair"] in ORDER
        and (row["initialization"] == initialization or row["pair"].startswith("initial "))
    ]
    return sorted(rows, key=lambda row: ORDER.index(row["pair"]))


def alignment(results: Results, family: str, metric: str) -> Any:
    """A bar for each pair of tables of different seeds, its floor as a mark."""
    rows = aligned(results, family, metric, "other") or aligned(results, family, metric, "same")
    runs = runs_shown(results, family)
    rows = [row for row in rows if {row["first"], row["second"]} <= runs]
    if not rows:
        return None
    figure, axes = new_figure(WIDTH, 1.2 + 0.42 * len(rows))
    for y, row in enumerate(rows):
        asked = row["first"] != row["second"]
        axes.barh(y, float(row["mean"]), 0.62, color=COLOURS[0] if asked else GREY)
        if row["low"]:
            axes.hlines(y, float(row["low"]), float(row["high"]), color=TEXT, linewidth=1.2)
        axes.vlines(float(row["floor"]), y - 0.42, y + 0.42, color=COLOURS[1], linewidth=2)
    axes.barh(0, 0, color=COLOURS[0], label="two runs")
    axes.barh(0, 0, color=GREY, label="one run")
    axes.plot([], [], color=COLOURS[1], linewidth=2, label="floor: rows permuted")
    names = [wrapped(pair_name(results, row), 30) for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("share in common" if metric == "neighbours" else "mean cosine")
    legend(figure, axes, 3)
    return figure


def norms(results: Results, family: str) -> Any:
    """Mean length of the rows by the frequency of the token."""
    held: dict[tuple[str, str], dict[str, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in results.where("table_geometry_summary", family=family):
        if row["bin"] != "all":
            held[row["run"], row["table"]][row["bin"]][row["metric"]] = row
    figure, axes = new_figure()
    styles = run_styles(results, family)
    shown = runs_shown(results, family, MOST)
    for (run, table), bins in held.items():
        if run not in shown:
            continue
        points = [(float(x["occurrences"]["mean"]), x["norm"]) for x in bins.values()]
        name = results.called(family, run)
        label = name if table == "tied" else f"{name}, {SIDES[table]}"
        dash = DASHES[1] if table == "input" else DASHES[0]
        line(axes, sorted(points, key=lambda x: x[0]), label, {**styles[run], "linestyle": dash})
    if not axes.lines:
        return None
    axes.set_xscale("log")
    axes.set_xlabel("occurrences of the token in the training part")
    axes.set_ylabel("length of the row")
    legend(figure, axes)
    return figure


def lens(results: Results, family: str, metric: str) -> Any:
    """What the head makes of every layer's states."""
    figure, axes = new_figure()
    shown = runs_shown(results, family, MOST)
    for run, style in run_styles(results, family).items():
        rows = results.where("logit_lens_summary", family=family, run=run, metric=metric)
        points = sorted(((int(row["layer"]), row) for row in rows), key=lambda x: x[0])
        if run in shown and len(points) > 1:
            line(axes, points, results.called(family, run), style)
    if not axes.lines:
        return None
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("layer (0: embedding)")
    axes.set_ylabel("nats per predicted token")
    legend(figure, axes)
    return figure
