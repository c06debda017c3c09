"""Files in a folder linked as `external/<folder>`. `.gz` files are read as they are."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tiebench import paths
from tiebench.errors import DataError
from tiebench.progress import progress
from tiebench.sources import iob2
from tiebench.sources.conllu import sentences
from tiebench.sources.records import Labelled, Text, unlabelled, without_text
from tiebench.sources.settings import LocalSource

_MEND = "correct the file, or source.files"


def read(source: LocalSource, languages: list[str], *, labelled: bool) -> Iterator[Any]:
    """`Text` or `Labelled` records of a local folder.

    Raises:
        DataError: names the folder, file or line that is missing or damaged; a language without
            text; files of unequal length that should translate each other; labels asked of text.
    """
    name = f"external/{source.folder}"
    if labelled and source.format not in ("conllu", "iob2"):
        raise unlabelled(name, source.format)
    if source.format == "jsonl":
        return _jsonl(source, languages)
    if source.format == "lines":
        return _lines(source, languages)
    if source.format == "conllu":
        return _conllu(source, languages, labelled)
    if source.format in ("iob2", "pairs") and not labelled:
        raise without_text(name, source.format)
    if source.format == "iob2":
        return _iob2(source, languages)
    return _text(source, languages)


def files(source: LocalSource, languages: list[str]) -> list[Path]:
    """Every file that is read for these languages, sorted within a language.

    Raises:
        DataError: the folder or a file is missing, or a language has no file.
    """
    if isinstance(source.files, str):
        return _glob(source, source.files)
    return [path for lang in languages for path in _of(source, lang)]


def _of(source: LocalSource, lang: str) -> list[Path]:
    assert not isinstance(source.files, str)
    if lang not in source.files:
        raise DataError(
            f"external/{source.folder}: language {lang}",
            found=f"files for {', '.join(sorted(source.files))}",
            expected=f"a file for {lang}",
            mend="add it to source.files, or correct `languages`",
        )
    return _glob(source, source.files[lang])


def _glob(source: LocalSource, pattern: str) -> list[Path]:
    folder = paths.EXTERNAL / source.folder
    if not folder.is_dir():
        raise DataError(
            folder,
            found="no such folder",
            expected="a folder, or a link to one",
            mend=f"mkdir -p {folder.parent} && ln -s /path/to/your/{folder.name} {folder}",
        )
    try:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
    except ValueError:  # no pattern at all, as `**x`
        found = []
    if not found:
        have = sorted(path.name for path in folder.iterdir())[:10]
        raise DataError(
            folder / pattern,
            found=f"no such file (the folder has {', '.join(have) or 'nothing'})",
            expected="a file",
            mend="correct source.files, or complete the folder",
        )
    return found


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their number from 1, without line ends or a byte order mark."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}",
            found=f"bytes that are not UTF-8 ({error.reason})",
            expected="UTF-8",
            mend="convert the file with iconv",
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            path, found=f"a damaged archive ({error})", expected="gzip", mend="get the file anew"
        ) from None


def _text(source: LocalSource, languages: list[str]) -> Iterator[Text]:
    for lang in languages:
        for path in progress(_of(source, lang), desc=f"read {lang}", unit="file"):
            for number, text in numbered_lines(path):
                yield Text(f"{lang}/{path.name}:{number}", lang, text)


def _lines(source: LocalSource, languages: list[str]) -> Iterator[Text]:
    chosen = {lang: _of(source, lang) for lang in languages}
    for lang, found in chosen.items():
        if len(found) != 1:
            raise DataError(
                found[0].parent,
                found=f"{len(found)} files for {lang}: {', '.join(path.name for path in found)}",
                expected="one file a language for format lines",
                mend="name one file in source.files",
            )
    opened = [numbered_lines(found[0]) for found in chosen.values()]
    for number, row in enumerate(zip_longest(*opened), 1):
        if None in row:
            short = languages[row.index(None)]
            raise DataError(
                f"{chosen[short][0]}:{number}",
                found=f"the end of the file after {number - 1} lines",
                expected="as many lines as "
                + str(next(p[0] for p, line in zip(chosen.values(), row, strict=True) if line)),
                mend="line i of every file must translate line i of the others",
            )
        for lang, (_, text) in zip(languages, row, strict=True):
            yield Text(str(number), lang, text)


def _jsonl(source: LocalSource, languages: list[str]) -> Iterator[Text]:
    first: dict[str, str] = {}
    seen: set[str] = set()
    have: set[str] = set()
    found = files(source, languages)
    for path in found:
        for number, line in progress(numbered_lines(path), desc=f"read {path.name}", unit="line"):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            record = _object(line, where)
            key = str(record[source.identifier]) if source.identifier in record else None
            if source.identifier is not None and key is None:
                raise DataError(
                    where,
                    found=f"no field {source.identifier!r}",
                    expected="an identifier in every record",
                    mend="correct source.identifier, or leave it out to number the records",
                )
            key = key or f"{path.name}:{number}"
            if key in first:
                raise DataError(
                    where,
                    found=f"identifier {key!r}, which {first[key]} has too",
                    expected="identifiers that occur once",
                    mend=_MEND,
                )
            first[key] = where
            have |= record.keys()
            for lang in languages:
                if record.get(lang) is None:
                    continue
                if not isinstance(record[lang], str):
                    raise DataError(
                        where,
                        found=f"{record[lang]!r:.60} in field {lang!r}",
                        expected="a string",
                        mend=_MEND,
                    )
                seen.add(lang)
                yield Text(key, lang, record[lang])
    for lang in languages:
        if lang not in seen:
            raise DataError(
                found[0],
                found=f"fields {', '.join(sorted(have))}",
                expected=f"a field {lang!r}",
                mend="correct `languages`",
            )


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        json.dumps(record, ensure_ascii=False).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError) as error:
        raise DataError(
            where, found=f"broken JSON ({error})", expected="an object a line", mend=_MEND
        ) from None
    if not isinstance(record, dict):
        raise DataError(where, found=f"{line:.60}", expected="an object a line", mend=_MEND)
    return record


def _conllu(source: LocalSource, languages: list[str], labelled: bool) -> Iterator[Any]:
    for lang in languages:
        for path in _of(source, lang):
            lines = (text for _, text in numbered_lines(path))
            yield from sentences(lines, lang, str(path), labelled=labelled)


def _iob2(source: LocalSource, languages: list[str]) -> Iterator[Labelled]:
    for lang in languages:
        for path in _of(source, lang):
            yield from iob2.sentences(numbered_lines(path), lang, path)
