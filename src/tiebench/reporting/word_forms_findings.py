"""What the word forms say of the column's claim, in sentences made from their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.experiments.word_forms_settings import DIFFERENCE
from tiebench.reporting.estimates import accuracy, seeds_of
from tiebench.reporting.naming import capital, joined, language, number, signed
from tiebench.reporting.results import Row
from tiebench.reporting.word_forms_results import INPUT, OUTPUT, WordForms

CLAIM = (
    "A column on weight tying (Habr; no measurement there) claims that the input brings the forms "
    "of a word together, that the output must keep them apart, and that one table does neither "
    "well."
)


def findings(held: WordForms) -> list[str]:
    """The claim, what it is tested on, both sides of each run with two tables, and the choice."""
    told = [CLAIM, covered(held)]
    for run in (run for run in held.runs if not held.is_shared(run)):
        told += two_tables(held, run)
    shared = [run for run in held.runs if held.is_shared(run)]
    if shared:
        told.append(one_table(held, shared))
    return [*told, guessed(held), *choices(held)]


def covered(held: WordForms) -> str:
    """Which share of vocabulary and text the comparisons are about."""
    types, words = held.total("types"), held.total("words")
    positions, tokens = held.total("positions"), held.total("validation_tokens")
    unknown = held.total("unknown")
    names = joined([language(code) for code in held.languages])
    return (
        f"{types:,} of the {words:,} words in the vocabulary ({100 * types / words:.1f}%; {names}) "
        f"are forms of {held.total('lemmas'):,} lemmas with two forms or more in it, which are "
        f"{100 * positions / tokens:.1f}% of the validation tokens ({100 * unknown / tokens:.1f}% "
        "are unknown words). Lemmas are looked up without context; words with several are left out."
    )


def standing(row: Row) -> str:
    """What a contrast is of zero, by the corrected verdict: above, below or undecided."""
    return row["verdict"]


def hindrance(held: WordForms, run: str, row: Row) -> str:
    """How a sentence that makes no claim starts: few seeds, or a curve that is not flat."""
    if int(row["seeds"]) < MINIMUM_SEEDS:
        return f"in the mean over {seeds_of(int(row['seeds']))}, without a claim, "
    if not held.is_flat(run):
        return "without a claim, since the learning curve is not flat, "
    return ""


def _order(size: float) -> str:
    return "closer" if size > 0 else "farther apart" if size < 0 else "as close"


def closeness(held: WordForms, run: str, row: Row) -> str:
    """How forms stand to matched pairs in one table, with the contrast."""
    shown, start = f"({_with_ends(row)})", hindrance(held, run, row)
    if start:
        size = float(row["mean"])
        than = "than" if size else "as"
        return f"{start}forms are {_order(size)} {than} words that are as frequent {shown}"
    known = {
        "above": "forms are closer than words that are as frequent",
        "below": "forms are farther apart than words that are as frequent",
    }
    unknown = "forms are not shown to be closer or farther apart than words that are as frequent"
    return f"{known.get(standing(row), unknown)} {shown}"


def two_tables(held: WordForms, run: str) -> Iterator[str]:
    """Both tables of a run, and whether the input's forms are the closer ones."""
    sides = {side: held.geometry(run, side, "contrast") for side in (INPUT, OUTPUT, DIFFERENCE)}
    ours, theirs, less = (sides[side] for side in (INPUT, OUTPUT, DIFFERENCE))
    assert ours is not None and theirs is not None and less is not None
    name = capital(held.called(run))
    told = closeness(held, run, ours)
    yield f"{name}, input table (cosine of forms less that of matched pairs, centred): {told}."
    kept = "" if hindrance(held, run, theirs) else apart(theirs)
    yield f"{name}, output table: {closeness(held, run, theirs)}.{kept}"
    start = hindrance(held, run, less)
    if start:
        told = f"{start}forms are {_order(float(less['mean']))} in the input table"
    else:
        told = {
            "above": "forms are closer in the input table, as the column says",
            "below": "forms are closer in the output table, the reverse of what the column says",
        }.get(
            standing(less),
            "neither table is shown to hold them closer, which does not support the column",
        )
    raw = held.geometry(run, DIFFERENCE, "contrast", centring="raw")
    start = f"Input less output of {held.called(run)} ({_with_ends(less)})"
    yield f"{start}: {told}{_raw(less, raw)}."


def _with_ends(row: Row) -> str:
    """A mean and the ends of its interval, signed, for brackets."""
    shown = signed(row["mean"], 3)
    if row["low"]:
        shown += f", {signed(row['low'], 3)} to {signed(row['high'], 3)}"
    return shown


def _raw(centred: Row, raw: Row | None) -> str:
    if raw is None:
        return ""
    same = standing(centred) == standing(raw) and float(centred["mean"]) * float(raw["mean"]) >= 0
    said = "the same" if same else "otherwise"
    return f" ({said} with rows as they are, {signed(raw['mean'], 3)})"


def apart(row: Row) -> str:
    """What an output table's contrast says of the claim that forms are kept apart."""
    return {
        "above": " Its forms are not kept apart.",
        "below": " It keeps them apart, as the column says.",
    }.get(standing(row), "")


def one_table(held: WordForms, runs: list[str]) -> str:
    """The contrast in a shared table."""
    parts = []
    for run in runs:
        row = held.geometry(run, INPUT, "contrast")
        assert row is not None
        parts.append(f"{held.called(run)}: {closeness(held, run, row)}")
    return f"With one table for both sides, {'; '.join(parts)}."


def guessed(held: WordForms) -> str:
    """What the models choose, beside frequencies alone."""
    said = [f"{held.called(run)} {accuracy(held.choice(run, 'accuracy'))}" for run in held.runs]
    return (
        "Where the next word is one of several forms of its lemma, the right one has the highest "
        f"probability of them in: {joined(said)}; training frequencies alone "
        f"{number(held.unigram('accuracy'), 1, 100)}%."
    )


def choices(held: WordForms) -> Iterator[str]:
    """Each run against the baseline in choosing forms, by the verdicts."""
    words = {
        "form_loss": ("loss of the form given its lemma", "nats", 1.0, 3),
        "lemma_loss": ("loss of the lemma", "nats", 1.0, 3),
        "accuracy": ("accuracy of the form", "points", 100.0, 1),
    }
    results = held.results
    runs = dict.fromkeys(row["first"] for row in results["form_choice_pairs"])
    for run in runs:
        rows = {row["metric"]: row for row in results.where("form_choice_pairs", first=run)}
        other = held.called(rows["form_loss"]["second"])
        parts = []
        for metric, (name, unit, scale, digits) in words.items():
            row = rows[metric]
            text = f"{name} {signed(row['difference'], digits, scale)} {unit}"
            if row["low"]:
                low, high = (signed(row[end], digits, scale) for end in ("low", "high"))
                text += f" ({low} to {high})"
            parts.append(f"{text}, {row['verdict']}")
        reasons = dict.fromkeys(row["reason"] for row in rows.values() if row["reason"])
        said = f" Undecided: {results.reason(held.family, '; '.join(reasons))}." if reasons else ""
        yield (
            f"Choosing forms, {held.called(run)} less {other}: {'; '.join(parts)}.{said} "
            f"{tied_is_worse(rows['form_loss'], held.called(run), other)}{part_of_forms(rows)}"
        )


def part_of_forms(rows: Mapping[str, Row]) -> str:
    """Which part of the difference in loss at these positions is in the choice of the form."""
    form, lemma = (float(rows[metric]["difference"]) for metric in ("form_loss", "lemma_loss"))
    if form * lemma <= 0:
        return ""
    return (
        f" Of the difference in loss at these words, {100 * form / (form + lemma):.0f}% is in the "
        "form, the rest in the lemma."
    )


def tied_is_worse(row: Row, first: str, second: str) -> str:
    """What the loss of the form says of the claim that one table chooses forms worse."""
    if row["verdict"] == "different":
        worse = second if float(row["difference"]) < 0 else first
        return f"Forms are chosen worse by {worse}."
    if row["verdict"] == "equivalent":
        return f"Forms are chosen as well by {first} as by {second}, within the margin."
    size = float(row["difference"])
    how = "lower" if size < 0 else "higher" if size > 0 else "the same"
    return (
        f"In the mean over {seeds_of(int(row['seeds']))}, without a claim, the loss of the form is "
        f"{how} with {first}."
    )
