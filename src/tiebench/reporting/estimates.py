"""Means, intervals and differences over seeds, in words."""

from __future__ import annotations

from tiebench.analysis.statistics import LEVEL, MINIMUM_SEEDS, POWER
from tiebench.reporting.naming import capital, joined, number, within
from tiebench.reporting.results import Results, Row

PERCENT = f"{100 * LEVEL:g}%"
DETECTABLE = (
    "Smallest detectable: the true difference that this number of seeds finds with power "
    f"{POWER:g} at the observed standard deviation."
)

CUT = "An accuracy's interval that would pass 0 or 100% is given by its ends, cut there."


def over(results: Results, family: str) -> str:
    """What an interval in a table is over."""
    seeds = results.seeds(family)
    if len(seeds) == 1:
        return "one seed: no interval"
    return (
        f"mean ± half of the {PERCENT} t interval over {len(seeds)} seeds (no ± where all seeds "
        "give the same)"
    )


def bands(results: Results, family: str) -> str:
    """What a band in a figure is."""
    seeds = results.seeds(family)
    if len(seeds) == 1:
        return "One seed: no interval."
    return f"Bands: {PERCENT} t interval over {len(seeds)} seeds; thin lines: the seeds."


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
