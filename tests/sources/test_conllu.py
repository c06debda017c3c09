from pathlib import Path

import pytest
from omegaconf import OmegaConf

from tiebench.errors import DataError
from tiebench.sources.conllu import sentences
from tiebench.sources.iob2 import sentences as entities
from tiebench.sources.read import read_records
from tiebench.sources.records import Labelled, Text
from tiebench.sources.settings import LocalSource, WheelSource


def row(index: str, form: str, upos: str, feats: str, head: str, deprel: str, misc: str) -> str:
    return "\t".join([index, form, "_", upos, "_", feats, head, deprel, "_", misc])


GERMAN = "\n".join(
    [
        "# sent_id = s1",
        "# text = Am Montag.",
        row("1-2", "Am", "_", "_", "_", "_", "_"),
        row("1", "An", "ADP", "_", "3", "case", "_"),
        row("2", "dem", "DET", "Case=Dat|Number=Sing", "3", "det", "_"),
        row("3", "Montag", "NOUN", "Case=Dat", "0", "root", "SpaceAfter=No"),
        row("3.1", "geht", "VERB", "_", "_", "_", "_"),
        row("4", ".", "PUNCT", "_", "3", "punct", "_"),
    ]
)


def test_labelled_sentence() -> None:
    (record,) = sentences(GERMAN.split("\n"), "de", "x.conllu", labelled=True)
    assert isinstance(record, Labelled)
    assert record.key == "s1"
    assert record.tokens == ["An", "dem", "Montag", "."]
    assert record.space_after == [True, True, False, True]
    assert record.targets == [
        {"task": "upos", "span1": [0, 1], "span2": None, "label": "ADP"},
        {"task": "deprel", "span1": [0, 1], "span2": [2, 3], "label": "case"},
        {"task": "upos", "span1": [1, 2], "span2": None, "label": "DET"},
        {"task": "case", "span1": [1, 2], "span2": None, "label": "Dat"},
        {"task": "deprel", "span1": [1, 2], "span2": [2, 3], "label": "det"},
        {"task": "upos", "span1": [2, 3], "span2": None, "label": "NOUN"},
        {"task": "case", "span1": [2, 3], "span2": None, "label": "Dat"},
        {"task": "deprel", "span1": [2, 3], "span2": None, "label": "root"},
        {"task": "upos", "span1": [3, 4], "span2": None, "label": "PUNCT"},
        {"task": "deprel", "span1": [3, 4], "span2": [2, 3], "label": "punct"},
    ]


def test_space_after_of_a_contraction_is_its_own() -> None:
    text = GERMAN.replace(
        row("1-2", "Am", *["_"] * 5), row("1-2", "Am", *["_"] * 4, "SpaceAfter=No")
    )
    (record,) = sentences(text.split("\n"), "de", "x", labelled=True)
    assert isinstance(record, Labelled)
    assert record.space_after == [True, False, False, True]


def test_text_and_keys() -> None:
    unnamed = "\n\n" + GERMAN.replace("# sent_id = s1\n", "") + "\n\n"
    found = list(sentences((GERMAN + "\n" + unnamed).split("\n"), "de", "x.conllu", labelled=False))
    assert found == [Text("s1", "de", "Am Montag."), Text("x.conllu:11", "de", "Am Montag.")]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("\t3\tcase", "\t9\tcase", r"x:3: found head 9 of 'An'; expected a head between 0 and 4"),
        ("1\tAn\t_\t", "1\tAn\t", r"x:6: found 9 columns; expected 10"),
        ("\t3\tcase", "\t1\tcase", r"x:3: found head 1 of 'An'; .*not the word itself"),
        ("\t3\tcase", "\t-1\tcase", r"x:3: found head -1 of 'An'"),
        ("\t3\tcase", "\t9\t_", r"x:3: found head 9 of 'An'"),
        ("3\tMontag", "5\tMontag", r"x:8: found word id 5; expected 3"),
        ("3\tMontag", "2\tMontag", r"x:8: found word id 2; expected 3"),
        ("3\tMontag", "_\tMontag", r"x:8: found word id _; expected 3"),
        ("1-2\tAm", "4-9\tAm", r"x:5: found range 4-9; expected an end of at most 4"),
        ("3\tMontag", "3\t", r"x:3: found word 3 without a form"),
        ("3\tMontag", "3\t ", r"x:3: found word 3 without a form"),
        ("\t3\tcase", "\tthree\tcase", r"x:3: found .*three"),
        ("# text = Am Montag.\n", "", r"x:3: found no `# text` comment"),
    ],
)
def test_malformed(old: str, new: str, expected: str) -> None:
    text = "\n\n" + GERMAN.replace(old, new)
    with pytest.raises(DataError, match=expected):
        list(sentences(text.split("\n"), "de", "x", labelled="text" not in old))


def test_blank_is_not_annotated() -> None:
    text = GERMAN.replace("\tADP\t", "\t\t").replace("\tcase\t", "\t \t")
    text = text.replace("Case=Dat|Number=Sing", "Case=|Number=Sing").replace("\tCase=Dat", "\tCase")
    (record,) = sentences(text.split("\n"), "de", "x", labelled=True)
    assert isinstance(record, Labelled)
    assert [target["label"] for target in record.targets] == [
        "DET", "det", "NOUN", "root", "PUNCT", "punct",
    ]  # fmt: skip


def numbered(text: str) -> list[tuple[int, str]]:
    return list(enumerate(text.split("\n"), 1))


def test_entities_of_universal_ner() -> None:
    text = (
        "# newdoc id = d\n# sent_id = s1\n# text = In New York, # Anna.\n1\tIn\tO\t-\t-\n"
        "2\tNew\tB-LOC\t-\tx\n3\tYork\tI-LOC\t-\tx\n4\t,\tO\t-\t-\n5\t#\tO\t-\t-\n"
        "6\tAnna\tB-PER\t-\tx\n7\t.\tO\t-\t-"
    )
    (record,) = entities(numbered(text), "en", Path("a.iob2"))
    assert record.key == "s1"
    assert record.tokens == ["In", "New", "York", ",", "#", "Anna", "."]
    assert record.space_after == [True, True, False, True, True, False, True]
    assert record.targets == [
        {"task": "entity", "span1": [1, 3], "span2": None, "label": "LOC"},
        {"task": "entity", "span1": [5, 6], "span2": None, "label": "PER"},
    ]


def test_entities_of_two_columns() -> None:
    text = "-DOCSTART- -X- O\n\n# O\n22 B-MISC\nFans I-MISC\nLyon B-ORG\n\nYes O"
    first, second, third = entities(numbered(text), "en", Path("a.txt"))
    assert first.tokens == ["-DOCSTART-"]
    assert (second.key, second.tokens) == ("a.txt:3", ["#", "22", "Fans", "Lyon"])
    assert [t["span1"] for t in second.targets] == [[1, 3], [3, 4]]
    assert second.space_after == [True] * 4
    assert third.tokens == ["Yes"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a O\nb I-LOC", "a.txt:2: found I-LOC without a LOC before; expected IOB2"),
        ("a B-PER\nb I-LOC", "a.txt:2: found I-LOC"),
        ("a B-LOC\nb O\nc I-LOC", "a.txt:3: found I-LOC"),
        ("a O\nb", "a.txt:2: found 'b'"),
        ("a X-LOC", "a.txt:1: found 'a X-LOC'"),
    ],
)
def test_malformed_entities(text: str, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        list(entities(numbered(text), "en", Path("a.txt")))


def test_real_turkish_treebank() -> None:
    from tiebench import paths

    root = Path(__file__).parents[2]
    option = OmegaConf.to_container(OmegaConf.load(root / "conf/labels/turkish_treebanks.yaml"))
    assert isinstance(option, dict)
    source = WheelSource.model_validate(option["source"])
    if not list((paths.cache_folder() / source.sha256).glob("*.whl")):
        pytest.skip("the treebank is not in the download cache; `make setup` fetches it")
    records = read_records(source, ["tr"], labelled=True)
    assert len(records) == 2541 + 2310
    second = records[1]
    assert second["tokens"][:5] == ["Açık", "la", "nma", "yan", "soruların"]
    assert second["space_after"][:5] == [False, False, False, True, True]
    assert {"task": "deprel", "span1": [0, 1], "span2": [1, 2], "label": "ig"} in second["targets"]


def test_real_parallel_treebank(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("external").mkdir()
    Path("external/pud").symlink_to(shared_data / "ud" / "pud")
    source = LocalSource(
        kind="local",
        folder="pud",
        format="conllu",
        files={lang: f"{lang}_pud-ud-test.conllu*" for lang in ("en", "de")},
    )
    records = read_records(source, ["en", "de"])
    keys = {lang: [r["key"] for r in records if r["lang"] == lang] for lang in ("en", "de")}
    assert len(keys["en"]) == 1000
    assert keys["en"] == keys["de"]
    labelled = read_records(source, ["de"], labelled=True)
    assert labelled[0]["tokens"][-4:] == ["in", "einem", "Blogeintrag", "."]
    assert labelled[0]["space_after"][-2:] == [False, True]


def test_real_entities(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("external").mkdir()
    Path("external/uner").symlink_to(shared_data / "uner")
    source = LocalSource(
        kind="local", folder="uner", format="iob2", files={"de": "de_pud-ud-test.iob2"}
    )
    records = read_records(source, ["de"], labelled=True)
    labels = [target["label"] for targets in records["targets"] for target in targets]
    assert len(records) == 1000
    assert {name: labels.count(name) for name in set(labels)} == {
        "LOC": 429,
        "ORG": 192,
        "PER": 418,
    }
