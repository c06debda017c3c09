"""What the recurrent runs show, in sentences from their tables."""

from __future__ import annotations

from collections.abc import Iterator

from tiebench.reporting.estimates import seeds_of
from tiebench.reporting.naming import capital, joined, number, signed
from tiebench.reporting.results import Results, Row

SPLITS = {"valid": "validation", "test": "test", "train": "training"}
"""In the order of the sentences; training last, where the claims differ."""
EFFECTS = ("tying", "projection", "projection with bias", "augmented loss", "dropout")
DROPOUT = {
    "none": "without dropout",
    "step": "with dropout that is drawn at every step",
    "sequence": "with variational dropout",
}
ANSWERS = {
    "lower": "lowers the perplexity of",
    "higher": "raises the perplexity of",
    "equivalent": "leaves as it is, within the margin, the perplexity of",
}


def findings(results: Results) -> list[str]:
    """What tying, projection and augmented loss change, and the published figures."""
    said = []
    for effect in EFFECTS:
        pairs: dict[tuple[str, str], dict[str, Row]] = {}
        for row in results.where("recurrent_pairs", differs=effect):
            pairs.setdefault((row["first"], row["second"]), {})[row["split"]] = row
        said += [_effect(effect, held) for held in pairs.values()]
    return [*said, *_published(results), *_overfitted(results)]


def circumstances(row: Row) -> str:
    """What both runs of a pair have: `without dropout, on one table, with the projection`."""
    said = [DROPOUT[row["dropout"]]] if row["dropout"] else []
    said += ["on one table"] if row["tied"] == "true" else []
    if row["projection"] not in ("", "none"):
        bias = " with its bias" if row["projection"] == "with bias" else ""
        said += [f"beside the projection{bias}"]
    said += ["beside the augmented loss"] if row["augmented"] == "true" else []
    return ", ".join(said)


def _effect(effect: str, held: dict[str, Row]) -> str:
    """One sentence on a pair: lowered, raised, alike, not decided, by split."""
    rows = {split: held[split] for split in SPLITS if split in held}
    first = next(iter(rows.values()))
    who = f"{_plain(first['first'])} against {_plain(first['second'])}"
    under = circumstances(first)
    start = f"{under}, " if under else ""
    start += f"{'the ' if effect != 'tying' and effect != 'dropout' else ''}{effect} ({who})"
    parts = []
    for answer, verb in ANSWERS.items():
        found = [_size(split, row) for split, row in rows.items() if _answer(row) == answer]
        parts += [f"{verb} {joined(found)}"] if found else []
    reasons: dict[str, list[str]] = {}
    for split, row in rows.items():
        if _answer(row) == "undecided":
            reasons.setdefault(row["reason"].replace("_", " "), []).append(_size(split, row))
    for reason, found in reasons.items():
        parts.append(
            f"is not decided to change ({reason}) the perplexity of {joined(found)} in the mean "
            f"over {seeds_of(int(first['seeds']))}"
        )
    return capital(f"{start} {'; '.join(parts)}.")


def _answer(row: Row) -> str:
    if row["verdict"] == "different":
        return "lower" if float(row["difference"]) < 0 else "higher"
    return row["verdict"]


def _size(split: str, row: Row) -> str:
    text = f"{number(row['ratio'], 3)} times"
    if row["ratio_low"]:
        text += f", {number(row['ratio_low'], 3)} to {number(row['ratio_high'], 3)}"
    return f"{SPLITS[split]} ({text})"


def _published(results: Results) -> Iterator[str]:
    """How far ours are from what is printed, where a run has the printed settings."""
    held: dict[tuple[str, str, str], list[Row]] = {}
    for row in results["recurrent_published"]:
        if row["run"]:
            at = (row["source"], row["place"], row["as_published"])
            held.setdefault(at, []).append(row)
    if not held:
        yield (
            "No run of this report has the settings of a printed row; the table of published "
            "figures says what differs."
        )
    for (source, place, settings), rows in held.items():
        tests = [row for row in rows if row["split"] == "test"]
        near = sum(row["within"] == "true" for row in tests)
        told = [
            f"{_plain(row['run'])} {number(row['perplexity'], 1)}, printed "
            f"{number(row['published'], 1)} ({signed(row['difference_percent'], 1)}%)"
            for row in tests
        ]
        limit = f"{float(tests[0]['tolerance_percent']):g}%"
        how = "the printed settings" if settings == "true" else "the settings as far as printed"
        yield (
            f"With {how} of {source}, {place}, {near} of {len(tests)} test perplexities "
            f"{'is' if near == 1 else 'are'} within {limit} of the printed one: {joined(told)} "
            f"(over {seeds_of(int(tests[0]['seeds']))})."
        )


def _overfitted(results: Results) -> Iterator[str]:
    """Runs whose validation perplexity was lower before the last epoch, in every seed."""
    early: dict[str, list[bool]] = {}
    for row in results.where("recurrent_perplexity", split="valid"):
        early.setdefault(row["run"], []).append(int(row["best_epoch"]) < int(row["epoch"]))
    found = [_plain(run) for run, seeds in early.items() if all(seeds)]
    if found:
        yield (
            f"The validation perplexity of {joined(found)} was lowest before the last epoch; the "
            "figures here are those after it."
        )


def _plain(run: str) -> str:
    return run.replace("_", " ")
