"""Pairs of words with scores, from a folder and from a package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.sources.conftest import Cached
from tiebench.composition import compose, parse
from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.sources.read import read_records
from tiebench.sources.settings import LocalSource
from tiebench.sources.word_pairs import read_pairs

External = Callable[[dict[str, str | bytes]], Path]
TEXT = "old\tnew\t1.58\nsmart\tintelligent\t9.2\n\nsmart\tclever\t8\n"
PAIRS = [("old", "new", 1.58), ("smart", "intelligent", 9.2), ("smart", "clever", 8.0)]


def source(file: str = "p.txt") -> LocalSource:
    values = {"kind": "local", "folder": "mine", "format": "pairs", "files": {"en": file}}
    return LocalSource.model_validate(values)


@pytest.mark.parametrize(
    "text", [TEXT, TEXT.replace("\t", " "), TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT]
)
def test_tabs_or_blanks_stand_between(external: External, text: str) -> None:
    external({"p.txt": text})
    held = read_pairs(source(), "en")
    assert [tuple(pair) for pair in held.pairs] == PAIRS
    assert held.file == "external/mine/p.txt" and held.repeated == 0


def test_a_tab_leaves_blanks_in_a_word(external: External) -> None:
    external({"p.txt": "New York\tcity\t5\na\tb\t1\n"})
    assert read_pairs(source(), "en").pairs[0] == ("New York", "city", 5.0)


def test_a_pair_that_is_there_twice_stays_twice(external: External) -> None:
    external({"p.txt": "money cash 9.15\ncash money 9.08\n"})
    held = read_pairs(source(), "en")
    assert (len(held.pairs), held.repeated) == (2, 1)


def test_a_package_and_a_folder_give_the_same(external: External, cached: Cached) -> None:
    external({"p.txt": TEXT})
    files = "tiny/{language}/p.txt"
    wheel = cached({"tiny/en/p.txt": TEXT, "tiny/fr/p.txt": "x"}, files=files, format="pairs")
    held, ours = read_pairs(wheel, "en"), read_pairs(source(), "en")
    assert held.pairs == ours.pairs
    assert held.file == "tiny-1.0-py3-none-any.whl/tiny/en/p.txt"


def test_other_text_has_another_digest(external: External) -> None:
    folder = external({"p.txt": TEXT})
    first = read_pairs(source(), "en").sha256
    assert read_pairs(source(), "en").sha256 == first
    (folder / "p.txt").write_text(TEXT.replace("9.2", "9.3"))
    assert read_pairs(source(), "en").sha256 != first


@pytest.mark.parametrize(
    ("text", "where", "found"),
    [
        ("old new 1.58\nold new\n", "p.txt:2", "old new"),
        ("old new 1.58 3\nold new 1\n", "p.txt:1", "old new 1.58 3"),
        ("word1\tword2\tscore\nold\tnew\t1\n", "p.txt:1", "word1"),
        ("old\t\t1.58\nold\tnew\t1\n", "p.txt:1", "old"),
        ("old new nan\nold new 1\n", "p.txt:1", "old new nan"),
        ("old new 1,58\nold new 1\n", "p.txt:1", "old new 1,58"),
        ("old new 1\nold newer 1\n", "p.txt", "2 pairs of one score"),
        ("", "p.txt", "0 pairs"),
    ],
)
def test_a_line_that_is_no_pair(external: External, text: str, where: str, found: str) -> None:
    external({"p.txt": text})
    with pytest.raises(DataError, match="expected") as error:
        read_pairs(source(), "en")
    assert f"external/mine/{where}: found {found}" in str(error.value)


def test_missing_and_several_files(external: External) -> None:
    external({"p.txt": TEXT, "q.txt": TEXT})
    with pytest.raises(DataError, match="no such file"):
        read_pairs(source("r.txt"), "en")
    with pytest.raises(DataError, match="2 files"):
        read_pairs(source("*.txt"), "en")
    with pytest.raises(DataError, match="files for en"):
        read_pairs(source(), "de")


def test_pairs_are_no_text(external: External, cached: Cached) -> None:
    external({"p.txt": TEXT})
    for one in (source(), cached(files="tiny/p.txt", format="pairs")):
        with pytest.raises(DataError, match="found format pairs; expected a format with running"):
            read_records(one, ["en"])
        with pytest.raises(DataError, match="which has no labels"):
            read_records(one, ["en"], labelled=True)


def composed(*overrides: str) -> dict:
    return parse(compose(overrides, ROOT / "conf")[0])


def test_other_formats_are_refused() -> None:
    values = composed("similarity@tables.similarity=local")
    values["tables"]["similarity"]["sets"]["men"]["source"]["format"] = "text"
    with pytest.raises(SettingsError, match=r"tables.similarity.sets.men.source.*format pairs"):
        validate(Params, values)


def test_the_package_of_the_default_has_its_sets() -> None:
    settings = validate(Params, composed()).tables.similarity
    sizes = {
        name: (len(read.pairs), read.repeated)
        for name, held in settings.sets.items()
        for read in [read_pairs(held.source, held.language)]
    }
    assert sizes == {"wordsim_353": (353, 2), "men": (3000, 0), "rare_words": (2034, 1)}


def test_the_five_sets_of_a_folder(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("external").mkdir()
    Path("external/wordsim").symlink_to(shared_data / "wordsim")
    settings = validate(Params, composed("similarity@tables.similarity=local")).tables.similarity
    sizes = {name: len(read_pairs(x.source, x.language).pairs) for name, x in settings.sets.items()}
    assert sizes == {
        "simlex_999": 999, "wordsim_353": 353, "men": 3000, "mturk_771": 771, "rare_words": 2034,
    }  # fmt: skip
