"""What things are called on the page, and how numbers are shown there."""

from __future__ import annotations

import re
from collections.abc import Mapping

LANGUAGES = {
    "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek", "en": "English",
    "es": "Spanish", "fi": "Finnish", "fr": "French", "hu": "Hungarian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese",
    "ru": "Russian", "sk": "Slovak", "sv": "Swedish", "tr": "Turkish", "uk": "Ukrainian",
    "zh": "Chinese",
}  # fmt: skip
REASONS = {
    "duplicate": "duplicate of a string of the same language",
    "empty": "empty after white space was collapsed",
    "equals_heldout": "equal to a held-out sentence up to case, digits, punctuation, placeholders",
    "equals_test": "equal to a test string up to case, digits, punctuation, placeholders",
    "equals_valid": "equal to a validation string up to case, digits, punctuation, placeholders",
    "group_of_heldout": "in one group with a held-out sentence",
    "not_selected": "not among the sentences chosen for evaluation",
    "other_language": "kept in another language only",
    "reference": "a reference to another string",
    "untranslated": "equal to the text of the first language (untranslated)",
    "ambiguous": "a text with several labels in one language",
    "equals_training": "a test string equal to one of training or development",
    "no_class": "a place in the software that no label covers",
    "no_second_span": "one word in a task of pairs, such as the root of a sentence",
    "not_trained": "of training, past the number of the settings",
    "not_tested": "of training or development, in another language than the first",
    "past_limit": "past a limit of the settings (length read, number of training strings)",
    "rare": "a label that is too rare in training",
}
NOTES = {
    "turkish_treebanks": "Turkish words are split into inflectional groups, which are joined "
    "without a space and related by “ig”: this is not the label set of Universal Dependencies.",
}
"""By the start of a label set's name, what to know about its labels."""
OFFSETS = {
    "none": "no offset",
    "scored_pairs": "offset fitted on the scored pairs (as published)",
    "other_half": "offset fitted on the other half",
}
DISTANCES = {"l2": "l2 distance", "cosine": "cosine"}
SUBSETS = {
    "all": "all sentences",
    "no_shared_token": "no identical token (letters or digits)",
    "not_in_training": "pairs with no text that was trained on",
}
TASKS = {"upos": "part of speech", "case": "case", "deprel": "dependency relation"}
BASELINES = {
    "majority": "most frequent label",
    "word_type": "most frequent label of the word type",
    "surface": "surface baseline",
}
PARTS = {
    "input_table": "input table",
    "output_table": "output table",
    "maps": "input map",
    "head": "head",
    "positions": "positions",
    "body": "body",
}


def language(code: str) -> str:
    """`de` as `German`; an unknown code as it is."""
    return LANGUAGES.get(code, code)


def direction(source: str, target: str) -> str:
    """`English to German`."""
    return f"{language(source)} to {language(target)}"


def plain(name: str) -> str:
    """A key as words: `narrow_input_wide_output` as `narrow input wide output`."""
    return name.replace("_", " ")


def metric_name(metric: str) -> str:
    """A headline metric in words."""
    known = {
        "loss": "validation loss",
        "accuracy": "token accuracy",
        "transfer": "transfer, mean of the other languages",
        "transfer_excess": "transfer, excess over the surface baseline",
    }
    if metric in known:
        return known[metric]
    if metric.startswith("probing_"):
        return f"probing, {task(metric.removeprefix('probing_'))}"
    if metric.startswith("transfer_"):
        return f"transfer, {language(metric.removeprefix('transfer_'))}"
    start, *rest = metric.rsplit("_", 3)
    if not start.startswith("retrieval_") or len(rest) != 3:
        return plain(metric)
    source, target, which = rest
    what = {"last": "last layer", "best": "best layer", "drop": "best minus last layer"}[which]
    return f"{direction(source, target)}, {what} ({start.removeprefix('retrieval_')})"


def unit(metric: str) -> tuple[str, float, int]:
    """What a difference in a headline metric is given in, its scale and its decimals."""
    if metric.endswith("loss"):
        return "nats", 1.0, 3
    if metric == "bits_per_byte":
        return "bits per byte", 1.0, 3
    return "points", 100.0, 1


def better(metric: str) -> int:
    """The sign of a difference that is to the advantage of the first run: -1 for losses."""
    return -1 if unit(metric)[0] != "points" else 1


def task(name: str) -> str:
    """`upos` as `part of speech`; an unknown task as words."""
    return TASKS.get(name, plain(name))


def probe(name: str) -> str:
    """`layer_1` as `layer 1`, `mix_upto_1` as `mix of layers 0 to 1`."""
    if name.startswith("mix_upto_"):
        return f"mix of layers 0 to {name.removeprefix('mix_upto_')}"
    known = {"mix": "mix of all layers", "control": "mix of all layers, control labels"}
    return known.get(name, plain(name))


def number(cell: str, digits: int, scale: float = 1.0) -> str:
    """A table's cell with fixed decimals; an empty cell stays empty."""
    return f"{float(cell) * scale:z,.{digits}f}" if cell else ""


def signed(cell: str, digits: int, scale: float = 1.0) -> str:
    """As `number`, with the sign written out."""
    return f"{float(cell) * scale:+z,.{digits}f}" if cell else ""


def whole(cell: str) -> str:
    """A count with thousands separated."""
    return f"{int(cell):,}" if cell else ""


def with_interval(row: Mapping[str, str], digits: int, scale: float = 1.0) -> str:
    """`3.62 ± 0.03` from a summary's mean, low and high; the mean alone at one seed."""
    return number(row["mean"], digits, scale) + _half(row["low"], row["high"], digits, scale)


def difference(row: Mapping[str, str], digits: int, scale: float = 1.0) -> str:
    """`+0.30 ± 0.02` from a summary's paired difference; empty for the baseline."""
    shown = signed(row["difference"], digits, scale)
    return shown + _half(row["difference_low"], row["difference_high"], digits, scale)


def _half(low: str, high: str, digits: int, scale: float) -> str:
    if not low:
        return ""
    return f" ± {(float(high) - float(low)) / 2 * scale:.{digits}f}"


def percent(row: Mapping[str, str], digits: int = 1) -> str:
    """An accuracy with its interval in %, `12.5 ± 0.8`.

    Where the t interval would pass 0 or 100%, its ends are given, cut there: `0.4 (0.0 to 1.2)`.
    """
    if not row["low"] or (float(row["low"]) >= 0 and float(row["high"]) <= 1):
        return with_interval(row, digits, 100)
    low, high = within(row)
    return f"{number(row['mean'], digits, 100)} ({100 * low:.{digits}f} to {100 * high:.{digits}f})"


def counted(count: int, noun: str) -> str:
    """`1 pair`, `1,200 pairs`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def within(row: Mapping[str, str]) -> tuple[float, float]:
    """The ends of an accuracy's interval, cut at 0 and 1."""
    return max(0.0, float(row["low"])), min(1.0, float(row["high"]))


def amount(count: float) -> str:
    """`3.07 million`; below a million all digits."""
    return f"{count / 1e6:,.3g} million" if count >= 1e6 else f"{count:,.0f}"


def capital(text: str) -> str:
    """The first letter large."""
    return text[:1].upper() + text[1:]


def joined(items: list[str]) -> str:
    """`a, b and c`; semicolons between items of which any has a comma outside brackets."""
    if any(", " in re.sub(r"\([^)]*\)", "", item) for item in items):
        return "; ".join(items)
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""
