"""Which words of a vocabulary are forms of one lemma, by the tables of the package `simplemma`.

The tables (MIT licence, front-coded text compressed with LZMA) have one lemma for each spelling and
know no context. Words here are in lower case: where the spellings with a small and a large first
letter have different lemmas, as German nouns and verbs do, the word is ambiguous.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiebench.errors import SettingsError

OWN_SHARE = 0.9
"""Share of its training occurrences that a word has in the language that it is counted to."""


@dataclass(frozen=True)
class Lexicon:
    """The words of one language that can be compared.

    Attributes:
        words: `[words]` ids, ascending: known to the table by one lemma and frequent enough.
        counts: `[words]` training occurrences in the language.
        lemmas: `[words]` number of each word's lemma.
        names: the lemmas by number, sorted.
        coverage: how many words were left, by reason.
    """

    words: np.ndarray
    counts: np.ndarray
    lemmas: np.ndarray
    names: tuple[str, ...]
    coverage: Mapping[str, float]

    def inflected(self) -> dict[int, np.ndarray]:
        """By lemma with two forms or more, the places of its forms in `words`."""
        held = defaultdict(list)
        for place, lemma in enumerate(self.lemmas):
            held[int(lemma)].append(place)
        return {lemma: np.array(places) for lemma, places in held.items() if len(places) > 1}


def known_languages() -> frozenset[str]:
    """Languages that have a lemma table."""
    from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

    return frozenset(SUPPORTED_LANGUAGES)


def lemma_table(language: str) -> Mapping[str, str]:
    """Spelling -> lemma.

    Raises:
        SettingsError: no table for the language.
    """
    from simplemma.strategies import DefaultDictionaryFactory

    if language not in known_languages():
        raise no_table(language, "languages of the corpus")
    return DefaultDictionaryFactory().get_dictionary(language)


def no_table(language: str, key: str) -> SettingsError:
    """The error of a language without lemmas."""
    return SettingsError(
        key,
        found=f"{language!r}, of which simplemma has no lemmas",
        expected=f"languages among {', '.join(sorted(known_languages()))}",
        mend="name other languages",
    )


def lemmas_of(word: str, table: Mapping[str, str]) -> set[str]:
    """The lemmas, in lower case, of a word in lower case, by its spellings."""
    found = (table.get(spelling) for spelling in (word, word.capitalize()))
    return {lemma.lower() for lemma in found if lemma is not None}


def lexicon(
    names: Sequence[str],
    counts: np.ndarray,
    others: np.ndarray,
    table: Mapping[str, str],
    minimum: int,
) -> Lexicon:
    """The words of a language, from a vocabulary that several languages share.

    Args:
        names: the vocabulary by id; what has no letters is no word, special tokens among it.
        counts: `[vocabulary]` training occurrences in the language.
        others: `[vocabulary]` those in all other languages.
        table: as `lemma_table`.
        minimum: fewest occurrences of a word.
    """
    left: Counter[str] = Counter()
    kept: list[tuple[int, str]] = []
    for index, name in enumerate(names):
        if not name.isalpha() or counts[index] < OWN_SHARE * (counts[index] + others[index]):
            continue
        if not counts[index]:
            continue
        lemmas = lemmas_of(name, table)
        left["words"] += 1
        left["ambiguous"] += len(lemmas) > 1
        left["without_lemma"] += not lemmas
        if len(lemmas) == 1:
            if counts[index] < minimum:
                left["rare"] += 1
            else:
                kept.append((index, lemmas.pop()))
    ordered = tuple(sorted({lemma for _, lemma in kept}))
    number = {lemma: place for place, lemma in enumerate(ordered)}
    words = np.array([index for index, _ in kept], dtype=np.int64)
    return Lexicon(
        words,
        counts[words],
        np.array([number[lemma] for _, lemma in kept], dtype=np.int64),
        ordered,
        {
            **{key: left[key] for key in ("words", "ambiguous", "without_lemma", "rare")},
            "compared": len(kept),
        },
    )
