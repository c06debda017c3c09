"""When a shared table becomes like the input or the output table of two: curves over training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting.alignment_tables import small
from tiebench.reporting.curves import line
from tiebench.reporting.estimates import seeds_of, spread, value
from tiebench.reporting.naming import capital, number, plain, signed, whole, with_interval
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.plotting import COLOURS, DASHES, GREY, legend, new_figure
from tiebench.reporting.results import Results, Row

SUMMARY, DIFFERENCES = "alignment_by_step_summary", "alignment_by_step_differences"
PAIRS = {
    "output-tied": ("shared and output", COLOURS[0], "o"),
    "input-tied": ("shared and input", COLOURS[1], "s"),
    "input-output": ("input and output", GREY, "D"),
}
"""Pairs from the question to what it is held against: words, colour, marker."""
Couple = tuple[str, str]
"""An untied run and the one that differs from it in tying alone."""


def couples(results: Results, family: str) -> list[Couple]:
    """The runs that the tables are about."""
    rows = results.where(DIFFERENCES, family=family)
    return list(dict.fromkeys((row["untied"], row["tied"]) for row in rows))


def section(results: Results, family: str) -> Section:
    """Curves of each pair of runs, and all numbers."""
    kind = "of one seed" if _initialization(results, family) == "same" else "of different seeds"
    drawn = [
        Figure(
            f"{family}_distances_{untied}_{tied}",
            f"Spearman's correlation of the distances between words in two tables, {kind}, by "
            f"update: the input and the output table of {results.called(family, untied)}, and the "
            f"shared one of {results.called(family, tied)}. Dotted: the floor, with rows permuted "
            f"among words of like frequency. {spread(results, family, 'Bands')}",
            partial(curves, results, family, (untied, tied)),
        )
        for untied, tied in couples(results, family)
    ]
    return Section(
        f"{family}-alignment-by-step",
        f"Which table a shared one comes to resemble, {plain(family)}",
        findings(results, family),
        drawn,
        [steps_table(results, family)],
        notes(),
    )


def _initialization(results: Results, family: str) -> str:
    """Of tables of different seeds where there are any: those of one start alike."""
    other = results.one(DIFFERENCES, family=family, initialization="other")
    return "same" if other is None else "other"


def _summaries(results: Results, family: str, couple: Couple, **cells: str) -> Iterator[Row]:
    """Summary rows of a couple, pair by pair, each by rising step."""
    untied, tied = couple
    for pair in PAIRS:
        second = untied if pair == "input-output" else tied
        at = {"family": family, "first": untied, "second": second, "pair": pair, **cells}
        yield from sorted(results.where(SUMMARY, **at), key=lambda row: int(row["step"]))


def curves(results: Results, family: str, couple: Couple) -> Any:
    """Correlation by update, with its floor; the updates on a logarithmic axis that has 0."""
    figure, axes = new_figure()
    held: dict[str, list[tuple[float, Row]]] = {}
    initialization = _initialization(results, family)
    for row in _summaries(results, family, couple, initialization=initialization):
        held.setdefault(row["pair"], []).append((int(row["step"]), row))
    for pair, points in held.items():
        words, colour, marker = PAIRS[pair]
        style = {"color": colour, "marker": marker, "markersize": 4, "linestyle": DASHES[0]}
        line(axes, points, words, style)
        floors = [float(row["floor"]) for _, row in points]
        axes.plot([x for x, _ in points], floors, color=colour, linestyle=DASHES[2], linewidth=1)
    steps = sorted({x for points in held.values() for x, _ in points})
    _updates(axes, int(steps[1]), int(steps[-1]))
    axes.set_xlabel("updates")
    axes.set_ylabel("correlation of distances")
    axes.plot([], [], color=GREY, linestyle=DASHES[2], linewidth=1, label="floor: rows permuted")
    legend(figure, axes)
    return figure


def _updates(axes: Any, first: int, last: int) -> None:
    """A logarithmic axis of updates from `first` on, with 0 before it."""
    axes.set_xscale("symlog", linthresh=first, linscale=0.4)
    powers = [10**k for k in range(len(str(last))) if first <= 10**k <= last]
    ticks = [0, *(powers or [last])]
    axes.set_xticks(ticks, [f"{x:,}" for x in ticks])
    axes.set_xticks([], minor=True)


def findings(results: Results, family: str) -> list[str]:
    """Which table the shared one is more like after training, and from which update on."""
    said = []
    for couple in couples(results, family):
        said.append(_resemblance(results, family, couple))
        if _initialization(results, family) == "other":
            said += _of_one_seed(results, family, couple)
    return said


def _resemblance(results: Results, family: str, couple: Couple) -> str:
    initialization = _initialization(results, family)
    rows = _differences(results, family, couple, initialization)
    last = rows[-1]
    ends = {
        row["pair"]: row
        for row in _summaries(
            results, family, couple, initialization=initialization, step=last["step"]
        )
    }
    untied, tied = (results.called(family, run) for run in couple)
    seeds = "of another seed" if initialization == "other" else "of the same seed"
    side, opposite = "output", "input"
    if last["verdict"] == "input":
        side, opposite = opposite, side
    undecided = last["verdict"] == "undecided"
    more = "not decided to be more" if undecided else "more"
    when = f"({_reason(last)})" if undecided else _since(rows)
    return capital(
        f"the table of {tied} is {more} like the {side} table of {untied} {seeds} than like its "
        f"{opposite} table {when}: after update {whole(last['step'])} the distances between words "
        f"correlate by {value(ends['output-tied'], 2)} with those in the output table and by "
        f"{value(ends['input-tied'], 2)} with those in the input table; above their floors the "
        f"first is higher by {_measured(last)}. The two tables of {untied} correlate by "
        f"{value(ends['input-output'], 2)}."
    )


def _of_one_seed(results: Results, family: str, couple: Couple) -> list[str]:
    """Which table the shared one is more like where it starts with the values of the input table,
    by stretches of updates with one verdict."""
    words = {"output": "more like the output table", "input": "more like the input table",
             "undecided": "not decided"}  # fmt: skip
    parts = []
    rows = _differences(results, family, couple, "same")
    for verdict, group in groupby(rows, key=lambda row: row["verdict"]):
        steps = [whole(row["step"]) for row in group]
        many = f"updates {steps[0]} to {steps[-1]}" if len(steps) > 1 else f"update {steps[0]}"
        parts.append(f"{words[verdict]} at {many}")
    if {row["verdict"] for row in rows} == {"undecided"}:
        return []
    untied, tied = (results.called(family, run) for run in couple)
    return [
        f"Of one seed, the table of {tied} and the input table of {untied} start with the same "
        f"values. Above the floors, the shared table is then {', '.join(parts)}."
    ]


def _differences(results: Results, family: str, couple: Couple, initialization: str) -> list[Row]:
    """Differences of what is above the floors, by rising step."""
    at = {"family": family, "initialization": initialization, "over": "floor"}
    rows = results.where(DIFFERENCES, untied=couple[0], tied=couple[1], **at)
    return sorted(rows, key=lambda row: int(row["step"]))


def _since(rows: list[Row]) -> str:
    """From which update on the verdict is that after the last one."""
    earliest = rows[-1]
    for row in reversed(rows):
        if row["verdict"] != rows[-1]["verdict"]:
            break
        earliest = row
    if earliest is rows[-1]:
        return "after the last update"
    return f"from update {whole(earliest['step'])} on"


def _reason(row: Row) -> str:
    seeds = int(row["seeds"])
    few = f", in the mean over {seeds_of(seeds)}" if seeds < MINIMUM_SEEDS else ""
    return row["reason"] + few


def _measured(row: Row) -> str:
    text = signed(row["mean"], 3)
    if row["low"]:
        text += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
    return text


def steps_table(results: Results, family: str) -> Table:
    """Every pair of tables at every update, and which one the shared table is nearer to."""
    rows = []
    for difference in results.where(DIFFERENCES, family=family, over="floor"):
        kind, step = difference["initialization"], difference["step"]
        couple = difference["untied"], difference["tied"]
        at = {"initialization": kind, "step": step}
        cells = {row["pair"]: row for row in _summaries(results, family, couple, **at)}
        rows.append(
            [
                ", ".join(results.called(family, run) for run in reversed(couple)),
                kind,
                whole(step),
                *(
                    f"{with_interval(cells[pair], 3)} [{number(cells[pair]['floor'], 3)}]"
                    for pair in PAIRS
                ),
                _measured(difference),
                small(difference["p_adjusted"]),
                difference["verdict"]
                + (f": {difference['reason']}" if difference["reason"] else ""),
            ]
        )
    words = results.one("alignment_by_step", family=family)
    assert words is not None, "a difference is that of rows"
    caption = (
        f"Spearman's correlation of the cosine distances between {whole(words['words'])} words in "
        "two tables, by update; in square brackets its floor. Output minus input: of what is above "
        "the floor; p is corrected over the updates and pairs of runs. "
        f"{spread(results, family, '±')}"
    )
    header = ["runs", "seeds", "update", *(words for words, _, _ in PAIRS.values()),
              "output minus input", "p, corrected", "nearer"]  # fmt: skip
    return Table(f"{family}_alignment_by_step", caption, header, rows, long=True)


def notes() -> list[str]:
    """What the curves rest on."""
    return [
        "The words are spread evenly over the vocabulary by frequency rank; the same in all runs. "
        "Their rows were kept before training and after the updates shown.",
        "Tables of one seed and name start with the same values: an input table and a shared "
        "one then correlate by 1 before training. The figures are of different seeds where there "
        "are any; the table has both.",
    ]
