"""The same couplings at equal width, equal parameters and equal training operations."""

from __future__ import annotations

from functools import partial

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting import dots
from tiebench.reporting.estimates import DETECTABLE, count_of_seeds, over, spread
from tiebench.reporting.naming import (
    capital,
    joined,
    metric_name,
    number,
    plain,
    signed,
    unit,
    whole,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row

WIDTH = "equal width"
SWAPPED = {"first": "second", "first_mean": "second_mean", "quantity": "second_quantity"}


def section(results: Results, family: str, title: str) -> Section:
    """What a difference becomes when something else than the width is equal."""
    rows = oriented(results, family)
    shown = list(dict.fromkeys(row["metric"] for row in rows if _drawn(results, row["metric"])))
    lines = spread(results, family, "Lines", matched=True)
    if "over" in lines:
        lines = f"{lines.removesuffix('.')}, not adjusted for their number."
    return Section(
        f"{family}-views",
        f"Three views: width, parameters, operations{title}",
        findings(results, family),
        [
            Figure(
                f"{family}_views_{metric}",
                f"{capital(metric_name(metric))}: differences, paired by seed. {lines}",
                partial(dots.views, results, family, [r for r in rows if r["metric"] == metric]),
            )
            for metric in shown
        ],
        [comparison(results, family)],
    )


def _drawn(results: Results, metric: str) -> bool:
    """Whether a metric has a figure; of the retrievals only the first pair."""
    first = tuple(f"retrieval_{'_'.join(pair)}_" for pair in results.pairs[:1])
    return not metric.startswith("retrieval_") or metric.startswith(first)


def oriented(results: Results, family: str) -> list[Row]:
    """The rows of the views, each with the baseline's coupling second."""
    baseline = results.baseline(family)
    rows = []
    for row in results.where("views", family=family):
        couplings = [results.unmatched(family, row[key]) for key in ("first", "second")]
        if couplings[0] == baseline != couplings[1]:
            row = {**row, **{a: row[b] for a, b in SWAPPED.items()},
                   **{b: row[a] for a, b in SWAPPED.items()},
                   "difference": _negative(row["difference"]),
                   "low": _negative(row["high"]), "high": _negative(row["low"])}  # fmt: skip
        rows.append(row)
    return rows


def _negative(cell: str) -> str:
    return str(-float(cell)) if cell else ""


def findings(results: Results, family: str) -> list[str]:
    """What is matched by what; then, by view and pair, what stays and what reverses."""
    sentences, rows = [set_up(results, family)], oriented(results, family)
    wide = {_key(results, family, row): row for row in rows if row["view"] == WIDTH}
    held: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for row in rows:
        before = wide.get(_key(results, family, row))
        if before and row["view"] != WIDTH:
            pair = " minus ".join(results.short(family, row[key]) for key in ("first", "second"))
            held.setdefault((row["view"], pair), []).append((before, row))
    return sentences + [_change(*at, changes) for at, changes in held.items()]


def set_up(results: Results, family: str) -> str:
    """How runs are matched, and what carries a verdict."""
    said = []
    for row in results.matched(family):
        main = results.run(family, results.unmatched(family, row["run"]))
        said.append(
            f"{results.called(family, row['run'])} has as many parameters in "
            f"{row['matched_in'].replace('_', '-')} as {results.called(family, row['matches'])} "
            f"by a feed-forward width of {whole(row['feedforward_width'])} instead of "
            f"{whole(main['feedforward_width'])}"
        )
    text = (
        "At equal width a larger table adds parameters and a wide output adds operations; the "
        "other views hold these equal."
    )
    if said:
        text += (
            f" Matched runs differ from the run of the same coupling in feed-forward width alone: "
            f"{'; '.join(said)}. There are {count_of_seeds(results, family, matched=True)}"
        )
        few = len(results.matched_seeds(family)) < MINIMUM_SEEDS
        text += ": only main runs carry verdicts." if few else "."
    return text


def _key(results: Results, family: str, row: Row) -> tuple[str, ...]:
    couplings = sorted(results.unmatched(family, row[key]) for key in ("first", "second"))
    return (row["metric"], *couplings)


def _sign(row: Row) -> int:
    """Of a difference whose interval excludes zero, else 0."""
    if not row["low"]:
        return 0
    return (float(row["low"]) > 0) - (float(row["high"]) < 0)


def _change(view: str, pair: str, changes: list[tuple[Row, Row]]) -> str:
    """One pair of couplings in a view, against the same pair at equal width."""
    kept: list[str] = []
    turned: list[str] = []
    here: list[str] = []
    unclear: list[str] = []
    for before, row in changes:
        signs, said = (_sign(before), _sign(row)), _moved(before, row)
        if 0 not in signs:
            (kept if signs[0] == signs[1] else turned).append(said)
        elif signs[1]:
            here.append(said)
        else:
            unclear.append(metric_name(row["metric"]))
    parts = [
        f"{words} {joined(said)}"
        for words, said in (
            ("the direction at equal width turns round in", turned),
            ("it stays in", kept),
            ("a difference that equal width does not show is there in", here),
        )
        if said
    ]
    if unclear:
        count = f"{len(unclear)} metrics" if len(unclear) > 2 else joined(unclear)
        parts.append(f"no difference is shown in {count}")
    if not turned:
        parts.insert(0, "no direction turns round")
    return f"{capital(view.replace('equal', 'at equal', 1))}, {pair}: {'; '.join(parts)}."


def _moved(before: Row, row: Row) -> str:
    """`validation loss (+0.296 to +0.500 nats)`: at equal width, and in the view."""
    what, scale, digits = unit(row["metric"])
    ends = (signed(x["difference"], digits, scale) for x in (before, row))
    return f"{metric_name(row['metric'])} ({' at equal width, here '.join(ends)} {what})"


def comparison(results: Results, family: str) -> Table:
    """Every view of every metric."""
    rows = []
    for row in oriented(results, family):
        what, scale, digits = unit(row["metric"])
        half = ""
        if row["low"]:
            half = f" ± {scale * (float(row['high']) - float(row['low'])) / 2:.{digits}f}"
        rows.append(
            [
                row["view"],
                f"{metric_name(row['metric'])} ({what if what == 'nats' else '%'})",
                f"{results.called(family, row['first'])} − {results.called(family, row['second'])}",
                " / ".join(_amount(row[key]) for key in ("quantity", "second_quantity")),
                " / ".join(number(row[k], digits, scale) for k in ("first_mean", "second_mean")),
                f"{signed(row['difference'], digits, scale)}{half}",
                number(row["detectable"], digits, scale),
                row["seeds"],
                plain(row["verdict"] + (f" ({row['reason']})" if row["reason"] else "")),
            ]
        )
    caption = (
        f"The views. A slash separates the two runs; differences are paired by seed; "
        f"{over(results, family, matched=True)}. The baseline's coupling stands "
        "second. At equal training FLOPs both runs are read at the cost of the cheaper one, on "
        f"their learning curves. {DETECTABLE}"
    )
    header = ["view", "metric", "runs", "what is equal: width, parameters or FLOPs", "means",
              "difference", "smallest detectable", "seeds", "verdict"]  # fmt: skip
    return Table(f"{family}_views", caption, header, rows, long=True)


def _amount(cell: str) -> str:
    return f"{float(cell):.3g}" if float(cell) >= 1e9 else number(cell, 0)
