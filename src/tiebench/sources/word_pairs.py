"""Pairs of words with a score that people gave, one a line: `word, word, score`.

A tab or a blank separates them. A pair that is there twice stays twice, as in the published sets.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tiebench.errors import DataError
from tiebench.sources.settings import LocalSource, WheelSource

FORMAT = "pairs"
FIELDS = 3


class WordPair(NamedTuple):
    """Two words and how alike people find them."""

    first: str
    second: str
    score: float


@dataclass(frozen=True)
class WordPairs:
    """A set of pairs.

    Attributes:
        pairs: in the order of the file.
        file: where they are from.
        sha256: of the text of the file, line by line.
    """

    pairs: list[WordPair]
    file: str
    sha256: str

    @property
    def repeated(self) -> int:
        """Pairs that are there before, in either order of the words."""
        return len(self.pairs) - len({frozenset(pair[:2]) for pair in self.pairs})


def read_pairs(source: WheelSource | LocalSource, language: str) -> WordPairs:
    """The pairs of one file.

    Raises:
        DataError: no file or several; a line without two words and a number; no two scores that
            differ; and as the kind of source.
    """
    file, lines = _one_file(source, language)
    pairs, digest = [], hashlib.sha256()
    for number, line in lines:
        digest.update(f"{line}\n".encode())
        if line.strip():
            pairs.append(_pair(line, f"{file}:{number}"))
    if len({pair.score for pair in pairs}) < 2:
        raise DataError(
            file,
            found=f"{len(pairs)} pairs{' of one score' if pairs else ''}",
            expected="pairs of several scores, of which ranks can be made",
            mend="correct the file, or source.files",
        )
    return WordPairs(pairs, file, digest.hexdigest())


def _one_file(
    source: WheelSource | LocalSource, language: str
) -> tuple[str, Iterable[tuple[int, str]]]:
    """The name of the file and its numbered lines."""
    held: list[tuple[str, Iterable[tuple[int, str]]]]
    if isinstance(source, WheelSource):
        from tiebench.sources.wheel import read_text

        read = list(read_text(source, [language]))
        held = [(name, _numbered(text)) for name, text in read]
    else:
        from tiebench.sources.local import files, numbered_lines

        held = [(str(path), numbered_lines(path)) for path in files(source, [language])]
    if len(held) != 1:
        raise DataError(
            f"source.files for {language}",
            found=f"{len(held)} files: {', '.join(name for name, _ in held)}",
            expected="one file",
            mend="name one file in source.files",
        )
    return held[0]


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return ((number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1))


def _pair(line: str, where: str) -> WordPair:
    fields = [x.strip() for x in line.split("\t")] if "\t" in line else line.split()
    try:
        score = float(fields[-1]) if len(fields) == FIELDS and all(fields) else math.nan
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise DataError(
            where,
            found=f"{line.strip():.60}",
            expected="two words and a number, with a tab or a blank between them, and no header",
            mend="correct the file, or source.files",
        )
    return WordPair(fields[0], fields[1], score)
