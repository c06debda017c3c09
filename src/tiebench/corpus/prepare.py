"""From a source to a corpus folder: the tokenizer, the token files, the held-out sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tiebench.corpus import tokenizer as tok
from tiebench.corpus.clean import Dropped, Strings, clean
from tiebench.corpus.published import PARTS, build_published
from tiebench.corpus.seen import write_seen
from tiebench.corpus.settings import CorpusSettings, TokenizerSettings
from tiebench.corpus.split import Split, component, rank, split
from tiebench.corpus.tokens import write_tokens
from tiebench.errors import DataError
from tiebench.files import (
    holding,
    replacing,
    replacing_folder,
    sha256_of,
    write_json,
    write_text,
)
from tiebench.paths import SCRATCH
from tiebench.progress import progress
from tiebench.sources.read import identity, read_records


def prepare(settings: CorpusSettings, folder: Path) -> None:
    """Write the corpus folder, whole or not at all; what was there is replaced.

    Raises:
        DataError: what the source, the split or the tokenizer finds wrong.
        BusyError: another process prepares the same folder.
    """
    lock = SCRATCH / f"prepare-{folder.name}.lock"
    with holding(lock, f"corpus {folder.name}"), replacing_folder(folder) as partial:
        (_build if settings.published is None else build_published)(settings, partial)


def _build(settings: CorpusSettings, folder: Path) -> None:
    languages = settings.languages
    with progress(total=4, desc=f"prepare {settings.option}: read", unit="phase") as bar:
        records = read_records(settings.source, languages)
        read = Counter(records["lang"][:])
        _advance(bar, settings, "split")
        dropped: Dropped = Counter()
        whole = settings.heldout is not None and settings.heldout.as_published
        parts = split(clean(records, languages, dropped, as_published=whole), settings, dropped)
        meta: dict[str, Any] = {
            "option": settings.option,
            "source": identity(settings.source, languages),
            "languages": languages,
            "read": {lang: read[lang] for lang in languages},
            "heldout": {"sentences": len(parts.heldout)},
            "dropped": [
                {"reason": reason, "lang": lang, "strings": dropped[reason, lang]}
                for reason, lang in sorted(dropped, key=lambda k: (k[0], languages.index(k[1])))
            ],
        }
        if parts.heldout:
            _write_heldout(folder / "heldout" / "sentences.parquet", parts.heldout)
        if settings.tokenizer is not None:
            _advance(bar, settings, "train the tokenizer")
            meta |= _tokenize(parts, settings, settings.tokenizer, folder, bar)
        write_json(folder / "meta.json", meta)


def _advance(bar: Any, settings: CorpusSettings, phase: str) -> None:
    bar.update()
    bar.set_description(f"prepare {settings.option}: {phase}")


def _write_heldout(path: Path, heldout: Strings) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = [(key, lang, text) for key, texts in heldout.items() for lang, text in texts.items()]
    columns = dict(zip(("key", "lang", "text"), map(list, zip(*rows, strict=True)), strict=True))
    with replacing(path) as temporary:
        parquet.write_table(pa.table(columns), temporary)


def _tokenize(
    parts: Split, settings: CorpusSettings, wanted: TokenizerSettings, folder: Path, bar: Any
) -> dict[str, Any]:
    subject = f"corpus {settings.option}"
    if settings.kept is not None:
        starts = {x: _start(getattr(parts, x), x, settings, wanted) for x in PARTS}
        parts = replace(parts, **starts)
    texts = (text for translations in parts.train.values() for text in translations.values())
    tokenizer, vocabulary = tok.make_tokenizer(texts, wanted, subject), wanted.vocabulary
    path = folder / "tokenizer.json"
    write_text(path, tokenizer.to_str(pretty=True))  # the library's own writer hides a full disk
    digest = sha256_of(path)

    _advance(bar, settings, "encode")
    meta: dict[str, Any] = {"vocabulary": vocabulary}
    encoded = {"train": parts.train, "valid": parts.valid}
    if settings.test_share:
        encoded["test"] = parts.test
    for name, part in encoded.items():
        ids, counts = {}, {}
        for lang in settings.languages:
            strings = [part[key][lang] for key in _ordered(part, settings, lang)]
            ids[lang] = _join(tok.encode(tokenizer, strings))
            if settings.kept is not None:
                ids[lang] = ids[lang][: getattr(settings.kept, name)]
            counts[lang] = _counts(strings, ids[lang])
            if wanted.kind == "words":
                counts[lang]["unknown_share"] = float(np.mean(ids[lang] == tok.UNKNOWN))
        write_tokens(folder / f"{name}.safetensors", ids, digest, vocabulary)
        meta[name] = counts
        if name == "train":
            repeats = {lang: _repeats(values) for lang, values in ids.items()}
            total = tuple(map(sum, zip(*repeats.values(), strict=True)))
            meta["repeated_token_share"] = {
                lang: equal / max(pairs, 1)
                for lang, (equal, pairs) in [*repeats.items(), ("all", total)]
            }
    read = (text for part in encoded.values() for x in part.values() for text in x.values())
    write_seen(folder / "seen.parquet", read)
    bar.update()
    return meta


def _ordered(part: Strings, settings: CorpusSettings, lang: str) -> list[str]:
    """Components in random order, each in its own: a window then has context to read."""
    return sorted(
        (key for key in part if lang in part[key]),
        key=lambda key: rank(settings.seed, "order", lang, component(key)),
    )


def _start(
    part: Strings, name: str, settings: CorpusSettings, wanted: TokenizerSettings
) -> Strings:
    """The first strings of a part that together have the tokens that are kept of it.

    Raises:
        DataError: all have fewer.
    """
    (lang,), wished = settings.languages, getattr(settings.kept, name)
    kept: Strings = {}
    left, ordered = wished, _ordered(part, settings, lang)
    texts = (part[key][lang] for key in ordered)
    for key, words in zip(ordered, tok.split_words(texts, wanted.split), strict=True):
        if left <= 0:
            break
        kept[key] = part[key]
        left -= len(words) + 1
    if left > 0:
        raise DataError(
            f"corpus {settings.option}: {name}",
            found=f"{wished - left:,} tokens",
            expected=f"{wished:,} or more (kept.{name})",
            mend=f"lower kept.{name}, or add text",
        )
    return kept


def _join(encoded: list[list[int]]) -> np.ndarray:
    """Ids of all strings, each followed by [SEP], `[tokens]`."""
    return np.fromiter((i for ids in encoded for i in (*ids, tok.SEP)), dtype=np.int64)


def _counts(strings: list[str], ids: np.ndarray) -> dict[str, Any]:
    """Sizes of one language; a line end per string counts as a byte and a token."""
    size = sum(len(text.encode()) + 1 for text in strings)
    return {
        "strings": len(strings),
        "words": sum(len(text.split()) for text in strings),
        "bytes": size,
        "tokens": len(ids),
        "bytes_per_token": size / len(ids),
    }


def _repeats(ids: np.ndarray) -> tuple[int, int]:
    """(tokens equal to the one before, tokens that have one before), inside strings."""
    inside = (ids[1:] != tok.SEP) & (ids[:-1] != tok.SEP)
    return int(np.sum(inside & (ids[1:] == ids[:-1]))), int(inside.sum())
