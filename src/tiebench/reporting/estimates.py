"""Means, intervals and differences over seeds, in words."""

from __future__ import annotations

from tiebench.analysis.statistics import LEVEL, MINIMUM_SEEDS, POWER, PairedDifference
from tiebench.reporting.naming import capital, joined, number, percent, within
from tiebench.reporting.results import Results, Row

PERCENT = f"{100 * LEVEL:g}%"
DETECTABLE = (
    "Smallest detectable: the true difference that this number of seeds finds with power "
    f"{POWER:g} at the observed standard deviation."
)

CUT = "An accuracy's interval that would pass 0 or 100% is given by its ends, cut there."


def over(results: Results, family: str, *, matched: bool = False) -> str:
    """What an interval in a table is over; the table shows `matched` runs too."""
    seeds = results.seeds(family)
    if len(seeds) == 1:
        return "one seed: no interval"
    return (
        f"mean ± half of the {PERCENT} t interval over "
        f"{count_of_seeds(results, family, matched=matched)} (no ± where all seeds give the same)"
    )


def count_of_seeds(results: Results, family: str, *, matched: bool = False) -> str:
    """`5 seeds (3 for matched runs)`; the brackets only where `matched` runs are shown."""
    main, other = len(results.seeds(family)), len(results.matched_seeds(family))
    text = f"{main} seed{'s' * (main > 1)}"
    return f"{text} ({other} for matched runs)" if matched and other not in (0, main) else text


def bands(results: Results, family: str) -> str:
    """What a band in a figure is."""
    text = spread(results, family, "Bands")
    return f"{text.removesuffix('.')}; thin lines: the seeds." if "over" in text else text


def spread(results: Results, family: str, what: str, *, matched: bool = False) -> str:
    """What the bands, bars or lines of a figure are, as a sentence."""
    if len(results.seeds(family)) == 1:
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


def both(row: Row, other: Row | None) -> str:
    """An accuracy with its interval over seeds, and that of `other` over what it varies over."""
    rows = [x for x in (row, other) if x is not None and x["low"]]
    ends = [(*within(x), x["varies"]) for x in rows]
    said = (f"{100 * low:.1f} to {100 * high:.1f} over {what}" for low, high, what in ends)
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


def against_controls(results: Results, table: str, family: str, **cells: str) -> list[str]:
    """Trained runs against their untrained controls, paired by seed: who is above, who is not.

    Args:
        table, cells: the values of a long table that are shares of 1, one per run and seed.
    """
    above: list[str] = []
    other: list[str] = []
    for row in results.trained(family):
        found = row["control"] and results.paired(
            table, family, row["run"], row["control"], **cells
        )
        if found:
            text = f"{results.called(family, row['run'])} {points(found)}"
            (above if found.sign > 0 and found.n >= MINIMUM_SEEDS else other).append(text)
    sentences = []
    if above:
        sentences.append(f"above the untrained control, in points: {joined(above)}")
    if other:
        sentences.append(f"not shown to be above the untrained control: {joined(other)}")
    return sentences


def differences(
    results: Results,
    family: str,
    held: dict[str, Row],
    unit: str,
    digits: int,
    scale: float = 1.0,
    where: str = "",
) -> list[str]:
    """Sentences on how runs differ from the baseline.

    Args:
        held: a row of the summary by run.
        unit, digits, scale: how a difference is shown.
        where: start of each sentence, such as `at the last layer`.
    """
    baseline = results.called(family, results.baseline(family))
    shown, unclear, few, same = [], [], [], []
    for run, row in held.items():
        if not row["difference"]:
            continue
        name, size = results.called(family, run), scale * float(row["difference"])
        seeds = int(row["seeds"])
        text = f"{name} {abs(size):.{digits}f} {unit} {'above' if size > 0 else 'below'}"
        if not size and not row["difference_low"]:
            same.append(name)
        elif seeds < MINIMUM_SEEDS:
            few.append(text)
        elif not row["difference_low"]:
            shown.append(f"{text} (the same in every seed)")
        else:
            low, high = (scale * float(row[f"difference_{end}"]) for end in ("low", "high"))
            text += f" ({low:+.{digits}f} to {high:+.{digits}f})"
            if low > 0 or high < 0:
                shown.append(text)
            else:
                needed = number(row["detectable"], digits, scale)
                unclear.append(f"{text}, where {needed} would have been found")
    start = f"{where}, " if where else ""
    sentences = []
    if shown:
        sentences.append(f"{start}against {baseline}, paired by seed: {joined(shown)}.")
    if unclear:
        sentences.append(
            f"{start}no difference from {baseline} is shown for {joined(unclear)} with power "
            f"{POWER:g} at the observed standard deviation."
        )
    if same:
        sentences.append(f"{start}no difference from {baseline}: {joined(same)}, in every seed.")
    if few:
        those = f"{seeds} seeds are" if seeds > 1 else "one seed is"
        sentences.append(
            f"{start}{those} too few to decide; the differences from {baseline} are, without "
            f"a claim: {joined(few)}."
        )
    return [capital(sentence) for sentence in sentences]
