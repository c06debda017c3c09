"""Figures of the study `remedies`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.reporting import dots
from tiebench.reporting.plotting import GREY, WIDTH, legend, new_figure, run_styles, wrapped
from tiebench.reporting.results import Results
from tiebench.reporting.svg import TEXT


def initial(results: Results, family: str) -> Any:
    """The loss before training of every run, beside theory where there is one."""
    described = list(results.where("remedies_runs", family=family))
    styles = run_styles(results, family)
    figure, axes = new_figure(WIDTH, 1.0 + 0.3 * len(described))
    for y, row in enumerate(described):
        found = results.one(
            "remedies_summary", family=family, run=row["run"], metric="initial_loss"
        )
        if row["theory"]:
            axes.barh(y, float(row["theory"]), 0.5, color=GREY, alpha=0.35)
        if found is None:
            continue
        style = styles[row["run"]]
        if found["low"]:
            axes.hlines(y, float(found["low"]), float(found["high"]), color=style["color"])
        axes.plot(float(found["mean"]), y, color=style["color"], marker=style["marker"])
    axes.axvline(float(described[0]["log_vocabulary"]), color=TEXT, linewidth=1, linestyle=":")
    names = [wrapped(results.called(family, row["run"]), 26) for row in described]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("nats per predicted token")
    return figure


def curves(results: Results, family: str) -> Any:
    """Validation loss against tokens on a logarithmic scale; the start stands at its left end."""
    figure, axes = new_figure()
    for run, style in run_styles(results, family).items():
        by_tokens: dict[int, list[float]] = defaultdict(list)
        for row in results.where(
            "learning_curves", family=family, run=run, metric="validation_loss"
        ):
            by_tokens[int(row["tokens"])].append(float(row["value"]))
        if len(by_tokens) < 2:
            continue
        tokens = sorted(by_tokens)
        x = [max(at, tokens[1] / 2) / 1e3 for at in tokens]
        found = [mean_interval(by_tokens[at]) for at in tokens]
        low = [e.mean if e.low is None else e.low for e in found]
        high = [e.mean if e.high is None else e.high for e in found]
        axes.fill_between(x, low, high, color=style["color"], alpha=0.14, linewidth=0)
        axes.plot(
            x, [e.mean for e in found], label=results.called(family, run),
            color=style["color"], linestyle=style["linestyle"],
        )  # fmt: skip
    if not axes.lines:
        return None
    axes.set_xscale("log")
    axes.set_xlabel("training tokens (thousands); left end: before training")
    axes.set_ylabel("nats per predicted token")
    legend(figure, axes)
    return figure


def differences(results: Results, family: str, metric: str) -> Any:
    """Each run minus the baseline."""
    rows = [
        row
        for row in results.where("remedies_summary", family=family, metric=metric)
        if row["difference"]
    ]
    if not rows:
        return None
    styles = run_styles(results, family)
    figure, axes = new_figure(WIDTH, 1.0 + 0.3 * len(rows))
    shown = [{**row, "low": row["difference_low"], "high": row["difference_high"]} for row in rows]
    names = [wrapped(results.called(family, row["run"]), 26) for row in rows]
    looks = [(styles[row["run"]]["color"], styles[row["run"]]["marker"]) for row in rows]
    dots.forest(axes, shown, names, looks, 1.0)
    axes.set_xlabel("nats")
    return figure
