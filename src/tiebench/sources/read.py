"""One way to read every kind of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiebench.sources.settings import HubSource, LocalSource, Source, WheelSource

if TYPE_CHECKING:
    from datasets import Dataset


def read_records(source: Source, languages: list[str], *, labelled: bool = False) -> Dataset:
    """The records of a source, in a stable order.

    Args:
        source: where they come from.
        languages: those to read; an unknown one is an error.
        labelled: false for `key, lang, text`, true for `key, lang, tokens, space_after, targets`.

    Raises:
        DataError: names the file (and line) that is missing, damaged or of another form.
    """
    from tiebench.sources.records import labelled_dataset, text_dataset

    records: Any
    if isinstance(source, WheelSource):
        from tiebench.sources import wheel

        records = wheel.read(source, languages, labelled=labelled)
    elif isinstance(source, HubSource):
        from tiebench.sources import hub

        records = hub.read(source, languages, labelled=labelled)
    else:
        from tiebench.sources import local

        records = local.read(source, languages, labelled=labelled)
    name = subject(source)
    return labelled_dataset(records, name) if labelled else text_dataset(records, name)


def subject(source: Source) -> str:
    """What an error about the whole source names."""
    if isinstance(source, WheelSource):
        return f"{source.package}=={source.version}"
    if isinstance(source, HubSource):
        return source.repository
    return f"external/{source.folder}"


def identity(source: Source, languages: list[str]) -> dict[str, Any]:
    """What the text came from, for meta.json: the settings, and the sha256 of local files."""
    result: dict[str, Any] = source.model_dump()
    if isinstance(source, LocalSource):
        from tiebench.files import sha256_of
        from tiebench.sources.local import files

        result["sha256"] = {path.name: sha256_of(path) for path in files(source, languages)}
    return result
