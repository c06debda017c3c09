"""The page of claims: every row of the ledger by source, with links to what decided it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tiebench.claims.decide import INCONCLUSIVE
from tiebench.claims.ledger import ALSO, NOT_MEASURED
from tiebench.reporting.claims import AGAINST, SAID, counts, sources
from tiebench.reporting.naming import capital
from tiebench.reporting.results import Results, Row

OPEN = (INCONCLUSIVE, NOT_MEASURED)
"""Verdicts that decide nothing."""
LIGHT = frozenset({"settled by arithmetic: holds", "settled by arithmetic: fails", "not measured"})
"""Verdicts whose colour takes dark letters."""


def context(results: Results, drawn: Collection[str]) -> dict[str, Any]:
    """What the template shows.

    Args:
        drawn: names of the figures on the report's page.
    """
    held = counts(results)
    return {
        "name": results.name,
        "sources": [_source(results, source, drawn) for source in sources(results)],
        "verdicts": [
            {"name": verdict, "key": _key(verdict), "count": held[verdict]}
            for verdict in SAID
            if held[verdict]
        ],
        "claims": len(results["claims"]),
        "said": SAID,
        "light": LIGHT,
        "key": _key,
    }


def _source(results: Results, source: str, drawn: Collection[str]) -> dict[str, Any]:
    rows = list(results.where("claims", source=source))
    claims = [
        {
            **row,
            "word": capital(row["verdict"]),
            "key": _key(row["verdict"]),
            "detectable": f"{float(row['detectable']):.3g}" if row["detectable"] else "",
            "table_link": link_to_table(results, row),
            "figure_link": link_to_figure(results, row, drawn),
            "others": (others := [x for x in row["also"].split(ALSO) if x]),
            "differ": _differ(row["verdict"], others),
        }
        for row in rows
    ]
    return {
        "name": source,
        "key": _key(source),
        "reference": rows[0]["reference"],
        "claims": claims,
    }


def _differ(verdict: str, others: Collection[str]) -> bool:
    """Whether another measurement says the opposite."""
    sides = [verdict in AGAINST, *(x.partition(" (")[0] in AGAINST for x in others)]
    decided = [x.partition(" (")[0] not in OPEN for x in (verdict, *others)]
    return len({side for side, known in zip(sides, decided, strict=True) if known}) > 1


def link_to_table(results: Results, row: Row) -> str:
    """The CSV that decided a claim, relative to the page."""
    return f"{_folder(results, row)}tables/{row['table']}.csv" if row["table"] else ""


def link_to_figure(results: Results, row: Row, drawn: Collection[str]) -> str:
    """The figure that shows it, on a report's page; empty if this report did not draw it."""
    own = row["report"] == results.name
    if not row["figure"] or not row["report"] or (own and row["figure"] not in drawn):
        return ""
    return f"{_folder(results, row)}index.html#figure-{row['figure']}"


def _folder(results: Results, row: Row) -> str:
    return "" if row["report"] == results.name else f"../{row['report']}/"


def _key(words: str) -> str:
    """Words as the name of a class."""
    return "".join(x if x.isalnum() else "-" for x in words.lower())
