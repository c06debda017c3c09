"""The ledger on the page: how many claims hold, by source, and what is wrong in printed figures."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from tiebench.reporting.naming import counted, joined, plain
from tiebench.reporting.parts import Figure, Link, Section, Table
from tiebench.reporting.plotting import WIDTH, legend, new_figure, wrapped
from tiebench.reporting.results import Results, Row

PAGE = "claims.html"
TUTORIAL = "Tutorial on weight tying"
SAID = {
    "reproduced": "#00574b",
    "agrees": "#009988",
    "settled by arithmetic: holds": "#77c9bf",
    "inconclusive": "#8a8f96",
    "not measured": "#c4c9cf",
    "settled by arithmetic: fails": "#f2a58e",
    "disagrees": "#cc3311",
    "contradicted": "#7a1506",
}
"""Verdicts in the order of bars, with their colours."""
IN_WORDS = {
    "agrees": "agree at our scale",
    "settled by arithmetic: holds": "hold by arithmetic",
    "settled by arithmetic: fails": "fail by arithmetic",
    "disagrees": "disagree at our scale",
}
"""Verdicts in a sentence, after their number."""
AGAINST = tuple(list(SAID)[-3:])


def section(results: Results) -> Section:
    """Counts of verdicts, as sentences, bars and a table; the claims have a page of their own."""
    figure = Figure(
        "claims_by_source",
        "Verdicts on the claims of each source; a source has as many claims as we found to test.",
        partial(bars, results),
    )
    return Section(
        "claims",
        "Published claims",
        findings(results),
        [figure],
        [by_source(results)],
        notes(results),
        Link(PAGE, "Every claim, with what decided it"),
    )


def sources(results: Results) -> list[str]:
    """Sources in the order of the ledger."""
    return list(dict.fromkeys(row["source"] for row in results["claims"]))


def counts(results: Results, source: str | None = None) -> Counter[str]:
    """Claims by verdict, of one source or of all."""
    rows = results["claims"]
    return Counter(row["verdict"] for row in rows if source in (None, row["source"]))


def findings(results: Results) -> list[str]:
    """How many claims hold; what is wrong in the tutorial; which claims ours contradict."""
    rows, held = results["claims"], counts(results)
    parts = [f"{held[x]} {IN_WORDS.get(x, x)}" for x in SAID if held[x]]
    said = [
        f"Of {counted(len(rows), 'claim')} of {len(sources(results))} sources: {joined(parts)}. "
        "No verdict is typed in: each is computed from tables of this report and of those that it "
        "names."
    ]
    wrong = [row for row in rows if row["source"] == TUTORIAL and row["verdict"] in AGAINST]
    printed = [row for row in wrong if row["published"][:1].isdigit()]
    if printed:
        each = [f"{row['published']} ({row['place']}) is {_value(row)}" for row in printed]
        said.append(f"Printed figures of the tutorial that are wrong: {'; '.join(each)}.")
    others = [row for row in wrong if row not in printed]
    if others:
        each = [f"“{row['claim'].rstrip('.')}”" for row in others]
        said.append(f"What it says beside them and is not so: {'; '.join(each)}.")
    against = _told(results, ("disagrees", "contradicted"))
    if against:
        said.append(f"Measured, and not as claimed: {against}.")
    return said


def _told(results: Results, verdicts: tuple[str, ...]) -> str:
    """Claims with some verdicts of all sources but the tutorial, quoted."""
    return "; ".join(
        f"“{row['claim'].rstrip('.')}” ({row['source']})"
        for row in results["claims"]
        if row["verdict"] in verdicts and row["source"] != TUTORIAL
    )


def _value(row: Row) -> str:
    return row["measured"].partition(", printed")[0]


def notes(results: Results) -> list[str]:
    """What arithmetic refutes outside the tutorial, and how a verdict comes about."""
    refuted = _told(results, ("settled by arithmetic: fails",))
    said = [f"Refuted by arithmetic, outside the tutorial: {refuted}."] if refuted else []
    return [
        *said,
        "A claim is decided by rows of tables: by whether intervals lie on the claimed side, by "
        "judged pairs (corrected for their number, and undecided while learning curves fall), by "
        "how many rows meet a condition, or by comparing cells. A claim about several rows holds "
        "for all of them, or fails for one.",
        "Reproduced and contradicted are said only where a table shows that the measurement was at "
        "the published configuration; agrees and disagrees are at our scale. What follows from "
        "published shapes and printed figures is settled by arithmetic.",
        "Of several measurements the published configuration comes before others, what is decided "
        "before what is not, then the order of the claim's file; of several reports the narrowest "
        "interval. What the others say is beside the verdict.",
    ]


def by_source(results: Results) -> Table:
    """Sources and verdicts."""
    held = counts(results)
    shown = [verdict for verdict in SAID if held[verdict]]
    rows = []
    for source in sources(results):
        own = counts(results, source)
        cells = [str(own[verdict]) if own[verdict] else "" for verdict in shown]
        rows.append([source, str(sum(own.values())), *cells])
    caption = "Claims by source and verdict."
    return Table("claims_by_source", caption, ["source", "claims", *shown], rows)


def ledger(results: Results) -> Table:
    """Every claim, for the rendered tables."""
    header = ["source", "claim", "place", "published", "verdict", "measured", "decided by", "why"]
    rows = [
        [
            row["source"], row["claim"], row["place"], row["published"], row["verdict"],
            row["measured"], decided_by(row), row["reason"],
        ]
        for row in results["claims"]
    ]  # fmt: skip
    return Table("claims", "Published claims and the verdicts on them.", header, rows, long=True)


def decided_by(row: Row) -> str:
    """Report, table and rows in words; nothing for what is not measured."""
    if not row["report"]:
        return ""
    rows = f" ({row['rows']})" if row["rows"] else ""
    return f"{row['report']}, {plain(row['table'])}{rows}"


def bars(results: Results) -> Any:
    """Stacked bars: verdicts by source."""
    held, names = counts(results), sources(results)
    figure, axes = new_figure(WIDTH * 1.35, 1.1 + 0.34 * len(names))
    left = [0.0] * len(names)
    for verdict, colour in SAID.items():
        if not held[verdict]:
            continue
        widths = [counts(results, source)[verdict] for source in names]
        axes.barh(range(len(names)), widths, 0.7, left=left, color=colour, label=verdict)
        left = [x + width for x, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(names)), [wrapped(name, 28) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("claims")
    legend(figure, axes, 2)
    return figure
