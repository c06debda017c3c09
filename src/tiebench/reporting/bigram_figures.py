"""Figures of the 2-gram laboratory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tiebench.reporting.bigram_results import INDEFINITE, Laboratory
from tiebench.reporting.curves import line
from tiebench.reporting.plotting import (
    COLOURS,
    DASHES,
    GREY,
    MARKERS,
    WIDTH,
    legend,
    new_figure,
    wrapped,
)
from tiebench.reporting.svg import TEXT

GROUPS = {
    "reference": ("one table, two tables", COLOURS[3], "D"),
    "remedy": ("countermeasures", COLOURS[0], "o"),
    "dial": ("mechanism dial", COLOURS[1], "s"),
    "relaxed": ("relaxed tying", COLOURS[2], "^"),
    "other": ("others", GREY, "v"),
}
DOTTED = (0, (1, 1.5))


def curves(held: Laboratory) -> Any:
    """Training loss against updates, the references and the countermeasures."""
    figure, axes = new_figure()
    for index, run in enumerate(held.group("reference", "remedy")):
        style = {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 3,
            "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
        }
        points = [(update + 1, row) for update, row in held.curve(run, "train_loss")]
        line(axes, points, held.called(run), style)
    for metric, name in (("train_unigram", "unigram entropy"), ("train_bigram", "bigram entropy")):
        dashes = DOTTED if metric == "train_bigram" else DASHES[1]
        axes.axhline(held.reference[metric], color=TEXT, linewidth=1, linestyle=dashes, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("update + 1")
    axes.set_ylabel("training loss (nats per pair)")
    legend(figure, axes)
    return figure


def finals(held: Laboratory) -> Any:
    """Final training loss of every run with its interval, by group."""
    runs = [run for group in GROUPS for run in held.group(group)]
    figure, axes = new_figure(WIDTH, 0.9 + 0.2 * len(runs))
    for y, run in enumerate(runs):
        _, colour, marker = GROUPS[held.rows[run]["group"]]
        row = held.summary(run, "loss")
        assert row is not None, "every run has a loss"
        if row["low"]:
            axes.hlines(y, float(row["low"]), float(row["high"]), color=colour)
        axes.plot(float(row["mean"]), y, color=colour, marker=marker, markersize=5)
    for role in ("tied", "untied"):
        axes.axvline(held.mean(held.role(role), "loss"), color=TEXT, linewidth=0.7)
    axes.axvline(held.reference["train_bigram"], color=TEXT, linewidth=1, linestyle=DOTTED)
    axes.set_yticks(range(len(runs)), held.names(runs), fontsize=8)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("final training loss (nats per pair)")
    _legend_of_groups(figure, axes, held, runs)
    return figure


def dial(held: Laboratory) -> Any:
    """Final losses against the penalty on the distance of two tables."""
    points = held.dial
    if not points:
        return None
    figure, axes = new_figure()
    for metric, name, colour, marker in (
        ("loss", "training", COLOURS[0], "o"),
        ("valid_loss", "validation", COLOURS[1], "s"),
    ):
        rows = [(penalty, held.summary(run, metric)) for penalty, run in points]
        style = {"color": colour, "marker": marker, "linestyle": "-"}
        line(axes, [(penalty, row) for penalty, row in rows if row], name, style)
        for role, dashes in (("tied", DASHES[1]), ("untied", DOTTED)):
            axes.axhline(
                held.mean(held.role(role), metric), color=colour, linewidth=1, linestyle=dashes,
                label=f"{held.called(held.role(role))}, {name}",
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlabel("penalty on the squared distance of the two tables")
    axes.set_ylabel("final loss (nats per pair)")
    legend(figure, axes)
    return figure


def symmetry(held: Laboratory) -> Any:
    """Final training loss against the asymmetry of the form behind the logits."""
    return _scatter(
        held,
        {run: held.mean(run, "form_asymmetry") for run in held.rows},
        "asymmetry of the logits, a factor per row taken out",
    )


def parameters(held: Laboratory) -> Any:
    """Final training loss against parameters."""
    return _scatter(
        held,
        {
            run: float(held.rows[run]["parameters"]) / 1000
            for run in held.group("reference", "remedy", "relaxed")
        },
        "parameters of the coupling (thousands)",
    )


def _scatter(held: Laboratory, at: dict[str, float], label: str) -> Any:
    figure, axes = new_figure()
    for run, x in at.items():
        _, colour, marker = GROUPS[held.rows[run]["group"]]
        axes.plot(x, held.mean(run, "loss"), color=colour, marker=marker, markersize=5, alpha=0.85)
    indefinite = (x for x in held.symmetric if held.mean(x, "form_negative") > INDEFINITE)
    named = [*held.group("reference"), *(x for x in indefinite if x in at)]
    for run in named:
        axes.annotate(
            wrapped(held.called(run), 16), (at[run], held.mean(run, "loss")), fontsize=7,
            xytext=(5, 3), textcoords="offset points", color=TEXT,
        )  # fmt: skip
    axes.margins(x=0.15, y=0.1)
    axes.set_xlabel(label)
    axes.set_ylabel("final training loss (nats per pair)")
    _legend_of_groups(figure, axes, held, at)
    return figure


def _legend_of_groups(figure: Any, axes: Any, held: Laboratory, runs: Iterable[str]) -> None:
    present = {held.rows[run]["group"] for run in runs}
    for group, (name, colour, marker) in GROUPS.items():
        if group in present:
            axes.plot([], [], color=colour, marker=marker, linestyle="", label=name)
    legend(figure, axes)
