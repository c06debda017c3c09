"""The same couplings at equal width, equal parameters and equal training operations."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tiebench.reporting import dots
from tiebench.reporting.estimates import FEW, alone, count_of_seeds, over, seeds_of, spread
from tiebench.reporting.naming import (
    capital,
    counted,
    joined,
    metric_name,
    number,
    signed,
    unit,
    whole,
)
from tiebench.reporting.pairs import reasons, smallest, worded
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
        notes(results, family),
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
    """What verdicts say of the views; the loss in them; what is matched and what has none."""
    return [_verdicts(results, family), *_losses(results, family), set_up(results, family)]


def notes(results: Results, family: str) -> list[str]:
    """How runs are matched; then every view and pair, with a claim where there is a verdict."""
    by: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for before, row in _changes(results, family):
        by.setdefault((row["view"], _pair(results, family, row)), []).append((before, row))
    told = (f"{_at(view)}, {pair}: {_told(changes)}." for (view, pair), changes in by.items())
    return [*matching(results, family), *map(capital, told)]


def _changes(results: Results, family: str) -> list[tuple[Row, Row]]:
    """Rows of the other views, each after the row of the same couplings at equal width."""
    rows = oriented(results, family)
    wide = {_key(results, family, row): row for row in rows if row["view"] == WIDTH}
    return [
        (wide[key], row)
        for row in rows
        if row["view"] != WIDTH and (key := _key(results, family, row)) in wide
    ]


def _claimed(row: Row) -> bool:
    """Whether a verdict stands without a reservation."""
    return row["verdict"] in ("different", "equivalent") and not row["reason"]


def _kind(before: Row, row: Row) -> str:
    """What becomes of a difference at equal width; empty where there is no claim on both."""
    if not (_claimed(before) and _claimed(row)):
        return ""
    verdicts = before["verdict"], row["verdict"]
    if verdicts == ("different", "different"):
        product = float(before["difference"]) * float(row["difference"])
        return "stays in" if product > 0 else "turns round in"
    if verdicts == ("different", "equivalent"):
        return "is gone (equivalent within the margin) in"
    if verdicts == ("equivalent", "different"):
        return "appears, where equal width is equivalent, in"
    return "is absent in both (equivalent within the margin) in"


def _verdicts(results: Results, family: str) -> str:
    """How many differences stay and turn round by their verdicts; or that none can be said to."""
    changes = _changes(results, family)
    kinds = Counter(_kind(before, row) for before, row in changes)
    none = kinds.pop("", 0)
    why = reasons(
        results,
        family,
        [[x["reason"] for x in both] for both in changes if not _kind(*both)],
    )
    if not kinds:
        return (
            "No claim is made on whether a difference at equal width stays when parameters or "
            f"operations are equal, in {counted(none, 'comparison')}: {why}."
        )
    said = [
        f"{kind.removesuffix(' in')} in {counted(n, 'comparison')}"
        for kind, n in kinds.most_common()
    ]
    text = (
        "When parameters or operations are equal instead of the width, the difference between two "
        f"couplings {'; '.join(said)}."
    )
    where = counted(none, "comparison")
    return f"{text} No claim is made in {where}: {why}." if none else text


def _losses(results: Results, family: str) -> list[str]:
    """The validation loss in every view, with or without a claim."""
    by: dict[str, list[str]] = {}
    for before, row in _changes(results, family):
        if row["metric"] == "loss":
            size = f"{_pair(results, family, row)} {_size(row)}"
            size += f", {_wide(before, row)}"
            by.setdefault(_at(row["view"]), []).append(size)
    said = [f"{view}, {'; '.join(pairs)}" for view, pairs in by.items()]
    return [f"Validation loss in nats. {'. '.join(map(capital, said))}."] if said else []


def _at(view: str) -> str:
    return view.replace("equal", "at equal", 1)


def _pair(results: Results, family: str, row: Row) -> str:
    return " minus ".join(results.short(family, row[key]) for key in ("first", "second"))


def _size(row: Row) -> str:
    """A difference and what stands behind it; without a claim where it has no verdict."""
    _, scale, digits = unit(row["metric"])
    text = signed(row["difference"], digits, scale)
    if _claimed(row):
        return f"{text} ({row['verdict']}, over {seeds_of(int(row['seeds']))})"
    said = [f"in the mean over {seeds_of(int(row['seeds']))}, without a claim"]
    if row["low"]:
        said.append(" to ".join(signed(row[x], digits, scale) for x in ("low", "high")))
        said.append(f"smallest detectable {number(row['detectable'], digits, scale)}")
    return f"{text} ({'; '.join(said)})"


def _wide(before: Row, row: Row) -> str:
    """The difference at equal width, with its seeds where the row beside it has other ones."""
    _, scale, digits = unit(row["metric"])
    seeds = "" if before["seeds"] == row["seeds"] else f", over {seeds_of(int(before['seeds']))},"
    return f"at equal width{seeds} {signed(before['difference'], digits, scale)}"


def _told(changes: list[tuple[Row, Row]]) -> str:
    """One pair of couplings in a view, against the same pair at equal width."""
    by: dict[str, list[str]] = {}
    for before, row in changes:
        what = unit(row["metric"])[0]
        text = f"{metric_name(row['metric'])} {_size(row)}, {_wide(before, row)} {what}"
        by.setdefault(_kind(before, row), []).append(text)
    return "; ".join(
        f"the difference at equal width {kind} {joined(said)}" if kind else joined(said)
        for kind, said in by.items()
    )


def set_up(results: Results, family: str) -> str:
    """What the views hold equal, and how many seeds there are."""
    text = (
        "At equal width a larger table adds parameters and a wide output adds operations; the "
        "other views hold these equal."
    )
    if results.matched(family):
        verb = "is" if alone(results, family) else "are"
        text += f" There {verb} {count_of_seeds(results, family, matched=True)}."
    return text


def matching(results: Results, family: str) -> list[str]:
    """How runs are matched."""
    said = []
    for row in results.matched(family):
        main = results.run(family, results.unmatched(family, row["run"]))
        said.append(
            f"{results.called(family, row['run'])} has as many parameters in "
            f"{row['matched_in'].replace('_', '-')} as {results.called(family, row['matches'])} "
            f"by a feed-forward width of {whole(row['feedforward_width'])} instead of "
            f"{whole(main['feedforward_width'])}"
        )
    start = "Matched runs differ from the run of the same coupling in feed-forward width alone"
    return [f"{start}: {'; '.join(said)}."] if said else []


def _key(results: Results, family: str, row: Row) -> tuple[str, ...]:
    couplings = sorted(results.unmatched(family, row[key]) for key in ("first", "second"))
    return (row["metric"], *couplings)


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
                worded(results, family, row),
            ]
        )
    caption = (
        f"The views. A slash separates the two runs; differences are paired by seed; "
        f"{over(results, family, matched=True)}. The baseline's coupling stands "
        "second. At equal training FLOPs both runs are read at the cost of the cheaper one, on "
        f"their learning curves; {FEW}. {smallest(results)}"
    )
    header = ["view", "metric", "runs", "what is equal: width, parameters or FLOPs", "means",
              "difference", "smallest detectable", "seeds", "verdict"]  # fmt: skip
    return Table(f"{family}_views", caption, header, rows, long=True)


def _amount(cell: str) -> str:
    return f"{float(cell):.3g}" if float(cell) >= 1e9 else number(cell, 0)
