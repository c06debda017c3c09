"""Means, intervals and differences over seeds, in words."""

from __future__ import annotations

from collections.abc import Iterable

from tiebench.analysis.statistics import LEVEL, MINIMUM_SEEDS, POWER, PairedDifference
from tiebench.reporting.naming import capital, counted, joined, number, percent, signed, within
from tiebench.reporting.results import Results, Row

PERCENT = f"{100 * LEVEL:g}%"
DETECTABLE = (
    "Smallest detectable: the true difference that this number of seeds finds with power "
    f"{POWER:g} at the observed standard deviation."
)

CORRECTED = (
    "Smallest detectable: the true difference that this number of seeds finds with power "
    f"{POWER:g} at the observed standard deviation and the level of the corrected test, which is "
    "that of one test divided by the number of tests."
)
FEW = (
    f"runs with fewer than {MINIMUM_SEEDS} seeds, and curves that have not flattened, carry no "
    "verdict"
)

MEAN = "in the mean"
"""How a relation between two runs starts that too few seeds stand behind."""

CUT = "An accuracy's interval that would pass 0 or 100% is given by its ends, cut there."


def alone(results: Results, family: str) -> bool:
    """Whether there is one seed, so that nothing has an interval over seeds."""
    return len(results.seeds(family)) == 1


def over(results: Results, family: str, *, matched: bool = False) -> str:
    """What an interval in a table is over; the table shows `matched` runs too."""
    if alone(results, family):
        return "one seed: no interval"
    return (
        f"mean ± half of the {PERCENT} t interval over "
        f"{count_of_seeds(results, family, matched=matched)} (no ± where all seeds give the same)"
    )


def count_of_seeds(results: Results, family: str, *, matched: bool = False) -> str:
    """`5 seeds (3 for matched runs)`; the brackets only where `matched` runs are shown."""
    main, other = len(results.seeds(family)), len(results.matched_seeds(family))
    text = seeds_of(main)
    return f"{text} ({other} for matched runs)" if matched and other not in (0, main) else text


def bands(results: Results, family: str) -> str:
    """What a band in a figure is."""
    text = spread(results, family, "Bands")
    return f"{text.removesuffix('.')}; thin lines: the seeds." if "over" in text else text


def drawn_over(results: Results, family: str, what: str) -> str:
    """What the brackets of a table hold: intervals over sentences, or over strings."""
    text = f"In brackets: {PERCENT} bootstrap interval over {what}"
    return text if alone(results, family) else f"{text} of the mean over seeds"


def paired_by_seed(results: Results, family: str) -> str:
    """What a table of differences and smallest detectable ones has to explain, and a space."""
    return "" if alone(results, family) else f"Differences are paired by seed. {DETECTABLE} "


def spread(results: Results, family: str, what: str, *, matched: bool = False) -> str:
    """What the bands, bars or lines of a figure are, as a sentence."""
    if alone(results, family):
        return "One seed: no interval."
    seeds = count_of_seeds(results, family, matched=matched)
    return f"{what}: {PERCENT} t interval over {seeds}."


def value(row: Row, digits: int) -> str:
    """A mean with the ends of its interval."""
    text = number(row["mean"], digits)
    if row["low"]:
        text += f" ({number(row['low'], digits)} to {number(row['high'], digits)})"
    return text


def accuracy(row: Row) -> str:
    """A mean accuracy in %, with the ends of its interval, cut at 0 and 100%."""
    text = f"{number(row['mean'], 1, 100)}%"
    if row["low"]:
        low, high = within(row)
        text += f" ({100 * low:.1f} to {100 * high:.1f})"
    return text


def sampled(row: Row | None) -> str:
    """An interval over sentences or strings in %, in brackets; nothing without one."""
    if row is None or not row["low"]:
        return ""
    low, high = within(row)
    return f" [{100 * low:.1f}, {100 * high:.1f}]"


def both(row: Row, other: Row | None, what: str = "sentences") -> str:
    """An accuracy with its interval over seeds, and that of `other` over `what` is resampled."""
    rows = [(x, over) for x, over in ((row, "seeds"), (other, what)) if x is not None and x["low"]]
    ends = [(*within(x), over) for x, over in rows]
    said = (f"{100 * low:.1f} to {100 * high:.1f} over {over}" for low, high, over in ends)
    return f"{number(row['mean'], 1, 100)}%" + (f" ({'; '.join(said)})" if ends else "")


def percent_and_sampled(row: Row | None, other: Row | None) -> str:
    """An accuracy in % with ± over seeds and, in brackets, its interval over sentences."""
    return "" if row is None else percent(row) + sampled(other)


def points(found: PairedDifference, digits: int = 1) -> str:
    """A paired difference between shares of 1 in points, with the ends of its interval."""
    text = f"{100 * found.mean:+z.{digits}f}"
    if found.low is not None and found.high is not None:
        text += f" ({100 * found.low:+z.{digits}f} to {100 * found.high:+z.{digits}f})"
    return text


def against_controls(
    results: Results, table: str, family: str, **cells: str
) -> dict[str, list[str]]:
    """Trained runs against their untrained controls, paired by seed.

    Args:
        table, cells: the values of a long table that are shares of 1, one per run and seed.

    Returns:
        By `standing`, the runs with their differences.
    """
    held: dict[str, list[str]] = {}
    for row in results.trained(family):
        found = row["control"] and results.paired(
            table, family, row["run"], row["control"], **cells
        )
        if found:
            text = f"{results.called(family, row['run'])} {points(found)}"
            held.setdefault(standing(found), []).append(text)
    return held


def standing(found: PairedDifference) -> str:
    """What a difference over seeds shows: above, below, or neither; `MEAN` with too few."""
    if found.n < MINIMUM_SEEDS:
        return f"{MEAN} over {seeds_of(found.n)} {direction_of(found.mean)}"
    if found.sign:
        return "above" if found.sign > 0 else "below"
    return "not shown to be above"


def claim(relations: Iterable[str]) -> str:
    """What to add to relations of `standing` of which some are no claim."""
    return ", without a claim" if any(x.startswith(MEAN) for x in relations) else ""


def apart(found: PairedDifference) -> str:
    """A paired difference between shares of 1, for brackets."""
    text = f"{100 * found.mean:+z.1f} points"
    if found.low is not None and found.high is not None:
        text += f", {100 * found.low:+z.1f} to {100 * found.high:+z.1f}"
    return text


def direction_of(size: float) -> str:
    """above, below, or equal to."""
    return "above" if size > 0 else "below" if size < 0 else "equal to"


def seeds_of(count: int) -> str:
    """`1 seed`, `3 seeds`."""
    return counted(count, "seed")


def differences(
    results: Results,
    family: str,
    held: dict[str, Row],
    unit: str,
    digits: int,
    scale: float = 1.0,
    where: str = "",
) -> list[str]:
    """One finding on how runs differ from the baseline; none where none differs from itself.

    Args:
        held: a row of the summary by run.
        unit, digits, scale: how a difference is shown.
        where: its start, such as `at the last layer`.
    """
    shown: list[str] = []
    unclear: list[str] = []
    few: dict[int, list[str]] = {}
    same: list[str] = []
    for run, row in held.items():
        if not row["difference"]:
            continue
        name, size, seeds = results.called(family, run), float(row["difference"]), int(row["seeds"])
        text = f"{name} {abs(scale * size):.{digits}f} {unit} {direction_of(size)}"
        if row["difference_low"]:
            ends = (signed(row[f"difference_{end}"], digits, scale) for end in ("low", "high"))
            needed = number(row["detectable"], digits, scale)
            text += f" ({' to '.join(ends)}; smallest detectable {needed})"
        if not size and not row["difference_low"]:
            same.append(name)
        elif seeds < MINIMUM_SEEDS:
            few.setdefault(seeds, []).append(text)
        elif not row["difference_low"]:
            shown.append(f"{text} (the same in every seed)")
        elif float(row["difference_low"]) > 0 or float(row["difference_high"]) < 0:
            shown.append(text)
        else:
            unclear.append(text)
    parts = [joined(shown)] if shown else []
    parts += [f"no difference is shown for {joined(unclear)}"] if unclear else []
    parts += [f"no difference in any seed for {joined(same)}"] if same else []
    parts += (
        f"in the mean over {seeds_of(seeds)}, without a claim, {joined(said)}"
        for seeds, said in few.items()
    )
    if not parts:
        return []
    start = f"{where}, against" if where else "against"
    text = f"{start} {results.called(family, results.baseline(family))}: {'; '.join(parts)}."
    return [capital(f"{text} {single(results, family)}".strip())]


def single(results: Results, family: str) -> str:
    """What the intervals of `differences` are not, and where verdicts stand."""
    if alone(results, family):
        return ""
    text = "Single intervals, paired by seed and not corrected for their number"
    verdicts = any(results.where("pairs", family=family))
    return f"{text}; verdicts: see Differences between runs." if verdicts else f"{text}."
