"""Figures of the initial loss."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tiebench.reporting.initial_loss_results import branches, called, identity, one_table, sizes
from tiebench.reporting.naming import capital
from tiebench.reporting.plotting import COLOURS, DASHES, GREY, MARKERS, legend, new_figure
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

TICKS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 40, 60, 80, 100)
"""Losses that an axis may be marked at."""
ALIKE = 0.01
"""Largest relative difference between curves that are drawn as one."""
DOTTED = (0, (1, 1.5))


def by_width(results: Results, size: str) -> Any:
    """Loss against width: points measured, lines theory."""
    figure, axes = new_figure()
    rows = [row for row in identity(results) if row["vocabulary"] == size]
    lines = [runs[0] for other in sizes(results) for runs in _groups(results, other)]
    order = list(dict.fromkeys(lines))
    """So that a line has its colour at every vocabulary."""
    for runs in _groups(results, size):
        index = order.index(runs[0])
        colour = COLOURS[index % len(COLOURS)] if runs[0] in _theory(results, size) else GREY
        for run in runs:
            held = [row for row in rows if row["run"] == run]
            _points(axes, held, colour, MARKERS[runs.index(run) % len(MARKERS)])
        curve = _theory(results, size).get(runs[0], {})
        label = capital(", ".join(map(called, runs)))
        dashes = DASHES[index // len(COLOURS) % len(DASHES)] if curve else ""
        axes.plot(
            list(curve), list(curve.values()), color=colour, linestyle=dashes, linewidth=1,
            marker="" if curve else MARKERS[0], markersize=4, label=label,
        )  # fmt: skip
    _finish(axes, rows)
    legend(figure, axes, columns=1)
    return figure


def _theory(results: Results, size: str) -> dict[str, dict[int, float]]:
    """By run, the curve of its theory."""
    curves: dict[str, dict[int, float]] = defaultdict(dict)
    for row in results.where("initial_loss_curves", vocabulary=size):
        curves[row["run"]][int(row["width"])] = float(row["theory_second_order"])
    return dict(curves)


def _groups(results: Results, size: str) -> list[list[str]]:
    """Runs whose curves are one at every width; a run without a theory is alone."""
    curves, groups = _theory(results, size), list[list[str]]()
    for run in dict.fromkeys(r["run"] for r in identity(results) if r["vocabulary"] == size):
        for group in groups:
            if run in curves and group[0] in curves and _alike(curves[run], curves[group[0]]):
                group.append(run)
                break
        else:
            groups.append([run])
    return groups


def _alike(first: dict[int, float], second: dict[int, float]) -> bool:
    return all(abs(first[d] / second[d] - 1) <= ALIKE for d in first.keys() & second.keys())


def by_branch(results: Results) -> Any:
    """Loss of one table against width, a line for each initialization of the branches."""
    figure, axes = new_figure()
    held: dict[str, list[Row]] = defaultdict(list)
    for row in one_table(results):
        held[row["branch"]].append(row)
    for index, (branch, rows) in enumerate(held.items()):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        dashes = DASHES[index % 2]
        _points(axes, rows, colour, marker, dashes)
        axes.plot(
            [], [], color=colour, marker=marker, markersize=4, linestyle=dashes, linewidth=1,
            label=capital(branches(branch)),
        )  # fmt: skip
    curve = {int(row["width"]): float(row["theory_second_order"]) for row in one_table(results)}
    axes.plot(list(curve), list(curve.values()), color=GREY, linewidth=4, alpha=0.4, zorder=1)
    _finish(axes, one_table(results))
    legend(figure, axes)
    return figure


def _points(axes: Any, rows: list[Row], colour: str, marker: str, line: Any = "") -> None:
    widths = [int(row["width"]) for row in rows]
    for width, row in zip(widths, rows, strict=True):
        if row["low"]:
            axes.vlines(width, float(row["low"]), float(row["high"]), color=colour, linewidth=1)
    axes.plot(
        widths, [float(row["mean"]) for row in rows], color=colour, marker=marker, markersize=4,
        linestyle=line, linewidth=1,
    )  # fmt: skip


def _finish(axes: Any, rows: list[Row]) -> None:
    """Logarithmic axes with plain numbers, and ln n."""
    axes.axhline(float(rows[0]["log_vocabulary"]), color=TEXT, linewidth=1, linestyle=DOTTED)
    widths = sorted({int(row["width"]) for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(widths, [str(width) for width in widths])
    low, high = (f(float(row["mean"]) for row in rows) for f in (min, max))
    ticks = [x for x in TICKS if low * 0.95 < x < high * 1.1]
    axes.set_yscale("log")
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("width d")
    axes.set_ylabel("initial loss (nats)")
