"""The hub source on a local repository of Parquet files, laid out as the hub has them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate
from tiebench.sources.read import read_records
from tiebench.sources.settings import HubSource

UD = {
    "sent_id": ["s1"],
    "text": ["Am Montag."],
    "tokens": [["Am", "An", "dem", "Montag", "."]],
    "upos": [["_", "ADP", "DET", "NOUN", "PUNCT"]],
    "feats": [["None", "None", "{'Case': 'Dat', 'Number': 'Sing'}", "Case=Dat", "None"]],
    "head": [["None", "3", "3", "0", "3"]],
    "deprel": [["_", "case", "det", "root", "punct"]],
    "misc": [["None", "_", "_", "SpaceAfter=No", "None"]],
    "mwt": [[{"id": "1-2", "form": "Am", "feats": "_", "misc": "SpaceAfter=No"}]],
}
TABLES: dict[str, dict[str, list[Any]]] = {
    "20231101.en": {"id": ["12"], "text": ["First line.\n\nSecond line."]},
    "20231101.de": {"id": ["7", "9"], "text": ["Erste Zeile.", "Noch eine."]},
    "pairs": {
        "translation": [{"en": "Dog", "de": "Hund"}, {"en": "Cat", "de": None}],
        "sentence_en": ["Dog", "Cat"],
        "sentence_de": ["Hund", "Katze"],
    },
    "treebank": {
        "sentence": ["# sent_id = s1\n# text = Go\n1\tGo\t_\tVERB\t_\t_\t0\troot\t_\t_\n"]
    },
    "de_ud": UD,
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub") / "repository"
    card = "---\nconfigs:\n"
    for name, columns in TABLES.items():
        (folder / name).mkdir(parents=True)
        parquet.write_table(pa.table(columns), folder / name / "train-00000-of-00001.parquet")
        card += f"- config_name: {name}\n  data_files:\n"
        card += f"  - split: train\n    path: {name}/train-*\n"
    (folder / "README.md").write_text(card + "---\n# Texts\n")
    return folder


@pytest.fixture(autouse=True)
def library_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def hub(folder: Path | str, format: str, config: str | None, **changes: Any) -> HubSource:
    settings = {"kind": "hub", "repository": str(folder), "revision": None}
    return validate(HubSource, settings | {"format": format, "config": config} | changes, "source")


def rows(source: HubSource, languages: list[str]) -> list[tuple[str, str, str]]:
    return [tuple(row.values()) for row in read_records(source, languages)]


def test_text_per_language(repository: Path) -> None:
    source = hub(repository, "text", "20231101.{language}")
    assert rows(source, ["en", "de"]) == [
        ("en/0.0", "en", "First line."),
        ("en/0.1", "en", ""),
        ("en/0.2", "en", "Second line."),
        ("de/0.0", "de", "Erste Zeile."),
        ("de/1.0", "de", "Noch eine."),
    ]
    limited = hub(repository, "text", "20231101.{language}", limit=1)
    assert [row[2] for row in rows(limited, ["de"])] == ["Erste Zeile."]


@pytest.mark.parametrize(
    ("column", "cat"), [("translation", []), ("sentence_{language}", [("1", "de", "Katze")])]
)
def test_parallel(repository: Path, column: str, cat: list[tuple[str, str, str]]) -> None:
    assert rows(hub(repository, "parallel", "pairs", column=column), ["en", "de"]) == [
        ("0", "en", "Dog"),
        ("1", "en", "Cat"),
        ("0", "de", "Hund"),
        *cat,
    ]


def test_conllu_column(repository: Path) -> None:
    source = hub(repository, "conllu", "treebank", column="sentence")
    (record,) = read_records(source, ["en"], labelled=True)
    assert record["tokens"] == ["Go"]
    assert rows(source, ["en"]) == [("s1", "en", "Go")]


def test_columns_of_universal_dependencies(repository: Path) -> None:
    source = hub(repository, "conllu", "{language}_ud")
    (record,) = read_records(source, ["de"], labelled=True)
    assert record["tokens"] == ["An", "dem", "Montag", "."]
    assert record["space_after"] == [True, False, False, True]
    cases = [(t["span1"], t["label"]) for t in record["targets"] if t["task"] == "case"]
    assert cases == [([1, 2], "Dat"), ([2, 3], "Dat")]
    pairs = [(t["span2"], t["label"]) for t in record["targets"] if t["task"] == "deprel"]
    assert pairs == [([2, 3], "case"), ([2, 3], "det"), (None, "root"), ([2, 3], "punct")]
    assert rows(source, ["de"]) == [("s1", "de", "Am Montag.")]


def written(folder: Path, columns: dict[str, Any]) -> Path:
    """A repository with one configuration of these columns."""
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table(columns), folder / "train-00000-of-00001.parquet")
    return folder


def test_what_is_not_annotated_may_be_null(tmp_path: Path) -> None:
    nothing = {name: [[None] * 5] for name in ("feats", "misc", "deprel")}
    source = hub(written(tmp_path / "r", {**UD, **nothing, "mwt": [None]}), "conllu", None)
    (record,) = read_records(source, ["de"], labelled=True)
    assert record["tokens"] == ["An", "dem", "Montag", "."]
    assert {target["task"] for target in record["targets"]} == {"upos"}
    assert record["space_after"] == [True] * 4
    unnamed = hub(written(tmp_path / "s", {**UD, "sent_id": [None]}), "conllu", None)
    assert [row["key"] for row in read_records(unnamed, ["de"])] == ["0"]


@pytest.mark.parametrize(
    ("changes", "labelled", "expected"),
    [
        (
            {"tokens": [["Am", "An", None, "Montag", "."]]},
            True,
            "row 0: found word 2 without a form",
        ),
        ({"tokens": [[1, 2, 3, 4, 5]]}, True, "row 0: found 2; expected a text"),
        ({"tokens": [None]}, True, "row 0: found 0 tokens, 5 upos, 5 feats, 5 head"),
        ({"head": [["3", "3"]]}, True, "row 0: found 5 tokens, .* 2 head"),
        ({"mwt": [[{"id": None, "misc": "_"}]]}, True, "row 0: found a word range None"),
        (
            {"mwt": [[{"id": "1-9", "misc": "_"}]]},
            True,
            "found a word range 1-9; expected .* 4 words",
        ),
        ({"mwt": [[{"id": "0", "misc": "_"}]]}, True, "found a word range 0"),
        ({"text": pa.array([None], pa.string())}, False, "row 0: found no text; expected a text"),
    ],
)
def test_damaged_rows_of_universal_dependencies(
    tmp_path: Path, changes: dict[str, Any], labelled: bool, expected: str
) -> None:
    source = hub(written(tmp_path / "r", {**UD, **changes}), "conllu", None)
    with pytest.raises(DataError, match=expected):
        read_records(source, ["de"], labelled=labelled)


@pytest.mark.parametrize(
    ("format", "columns", "changes", "expected"),
    [
        ("text", {"text": ["a", None]}, {}, None),
        ("text", {"text": [1, 2]}, {}, "r en, row 0: found 1; expected a text"),
        ("conllu", {"text": ["", None]}, {}, "r en, row 1: found no text"),
        ("parallel", {"text": [None, {"en": "a"}]}, {}, None),
        ("parallel", {"text": [{"en": 1}]}, {}, "r en, row 0: found 1; expected a text"),
        ("parallel", {"text": ["a"]}, {}, "found 'a'; expected translations by language"),
        ("parallel", {"en": [["a"]]}, {"column": "{language}"}, r"row 0: found \['a'\]"),
    ],
)
def test_rows_without_text(
    tmp_path: Path,
    format: str,
    columns: dict[str, Any],
    changes: dict[str, str],
    expected: str | None,
) -> None:
    source = hub(written(tmp_path / "r", columns), format, None, **changes)
    if expected is None:
        assert [row[2] for row in rows(source, ["en"]) if row[2]] == ["a"]
        return
    with pytest.raises(DataError, match=expected):
        read_records(source, ["en"])


@pytest.mark.parametrize(
    ("format", "config", "changes", "languages", "expected"),
    [
        ("text", "20231101.{language}", {}, ["fr"], "configuration 20231101.fr: found ValueError"),
        ("text", "20231101.{language}", {"column": "x"}, ["en"], "found id, text; expected a col"),
        ("text", "20231101.{language}", {"split": "dev"}, ["en"], "expected .* a split 'dev'"),
        ("text", "20231101.en", {}, ["en", "de"], "en, de in one configuration"),
        ("parallel", "pairs", {"column": "translation"}, ["en", "tr"], "expected language tr"),
        ("parallel", "pairs", {"column": "s_{language}"}, ["en"], "expected a column 's_en'"),
        ("text", "20231101.en", {"revision": "a" * 40}, ["en"], "a local folder with a revision"),
        ("text", None, {"repository": "owner/absent"}, ["en"], "no revision, and no such folder"),
        (
            "text",
            None,
            {"repository": "owner/absent", "revision": "a" * 40},
            ["en"],
            r"owner/absent: found .*Error.*HF_HUB_OFFLINE",
        ),
    ],
)
def test_errors(
    repository: Path,
    format: str,
    config: str | None,
    changes: dict[str, Any],
    languages: list[str],
    expected: str,
) -> None:
    with pytest.raises(DataError, match=expected):
        read_records(hub(repository, format, config, **changes), languages)


def test_revision_reaches_the_library(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    load = datasets.load_dataset_builder
    asked = []

    def instead(name: str, config: str, *, revision: str) -> Any:
        asked.append((name, config, revision))
        return load(str(repository), config)

    monkeypatch.setattr(datasets, "load_dataset_builder", instead)
    source = hub("wikimedia/wikipedia", "text", "20231101.{language}", revision="b" * 40)
    assert [row[2] for row in rows(source, ["de"])] == ["Erste Zeile.", "Noch eine."]
    assert asked == [("wikimedia/wikipedia", "20231101.de", "b" * 40)]


def test_only_parquet(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("text\nhello\n")
    with pytest.raises(DataError, match="found files for the csv builder; expected Parquet"):
        read_records(hub(tmp_path, "text", None), ["en"])


def test_scripts_never_run(tmp_path: Path) -> None:
    folder = tmp_path / "scripted"
    folder.mkdir()
    (folder / "scripted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(DataError):
        read_records(hub(folder, "text", None), ["en"])
    assert not (tmp_path / "ran").exists()


def test_text_has_no_labels(repository: Path) -> None:
    with pytest.raises(DataError, match="format text, which has no labels"):
        read_records(hub(repository, "text", "20231101.en"), ["en"], labelled=True)


def test_revision_must_be_stated() -> None:
    settings = {"kind": "hub", "repository": "a/b", "format": "text"}
    with pytest.raises(SettingsError, match=r"source\.revision: found nothing"):
        validate(HubSource, settings, "source")
    with pytest.raises(SettingsError, match=r"source\.revision"):
        validate(HubSource, settings | {"revision": "main"}, "source")


def test_aligned_rows_are_in_one_configuration() -> None:
    with pytest.raises(SettingsError, match="one configuration for format parallel"):
        hub("a/b", "parallel", "{language}")
    with pytest.raises(SettingsError, match="only with format parallel"):
        hub("a/b", "text", None, column="{language}")
