"""What the study `remedies` says, in sentences made from its tables."""

from __future__ import annotations

from collections import Counter

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting.estimates import seeds_of
from tiebench.reporting.naming import capital, counted, joined, plain, signed
from tiebench.reporting.results import Results, Row

SOURCE = "Su 2023"
EFFECT = 2.0
"""How many times ln n the product d sigma must be for the effect to be plain."""
NEAR = 0.1
"""Nats: initial losses so near to theory are called theory's."""


def findings(results: Results, family: str) -> list[str]:
    """Premise, start, and what verdicts, or means where there are none, say of each claim."""
    said = [
        _premise(results, family),
        _start(results, family),
        _standard(results, family),
        _slowest(results, family),
        _alike(results, family, "alike"),
        _alike(results, family, "finals"),
        *_controls(results, family),
    ]
    return [text for text in said if text]


def rows_of(results: Results, family: str, *roles: str) -> list[Row]:
    """What each run of these roles is; of all without roles."""
    rows = results.where("remedies_runs", family=family)
    return [row for row in rows if not roles or row["role"] in roles]


def summary_of(results: Results, family: str, run: str, metric: str) -> Row | None:
    """A row of the summary."""
    return results.one("remedies_summary", family=family, run=run, metric=metric)


def _mean(results: Results, family: str, run: str, metric: str) -> float | None:
    row = summary_of(results, family, run, metric)
    return None if row is None else float(row["mean"])


def _premise(results: Results, family: str) -> str:
    row = next(iter(rows_of(results, family, "baseline")))
    size, log = float(row["d_sigma"]), float(row["log_vocabulary"])
    met = size >= EFFECT * log
    kind = "at least" if met else "less than"
    rest = "" if met else ": the effect on the initial loss is weak or absent here"
    return (
        f"With std {float(row['std']):.3g} and width {row['width']}, d sigma is {size:.2f} and "
        f"ln n {log:.2f}: {kind} {EFFECT:g} ln n{rest}."
    )


def _start(results: Results, family: str) -> str:
    """Where runs with suppressed branches start, beside theory."""
    off: list[tuple[float, str]] = []
    for row in rows_of(results, family):
        found = _mean(results, family, row["run"], "initial_loss")
        if row["theory"] and found is not None:
            off.append((found - float(row["theory"]), row["run"]))
    if not off:
        return ""
    base = results.baseline(family)
    worst, run = max(off, key=lambda pair: abs(pair[0]))
    start = _mean(results, family, base, "initial_loss")
    others = [
        found
        for row in rows_of(results, family, "remedy", "slowest")
        if (found := _mean(results, family, row["run"], "initial_loss")) is not None
    ]
    said = ""
    if others:
        low, high = f"{min(others):.2f}", f"{max(others):.2f}"
        said = f", the remedies at {low if low == high else f'{low} to {high}'}"
    agrees = (
        f"within {NEAR:g} nats of theory for every run"
        if abs(worst) <= NEAR
        else f"up to {abs(worst):.2f} nats {'above' if worst > 0 else 'below'} theory "
        f"({results.called(family, run)})"
    )
    return (
        f"Where the residual branches start at zero, {results.called(family, base)} starts at "
        f"{start:.2f} nats{said}: {agrees}."
    )


def _standard(results: Results, family: str) -> str:
    """What is left of the effect where branches are not suppressed."""
    rows = rows_of(results, family, "standard")
    tied = [row for row in rows if row["tied"] == "true" and row["option"] == "tied_plain"]
    base = next(iter(rows_of(results, family, "baseline")))
    if not tied:
        return ""
    starts = [
        _mean(results, family, x["run"], "initial_loss") for x in (tied[0], base)
    ]  # fmt: skip
    if None in starts:
        return ""
    excess = [float(x or 0) - float(base["log_vocabulary"]) for x in starts]
    if excess[1] <= 0:
        return ""
    kept = excess[0] / excess[1]
    kind = "most of the effect is gone" if kept < 0.5 else "most of the effect stays"
    return (
        f"With {plain(tied[0]['branch'])} branches one table starts at {starts[0]:.2f} nats, "
        f"{100 * max(kept, 0):.0f}% of the excess over ln n with suppressed ones: {kind}."
    )


def _pairs(results: Results, family: str, claim: str, metric: str | None = None) -> list[Row]:
    rows = results.where("remedies_pairs", family=family, claim=claim)
    return [row for row in rows if metric in (None, row["metric"])]


def _slowest(results: Results, family: str) -> str:
    rows = _pairs(results, family, "slowest")
    if not rows:
        return ""
    name = results.called(family, rows[0]["first"])
    counts = Counter(_slower(row) for row in rows)
    if all(row["verdict"] == "undecided" for row in rows):
        above = sum(float(row["difference"]) > 0 for row in rows)
        return (
            f"{SOURCE} found std ln(n)/d slowest. {_undecided(rows)} In the mean, without a claim, "
            f"{name} has a higher mean loss on the way than {above} of {len(rows)} other remedies."
        )
    parts = [f"{kind} {count} of {len(rows)}" for kind, count in counts.items()]
    whole = counts.get("slower than", 0) == len(rows)
    agreed = "as" if whole else "not as"
    return f"{capital(name)} is {joined(parts)} other remedies, {agreed} {SOURCE} found."


def _slower(row: Row) -> str:
    if row["verdict"] == "different":
        return "slower than" if float(row["difference"]) > 0 else "faster than"
    return "as fast as" if row["verdict"] == "equivalent" else "undecided against"


def _undecided(rows: list[Row]) -> str:
    few = any(int(row["seeds"]) < MINIMUM_SEEDS for row in rows)
    reason = f" ({seeds_of(int(rows[0]['seeds']))})" if few else ""
    return f"Nothing is decided here{reason}."


def _alike(results: Results, family: str, claim: str) -> str:
    rows = _pairs(results, family, claim)
    if not rows:
        return ""
    speed = claim == "alike"
    what = "mean loss on the way" if speed else "final loss"
    who = "the other remedies" if speed else "all remedies"
    margin = float(rows[0]["margin"])
    widest = max(rows, key=lambda row: abs(float(row["difference"])))
    far = (
        f"the widest difference is {results.called(family, widest['first'])} minus "
        f"{results.called(family, widest['second'])}, {difference_text(widest)}"
    )
    if all(row["verdict"] == "undecided" for row in rows):
        return (
            f"{SOURCE} found {who} alike in {'speed' if speed else 'final performance'}. "
            f"{_undecided(rows)} In {what}, without a claim, {far}."
        )
    counts = Counter(row["verdict"] for row in rows)
    parts = [
        f"{counts[verdict]} {words}"
        for verdict, words in (
            ("equivalent", f"alike within {margin:g} nats"),
            ("different", "different"),
            ("undecided", "undecided"),
        )
        if counts[verdict]
    ]
    agrees = counts["equivalent"] == len(rows)
    against = bool(counts["different"])
    tail = f"as {SOURCE} found" if agrees else f"against {SOURCE}" if against else "not settled"
    pairs = counted(len(rows), "pair")
    return f"Of {pairs} of {who} in {what}: {joined(parts)}, {tail}; {far}."


def difference_text(row: Row) -> str:
    """A difference with the ends of its interval, in nats."""
    text = f"{signed(row['difference'], 3)} nats"
    if row["low"]:
        text += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
    return text


def _controls(results: Results, family: str) -> list[str]:
    said = []
    for row in _pairs(results, family, "control", "area"):
        names = [results.called(family, row[key]) for key in ("first", "second")]
        told = {
            "different": "different: the control does not explain the remedy",
            "equivalent": "alike: the control explains the remedy",
            "undecided": f"undecided ({results.reason(family, row['reason'])})",
        }[row["verdict"]]
        said.append(
            f"{capital(names[0])} against its control {names[1]}, mean loss on the way: "
            f"{difference_text(row)}, {told}."
        )
    return said
