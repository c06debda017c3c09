"""Training, validation, test and held-out parts that share no text, whatever the language.

Split by groups: strings of one component that say the same up to case, digits, punctuation and
placeholders stay on one side. Then a closure over the whole corpus: a key goes from training
when its text, in any language, is that of a validation, test or held-out sentence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from tiebench.corpus.clean import Dropped, Strings, drop_duplicates, normalize
from tiebench.corpus.settings import CorpusSettings, HeldOutSettings
from tiebench.errors import DataError


@dataclass(frozen=True)
class Split:
    """The parts; `heldout` has every language at every key, in a seeded order."""

    train: Strings
    valid: Strings
    test: Strings
    heldout: Strings


def rank(seed: int, *parts: str) -> bytes:
    """A seeded pseudo-random order: sort by it."""
    return hashlib.sha256("\0".join([str(seed), *parts]).encode()).digest()


def split(strings: Strings, settings: CorpusSettings, dropped: Dropped) -> Split:
    """Split cleaned strings.

    Args:
        strings: what `clean` returns.
        settings: seed, languages, shares.
        dropped: counts are added here.

    Raises:
        DataError: fewer held-out candidates than asked for, or a language without text.
    """
    normal = {
        key: {lang: normalize(t) for lang, t in texts.items()} for key, texts in strings.items()
    }
    groups = group(normal, settings.languages[0])
    heldout: list[str] = []
    if settings.heldout is not None:
        heldout = _choose(groups, strings, normal, settings, settings.heldout)
    chosen = set(heldout)
    if settings.tokenizer is None:
        _count(dropped, "not_selected", (t for k, t in strings.items() if k not in chosen))
        return Split({}, {}, {}, {key: strings[key] for key in heldout})

    rest = {label: keys for label, keys in groups.items() if chosen.isdisjoint(keys)}
    beside = (k for keys in groups.values() if not chosen.isdisjoint(keys) for k in keys)
    _count(dropped, "group_of_heldout", (strings[k] for k in beside if k not in chosen))
    order = sorted(rest, key=lambda label: (rank(settings.seed, "valid", label[0]), label))
    ends = [round(x * len(order)) for x in (settings.valid_share, settings.test_share)]
    valid, test, train = (
        {k for label in labels for k in rest[label]}
        for labels in (order[: ends[0]], order[ends[0] : sum(ends)], order[sum(ends) :])
    )
    for part in (valid, test, train):
        part -= _drop_equal(part, heldout, "equals_heldout", strings, normal, dropped)
    for part in (test, train):
        part -= _drop_equal(part, valid, "equals_valid", strings, normal, dropped)
    train -= _drop_equal(train, test, "equals_test", strings, normal, dropped)
    if not settings.parallel:
        strings = _one_language(strings, normal, settings, train | valid | test, dropped)
    parts = [
        drop_duplicates({key: texts for key, texts in strings.items() if key in part}, dropped)
        for part in (train, valid, test)
    ]
    for name, held in zip(("training", "validation", "test"), parts, strict=True):
        if name == "test" and not settings.test_share:
            continue
        for lang in settings.languages:
            if not any(lang in texts for texts in held.values()):
                raise DataError(
                    f"corpus {settings.option}, language {lang}",
                    found=f"no string in the {name} part",
                    expected="at least one",
                    mend="raise valid_share or test_share, lower heldout.sentences, or add text",
                )
    return Split(parts[0], parts[1], parts[2], {key: strings[key] for key in heldout})


def component(key: str) -> str:
    """What a key belongs to: the part before its first dot."""
    return key.partition(".")[0]


Label = tuple[str, str]
"""Names a group: its first text (normalized, of the pivot where there is one) and first key.

Groups are ordered by the text, so that a string said in many components falls on one side
more often than the closure would have to enforce.
"""


def group(normal: Strings, pivot: str) -> dict[Label, list[str]]:
    """Groups of keys: connected inside a component by equal normalized text, in any language."""
    parent = {key: key for key in normal}

    def root(key: str) -> str:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    first: dict[tuple[str, str], str] = {}
    for key, texts in normal.items():
        for text in texts.values():
            parent[root(key)] = root(first.setdefault((component(key), text), key))
    members: dict[str, list[str]] = {}
    for key in normal:
        members.setdefault(root(key), []).append(key)

    def label(keys: list[str]) -> Label:
        pivots = [normal[k][pivot] for k in keys if pivot in normal[k]]
        return min(pivots or [t for k in keys for t in normal[k].values()]), min(keys)

    return {label(keys): keys for keys in members.values()}


def _choose(
    groups: dict[Label, list[str]],
    strings: Strings,
    normal: Strings,
    settings: CorpusSettings,
    heldout: HeldOutSettings,
) -> list[str]:
    """Keys of held-out sentences: complete, long enough, and distinct in every language."""
    chosen: list[str] = []
    taken: set[str] = set()
    pivot = settings.languages[0]
    for label in sorted(
        groups, key=lambda label: (rank(settings.seed, "heldout", label[0]), label)
    ):
        for key in groups[label]:
            texts = strings[key]
            if len(texts) < len(settings.languages):
                continue
            if len(texts[pivot].split()) < heldout.minimum_words:
                continue
            said = set(normal[key].values())
            distinct = len(said) == len(texts) and taken.isdisjoint(said)
            if heldout.as_published or distinct:
                taken |= said
                chosen.append(key)
    if len(chosen) < heldout.sentences:
        raise DataError(
            f"corpus {settings.option}",
            found=f"{len(chosen)} distinct sentences of {heldout.minimum_words} words or more in "
            f"{', '.join(settings.languages)}",
            expected=f"{heldout.sentences} (heldout.sentences)",
            mend=f"set heldout.sentences to {len(chosen)} or fewer, lower heldout.minimum_words, "
            "or name fewer languages",
        )
    return chosen[: heldout.sentences]


def _count(dropped: Dropped, reason: str, texts: Iterable[dict[str, str]]) -> None:
    for item in texts:
        for lang in item:
            dropped[reason, lang] += 1


def _drop_equal(
    part: set[str],
    other: Iterable[str],
    reason: str,
    strings: Strings,
    normal: Strings,
    dropped: Dropped,
) -> set[str]:
    """Keys of `part` with a normalized text that `other` has in any language."""
    said = {text for key in other for text in normal[key].values()}
    equal = {key for key in part if not said.isdisjoint(normal[key].values())}
    _count(dropped, reason, (strings[key] for key in equal))
    return equal


def _one_language(
    strings: Strings, normal: Strings, settings: CorpusSettings, keys: set[str], dropped: Dropped
) -> Strings:
    """Leave each key of `keys` in one language, the same for all keys of one pivot text."""
    pivot = settings.languages[0]
    name = {key: normal[key].get(pivot, key) for key in strings if key in keys}
    available: dict[str, set[str]] = {}
    for key, label in name.items():
        available.setdefault(label, set()).update(strings[key])
    language = {
        label: min(langs, key=lambda lang: rank(settings.seed, "language", lang, label))
        for label, langs in available.items()
    }
    result = dict(strings)
    for key, label in name.items():
        result[key] = {lang: t for lang, t in strings[key].items() if lang == language[label]}
        _count(dropped, "other_language", [{x: "" for x in strings[key] if x != language[label]}])
    return result
