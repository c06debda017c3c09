"""Settings of the three kinds of source: `wheel`, `hub`, `local`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from tiebench.schema import Settings

SPLIT = "{split}"
"""Stands for the name of each part of a text that was published in parts."""
LABELLED_TASKS = {"conllu": ("upos", "case", "deprel"), "iob2": ("entity",)}
"""By format, the tasks that its labels are of."""


class WheelSource(Settings):
    """Files inside a pinned PyPI package."""

    kind: Literal["wheel"]
    package: str
    """Distribution name, as in `pip download NAME==VERSION`."""
    version: str
    """Exact version."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """sha256 of the wheel file; also its name in the download cache."""
    files: str
    """Glob inside the wheel. `{language}` stands for each language code (text only)."""
    format: Literal["translations", "conllu", "pairs"]
    """`translations`: nested JSON of strings, the key is folder + JSON path; `pairs`: two words and
    a score a line."""

    @model_validator(mode="after")
    def _check(self) -> WheelSource:
        if self.format == "translations" and "{language}" not in self.files:
            raise ValueError("{language} in files for format translations")
        return self


class HubSource(Settings):
    """A Hugging Face dataset of Parquet files at a pinned revision; never remote code."""

    kind: Literal["hub"]
    repository: str
    """Dataset id, as in `wikimedia/wikipedia`, or a local folder laid out the same way."""
    revision: Annotated[str, Field(pattern="^[0-9a-f]{40}$")] | None
    """Commit of the dataset; null only for a local folder."""
    config: str | None = None
    """Configuration name; `{language}` stands for each language code."""
    split: str = "train"
    """Split to read; `{split}` stands for each part of a text published in parts."""
    format: Literal["text", "parallel", "conllu"]
    """`text`: a text column, split at line ends; `parallel`: translations in a row; `conllu`: a
    column of CoNLL-U sentences, or the columns of Universal Dependencies on the hub."""
    column: str = "text"
    """Column of the text, of the translations by language, or of the CoNLL-U sentence; for
    `parallel`, `{language}` in it names a column per language."""
    limit: Annotated[int, Field(gt=0)] | None = None
    """At most this many rows of each configuration."""

    @model_validator(mode="after")
    def _check(self) -> HubSource:
        if self.format == "parallel" and "{language}" in (self.config or ""):
            raise ValueError("one configuration for format parallel (its rows are aligned)")
        if self.format != "parallel" and "{language}" in self.column:
            raise ValueError("{language} in column only with format parallel")
        return self


class LocalSource(Settings):
    """Files in a folder linked as `external/<folder>`."""

    kind: Literal["local"]
    folder: str
    """Name under external/."""
    format: Literal["text", "lines", "jsonl", "conllu", "iob2", "pairs"]
    """`text`: one sentence a line, no translations; `lines`: one file a language, line by line
    translations; `jsonl`: one JSON object a line, a field a language; `conllu`; `iob2`; `pairs`:
    two words and a score a line."""
    files: dict[str, str] | str
    """File (or glob) by language code, or one file for all languages (`jsonl`). `.gz` is read.
    `{split}` stands for each part of a text published in parts."""
    identifier: str | None = None
    """`jsonl` only: the field that identifies a record; null uses the line number."""

    @model_validator(mode="after")
    def _check(self) -> LocalSource:
        for path in (
            self.folder,
            *(self.files.values() if isinstance(self.files, dict) else [self.files]),
        ):
            if not path or path.startswith("/") or ".." in path.split("/"):
                raise ValueError(f"paths inside external/ ({path!r} leaves it)")
        if self.format == "jsonl" and not isinstance(self.files, str):
            raise ValueError("one file name for format jsonl (the languages are fields)")
        if self.format != "jsonl" and isinstance(self.files, str):
            raise ValueError(f"a file by language code for format {self.format}")
        if self.identifier is not None and self.format != "jsonl":
            raise ValueError("identifier only with format jsonl")
        return self


Source = Annotated[WheelSource | HubSource | LocalSource, Field(discriminator="kind")]


def names_split(source: Source) -> bool:
    """Whether a source has files of its own for each part."""
    return in_split(source, "") != source


def in_split(source: Source, name: str) -> Source:
    """The source of one part."""
    if isinstance(source, HubSource):
        return source.model_copy(update={"split": source.split.replace(SPLIT, name)})
    if isinstance(source, LocalSource):
        held = source.files
        if isinstance(held, str):
            return source.model_copy(update={"files": held.replace(SPLIT, name)})
        files = {lang: file.replace(SPLIT, name) for lang, file in held.items()}
        return source.model_copy(update={"files": files})
    return source
