"""Byte-level BPE (Radford et al. 2019, section 2.2), or whole words; from the training part only.

Text is normalized to NFC. All languages' strings are taken as they are: the sampling exponent of
training does not shape the vocabulary.

Words are in lower case, so that a word at the start of a sentence is the same one: German nouns
and verbs of one spelling then meet, and Turkish I becomes i.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiebench.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from tiebench.corpus.settings import TokenizerSettings

NAMES = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
PAD, CLS, SEP, MASK = range(4)
SPECIALS = len(NAMES)
UNKNOWN_NAME, UNKNOWN = "[UNK]", SPECIALS
"""The entry of all words that have none of their own; predicted like a word, since it is one."""


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


def make_tokenizer(texts: Iterable[str], settings: TokenizerSettings, subject: str) -> Tokenizer:
    """The tokenizer that the settings ask for, as `train_tokenizer` or `word_tokenizer`."""
    if settings.kind == "words":
        return word_tokenizer(texts, settings.vocabulary, settings.split, subject)
    return train_tokenizer(texts, settings.vocabulary, subject)


def word_tokenizer(texts: Iterable[str], vocabulary: int, split: str, subject: str) -> Tokenizer:
    """The most frequent words, the first in alphabetical order among equals, after the special
    tokens and the unknown word.

    Args:
        split: as in `TokenizerSettings`.

    Raises:
        DataError: the text has too few words.
    """
    from tokenizers import Tokenizer, models

    normalizer, pre_tokenizer = _word_rules(split)
    counts = Counter(word for words in split_words(texts, split) for word in words)
    special = [*NAMES, UNKNOWN_NAME]
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    if len(ordered) < vocabulary - len(special):
        raise _too_little(subject, len(ordered) + len(special), vocabulary)
    entries = [*special, *ordered[: vocabulary - len(special)]]
    numbered = {word: index for index, word in enumerate(entries)}
    tokenizer = Tokenizer(models.WordLevel(numbered, unk_token=UNKNOWN_NAME))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokenizer.add_special_tokens(special)
    return _literal(tokenizer)


def split_words(texts: Iterable[str], split: str) -> Iterator[list[str]]:
    """The words of each text, as `word_tokenizer` takes them."""
    normalizer, pre_tokenizer = _word_rules(split)
    for text in texts:
        held = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))
        yield [word for word, _ in held]


def _word_rules(split: str) -> tuple[Any, Any]:
    from tokenizers import normalizers, pre_tokenizers

    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    marks = [pre_tokenizers.Punctuation()] if split == "punctuation" else []
    return normalizer, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), *marks])


def is_of_words(tokenizer: Tokenizer) -> bool:
    """Whether an entry is a whole word, so that some words have none."""
    from tokenizers import models

    return isinstance(tokenizer.model, models.WordLevel)


def train_tokenizer(texts: Iterable[str], vocabulary: int, subject: str) -> Tokenizer:
    """Train a byte-level tokenizer with exactly `vocabulary` entries.

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
        raise _too_little(subject, tokenizer.get_vocab_size(), vocabulary)
    return _literal(tokenizer)


def _too_little(subject: str, found: int, vocabulary: int) -> DataError:
    return DataError(
        subject,
        found=f"text for {found} vocabulary entries",
        expected=f"{vocabulary} (tokenizer.vocabulary)",
        mend="lower tokenizer.vocabulary, or add text",
    )


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


def byte_lengths(tokenizer: Tokenizer) -> np.ndarray | None:
    """Bytes of UTF-8 per token, `[vocabulary]` int64; None for words.

    Special tokens have none, but [SEP] one: it stands for the line end after a string. The unknown
    word stands for words of any length, and a word says nothing of its case and the space beside
    it.
    """
    if is_of_words(tokenizer):
        return None
    lengths = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for token, index in tokenizer.get_vocab().items():
        lengths[index] = len(token)  # one character per byte
    lengths[:SPECIALS] = 0
    lengths[SEP] = 1
    return lengths
