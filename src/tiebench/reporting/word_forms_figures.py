"""Figures of the word forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tiebench.experiments.word_forms_settings import ALL, DIFFERENCE
from tiebench.reporting.curves import line
from tiebench.reporting.naming import language
from tiebench.reporting.plotting import COLOURS, GREY, MARKERS, legend, new_figure
from tiebench.reporting.results import Row
from tiebench.reporting.svg import TEXT
from tiebench.reporting.word_forms_results import WordForms

SPREAD = 0.5
"""Share of the distance between two groups over which the series of a group are spread."""


def contrast(held: WordForms) -> Any:
    """Forms less matched pairs, by language, for each table."""
    series = {
        f"{held.called(run)}, {held.table_name(run, side)}": (run, side)
        for run in held.runs
        for side in held.sides(run)
        if side != DIFFERENCE
    }

    def of(name: str, code: str) -> Row | None:
        return held.geometry(*series[name], "contrast", code=code)

    figure, axes = _by_language(held, series, of)
    axes.axhline(0, color=TEXT, linewidth=0.8)
    axes.set_ylabel("cosine, forms less matched pairs")
    legend(figure, axes)
    return figure


def accuracy(held: WordForms) -> Any:
    """The right form chosen, by language, beside what frequencies alone choose."""
    series = {held.called(run): run for run in held.runs}

    def of(name: str, code: str) -> Row:
        return held.choice(series[name], "accuracy", code=code)

    figure, axes = _by_language(held, series, of, percent=True)
    for x, code in enumerate(_groups(held)):
        level = 100 * float(held.unigram("accuracy", code))
        label = "_" if x else "training frequencies alone"
        axes.hlines(level, x - 0.42, x + 0.42, color=GREY, linewidth=1.4, label=label)
    axes.set_ylabel("right form (%)")
    legend(figure, axes)
    return figure


def _groups(held: WordForms) -> list[str]:
    return [*held.languages, *([ALL] if len(held.languages) > 1 else [])]


def _by_language(
    held: WordForms,
    series: Mapping[str, Any],
    of: Callable[[str, str], Row | None],
    *,
    percent: bool = False,
) -> tuple[Any, Any]:
    """Points of each series in each language, side by side."""
    figure, axes = new_figure()
    groups = _groups(held)
    for index, name in enumerate(series):
        shift = SPREAD * ((index + 0.5) / len(series) - 0.5)
        rows = [(x + shift, of(name, code)) for x, code in enumerate(groups)]
        style = {
            "color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)],
            "linestyle": "", "markersize": 5,
        }  # fmt: skip
        line(axes, [(x, row) for x, row in rows if row], name, style, percent=percent)
    names = ["all" if code == ALL else language(code) for code in groups]
    axes.set_xticks(range(len(groups)), names, fontsize=9)
    axes.grid(axis="x", visible=False)
    axes.margins(x=0.08)
    return figure, axes
