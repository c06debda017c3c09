"""Text of another domain, in the tokens of a model that was trained without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiebench.corpus.clean import Dropped, Strings, clean
from tiebench.corpus.seen import digests, read_seen
from tiebench.corpus.settings import CorpusSettings
from tiebench.corpus.split import component, rank, split
from tiebench.corpus.tokenizer import SEP, encode, load_corpus_tokenizer
from tiebench.errors import DataError
from tiebench.experiments.domains_settings import DomainsSettings
from tiebench.sources.read import read_records, subject

Row = dict[str, Any]


@dataclass(frozen=True)
class DomainText:
    """The other domain.

    Attributes:
        train, valid: ids by language, each string followed by [SEP].
        strings: (part, language) -> strings; also of part `seen`, which were left out.
    """

    train: dict[str, np.ndarray]
    valid: dict[str, np.ndarray]
    strings: dict[tuple[str, str], int]

    def rows(self) -> Iterator[Row]:
        """Sizes."""
        for (part, language), count in self.strings.items():
            yield {"part": part, "language": language, "metric": "strings", "value": count}
        for part, held in (("train", self.train), ("valid", self.valid)):
            for language, ids in held.items():
                yield {"part": part, "language": language, "metric": "tokens", "value": len(ids)}


def read_domain(settings: DomainsSettings, corpus: CorpusSettings, folder: Path) -> DomainText:
    """Read, clean, split and encode the other domain.

    Args:
        settings: source and split.
        corpus: of the model; gives the languages.
        folder: its prepared corpus, with tokenizer and digests of what it trains on.

    Raises:
        DataError: a file is missing or damaged, or nothing of a language is left.
    """
    dropped: Dropped = Counter()
    records = read_records(settings.source, corpus.languages)
    strings = clean(records, corpus.languages, dropped)
    kept, seen = unseen(strings, read_seen(folder / "seen.parquet"))
    if not kept:
        raise DataError(
            subject(settings.source),
            found="no string that the model's corpus lacks",
            expected="text of another domain",
            mend="give domains.source other files than the corpus has",
        )
    own = corpus.model_copy(
        update={
            "option": f"domains ({subject(settings.source)})",
            "seed": settings.seed,
            "valid_share": settings.valid_share,
            "heldout": None,
            "parallel": True,
        }
    )
    parts = split(kept, own, dropped)
    tokenizer = load_corpus_tokenizer(folder / "tokenizer.json")
    counts = dict(seen)
    held: dict[str, dict[str, np.ndarray]] = {}
    for name, part in (("train", parts.train), ("valid", parts.valid)):
        held[name] = {}
        for language in corpus.languages:
            texts = _ordered(part, language, settings.seed)
            counts[name, language] = len(texts)
            encoded = (i for ids in encode(tokenizer, texts) for i in (*ids, SEP))
            held[name][language] = np.fromiter(encoded, dtype=np.int64)
    return DomainText(held["train"], held["valid"], counts)


def unseen(strings: Strings, seen: np.ndarray) -> tuple[Strings, dict[tuple[str, str], int]]:
    """Keys none of whose texts is among the digests `seen`; (`seen`, language) -> strings of the
    others."""
    known, kept = set(seen.tolist()), {}
    left: Counter[tuple[str, str]] = Counter()
    for key, texts in strings.items():
        if known.isdisjoint(digests(texts.values()).tolist()):
            kept[key] = texts
        else:
            left.update(("seen", language) for language in texts)
    return kept, dict(sorted(left.items()))


def _ordered(part: Strings, language: str, seed: int) -> list[str]:
    """Components in random order, each in its own, as in a prepared corpus."""
    keys = sorted(
        (key for key in part if language in part[key]),
        key=lambda key: rank(seed, "order", language, component(key)),
    )
    return [part[key][language] for key in keys]
