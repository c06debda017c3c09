"""Figures of published models: shares by size, a pie, vocabulary by width, pipelines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tiebench.reporting.naming import number
from tiebench.reporting.plotting import COLOURS, GREY, WIDTH, legend, new_figure
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

VOCABULARIES = (
    (40_000, "vocabulary below 40k", COLOURS[0], "o"),
    (90_000, "40k to 90k", COLOURS[2], "s"),
    (170_000, "90k to 170k", COLOURS[1], "^"),
    (math.inf, "above 170k", COLOURS[3], "D"),
)
"""Upper ends of the groups of vocabularies, with name, colour and marker."""
SCALES = {"M": 1e6, "B": 1e9}


def savings_by_scale(results: Results) -> Any:
    """What tying saves against model size, by vocabulary, and the tutorial's printed shares."""
    figure, axes = new_figure(WIDTH, 3.7)
    rows = results["savings_by_scale"]
    low = 0
    for high, label, colour, marker in VOCABULARIES:
        for ties in ("true", "false"):
            held = [
                (float(row["tied_total"]), float(row["saving_percent"]))
                for row in rows
                if low <= int(row["vocabulary"]) < high and row["ties_as_shipped"] == ties
            ]
            face = colour if ties == "true" else "none"
            x, y = zip(*held, strict=True) if held else ((), ())
            axes.scatter(
                x, y, s=20, marker=marker, facecolors=face, edgecolors=colour, zorder=3,
                linewidths=1,
            )  # fmt: skip
        axes.scatter([], [], s=20, marker=marker, color=colour, label=label)
        low = int(high) if math.isfinite(high) else 0
    largest: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: float(row["saving_percent"])):
        largest[math.floor(math.log10(int(row["tied_total"])))] = row
    for decade, row in largest.items():
        left = decade in (min(largest), max(largest))
        axes.annotate(
            row["model"], (float(row["tied_total"]), float(row["saving_percent"])),
            xytext=(-5 if left else 5, 3), textcoords="offset points", fontsize=7.5,
            ha="right" if left else "left",
        )  # fmt: skip
    printed = list(results.where("parameter_savings", place="table"))
    axes.scatter(
        [float(row["label"][:-1]) * SCALES[row["label"][-1]] for row in printed],
        [float(row["printed_share_percent"]) for row in printed],
        marker="x", color=TEXT, s=32, linewidths=1.4, label="printed in the tutorial", zorder=4,
    )  # fmt: skip
    axes.scatter([], [], s=20, facecolors="none", edgecolors=GREY, label="hollow: ships untied")
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlim(right=axes.get_xlim()[1] * 3)
    axes.set_xlabel("parameters with one matrix")
    axes.set_ylabel("saved by tying\n(% of the untied total)")
    legend(figure, axes)
    return figure


def tutorial_pie(results: Results) -> Any:
    """The tutorial's pie of a model of 7B, and the model as it ships."""
    from matplotlib.figure import Figure

    rows = results["tutorial_pie"]
    figure = Figure(figsize=(WIDTH, 3.0))
    panels = figure.subplots(1, 2)
    colours = (GREY, COLOURS[0], COLOURS[1])
    pies = (("printed", "as printed", rows), ("counted", f"{rows[0]['model']}, as it ships", rows))
    for axes, (kind, title, held) in zip(panels, pies, strict=True):
        values = [float(row[f"{kind}_millions"]) for row in held]
        axes.pie(
            values,
            colors=colours,
            startangle=90,
            counterclock=False,
            wedgeprops={"linewidth": 0.8, "edgecolor": "white"},
        )
        axes.set_title(title, fontsize=9.5, loc="center")
    shipped = {"body": "body", "input_embedding": "input embedding",
               "output_embedding": "output embedding"}  # fmt: skip
    for row, colour in zip(rows, colours, strict=True):
        said = (
            f"{row['slice']}: {number(row['printed_millions'], 0)}M printed; "
            f"{shipped[row['part']]}: {number(row['counted_millions'], 0)}M"
        )
        panels[0].bar([0], [0], color=colour, label=said)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=1, fontsize=8.5)
    return figure


def printed_shares(results: Results) -> Any:
    """Share of the vocabulary matrix as RemBERT's table 1 prints it, and as counted."""
    rows = [row for row in results["embedding_shares"] if row["quantity"] == "share"]
    figure, axes = new_figure(WIDTH, 1.1 + 0.42 * len(rows))
    for index, (kind, colour, label) in enumerate(
        (("printed", COLOURS[1], "printed"), ("counted", COLOURS[0], "counted"))
    ):
        y = [place + 0.19 * (2 * index - 1) for place in range(len(rows))]
        x = [float(row[kind]) for row in rows]
        axes.barh(y, x, 0.36, color=colour, label=label)
        for place, value in zip(y, x, strict=True):
            axes.annotate(
                f"{value:.3g}", (value, place), xytext=(3, 0), textcoords="offset points",
                va="center", fontsize=8,
            )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("one vocabulary matrix (% of the parameters)")
    legend(figure, axes)
    return figure


def vocabulary_by_width(results: Results, bodies: Sequence[str]) -> Any:
    """Share saved by vocabulary and embedding width, one panel per body."""
    rows = results["vocabulary_by_width"]
    vocabularies, widths = (
        list(dict.fromkeys(int(row[key]) for row in rows)) for key in ("vocabulary", "width")
    )
    figure, panels = new_figure(WIDTH, 3.1 * len(bodies), len(bodies))
    for axes, body in zip(panels, bodies, strict=True):
        held = {
            (int(row["vocabulary"]), int(row["width"])): float(row["saving_percent"])
            for row in results.where("vocabulary_by_width", body=body)
        }
        grid = [[held[x, y] for x in vocabularies] for y in widths]
        places = range(len(vocabularies)), range(len(widths))
        axes.pcolormesh(*places, grid, shading="nearest", cmap="viridis", vmin=0, vmax=50)
        for row, line in enumerate(grid):
            for column, value in enumerate(line):
                axes.text(
                    column, row, f"{value:.2g}" if value < 9.95 else f"{value:.0f}", ha="center",
                    va="center", fontsize=7.5, color="#fefefe" if value < 32 else "#010101",
                )  # fmt: skip
        axes.set_title(f"body of {int(body) / 1e9:g}B parameters", fontsize=9.5)
        axes.set_xticks(range(len(vocabularies)), [_thousands(x) for x in vocabularies])
        axes.set_yticks(range(len(widths)), [f"{x:,}" for x in widths])
        axes.set_ylabel("width of the embedding")
        axes.grid(visible=False)
    panels[-1].set_xlabel("vocabulary")
    return figure


def _thousands(value: int) -> str:
    return f"{value // 1024}k"


def pipeline_share(results: Results) -> Any:
    """The tie's all-reduce as a share of the traffic between stages, by number of stages."""
    rows = results["pipeline_parallel"]
    tokens = list(dict.fromkeys(row["tokens"] for row in rows))
    models = list(dict.fromkeys(row["model"] for row in rows))
    vocabulary = {row["model"]: int(row["vocabulary"]) for row in rows}
    figure, axes = new_figure(WIDTH, 3.4)
    dashes = ("-", (0, (5, 2)), (0, (1, 1.2)))
    for colour, model in zip(COLOURS, models, strict=False):
        for dash, count in zip(dashes, tokens, strict=False):
            held = [r for r in _of(rows, model, count) if r["share_of_states_percent"]]
            axes.plot(
                [int(row["stages"]) for row in held],
                [float(row["share_of_states_percent"]) for row in held],
                color=colour, linestyle=dash, marker="o", markersize=3,
            )  # fmt: skip
        label = f"vocabulary {vocabulary[model]:,}"
        axes.plot([], [], color=colour, label=label)
    for dash, count in zip(dashes, tokens, strict=False):
        axes.plot([], [], color=GREY, linestyle=dash, label=f"{int(count):,} tokens a step")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    stages = sorted({int(row["stages"]) for row in rows if row["share_of_states_percent"]})
    axes.set_xticks(stages, [str(x) for x in stages])
    axes.set_xlabel("stages of the pipeline")
    axes.set_ylabel("all-reduce of the tie\n(% of the states sent)")
    legend(figure, axes)
    return figure


def _of(rows: list[Row], model: str, tokens: str) -> list[Row]:
    return [row for row in rows if row["model"] == model and row["tokens"] == tokens]
