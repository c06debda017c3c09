"""Byte-level BPE (Radford et al. 2019, section 2.2), trained on the training part only.

Text is normalized to NFC. All languages' strings are taken as they are: the sampling exponent of
training does not shape the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tiebench.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAMES = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
PAD, CLS, SEP, MASK = range(4)
SPECIALS = len(NAMES)


class Ends(NamedTuple):
    """Special tokens around a sentence."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.prefix) + len(self.suffix)


OWN_ENDS = Ends((CLS,), (SEP,))
"""Those of the tokenizers trained here."""


def train_tokenizer(texts: Iterable[str], vocabulary: int, subject: str) -> Tokenizer:
    """Train a tokenizer with exactly `vocabulary` entries.

    Raises:
        DataError: the text has not enough pairs that occur twice.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(NAMES),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise DataError(
            subject,
            found=f"text for {tokenizer.get_vocab_size()} vocabulary entries",
            expected=f"{vocabulary} (tokenizer.vocabulary)",
            mend="lower tokenizer.vocabulary, or add text",
        )
    return _literal(tokenizer)


def load_corpus_tokenizer(path: Path) -> Tokenizer:
    """Read the tokenizer.json of a corpus, or of a run that was trained here.

    Raises:
        DataError: missing, damaged, or another layout of special tokens.
    """
    tokenizer = load_tokenizer(path)
    found = _first_entries(tokenizer)
    if found != list(NAMES):
        raise DataError(
            path, found=f"first entries {found}", expected=f"{list(NAMES)}", mend=_mend(path)
        )
    return tokenizer


def load_tokenizer(path: Path) -> Tokenizer:
    """Read any tokenizer.json, without its padding and truncation.

    Raises:
        DataError: missing or damaged.
    """
    from tokenizers import Tokenizer

    if not path.is_file():
        raise DataError(path, found="no such file", expected="a tokenizer", mend=_mend(path))
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises Exception itself
        raise DataError(
            path, found=f"a damaged file ({error})", expected="a tokenizer", mend=_mend(path)
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return _literal(tokenizer)


def special_ends(tokenizer: Tokenizer) -> Ends:
    """What stands around a sentence: [CLS] and [SEP], or what a foreign tokenizer itself adds."""
    if _first_entries(tokenizer) == list(NAMES):
        return OWN_ENDS
    for text in ("a", "the", *tokenizer.get_vocab()):
        plain = tokenizer.encode(text, add_special_tokens=False)
        if plain.ids:
            ids, own = tokenizer.post_process(plain).ids, plain.ids
            for first in range(len(ids) - len(own) + 1):
                if ids[first : first + len(own)] == own:
                    return Ends(tuple(ids[:first]), tuple(ids[first + len(own) :]))
    return Ends((), ())


def id_count(tokenizer: Tokenizer) -> int:
    """Rows that a table needs: one more than the largest id, of which a foreign tokenizer may leave
    some out."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def _first_entries(tokenizer: Tokenizer) -> list[str | None]:
    return [tokenizer.id_to_token(index) for index in range(SPECIALS)]


def _mend(path: Path) -> str:
    return f"run `dvc repro` to make it again, or restore {path}"


def _literal(tokenizer: Tokenizer) -> Tokenizer:
    # a text that spells "[MASK]" is text; not stored in the file, so set at every load
    tokenizer.encode_special_tokens = True
    return tokenizer


def encode(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """Token ids of each text, without special tokens."""
    return [item.ids for item in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def byte_lengths(tokenizer: Tokenizer) -> np.ndarray:
    """Bytes of UTF-8 per token, `[vocabulary]` int64.

    Special tokens have none, but [SEP] one: it stands for the line end after a string.
    """
    lengths = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for token, index in tokenizer.get_vocab().items():
        lengths[index] = len(token)  # one character per byte
    lengths[:SPECIALS] = 0
    lengths[SEP] = 1
    return lengths
