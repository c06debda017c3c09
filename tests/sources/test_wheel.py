import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate
from tiebench.sources import wheel
from tiebench.sources.read import identity, read_records
from tiebench.sources.settings import WheelSource

Cached = Callable[..., WheelSource]


def rows(source: Any, languages: list[str]) -> list[tuple[str, str, str]]:
    return [tuple(row.values()) for row in read_records(source, languages)]


def test_translations_have_component_and_path_as_key(cached: Cached) -> None:
    assert rows(cached(), ["en", "de"]) == [
        ("fan.title", "en", "Fan of {name}"),
        ("lamp.title", "en", "Lamp"),
        ("lamp.state.on", "en", "On"),
        ("lamp.state.off", "en", "Off"),
        ("fan.title", "de", "Ventilator von {name}"),
        ("lamp.title", "de", "Lampe"),
        ("lamp.state.on", "de", "An"),
        ("lamp.state.off", "de", "Aus"),
    ]


def test_wildcards_stay_inside_a_folder(cached: Cached) -> None:
    source = cached({"tiny/components/a/b/translations/en.json": '{"x": "deep"}'})
    assert "deep" not in read_records(source, ["en"])["text"]


@pytest.mark.parametrize(
    ("glob", "keys"),
    [
        ("tiny/components/[a-g]*/translations/{language}.json", ["fan.title"]),
        ("tiny/components/[!f]*/translations/{language}.js?n", ["lamp/o.title"]),
        ("tiny/components/fa?/translations/{language}.json", ["fan.title"]),
        ("tiny/components/fan/translations/{language}.json", ["title"]),
        ("tiny/*/*/translations/{language}.json", ["components/fan.title"]),
    ],
)
def test_globs(cached: Cached, glob: str, keys: list[str]) -> None:
    assert read_records(cached(files=glob), ["en"])["key"][:1] == keys


@pytest.mark.parametrize(
    ("language", "files", "expected"),
    [
        ("xx", "tiny/components/*/translations/{language}.json", "language xx.*one of de, en"),
        ("en", "tiny/nothing/*/{language}.json", "no file that matches"),
    ],
)
def test_unknown_language_and_empty_glob(
    cached: Cached, language: str, files: str, expected: str
) -> None:
    with pytest.raises(DataError, match=expected):
        read_records(cached(files=files), [language])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{\n"a": "x",\n"b": \n}', r"bad/translations/en\.json:4: found broken JSON"),
        (b'{\n"a": "\xff"}', r"bad/translations/en\.json:2: found bytes that are not UTF-8"),
        (
            r'{"a": "\ud800"}',
            r"bad/translations/en\.json: found broken JSON \('utf-8' .*surrogates",
        ),
        (r'{"\udc00": "a"}', r"bad/translations/en\.json: found broken JSON .*surrogates"),
        ("[" * 100_000, r"bad/translations/en\.json: found broken JSON"),
        ("", r"bad/translations/en\.json:1: found broken JSON"),
        ("null", r"en\.json: bad: found None; expected a string or an object of strings"),
        ('{"a": {"b": [1]}}', r"en\.json: bad\.a\.b: found \[1\]; expected a string"),
        ('{"a.b": "x", "a": {"b": "y"}}', r"two records with key 'bad\.a\.b' in en"),
    ],
)
def test_broken_translations(cached: Cached, content: str | bytes, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        read_records(cached({"tiny/components/bad/translations/en.json": content}), ["en"])


def test_truncated_wheel_with_its_own_hash(cache: Path, cached: Cached, tmp_path: Path) -> None:
    good = cached()
    data = next((cache / good.sha256).iterdir()).read_bytes()[:-60]
    (tmp_path / "cut.whl").write_bytes(data)
    sha256 = wheel.sha256_of(tmp_path / "cut.whl")
    (cache / sha256).mkdir()
    (tmp_path / "cut.whl").rename(cache / sha256 / "tiny-1.0-py3-none-any.whl")
    with pytest.raises(DataError, match="damaged archive"):
        read_records(good.model_copy(update={"sha256": sha256}), ["en"])


def test_damaged_member(cache: Path, cached: Cached) -> None:
    good = cached()
    path = next((cache / good.sha256).iterdir())
    data = path.read_bytes().replace(b'"Lamp"', b'"Lomp"')  # the member's checksum no longer holds
    path.write_bytes(data)
    sha256 = wheel.sha256_of(path)
    path.parent.rename(cache / sha256)
    with pytest.raises(DataError, match="damaged archive"):
        read_records(good.model_copy(update={"sha256": sha256}), ["en"])


def test_changed_file_in_the_cache(cache: Path, cached: Cached) -> None:
    source = cached()
    path = next((cache / source.sha256).iterdir())
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(DataError, match=rf"expected sha256 {source.sha256}.*make setup"):
        wheel.download_wheel(source)


def pip_from(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let pip find packages in one folder, and nowhere else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def test_download_then_no_network(
    cache: Path, built: tuple[Path, WheelSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, source = built
    pip_from(monkeypatch, folder)
    path = wheel.download_wheel(source)
    assert path == cache / source.sha256 / "tiny-1.0-py3-none-any.whl"
    assert path.read_bytes() == (folder / path.name).read_bytes()
    assert [item.name for item in cache.iterdir()] == [source.sha256]

    shutil.rmtree(folder)
    monkeypatch.setattr(wheel.subprocess, "run", lambda *a, **k: pytest.fail("pip was called"))
    assert wheel.download_wheel(source) == path


def test_offline_with_an_empty_cache(
    cache: Path, built: tuple[Path, WheelSource], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    pip_from(monkeypatch, tmp_path / "empty")
    with pytest.raises(DataError, match=r"tiny==1\.0: found nothing in the cache .*make setup"):
        wheel.download_wheel(built[1])
    assert not list(cache.glob("*/*"))


def test_release_with_another_hash(
    cache: Path, built: tuple[Path, WheelSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, source = built
    pip_from(monkeypatch, folder)
    wrong = source.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(DataError, match=f"sha256 {source.sha256}; expected sha256 {'0' * 64}"):
        wheel.download_wheel(wrong)
    assert not list(cache.glob("*/*.whl"))


def test_fetch_all_walks_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/a.yaml").write_text(
        "source: {kind: wheel, package: a, version: '1', sha256: " + "a" * 64 + ", "
        "files: 'x/{language}', format: translations}\n"
    )
    (tmp_path / "corpus/b.yaml").write_text("defaults: [a]\nsource: {files: other}\n")
    (tmp_path / "task.yaml").write_text(
        "labels:\n- source: {kind: wheel, package: b, version: '1', sha256: " + "b" * 64 + ", "
        "files: y, format: conllu}\n"
    )
    monkeypatch.setattr(wheel, "download_wheel", lambda source: Path(source.package))
    assert wheel.fetch_all(conf=tmp_path) == [Path("a"), Path("b")]


def test_labels_from_conllu(cached: Cached) -> None:
    text = (
        "# sent_id = s1\n# text = Evde.\n1\tEv\tev\tNOUN\t_\tCase=Loc\t0\troot\t_\tSpaceAfter=No\n"
    )
    text += "2\t.\t.\tPUNCT\t_\t_\t1\tp\t_\t_\n"
    source = cached({"tiny/data.conllu": text}, files="tiny/*.conllu", format="conllu")
    (record,) = read_records(source, ["tr"], labelled=True)
    assert record["tokens"] == ["Ev", "."]
    assert record["lang"] == "tr"
    (record,) = read_records(source, ["tr"])
    assert record == {"key": "s1", "lang": "tr", "text": "Evde."}
    with pytest.raises(DataError, match="languages tr, en for files"):
        read_records(source, ["tr", "en"])


def test_text_has_no_labels(cached: Cached) -> None:
    with pytest.raises(DataError, match="format translations, which has no labels"):
        read_records(cached(), ["en"], labelled=True)


def test_translations_are_told_apart_by_language() -> None:
    settings = {"kind": "wheel", "package": "a", "version": "1", "sha256": "a" * 64}
    settings |= {"files": "a/*.json", "format": "translations"}
    with pytest.raises(SettingsError, match=r"\{language\} in files"):
        validate(WheelSource, settings, "source")


def test_identity(cached: Cached) -> None:
    source = cached()
    assert identity(source, ["en"]) == source.model_dump()
