"""Word similarity: do rows of words that people find alike lie close, in the tables of one family?

Spearman's correlation of the scores with the similarity of the two rows, as Press and Wolf 2017,
section 4, and Chung et al. 2021, table 8, measure it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebench.analysis.alignment import unit
from tiebench.analysis.rank_correlation import Ordered, Reference, limits
from tiebench.corpus.tokenizer import encode, is_of_words
from tiebench.errors import DataError
from tiebench.experiments.saved_tables import INPUT, OUTPUT
from tiebench.experiments.word_similarity_settings import (
    COSINE,
    DIFFERENCE,
    SIMILARITIES,
    SimilaritySet,
    SimilaritySettings,
)
from tiebench.sources.word_pairs import WordPairs, read_pairs

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Row = dict[str, Any]
Drawn = dict[tuple[str, str, str, str], list[tuple[float, np.ndarray]]]
"""By run, table, set and similarity: the correlation of each seed, and its draws."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The tokens whose rows are there.

    Attributes:
        tokenizer: of the corpus.
        tokens: `[n]` ids in order, those that occur in training.
    """

    tokenizer: Tokenizer
    tokens: np.ndarray

    @cached_property
    def _place(self) -> dict[int | None, int]:
        unknown = None
        if self._of_words:
            unknown = self.tokenizer.token_to_id(self.tokenizer.model.unk_token)
        return {int(x): i for i, x in enumerate(self.tokens) if x != unknown}

    @cached_property
    def _of_words(self) -> bool:
        return is_of_words(self.tokenizer)

    def _ids(self, text: str) -> list[int | None]:
        """The pieces of a text; None for a word without an entry, which not every list of words
        has an entry for."""
        if not self._of_words:
            return [*encode(self.tokenizer, [text])[0]]
        normalizer, pre_tokenizer = self.tokenizer.normalizer, self.tokenizer.pre_tokenizer
        text = normalizer.normalize_str(text) if normalizer else text
        words = (word for word, _ in pre_tokenizer.pre_tokenize_str(text))
        return [self.tokenizer.token_to_id(word) for word in words]

    def places(self, word: str) -> list[int] | None:
        """Places in `tokens` of the pieces of a word in running text; None where one is lacking."""
        for text in dict.fromkeys((word, word.lower())):
            ids = self._ids(f" {text}")
            if ids and all(x in self._place for x in ids):
                return [self._place[x] for x in ids]
        return None


@dataclass(frozen=True, eq=False)
class KnownPairs:
    """The pairs of a set whose words are known.

    Attributes:
        words: by word, the places of its pieces.
        first, second: `[pairs]`, numbers of the words.
        scores: of the pairs.
    """

    words: dict[str, list[int]]
    first: np.ndarray
    second: np.ndarray
    scores: Reference

    @classmethod
    def of(cls, held: WordPairs, known: dict[str, list[int] | None]) -> KnownPairs:
        """Those of a set, with the places of the words that are known."""
        words = {word: places for word, places in known.items() if places}
        number = {word: i for i, word in enumerate(words)}
        kept = [x for x in held.pairs if x.first in words and x.second in words]
        first, second = (
            np.array([number[word] for word in side], dtype=np.int64)
            for side in ([x.first for x in kept], [x.second for x in kept])
        )
        scores = Reference(Ordered.of(np.array([x.score for x in kept])))
        return cls(words, first, second, scores)

    def similarities(self, rows: np.ndarray, kind: str) -> Ordered:
        """Of the two words of each pair, from the rows of a table."""
        means = np.stack([rows[places].mean(axis=0) for places in self.words.values()])
        means = unit(means) if kind == COSINE else means
        found = (means[self.first] * means[self.second]).sum(axis=1)
        # the same rows give the same similarity, in either order and to the last digit
        return Ordered.of(np.round(found / max(np.abs(found).max(), 1e-300), 12))


class WordSimilarity:
    """The sets of word pairs as one vocabulary knows them, and what tables make of them.

    Args:
        settings: sets; None for none.
        vocabulary: of the family's corpus.
        languages: of the corpus.

    Raises:
        DataError: a file of a set is missing or damaged.
    """

    def __init__(
        self,
        settings: SimilaritySettings | None,
        vocabulary: Vocabulary,
        languages: Sequence[str],
    ) -> None:
        self.sets: dict[str, KnownPairs] = {}
        self.described: list[Row] = []
        self.drawn: Drawn = {}
        if settings is not None:
            for name, held in settings.sets.items():
                self._add(name, held, vocabulary, languages, settings.minimum)

    def _add(
        self,
        name: str,
        held: SimilaritySet,
        vocabulary: Vocabulary,
        languages: Sequence[str],
        minimum: int,
    ) -> None:
        found = read_pairs(held.source, held.language)
        words = dict.fromkeys(word for pair in found.pairs for word in pair[:2])
        known = {word: vocabulary.places(word) for word in words}
        pairs = KnownPairs.of(found, known)
        sizes = [len(places) for places in pairs.words.values()]
        used, reason = len(pairs.first), ""
        if held.language not in languages:
            reason = f"the corpus has no text in {held.language} ({', '.join(languages)})"
        elif used < minimum:
            reason = f"fewer than {minimum} pairs of known words"
        elif pairs.scores.values.constant:
            reason = "pairs of known words have one score"
        if not reason:
            self.sets[name] = pairs
        self.described.append(
            {
                "set": name, "language": held.language, "file": found.file,
                "sha256": found.sha256, "pairs": len(found.pairs), "repeated": found.repeated,
                "used": used, "words": len(words), "known_words": len(sizes),
                "pieces": sum(sizes) / len(sizes) if sizes else None, "reason": reason,
            }
        )  # fmt: skip

    def rows(self, run: str, seed: int, table: str, matrix: np.ndarray) -> Iterator[Row]:
        """Rows of `word_similarity` for a table `[tokens, width]`.

        Raises:
            DataError: all pairs have the same similarity.
        """
        for name, pairs in self.sets.items():
            for kind in SIMILARITIES:
                ordered = pairs.similarities(matrix, kind)
                if ordered.constant:
                    raise DataError(
                        f"{run}, seed {seed}: {table} table",
                        found=f"one {kind} similarity for all pairs of {name}",
                        expected="rows that differ",
                        mend="train the run anew, or leave it out",
                    )
                value, drawn = pairs.scores.spearman(ordered), pairs.scores.drawn(ordered)
                self.drawn.setdefault((run, table, name, kind), []).append((value, drawn))
                low, high = limits(drawn)
                yield {
                    "run": run, "table": table, "seed": seed, "set": name, "similarity": kind,
                    "value": value, "low": low, "high": high,
                }  # fmt: skip

    def pair_rows(self) -> Iterator[Row]:
        """Rows of `word_similarity_pairs`: of what `rows` measured, in the mean over seeds, and of
        the output less the input table."""
        for (run, table, name, kind), held in self.drawn.items():
            value = float(np.mean([x for x, _ in held]))
            drawn = np.mean([x for _, x in held], axis=0)
            at = {"run": run, "set": name, "similarity": kind}
            yield self._over_pairs({**at, "table": table}, value, drawn)
            inputs = self.drawn.get((run, INPUT, name, kind))
            if table == OUTPUT and inputs is not None:
                value -= float(np.mean([x for x, _ in inputs]))
                drawn = drawn - np.mean([x for _, x in inputs], axis=0)
                yield self._over_pairs({**at, "table": DIFFERENCE}, value, drawn)

    @staticmethod
    def _over_pairs(at: Row, value: float, drawn: np.ndarray) -> Row:
        low, high = limits(drawn)
        return {**at, "value": value, "low": low, "high": high}
