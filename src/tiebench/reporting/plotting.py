"""What the figures share: colours of runs, legends, and the size of a figure."""

from __future__ import annotations

from typing import Any

from tiebench.reporting.results import Results

COLOURS = ("#0077bb", "#ee7733", "#009988", "#cc3311", "#ee3377", "#33bbee")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)))
GREY, DARK_GREY = "#8a8f96", "#5f656d"
"""Untrained runs, and what is not in question."""
LEVELS = {"majority": (0, (1, 1.5)), "word_type": (0, (4, 1.5, 1, 1.5)), "surface": "-"}
"""Line of each baseline."""

WIDTH, HEIGHT = 4.7, 3.2
"""Inches: text is legible at the width of a phone, and two stand side by side on a desktop."""


def run_styles(results: Results, family: str) -> dict[str, dict[str, Any]]:
    """Colour, marker and dash of each run, the same in every figure; untrained runs are grey."""
    styles: dict[str, dict[str, Any]] = {}
    trained = 0
    for row in results.runs(family):
        if row["trained"] == "true":
            styles[row["run"]] = {
                "color": COLOURS[trained % len(COLOURS)],
                "marker": MARKERS[trained % len(MARKERS)],
                "linestyle": DASHES[trained // len(COLOURS) % len(DASHES)],
            }
            trained += 1
        else:
            kind = (len(styles) - trained) % 2
            styles[row["run"]] = {
                "color": (GREY, DARK_GREY)[kind],
                "marker": ("x", "+")[kind],
                "linestyle": DASHES[1 + kind],
            }
    return styles


def all_styles(results: Results, family: str) -> dict[str, dict[str, Any]]:
    """As `run_styles`, then the matched runs: hollow, in the colour of their coupling."""
    styles = run_styles(results, family)
    for row in results.matched(family):
        main = styles.get(results.unmatched(family, row["run"]), {"color": GREY, "marker": "h"})
        styles[row["run"]] = {**main, "linestyle": "", "markerfacecolor": "none"}
    return styles


def new_figure(width: float = WIDTH, height: float = HEIGHT, rows: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, one above the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, 1)


def legend(figure: Any, axes: Any, columns: int = 2) -> None:
    """A legend above the axes, which keep their height."""
    handles, labels = axes.get_legend_handles_labels()
    labels = [wrapped(label, 40 // columns + 4) for label in labels]
    lines = sum(label.count("\n") for label in labels) + -(-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + 0.19 * max(0, lines - 2))
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, handlelength=2.2)


def wrapped(text: str, width: int = 26) -> str:
    """Text in lines of at most `width` characters."""
    from textwrap import fill

    return fill(text, width)
