"""Figures of word similarity: correlations of each table by set, and output minus input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiebench.reporting.alignment_figures import MOST, runs_shown
from tiebench.reporting.alignment_tables import table_name
from tiebench.reporting.naming import plain
from tiebench.reporting.plotting import legend, new_figure, run_styles, wrapped
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

SETS = {
    "simlex_999": "SimLex-999", "wordsim_353": "WordSim-353", "men": "MEN",
    "mturk_771": "MTurk-771", "rare_words": "Rare Words",
}  # fmt: skip
SPREAD = 0.7
"""Share of the distance between two sets over which the tables are spread."""


def set_name(name: str) -> str:
    """A set as it is called in print."""
    return SETS.get(name, plain(name))


def correlations(results: Results, family: str, kind: str) -> Any:
    """A dot for each table in each set, with both intervals; untrained ones with one table too."""
    shown = runs_shown(results, family, MOST)
    controls = {row["run"] for row in results.runs(family) if row["trained"] != "true"}
    rows = [
        row for row in results.where("word_similarity_summary", family=family, similarity=kind)
        if row["run"] in shown or (row["run"] in controls and row["table"] == "tied")
    ]  # fmt: skip
    order = list(run_styles(results, family))
    keys = sorted(
        dict.fromkeys((row["run"], row["table"]) for row in rows),
        key=lambda x: (order.index(x[0]), x[1]),
    )
    held = {key: [row for row in rows if (row["run"], row["table"]) == key] for key in keys}
    names = {key: table_name(results, several[0]) for key, several in held.items()}
    return _dots(results, family, held, names, "mean", "correlation with people's scores")


def differences(results: Results, family: str, kind: str) -> Any:
    """A dot for each run with two tables in each set."""
    held: dict[tuple[str, str], list[Row]] = {}
    shown = runs_shown(results, family, MOST)
    for row in results.where("word_similarity_differences", family=family, similarity=kind):
        if row["run"] in shown:
            held.setdefault((row["run"], "output"), []).append(row)
    names = {key: results.called(family, key[0]) for key in held}
    return _dots(results, family, held, names, "difference", "output minus input")


def _dots(
    results: Results,
    family: str,
    held: Mapping[tuple[str, str], list[Row]],
    names: Mapping[tuple[str, str], str],
    value: str,
    label: str,
) -> Any:
    sets = list(dict.fromkeys(row["set"] for rows in held.values() for row in rows))
    if not sets:
        return None
    figure, axes = new_figure()
    styles = run_styles(results, family)
    axes.axhline(0, color=TEXT, linewidth=0.8)
    for index, (key, rows) in enumerate(held.items()):
        style = {**styles[key[0]], "linestyle": "", "markersize": 5}
        if key[1] == "input":
            style["markerfacecolor"] = "none"
        shift = SPREAD * ((index + 0.5) / len(held) - 0.5)
        x = [sets.index(row["set"]) + shift for row in rows]
        axes.plot(x, [float(row[value]) for row in rows], label=names[key], **style)
        for ends, width in ((("pair_low", "pair_high"), 0.8), (("low", "high"), 2.2)):
            for place, row in zip(x, rows, strict=True):
                if row[ends[0]]:
                    low, high = (float(row[end]) for end in ends)
                    axes.vlines(place, low, high, color=style["color"], linewidth=width)
    width = 9 if len(sets) > 3 else 16
    axes.set_xticks(range(len(sets)), [wrapped(set_name(x), width) for x in sets], fontsize=9)
    axes.set_xlim(-0.5, len(sets) - 0.5)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(label)
    legend(figure, axes)
    return figure
