import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate
from tiebench.sources.read import identity, read_records
from tiebench.sources.settings import LocalSource

External = Callable[[dict[str, str | bytes]], Path]


def local(format: str, files: Any, identifier: str | None = None) -> LocalSource:
    settings = {"kind": "local", "folder": "mine", "format": format, "files": files}
    return validate(LocalSource, settings | {"identifier": identifier}, "source")


def rows(source: LocalSource, languages: list[str]) -> list[tuple[str, str, str]]:
    return [tuple(row.values()) for row in read_records(source, languages)]


def test_lines_align_by_number(external: External) -> None:
    external(
        {
            "a.en": "\ufeffOne\r\n\r\nThree".encode(),
            "a.de.gz": gzip.compress(b"Eins\nZwei\nDrei\n"),
        }
    )
    assert rows(local("lines", {"en": "a.en", "de": "a.de.gz"}), ["en", "de"]) == [
        ("1", "en", "One"),
        ("1", "de", "Eins"),
        ("2", "en", ""),
        ("2", "de", "Zwei"),
        ("3", "en", "Three"),
        ("3", "de", "Drei"),
    ]


@pytest.mark.parametrize("short", ["en", "de"])
def test_lines_of_unequal_length(external: External, short: str) -> None:
    external({name: "x\n" if name == short else "x\ny\n" for name in ("en", "de")})
    with pytest.raises(DataError, match=rf"{short}:2: found the end of the file after 1 lines"):
        read_records(local("lines", {"en": "en", "de": "de"}), ["en", "de"])


def test_lines_of_several_files(external: External) -> None:
    external({"a.en": "x", "b.en": "x"})
    with pytest.raises(DataError, match=r"2 files for en: a\.en, b\.en; expected one file"):
        read_records(local("lines", {"en": "*.en"}), ["en"])


def test_text_has_a_key_per_language(external: External) -> None:
    external({"1.en": "a\nb\n", "2.en": "a\n", "1.de": "c\n"})
    assert rows(local("text", {"en": "*.en", "de": "*.de"}), ["en", "de"]) == [
        ("en/1.en:1", "en", "a"),
        ("en/1.en:2", "en", "b"),
        ("en/2.en:1", "en", "a"),
        ("de/1.de:1", "de", "c"),
    ]


def test_jsonl(external: External) -> None:
    lines = [{"id": "x", "en": "A", "de": "B", "fr": "C"}, {"id": 7, "en": "D", "de": None}]
    external({"a.jsonl.gz": gzip.compress("\n\n".join(map(json.dumps, lines)).encode())})
    source = local("jsonl", "a.jsonl.gz", "id")
    assert rows(source, ["en", "de"]) == [("x", "en", "A"), ("x", "de", "B"), ("7", "en", "D")]
    assert [row[0] for row in rows(local("jsonl", "*.gz"), ["en"])] == [
        "a.jsonl.gz:1",
        "a.jsonl.gz:3",
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"id": 1, "en": "a"}\n{"id": 1', r"a\.jsonl:2: found broken JSON"),
        ('{"id": 1, "en": "a"}\n[]', r"a\.jsonl:2: found \[\]; expected an object"),
        ('{"id": 1, "en": 3}', r"a\.jsonl:1: found 3 in field 'en'"),
        ('{"en": "a"}', r"a\.jsonl:1: found no field 'id'"),
        ('{"id": 1, "en": "a"}\n{"id": 1, "en": "b"}', r":2: found identifier '1', which .*:1 has"),
        ('{"id": 1, "de": "a"}', r"found fields de, id; expected a field 'en'"),
        (r'{"id": 1, "en": "\ud800"}', r"a\.jsonl:1: found broken JSON .*surrogates"),
        ('{"id": 1, "en": ' + "[" * 10**5, r"a\.jsonl:1: found broken JSON"),
        (b'{"id": 1, "en": "a"}\n{"id": 2, "en": "\xe4"}', r"a\.jsonl:2: found bytes that are not"),
    ],
)
def test_broken_jsonl(external: External, content: str | bytes, expected: str) -> None:
    external({"a.jsonl": content})
    with pytest.raises(DataError, match=expected):
        read_records(local("jsonl", "a.jsonl", "id"), ["en"])


@pytest.mark.parametrize("content", [gzip.compress(b"x\n" * 9, mtime=0)[:-9], b"not gzip"])
def test_damaged_gzip(external: External, content: bytes) -> None:
    external({"a.gz": content})
    with pytest.raises(DataError, match=r"a\.gz: found a damaged archive"):
        read_records(local("text", {"en": "a.gz"}), ["en"])


def test_missing_folder_file_language(external: External) -> None:
    source = local("text", {"en": "a.txt"})
    with pytest.raises(DataError, match=r"external/mine: found no such folder.*ln -s"):
        read_records(source, ["en"])
    external({"b.txt": "x"})
    with pytest.raises(DataError, match=r"external/mine/a\.txt: found no such file .*b\.txt"):
        read_records(source, ["en"])
    with pytest.raises(DataError, match="language de: found files for en"):
        read_records(source, ["de"])


@pytest.mark.parametrize("format", ["text", "lines", "jsonl"])
def test_text_has_no_labels(external: External, format: str) -> None:
    files = "a" if format == "jsonl" else {"en": "a"}
    with pytest.raises(DataError, match=f"format {format}, which has no labels"):
        read_records(local(format, files), ["en"], labelled=True)


def test_iob2_has_no_text(external: External) -> None:
    with pytest.raises(DataError, match="format iob2; expected a format with running text"):
        read_records(local("iob2", {"en": "a"}), ["en"])


def test_identity_hashes_the_files(external: External) -> None:
    external({"a.en": "x", "a.de": "y"})
    found = identity(local("text", {"en": "a.en", "de": "a.de"}), ["en"])
    assert found["sha256"] == {
        "a.en": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    }


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
def test_paths_that_leave_external(path: str) -> None:
    with pytest.raises(SettingsError, match="inside external/"):
        local("text", {"en": path})


def test_real_parallel_text(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("external").mkdir()
    for name in ("tatoeba", "libreoffice_help"):
        Path("external", name).symlink_to(shared_data / name)
    lines = LocalSource(
        kind="local",
        folder="tatoeba",
        format="lines",
        files={"en": "tatoeba.deu-eng.eng", "de": "tatoeba.deu-eng.deu"},
    )
    records = read_records(lines, ["en", "de"])
    assert len(records) == 2000
    assert records[3]["text"] == "Wie lange sollen Tom und ich hierbleiben?"
    jsonl = LocalSource(
        kind="local",
        folder="libreoffice_help",
        format="jsonl",
        files="help.jsonl.gz",
        identifier="id",
    )
    assert len(read_records(jsonl, ["en", "de"])) == 2 * 26320
