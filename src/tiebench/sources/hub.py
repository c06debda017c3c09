"""Hugging Face datasets of Parquet files at a pinned revision; code of a repository never runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebench.errors import DataError
from tiebench.progress import progress
from tiebench.sources.conllu import Word, labelled_sentence, malformed, sentences
from tiebench.sources.records import Labelled, Text, unlabelled
from tiebench.sources.settings import HubSource

if TYPE_CHECKING:
    from datasets import Dataset


def read(source: HubSource, languages: list[str], *, labelled: bool) -> Iterator[Any]:
    """`Text` or `Labelled` records of a dataset.

    `text`: a row is split at line ends. `parallel`: the row number is the key; `column` holds
    translations by language, or, where it contains `{language}`, names a column per language.
    `conllu`: `column` holds a sentence in CoNLL-U, or the columns are those of Universal
    Dependencies on the hub (tokens, upos, feats, head, deprel, misc).

    Raises:
        DataError: no such dataset, revision, configuration, split or column; offline and not in
            the library's cache; not Parquet; labels asked of text; a value of another type than
            the format needs (with its row).
    """
    if labelled and source.format != "conllu":
        raise unlabelled(source.repository, source.format)
    if source.format == "parallel":
        return _parallel(source, languages)
    if "{language}" not in (source.config or "") and len(languages) > 1:
        raise DataError(
            f"{source.repository}, configuration {source.config}",
            found=f"languages {', '.join(languages)} in one configuration",
            expected="{language} in source.config",
            mend="name a configuration per language, or one language",
        )
    return (
        _conllu(source, languages, labelled)
        if source.format == "conllu"
        else _text(source, languages)
    )


def load(source: HubSource, language: str) -> Dataset:
    """The rows of one configuration, as the hub has them.

    Raises:
        DataError: as `read`.
    """
    import datasets
    from datasets.packaged_modules.parquet.parquet import Parquet

    config = source.config.replace("{language}", language) if source.config else None
    subject = source.repository + (f", configuration {config}" if config else "")
    local = Path(source.repository).exists()
    if local != (source.revision is None):
        raise DataError(
            subject,
            found="a local folder with a revision" if local else "no revision, and no such folder",
            expected="a revision of 40 hexadecimal digits for a dataset of the hub, "
            "null for a local folder",
            mend="set source.revision (the dataset's page, Files, History, shows it)",
        )
    split = f"{source.split}[:{source.limit}]" if source.limit else source.split
    try:
        builder = datasets.load_dataset_builder(source.repository, config, revision=source.revision)
        if isinstance(builder, Parquet):
            builder.download_and_prepare()
            return builder.as_dataset(split)
    except Exception as error:  # the library's own, fsspec's, the network's: no common base
        raise DataError(
            subject,
            found=f"{type(error).__name__}: {' '.join(str(error).split())[:400]}",
            expected=f"Parquet files with a split {source.split!r}",
            mend="correct source.repository, revision, config or split; with HF_HUB_OFFLINE set, "
            "run once without it to fill the cache",
        ) from error
    raise DataError(
        subject,
        found=f"files for the {builder.info.builder_name} builder",
        expected="Parquet files",
        mend="name a dataset, or a revision of it, that is stored as Parquet",
    )


def _text(source: HubSource, languages: list[str]) -> Iterator[Text]:
    for lang in languages:
        column = _column(load(source, lang), source, lang, source.column)
        for row, text in enumerate(column):
            held = "" if text is None else _text_of(text, f"{source.repository} {lang}, row {row}")
            for number, line in enumerate(held.split("\n")):
                yield Text(f"{lang}/{row}.{number}", lang, line)


def _parallel(source: HubSource, languages: list[str]) -> Iterator[Text]:
    rows = load(source, "")
    if "{language}" in source.column:
        columns = {
            lang: _column(rows, source, lang, source.column.replace("{language}", lang))
            for lang in languages
        }
    else:
        translations = [x or {} for x in _column(rows, source, "", source.column)]
        if translations and not isinstance(translations[0], dict):
            raise _missing(source, "translations by language", [f"{translations[0]!r:.60}"])
        columns = {lang: [row.get(lang) for row in translations] for lang in languages}
        for lang in languages:
            if translations and all(text is None for text in columns[lang]):
                raise _missing(source, f"language {lang}", sorted(translations[0]))
    for lang, texts in columns.items():
        for row, text in enumerate(texts):
            if text is not None:
                where = f"{source.repository} {lang}, row {row}"
                yield Text(str(row), lang, _text_of(text, where))


def _conllu(source: HubSource, languages: list[str], labelled: bool) -> Iterator[Any]:
    for lang in languages:
        rows = load(source, lang)
        where = f"{source.repository} {lang}, row"
        if "tokens" in rows.column_names:
            yield from _ud_columns(rows, lang, where, labelled)
            continue
        for row, value in enumerate(_column(rows, source, lang, source.column)):
            text = _text_of(value, f"{where} {row}")
            yield from sentences(text.split("\n"), lang, f"{where} {row}", labelled=labelled)


def _ud_columns(rows: Dataset, lang: str, where: str, labelled: bool) -> Iterator[Text | Labelled]:
    needed = ("text",) if not labelled else ("upos", "feats", "head", "deprel", "misc")
    for name in needed:
        if name not in rows.column_names:
            raise malformed(
                f"{where} 0", f"columns {', '.join(rows.column_names)}", f"a column {name}"
            )
    names = getattr(getattr(rows.features.get("upos"), "feature", None), "names", None)
    identifier = next((name for name in ("sent_id", "idx") if name in rows.column_names), None)
    for number, row in enumerate(progress(rows, desc=f"read {lang}", unit="row")):
        at = f"{where} {number}"
        named = identifier is not None and row[identifier] is not None
        key = str(row[identifier]) if named else str(number)
        if not labelled:
            yield Text(key, lang, _text_of(row["text"], at))
            continue
        held = [row[name] or [] for name in ("tokens", *needed)]
        if len({len(values) for values in held}) > 1:
            sizes = (f"{len(held[i])} {name}" for i, name in enumerate(("tokens", *needed)))
            raise malformed(at, ", ".join(sizes), "as many of each")
        words: list[Word] = []
        for form, upos, feats, head, deprel, misc in zip(*held, strict=True):
            if not str(head).isdecimal():
                continue  # a contraction's surface form or an empty node, among the words
            spelt = "" if form is None else _text_of(form, at)
            if names:  # class labels, of which -1 is none
                upos = None if upos is None or upos < 0 else names[upos]
            space = _feature(misc, "SpaceAfter") != "No"
            words.append(Word(spelt, upos, _feature(feats, "Case"), int(head), deprel, space))
        for item in row.get("mwt") or ():
            end = str(item["id"]).split("-")[-1]
            if not (end.isdecimal() and 0 < int(end) <= len(words)):
                found = f"a word range {item['id']}"
                raise malformed(at, found, f"one within {len(words)} words")
            last = int(end) - 1
            words[last] = words[last]._replace(
                space_after=_feature(item["misc"], "SpaceAfter") != "No"
            )
        yield labelled_sentence(key, lang, words, at)


def _text_of(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise malformed(where, "no text" if value is None else f"{value!r:.60}", "a text")
    return value


def _feature(features: Any, name: str) -> str | None:
    """The value of a feature in `Case=Nom|...`, or in the printed dictionary some releases have."""
    match = re.search(rf"\b{name}\W+([\w,]+)", str(features or ""))
    return match[1] if match else None


def _column(rows: Dataset, source: HubSource, lang: str, name: str) -> Any:
    if name not in rows.column_names:
        raise _missing(source, f"a column {name!r}", rows.column_names)
    return progress(rows[name], desc=f"read {lang or source.repository}", unit="row")


def _missing(source: HubSource, expected: str, have: list[str]) -> DataError:
    return DataError(
        source.repository,
        found=", ".join(have) or "nothing",
        expected=expected,
        mend="correct source.column or `languages`",
    )
