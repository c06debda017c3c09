"""A text that was published in parts, as language models of words are compared on: taken as it is.

Words are what stands between blanks, every line ends with one more token, and the vocabulary is
that of the training part (Mikolov et al. 2010 prepared Penn Treebank so; Merity et al. 2016,
WikiText). Perplexities are comparable only on the same words, so that each part is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tiebench.corpus.settings import CorpusSettings, PublishedPart
from tiebench.corpus.tokens import write_tokens
from tiebench.errors import DataError
from tiebench.files import sha256_of, write_json, write_text
from tiebench.progress import progress
from tiebench.sources.local import files
from tiebench.sources.read import identity, read_records, subject
from tiebench.sources.settings import LocalSource, Source, in_split

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LINE_END = "<eos>"
UNKNOWN_WORD = "<unk>"
"""How these texts spell the word that stands for all rare ones."""
PARTS = ("train", "valid", "test")
_MEND = (
    "take the files of the published variant (with the same preprocessing), or write the counts "
    "of yours into corpora"
)


def build_published(settings: CorpusSettings, folder: Path) -> None:
    """Fill a corpus folder: tokenizer.json, a token file for each part, meta.json.

    Raises:
        DataError: what the source finds wrong; other counts of lines, tokens or types than
            expected; a word of validation or test that training lacks.
    """
    assert settings.published is not None and settings.tokenizer is not None
    language, vocabulary = settings.languages[0], settings.tokenizer.vocabulary
    words, sources, wheres = {}, {}, {}
    for name in progress(PARTS, desc=f"prepare {settings.option}", unit="part"):
        part: PublishedPart = getattr(settings.published, name)
        source = in_split(settings.source, part.name)
        lines = read_records(source, [language])["text"][:]
        words[name] = [word for line in lines for word in (*line.split(), LINE_END)]
        where = wheres[name] = _where(source, language, part.name)
        _check(f"{where}: lines", len(lines), part.lines)
        _check(f"{where}: tokens", len(words[name]), part.tokens)
        sources[name] = identity(source, [language])
    if settings.kept is not None:
        words = {name: words[name][: getattr(settings.kept, name)] for name in PARTS}
    counts = Counter(words["train"])
    _check(f"{wheres['train']}: types", len(counts), vocabulary)
    numbered = {word: i for i, word in enumerate(sorted(counts, key=lambda x: (-counts[x], x)))}
    path = folder / "tokenizer.json"
    write_text(path, _tokenizer(numbered).to_str(pretty=True))
    digest = sha256_of(path)
    meta: dict[str, Any] = {
        "option": settings.option,
        "source": sources,
        "languages": settings.languages,
        "vocabulary": vocabulary,
    }
    if settings.kept is not None:  # words that are in the rest of training alone
        for name in PARTS[1:]:
            words[name] = [x if x in counts else UNKNOWN_WORD for x in words[name]]
    for name in PARTS:
        ids = _ids(words[name], numbered, wheres[name])
        write_tokens(folder / f"{name}.safetensors", {language: ids}, digest, vocabulary)
        ends = words[name].count(LINE_END)
        meta[name] = {
            language: {
                "strings": ends,
                "words": len(ids) - ends,
                "tokens": len(ids),
                "types": len(set(words[name])),
                "unknown_share": words[name].count(UNKNOWN_WORD) / len(ids),
            }
        }
    write_json(folder / "meta.json", meta)


def _where(source: Source, language: str, part: str) -> str:
    """What an error about a part names: its file, or its name in a source of others."""
    if isinstance(source, LocalSource) and len(found := files(source, [language])) == 1:
        return str(found[0])
    return f"{subject(source)}: {part}"


def _check(what: str, found: int, expected: int) -> None:
    if found != expected:
        raise DataError(
            what, found=f"{found:,}", expected=f"{expected:,}, as published", mend=_MEND
        )


def _ids(words: list[str], numbered: Mapping[str, int], where: str) -> np.ndarray:
    lacking = next((word for word in words if word not in numbered), None)
    if lacking is not None:
        raise DataError(
            where, found=f"the word {lacking!r}", expected="words of the training part", mend=_MEND
        )
    return np.fromiter((numbered[word] for word in words), dtype=np.int64, count=len(words))


def _tokenizer(numbered: dict[str, int]) -> Tokenizer:
    """Words of a text by their number; no special tokens, since the text has none."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(numbered, unk_token=UNKNOWN_WORD))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer
