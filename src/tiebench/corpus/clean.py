"""Cleaning: what is not text, not translated, or said twice goes, and is counted by reason."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datasets import Dataset

Strings = dict[str, dict[str, str]]
"""key -> language -> text; keys in the source's order."""

Dropped = Counter[tuple[str, str]]
"""(reason, language) -> strings."""

_REFERENCE = re.compile(r"\[%key:[^%\]]*%\]")
_PLACEHOLDER = re.compile(r"\{\s*[\w.-]*\s*\}|%(?:\d+\$)?[sd]\b|\$\[[\w.-]+\]")


def collapse(text: str) -> str:
    """NFC, with every run of white space made one space and none at the ends."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def clean(
    records: Dataset, languages: list[str], dropped: Dropped, *, as_published: bool = False
) -> Strings:
    """Group records by key and drop what is not text of its language.

    Dropped: empty strings; references to other strings (`[%key:...%]`); strings equal to the
    pivot's (the first language's) of the same key, which nobody has translated.

    Args:
        records: text records.
        languages: those kept; the first is the pivot.
        dropped: counts are added here.
        as_published: keep untranslated strings, so that an evaluation set stays whole.
    """
    strings: Strings = {}
    for batch in records.iter(10_000):
        for key, lang, raw in zip(batch["key"], batch["lang"], batch["text"], strict=True):
            text = collapse(raw)
            if not text:
                dropped["empty", lang] += 1
            elif _REFERENCE.search(text):
                dropped["reference", lang] += 1
            else:
                strings.setdefault(key, {})[lang] = text
    if not as_published:
        for translations in strings.values():
            pivot = translations.get(languages[0])
            for lang in languages[1:]:
                if pivot is not None and translations.get(lang) == pivot:
                    del translations[lang]
                    dropped["untranslated", lang] += 1
    return {
        key: {lang: translations[lang] for lang in languages if lang in translations}
        for key, translations in strings.items()
        if translations
    }


def drop_duplicates(strings: Strings, dropped: Dropped) -> Strings:
    """Keep the first of equal texts of a language; later keys lose that language only."""
    seen: set[tuple[str, str]] = set()

    def first(translations: dict[str, str]) -> Iterator[tuple[str, str]]:
        for lang, text in translations.items():
            if (lang, text) in seen:
                dropped["duplicate", lang] += 1
            else:
                seen.add((lang, text))
                yield lang, text

    kept = {key: dict(first(translations)) for key, translations in strings.items()}
    return {key: translations for key, translations in kept.items() if translations}


class _LettersOnly(dict[int, str]):
    """For `str.translate`: letters and marks stay, all else becomes a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        self[code] = character if unicodedata.category(character)[0] in "LM" else " "
        return self[code]


# casefold() turns I into i and İ into i + U+0307, and leaves ı: without these two, a Turkish
# string and its capitals would not meet.
_LETTERS = _LettersOnly({ord("ı"): "i", 0x0307: ""})


def normalize(text: str) -> str:
    """What two strings share when they say the same: case, digits, punctuation, placeholders gone.

    Compatibility forms are unified (NFKC) and the dotless i counts as i. A text without letters
    is returned casefolded, since nothing would be left of it.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = " ".join(_PLACEHOLDER.sub(" ", folded).translate(_LETTERS).split())
    return letters or " ".join(folded.split())
