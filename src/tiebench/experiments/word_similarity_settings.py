"""Settings of word similarity: sets of word pairs that people scored, beside vocabulary tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from tiebench.corpus.settings import Language
from tiebench.schema import Name, Settings
from tiebench.sources.settings import LocalSource, WheelSource

COSINE, DOT = "cosine", "dot"
SIMILARITIES = (COSINE, DOT)
"""Of the rows of two words: by angle, and as the model itself multiplies."""
DIFFERENCE = "output-input"
"""In the place of a table: that of the output minus that of the input."""
RAW = {
    "similarity_sets": (
        "family", "set", "language", "file", "sha256", "pairs", "repeated", "used", "words",
        "known_words", "pieces", "reason",
    ),
    "word_similarity": (
        "family", "run", "table", "seed", "set", "similarity", "value", "low", "high",
    ),
    "word_similarity_pairs": (
        "family", "run", "table", "set", "similarity", "value", "low", "high",
    ),
}  # fmt: skip
"""Columns of the tables that the stage writes. `used`: pairs of which both words are known;
`pieces`: per known word, in the mean; `reason`: why nothing is measured. The interval of
`word_similarity` is over pairs, that of `word_similarity_pairs` too, of the mean over seeds."""


class SimilaritySet(Settings):
    """One set of word pairs."""

    language: Language
    """Code of the language of the words. Where a corpus has not this language, the set is left out
    and the report says so."""
    source: Annotated[WheelSource | LocalSource, Field(discriminator="kind")]
    """One file with two words and a score a line."""

    @field_validator("source")
    @classmethod
    def _of_pairs(cls, source: WheelSource | LocalSource) -> WheelSource | LocalSource:
        if source.format != "pairs":
            raise ValueError("format pairs (two words and a score a line)")
        return source


class SimilaritySettings(Settings):
    """Rank correlation of the scores that people gave with the similarity of the words' rows.

    A word is read as in running text, after a blank, and in lower case where the vocabulary lacks
    it as it is written; a word of several pieces has the mean of their rows. It is known if all of
    its pieces occur in training. Pairs with an unknown word are left out.
    """

    option: str
    """Name of the file in conf/similarity/ that this came from."""
    sets: dict[Name, SimilaritySet]
    """By name."""
    minimum: Annotated[int, Field(ge=3)]
    """Fewest pairs of known words; a set with fewer is left out and the report says so."""
