"""Figures of amounts and differences: published directions, parameters, savings, the corpus."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tiebench.reporting import dots
from tiebench.reporting.naming import PARTS, metric_name, plain
from tiebench.reporting.plotting import COLOURS, GREY, WIDTH, legend, new_figure, wrapped
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

VERDICTS = {
    "agrees": (COLOURS[2], "o"),
    "disagrees at this scale": (COLOURS[3], "X"),
    "inconclusive": (GREY, "d"),
    "": (GREY, "."),
}
PART_COLOURS = {
    "input_table": "#0077bb", "output_table": "#33bbee", "maps": "#ee3377",
    "head": "#ee7733", "positions": "#cc3311", "body": "#8a8f96",
}  # fmt: skip


def published_directions(results: Results, family: str) -> Any:
    """Our paired differences with intervals, one row per verdict, by metric."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in results.where("published", family=family):
        if row["difference"]:
            rows[row["metric"]].append(row)
    if not rows:
        return None
    count = max(map(len, rows.values()))
    figure, panels = new_figure(WIDTH, len(rows) * (0.95 + 0.34 * count), len(rows))
    for axes, (metric, held) in zip(
        panels if len(rows) > 1 else [panels], rows.items(), strict=True
    ):
        names = [f"{row['first']}\n− {row['second']}" for row in held]
        dots.forest(axes, held, names, [VERDICTS[row["verdict"]] for row in held], 100)
        axes.set_title(metric_name(metric), loc="right", fontsize=9)
        axes.set_xlabel(f"points ({held[0]['better']} is better)")
    return figure


def parameters_of_runs(results: Results, family: str) -> Any:
    """Stacked bars: parameters by part, at pretraining and at fine-tuning."""
    counts: dict[str, dict[str, float]] = defaultdict(dict)
    for row in results.where("parameters", family=family):
        counts[row["run"]][row["metric"]] = float(row["value"]) / 1e6
    runs = [row["run"] for row in (*results.trained(family), *results.matched(family))]
    runs = runs or list(counts)
    figure, axes = new_figure(WIDTH, 1.3 + 0.66 * len(runs))
    for part, label in PARTS.items():
        axes.barh(0, 0, color=PART_COLOURS[part], label=label)
    for index, run in enumerate(runs):
        for y, dropped in ((index - 0.19, ()), (index + 0.19, ("output_table", "head"))):
            left = 0.0
            for part in PARTS:
                width = 0.0 if part in dropped else counts[run][part]
                if width:
                    axes.barh(y, width, 0.34, left=left, color=PART_COLOURS[part])
                    left += width
            name = "fine-tuning" if dropped else "pretraining"
            axes.annotate(
                f"{left:.3g}M, {name}", (left, y), xytext=(3, 0), textcoords="offset points",
                va="center", fontsize=8,
            )  # fmt: skip
    axes.set_yticks(range(len(runs)), [wrapped(results.short(family, run), 14) for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, 1.6 * max(counts[run]["pretraining"] for run in runs))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("parameters (millions)")
    legend(figure, axes, 3)
    return figure


def rembert_differences(results: Results) -> Any:
    """How far two ways to count are from RemBERT's printed pretraining figures, in percent."""
    rows = results["rembert_parameters"]
    figure, axes = new_figure(WIDTH, 1.2 + 0.27 * len(rows))
    for kind, colour, marker, label in (
        ("best", COLOURS[0], "o", results["rembert_conventions"][0]["convention"]),
        ("full", COLOURS[1], "s", "every parameter"),
    ):
        x = [float(row[f"{kind}_pretraining_difference_percent"]) for row in rows]
        axes.scatter(x, range(len(rows)), color=colour, marker=marker, s=22, label=label, zorder=3)
    axes.axvline(0, color=TEXT, linewidth=0.8)
    names = [
        row["row"].replace(" as printed in table 14", "").replace(" as in the checkpoint", "")
        for row in rows
    ]
    axes.set_yticks(
        range(len(rows)),
        [f"{n} (T{r['table'].replace(' ', '')})" for n, r in zip(names, rows, strict=True)],
        fontsize=8,
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("counted minus printed, pretraining (%)")
    legend(figure, axes)
    return figure


def corpus_strings(results: Results, corpus: str) -> Any:
    """Strings read, by what became of them, a bar per language."""
    rows = [row for row in results.where("corpus", corpus=corpus) if row["language"] != "all"]
    languages = list(dict.fromkeys(row["language"] for row in rows if row["part"] == "read"))
    kept: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["part"] == "dropped":
            kept[row["metric"]][row["language"]] = float(row["value"])
        elif row["metric"] == "strings" and row["part"] in ("train", "valid", "test"):
            kept[row["part"]][row["language"]] = float(row["value"])
    heldout = float(next(results.where("corpus", corpus=corpus, part="heldout"))["value"])
    if heldout:
        kept["heldout"] = dict.fromkeys(languages, heldout)
    first = [part for part in ("train", "valid", "test", "heldout") if part in kept]
    dropped = sorted(set(kept) - set(first), key=lambda p: -sum(kept[p].values()))
    for part in dropped[3:]:
        for language, strings in kept.pop(part).items():
            rest = kept["other reasons"]
            rest[language] = rest.get(language, 0.0) + strings
    order = first + dropped[:3] + [part for part in ("other reasons",) if part in kept]
    colours = (
        "#0077bb", "#33bbee", "#009988", "#8a8f96", "#ee7733", "#cc3311", "#ee3377", "#5f656d"
    )  # fmt: skip
    figure, axes = new_figure(WIDTH, 1.5 + 0.3 * len(languages) + 0.14 * len(order))
    for y, language in enumerate(languages):
        left = 0.0
        for part, colour in zip(order, colours[: len(order)], strict=True):
            width = kept[part].get(language, 0.0) / 1e3
            axes.barh(
                y, width, 0.66, left=left, color=colour, label=None if y else _part_name(part)
            )
            left += width
    axes.set_yticks(range(len(languages)), languages)
    axes.set_ylim(len(languages) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("strings (thousands)")
    legend(figure, axes, 2)
    return figure


def _part_name(part: str) -> str:
    names = {"train": "training", "valid": "validation", "test": "test", "heldout": "held out"}
    if part in names:
        return names[part]
    return f"dropped: {plain(part)}"
