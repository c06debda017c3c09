"""Settings of a corpus: where its text comes from, how it is split, its tokenizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from tiebench.schema import Settings
from tiebench.sources.settings import SPLIT, Source, names_split

Language = Annotated[str, Field(pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""A language code; it becomes part of file names."""


class HeldOutSettings(Settings):
    """Aligned sentences that are never trained on, in no language."""

    sentences: Annotated[int, Field(gt=0)]
    """How many sentence groups are set aside; each is present in every language."""
    minimum_words: Annotated[int, Field(gt=0)]
    """Shortest held-out sentence, in white-space words of the pivot language."""
    as_published: bool = False
    """Keep a published evaluation set whole: sentences that repeat or are untranslated stay."""


class TokenizerSettings(Settings):
    """The vocabulary, from the training part only."""

    kind: Literal["bpe", "words", "types"] = "bpe"
    """Byte-level BPE; whole words in lower case with one entry for all others (bits per byte are
    then not defined); or all types of a published text as they stand, with one for the line end."""
    vocabulary: Annotated[int, Field(gt=0)]
    """Entries in all: special tokens, and 256 bytes and merges, or the most frequent words. Of
    `types`, how many there are to be."""
    split: Literal["punctuation", "whitespace"] = "punctuation"
    """What ends a word: white space, and each punctuation mark is a word of its own; or white space
    alone, for text that comes split (`words` only)."""

    @model_validator(mode="after")
    def _check(self) -> TokenizerSettings:
        if self.kind != "words" and self.split != "punctuation":
            raise ValueError("split whitespace only with kind words")
        least = {"bpe": 300, "words": 6, "types": 2}[self.kind]
        if self.vocabulary < least:
            raise ValueError(f"vocabulary of {least} or more with kind {self.kind}")
        return self


class PublishedPart(Settings):
    """One part of a published text, and what it is known by."""

    name: str
    """What `{split}` stands for in the source."""
    lines: Annotated[int, Field(gt=0)]
    """Empty ones too."""
    tokens: Annotated[int, Field(gt=0)]
    """Words between blanks, and one end for every line."""


class PublishedParts(Settings):
    """The parts in which a text was published, taken as they stand: no cleaning, no draw."""

    train: PublishedPart
    valid: PublishedPart
    test: PublishedPart


class KeptTokens(Settings):
    """How much of a text of words is kept, the vocabulary's text too."""

    train: Annotated[int, Field(gt=0)]
    valid: Annotated[int, Field(gt=0)]
    test: Annotated[int, Field(gt=0)]


class CorpusSettings(Settings):
    """A corpus. With `tokenizer: null` it is evaluation sentences only, and nothing is trained."""

    option: str
    """Name of the file in conf/corpus/ that this came from."""
    source: Source
    languages: Annotated[list[Language], Field(min_length=1)]
    """Language codes; the first is the pivot (untranslated strings equal the pivot's)."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the split and of the assignment of keys to languages."""
    parallel: bool = True
    """False: each key is kept in one language, so that the training text has no translations."""
    valid_share: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Share of the groups that becomes the validation part."""
    test_share: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Share of the groups that becomes a test part, for the families that have one (recurrent)."""
    kept: KeptTokens | None = None
    """Tokens of each part that are kept, from its start; null for all."""
    heldout: HeldOutSettings | None = None
    """Held-out aligned sentences; null for none."""
    tokenizer: TokenizerSettings | None = None
    """Null: evaluation sentences only."""
    published: PublishedParts | None = None
    """A text with parts of its own, one stream of words each; null for a split drawn here."""

    @field_validator("languages")
    @classmethod
    def _distinct(cls, languages: list[str]) -> list[str]:
        if len(set(languages)) != len(languages):
            raise ValueError("distinct languages")
        if "all" in languages:
            raise ValueError("language codes; `all` names the rows of all languages in the tables")
        return languages

    @model_validator(mode="after")
    def _check(self) -> CorpusSettings:
        kind = None if self.tokenizer is None else self.tokenizer.kind
        if (self.published is None) != (kind != "types"):
            raise ValueError("published parts with tokenizer.kind types, and none without")
        if (self.published is None) == names_split(self.source):
            raise ValueError(f"{SPLIT} in the source with published parts, and none without")
        whole = kind in ("words", "types") and len(self.languages) == 1 and self.has_test
        if self.kept is not None and not whole:
            raise ValueError("kept only with words or types of one language, and a test part")
        if self.published is not None:
            return self._check_published()
        if self.tokenizer is not None and self.valid_share == 0:
            raise ValueError("valid_share above 0 for a corpus that is trained on")
        if self.tokenizer is None and self.heldout is None:
            raise ValueError("heldout, tokenizer, or both")
        if self.tokenizer is None and (self.valid_share or self.test_share or not self.parallel):
            raise ValueError("no shares and parallel true for a corpus without a tokenizer")
        if self.tokenizer is not None and self.heldout is not None and self.heldout.as_published:
            raise ValueError("heldout.as_published false for a corpus that is trained on")
        if self.heldout is not None and len(self.languages) < 2:
            raise ValueError("two languages or more for held-out aligned sentences")
        return self

    def _check_published(self) -> CorpusSettings:
        for name in ("seed", "parallel", "valid_share", "test_share", "heldout"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"no {name} with published parts, where nothing is drawn")
        if len(self.languages) > 1:
            raise ValueError("one language with published parts")
        if self.kept is not None and self.published is not None:
            for name, kept in self.kept.model_dump().items():
                tokens = getattr(self.published, name).tokens
                if kept > tokens:
                    most = f"kept.{name} of at most {tokens:,}, not {kept:,}"
                    raise ValueError(f"{most}: all of the part")
        return self

    @property
    def has_test(self) -> bool:
        """Whether there is a test part beside training and validation."""
        return self.published is not None or self.test_share > 0
