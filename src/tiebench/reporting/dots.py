"""Figures of points with intervals: values by group, and differences between runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tiebench.reporting.curves import line
from tiebench.reporting.naming import BASELINES, capital, language, metric_name, unit
from tiebench.reporting.plotting import (
    COLOURS,
    GREY,
    LEVELS,
    WIDTH,
    legend,
    new_figure,
    run_styles,
    wrapped,
)
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

SPREAD = 0.5
"""Share of the distance between two groups over which the runs of a group are spread."""
VIEWS = dict(zip(
    ("equal width", "equal pretraining parameters", "equal fine-tuning parameters",
     "equal training FLOPs"),
    zip(COLOURS, "os^D", strict=False), strict=True,
))  # fmt: skip


def loss_by_language(results: Results, family: str) -> Any:
    """Validation loss of the trained runs in each language."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in results.where("language_modeling_summary", family=family, metric="loss", bin="all"):
        if row["language"] != "all":
            found[row["run"]][row["language"]] = row
    held = {row["run"]: found[row["run"]] for row in results.trained(family)}
    return _by_language(results, family, held, "nats per predicted token", percent=False)


def transfer_by_language(results: Results, family: str, labels: str, metric: str) -> Any:
    """Accuracy, or its `excess` over the surface baseline, in each language; baselines as bars."""
    first, *others = results.tested_languages(labels)
    columns = [first, *others, "others"]
    held = {
        row["run"]: {
            code: found
            for code in columns
            if (found := results.transferred(family, row["run"], labels, code, metric))
        }
        for row in results.runs(family)
    }
    names = {first: f"{language(first)}\n(trained on)", "others": "mean of\nthe others"}
    label = "accuracy (%)" if metric == "accuracy" else "minus the baseline (points)"
    figure = _by_language(results, family, held, label, names, percent=metric == "accuracy")
    if figure is None:
        return None
    (axes,) = figure.axes
    if metric == "excess":
        axes.axhline(0, color=TEXT, linewidth=0.8)
    for baseline in ("surface", "majority"):
        for x, code in enumerate(columns if metric == "accuracy" else ()):
            row = results.one(
                "label_baselines", labels=labels, language=code, baseline=baseline,
                metric="accuracy",
            )  # fmt: skip
            if row:
                axes.hlines(
                    100 * float(row["value"]), x - 0.42, x + 0.42, color=TEXT, linewidth=1.1,
                    linestyle=LEVELS[baseline], label="_" if x else BASELINES[baseline],
                )  # fmt: skip
    for old in figure.legends:
        old.remove()
    legend(figure, axes)
    return figure


def _by_language(
    results: Results,
    family: str,
    held: Mapping[str, Mapping[str, Row]],
    label: str,
    names: Mapping[str, str] | None = None,
    *,
    percent: bool,
) -> Any:
    """Points of each run in each language, the runs side by side."""
    groups = list(next(iter(held.values()), {}))
    if not groups:
        return None
    figure, axes = new_figure()
    styles, scale = run_styles(results, family), 1.0 if not names or percent else 100.0
    points_only = {"linestyle": "", "markersize": 5}
    for index, (run, found) in enumerate(held.items()):
        shift = SPREAD * ((index + 0.5) / len(held) - 0.5)
        points = [(x + shift, _scaled(found[code], scale)) for x, code in enumerate(groups)]
        line(
            axes, points, results.called(family, run), styles[run] | points_only,
            percent=percent,
        )  # fmt: skip
    shown = [(names or {}).get(code, language(code)) for code in groups]
    axes.set_xticks(range(len(groups)), shown, fontsize=9)
    axes.grid(axis="x", visible=False)
    axes.margins(x=0.08)
    axes.set_ylabel(label)
    legend(figure, axes)
    return figure


def _scaled(row: Row, scale: float) -> Row:
    ends = {key: str(scale * float(row[key])) for key in ("mean", "low", "high") if row[key]}
    return {**row, **ends}


def forest(
    axes: Any, rows: Sequence[Row], names: Sequence[str], styles: Sequence[Any], scale: float
) -> None:
    """Differences with their intervals, one below the other; `styles` are colours and markers."""
    for y, (row, (colour, marker)) in enumerate(zip(rows, styles, strict=True)):
        if row["low"]:
            axes.hlines(y, scale * float(row["low"]), scale * float(row["high"]), color=colour)
        axes.plot(scale * float(row["difference"]), y, color=colour, marker=marker, markersize=6)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.axvline(0, color=TEXT, linewidth=0.8)
    axes.locator_params(axis="x", nbins=6)
    axes.grid(axis="y", visible=False)


def views(results: Results, family: str, rows: Sequence[Row]) -> Any:
    """Differences in a metric at equal width, parameters and operations."""
    if not rows:
        return None
    figure, axes = new_figure(WIDTH, 1.2 + 0.5 * len(rows))
    names = [
        f"{wrapped(results.short(family, row['first']), 26)}\n"
        f"− {wrapped(results.short(family, row['second']), 26)}"
        for row in rows
    ]
    what, scale, _ = unit(rows[0]["metric"])
    forest(axes, rows, names, [VIEWS.get(row["view"], (GREY, "x")) for row in rows], scale)
    for view in dict.fromkeys(row["view"] for row in rows):
        colour, marker = VIEWS.get(view, (GREY, "x"))
        axes.plot([], [], color=colour, marker=marker, label=view)
    axes.set_title(capital(metric_name(rows[0]["metric"]).split(" (")[0]), loc="right", fontsize=9)
    axes.set_xlabel(what)
    legend(figure, axes, 1)
    return figure
