"""Which words are forms of one lemma."""

from __future__ import annotations

import numpy as np
import pytest

from tiebench.errors import SettingsError
from tiebench.experiments.lemmas import lemma_table, lemmas_of, lexicon

TABLE = {
    "gehe": "gehen", "geht": "gehen", "gehen": "gehen", "ging": "gehen", "Haus": "Haus",
    "Häuser": "Haus", "Gerät": "Gerät", "gerät": "geraten", "blau": "blau",
}  # fmt: skip
NAMES = ["[PAD]", "geht", "gehe", "haus", "häuser", "gerät", "blau", "!", "xyz", "ging", "die"]
COUNTS = np.array([0, 9, 5, 3, 8, 7, 6, 99, 4, 2, 0])


def test_words_of_one_lemma_that_are_frequent_enough() -> None:
    held = lexicon(NAMES, COUNTS, np.zeros(11, dtype=int), TABLE, 3)
    assert [NAMES[x] for x in held.words] == ["geht", "gehe", "haus", "häuser", "blau"]
    assert [held.names[x] for x in held.lemmas] == ["gehen", "gehen", "haus", "haus", "blau"]
    assert held.counts.tolist() == [9, 5, 3, 8, 6]
    inflected = {held.names[lemma]: places.tolist() for lemma, places in held.inflected().items()}
    assert inflected == {"gehen": [0, 1], "haus": [2, 3]}
    # [PAD] and ! are no words, `die` does not occur
    assert held.coverage == {
        "words": 8, "ambiguous": 1, "without_lemma": 1, "rare": 1, "compared": 5,
    }  # fmt: skip


def test_a_word_belongs_to_the_language_that_it_occurs_in() -> None:
    others = np.array([0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])  # 90% of `geht`, 83% of `gehe`
    held = lexicon(NAMES, COUNTS, others, TABLE, 3)
    assert [NAMES[x] for x in held.words] == ["geht", "haus", "häuser", "blau"]


def test_both_spellings_are_looked_up() -> None:
    assert lemmas_of("gerät", TABLE) == {"gerät", "geraten"}
    assert lemmas_of("häuser", TABLE) == {"haus"} and lemmas_of("xyz", TABLE) == set()


def test_the_tables_of_the_package() -> None:
    table = lemma_table("en")
    assert lemmas_of("devices", table) == {"device"} and lemmas_of("went", table) == {"go"}
    with pytest.raises(SettingsError, match=r"languages of the corpus: found 'xx', of which simpl"):
        lemma_table("xx")
