"""Figures of vocabulary scaling: the optimum and published models, tying, and the share saved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tiebench.reporting.plotting import COLOURS, DARK_GREY, DASHES, GREY, WIDTH, legend, new_figure
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

APPROACHES = {
    "isoflops": ("approach 1, IsoFLOPs", COLOURS[0], "o"),
    "derivative": ("approach 2, derivative", COLOURS[1], "s"),
    "loss_fit": ("approach 3, loss fit", COLOURS[2], "^"),
}
"""Name, colour and marker of each approach."""
LABELS = 9
"""Models named in a figure."""
LETTER = (0.0155, 0.05)
"""Width and height of a letter of a name, as shares of the axes."""
GAP = 0.014
"""Between a point and its name, as a share of the axes' width."""

Box = tuple[float, float, float, float]
"""Left, low, right and high end, as shares of the axes."""


def optimum(results: Results) -> Any:
    """Optimal vocabulary at the paper's widths, the printed points, and published models."""
    figure, axes = new_figure(WIDTH, 3.6)
    _shade(axes, results)
    models = models_of(results)
    axes.scatter(
        [float(row["non_vocabulary"]) for row in models],
        [float(row["model_vocabulary"]) for row in models],
        color=GREY, marker="x", s=16, linewidths=1, label="published models", zorder=2,
    )  # fmt: skip
    for approach, (name, colour, marker) in APPROACHES.items():
        rows = _at_paper_widths(results, approach)
        axes.plot(*_xy(rows, "non_vocabulary", "vocabulary"), color=colour, label=name, zorder=3)
        printed = [row for row in rows if row["printed_vocabulary"]]
        axes.plot(
            [float(row["non_vocabulary"]) for row in printed],
            [1e3 * float(row["printed_vocabulary"]) for row in printed],
            color=colour, marker=marker, linestyle="", markersize=4.5, markerfacecolor="none",
            label="printed in table 1" if approach == "isoflops" else None, zorder=4,
        )  # fmt: skip
    _log(axes, "parameters outside the vocabulary matrices", "vocabulary (tokens)")
    _name(axes, models, "non_vocabulary", "model_vocabulary")
    legend(figure, axes)
    return figure


def ratio(results: Results) -> Any:
    """Each model's vocabulary over the optimum at its own size and width."""
    figure, axes = new_figure(WIDTH, 3.6)
    _shade(axes, results)
    rows = models_of(results)
    ends = {row["name"]: spread(results, row["name"]) for row in rows}
    for inside, colour, label in (
        ("false", COLOURS[0], "outside the fitted range"),
        ("true", COLOURS[3], "inside"),
    ):
        held = [row for row in rows if row["inside_fit"] == inside]
        x = [float(row["non_vocabulary"]) for row in held]
        axes.vlines(
            x, *([ends[row["name"]][end] for row in held] for end in (0, 1)),
            color=colour, linewidth=3, alpha=0.8, label=label,
        )  # fmt: skip
    axes.axhline(1, color=TEXT, linewidth=0.8)
    _log(axes, "parameters outside the vocabulary matrices", "vocabulary / optimum")
    middle = [{**row, "middle": str(math.sqrt(math.prod(ends[row["name"]])))} for row in rows]
    _name(axes, middle, "non_vocabulary", "middle")
    legend(figure, axes)
    return figure


def shares(results: Results) -> Any:
    """What tying saves against size: along the law, and in published models."""
    figure, axes = new_figure(WIDTH, 3.6)
    models = list(results.where("vocabulary_share", source="models"))
    for tied, face, label in (("true", GREY, "tied models"), ("false", "none", "untied models")):
        rows = [row for row in models if row["tied"] == tied]
        axes.scatter(
            *_xy(rows, "untied_total", "saved_percent"),
            s=18, facecolors=face, edgecolors=DARK_GREY, linewidths=0.8, label=label, zorder=2,
        )  # fmt: skip
    largest = max((float(row["untied_total"]) for row in models), default=math.inf)
    for approach, (name, colour, _) in APPROACHES.items():
        rows = [
            row
            for row in results.where("vocabulary_share", source="law", approach=approach)
            if float(row["untied_total"]) < 3 * largest
        ]
        axes.plot(*_xy(rows, "untied_total", "saved_percent"), color=colour, label=name, zorder=3)
    _log(axes, "parameters with two matrices", "saved by tying (%)")
    ticks = [0.1, 0.3, 1, 3, 10, 30]
    low, high = axes.get_ylim()
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    _name(axes, models, "untied_total", "saved_percent")
    legend(figure, axes)
    return figure


def tying(results: Results) -> Any:
    """The optimum by each way to count matrices over the published one, by approach 3."""
    figure, axes = new_figure(WIDTH, 3.6)
    _shade(axes, results)
    rows = list(results.where("vocabulary_tying", approach="loss_fit"))
    first = [row for row in rows if row["reading"] == rows[0]["reading"]]
    x = [float(row["non_vocabulary"]) for row in first]
    around = {
        approach: {row["non_vocabulary"]: float(row["vocabulary"]) for row in held}
        for approach in APPROACHES
        if (held := _at_paper_widths(results, approach))
    }
    own = [[around[a][row["non_vocabulary"]] / float(row["vocabulary"]) for a in around]
           for row in first]  # fmt: skip
    axes.fill_between(
        x, [min(held) for held in own], [max(held) for held in own],
        color=GREY, alpha=0.35, linewidth=0, label="from the least to the largest approach",
    )  # fmt: skip
    for index, reading in enumerate(dict.fromkeys(row["reading"] for row in rows)):
        held = [row for row in rows if row["reading"] == reading]
        axes.plot(
            *_xy(held, "non_vocabulary", "ratio"), color=COLOURS[index % len(COLOURS)],
            label=reading, linestyle=DASHES[1] if index == 1 else "-", zorder=3 + (index == 1),
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_ylim(0, 1.6)
    axes.set_xlabel("parameters outside the vocabulary matrices")
    axes.set_ylabel("optimum / as published")
    legend(figure, axes)
    return figure


def models_of(results: Results) -> list[Row]:
    """Decoders whose matrices are as wide as the body, one row each, in order of size."""
    rows = results.where(
        "vocabulary_scaling", source="models", approach="isoflops", decoder="true", square="true"
    )
    return sorted(rows, key=lambda row: float(row["non_vocabulary"]))


def spread(results: Results, name: str) -> tuple[float, float]:
    """Least and largest of a model's vocabulary over the optimum, of the three approaches."""
    rows = results.where("vocabulary_scaling", source="models", name=name)
    ratios = [float(row["ratio"]) for row in rows]
    return min(ratios), max(ratios)


def _at_paper_widths(results: Results, approach: str) -> list[Row]:
    """The optimum at each of the paper's sizes: those of table 1 that agree in width, and below."""
    rows = [
        row
        for source in ("small end", "printed table")
        for row in results.where("vocabulary_scaling", source=source, approach=approach)
        if "as printed" not in row["name"]
    ]
    return sorted(rows, key=lambda row: float(row["non_vocabulary"]))


def _xy(rows: Iterable[Row], x: str, y: str) -> tuple[list[float], list[float]]:
    rows = list(rows)
    return [float(row[x]) for row in rows], [float(row[y]) for row in rows]


def _log(axes: Any, x: str, y: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def _shade(axes: Any, results: Results) -> None:
    """The sizes that the laws were fitted on."""
    rows = results.where("vocabulary_scaling", source="small end", inside_fit="true")
    sizes = [float(row["non_vocabulary"]) for row in rows]
    if sizes:
        axes.axvspan(min(sizes), max(sizes), color=GREY, alpha=0.18, linewidth=0, zorder=0)


def _name(axes: Any, rows: Sequence[Row], x: str, y: str) -> None:
    """Name the models on the rim first, where a name covers no model and no other name."""
    if not rows:
        return
    limits = [tuple(map(math.log, ends)) for ends in (axes.get_xlim(), axes.get_ylim())]
    axes.set_xlim(*map(math.exp, limits[0]))
    axes.set_ylim(*map(math.exp, limits[1]))
    at = {}
    for row in rows:
        place = (math.log(float(row[key])) for key in (x, y))
        at[row["name"]] = tuple(
            (value - low) / (high - low) for value, (low, high) in zip(place, limits, strict=True)
        )
    middle = [sum(place[axis] for place in at.values()) / len(at) for axis in (0, 1)]
    taken: list[Box] = []
    for row in sorted(rows, key=lambda row: (-math.dist(at[row["name"]], middle), row["name"])):
        across, up = at[row["name"]]
        for left, below in ((0, 0), (1, 0), (0, 1), (1, 1)):
            box = _box(row["name"], across, up, left, below)
            free = not any(_meet(box, other) for other in taken)
            others = (place for name, place in at.items() if name != row["name"])
            inside = min(box) >= 0 and max(box) <= 1
            if free and inside and not any(_meet(box, (a, b, a, b)) for a, b in others):
                taken.append(box)
                axes.annotate(
                    row["name"], (box[2] if left else box[0], box[1] + 0.008),
                    xycoords="axes fraction", fontsize=7.5, ha="right" if left else "left",
                )  # fmt: skip
                break
        if len(taken) == LABELS:
            break


def _box(name: str, across: float, up: float, left: int, below: int) -> Box:
    """Where a name would stand beside its point, in shares of the axes."""
    width, height = LETTER[0] * len(name), LETTER[1]
    start = across - GAP - width if left else across + GAP
    low = up - height - GAP / 2 if below else up
    return start, low, start + width, low + height


def _meet(one: Box, other: Box) -> bool:
    across = one[0] - GAP / 2 < other[2] and other[0] < one[2] + GAP / 2
    return across and one[1] < other[3] and other[1] < one[3]
