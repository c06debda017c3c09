"""Damage to a label set's files is found when they are read, with the file and the mend."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tiebench.errors import DataError
from tiebench.labels.parts import write_columns
from tiebench.labels.read import read_baselines, read_purposes, read_treebank

POSITIONS = ("sentence", "first_start", "first_end", "second_start", "second_end")
TYPES = {
    "starts": "list<int32>",
    "ends": "list<int32>",
    **dict.fromkeys((*POSITIONS, "target", "example"), "int32"),
}
SOME = {"train": 1, "development": 0, "test": 1}

TREEBANK: dict[str, dict[str, Any]] = {
    "meta.json": {
        "option": "damaged",
        "kind": "treebank",
        "source": {},
        "languages": ["en"],
        "labels": {"pair": ["no", "yes"], "upos": ["DET", "NOUN"]},
        "spans": {"pair": 2, "upos": 1},
        "sentences": SOME,
        "targets": {"pair": SOME, "upos": SOME},
        "dropped": [{"reason": "rare", "task": "upos", "targets": 3}],
    },
    "sentences.parquet": {
        "key": ["a", "b"],
        "lang": ["en", "en"],
        "part": ["train", "test"],
        "text": ["the dog", "a"],
        "starts": [[0, 4], [0]],
        "ends": [[3, 7], [1]],
    },
    "targets.parquet": {
        "task": ["upos", "pair", "upos", "pair"],
        "sentence": [0, 0, 1, 1],
        "first_start": [0, 0, 0, 0],
        "first_end": [1, 1, 1, 1],
        "second_start": [-1, 1, -1, 0],
        "second_end": [-1, 2, -1, 1],
        "label": ["DET", "no", "DET", "yes"],
        "control": ["NOUN", "no", "DET", "yes"],
    },
    "baselines.parquet": {
        "baseline": ["majority", "majority"],
        "task": ["upos", "pair"],
        "target": [2, 3],
        "sentence": [1, 1],
        "reference": ["DET", "yes"],
        "prediction": ["DET", "no"],
    },
}

PURPOSES: dict[str, dict[str, Any]] = {
    "meta.json": {
        "option": "damaged",
        "kind": "purposes",
        "source": {},
        "languages": ["en", "de"],
        "labels": ["help", "name"],
        "examples": {
            "train": {"en": {"help": 1}},
            "development": {"en": {"help": 0}},
            "test": {"en": {"help": 0}, "de": {"help": 0, "name": 1}},
        },
        "dropped": [{"reason": "rare", "lang": "de", "examples": 3}],
    },
    "examples.parquet": {
        "key": ["a", "b"],
        "lang": ["en", "de"],
        "part": ["train", "test"],
        "text": ["Help.", "Lampe"],
        "label": ["help", "name"],
    },
    "baselines.parquet": {
        "baseline": ["majority"],
        "lang": ["de"],
        "example": [1],
        "reference": ["name"],
        "prediction": ["help"],
    },
}

ABSENT = object()


def write(folder: Path, files: dict[str, dict[str, Any]], file: str, key: str, value: Any) -> Path:
    """The label set with `key` of `file` set to `value`, or left out."""
    folder.mkdir()
    for name, whole in files.items():
        content = dict(whole)
        if name == file:
            content[key] = value
            if value is ABSENT:
                del content[key]
        if name == "meta.json":
            (folder / name).write_text(json.dumps(content))
        else:
            write_columns(folder / name, content, TYPES)
    return folder


def read(folder: Path) -> None:
    kind = json.loads((folder / "meta.json").read_text())["kind"]
    (read_treebank if kind == "treebank" else read_purposes)(folder)
    read_baselines(folder)


@pytest.mark.parametrize("files", [TREEBANK, PURPOSES])
def test_whole(tmp_path: Path, files: dict[str, dict[str, Any]]) -> None:
    read(write(tmp_path / "damaged", files, "", "", None))


M, S, T, B, E = (
    "meta.json",
    "sentences.parquet",
    "targets.parquet",
    "baselines.parquet",
    "examples.parquet",
)


@pytest.mark.parametrize(
    ("files", "file", "key", "value", "expected"),
    [
        *((TREEBANK, M, key, ABSENT, f"found no {key};") for key in TREEBANK[M]
          if key not in ("kind", "source")),
        *((PURPOSES, M, key, ABSENT, f"found no {key};") for key in PURPOSES[M]
          if key not in ("kind", "source")),
        (TREEBANK, M, "labels", ["DET"], r"found labels \['DET'\]"),
        (TREEBANK, M, "spans", {"pair": 3, "upos": 1}, r"found spans\.pair 3; expected .*1 or 2"),
        (TREEBANK, M, "spans", {"upos": 1}, "found spans of upos; expected tasks pair, upos"),
        (TREEBANK, M, "targets", {"upos": SOME}, "found targets of upos; expected tasks pair"),
        (TREEBANK, M, "sentences", {"train": "2"}, r"found sentences\.train '2'"),
        (TREEBANK, M, "dropped", [{"reason": "rare"}], r"found no dropped\.0\.task"),
        (PURPOSES, M, "languages", [], r"found languages \[\]; expected"),
        (PURPOSES, M, "labels", {"help": 1}, r"found labels \{'help': 1\}"),
        (PURPOSES, M, "examples", {"train": {"en": 1}}, r"found examples\.train\.en 1"),
        (TREEBANK, S, "text", ["the dog", None], "found a null in text"),
        (TREEBANK, S, "starts", [[0, None], [0]], "found a null in starts"),
        (TREEBANK, S, "part", ["train", "tset"], "found part 'tset'; expected one of train"),
        (TREEBANK, S, "lang", ["en", "xx"], "found language 'xx'; expected one of en"),
        (TREEBANK, S, "ends", [[3], [1]], "found 2 starts, 1 ends in row 0"),
        (TREEBANK, S, "ends", [[3, 8], [1]], "found token 1 of row 0 from 4 to 8; .* of 7"),
        (TREEBANK, T, "sentence", [0, 0, 1, 2], "found sentence 2 in row 3; expected 0 to 1"),
        (TREEBANK, T, "sentence", [0, 0, 1, -1], "found sentence -1 in row 3"),
        (TREEBANK, T, "first_end", [3, 1, 1, 1], "found first span 0 to 3 of task upos in row 0"),
        (TREEBANK, T, "first_end", [0, 1, 1, 1], "found first span 0 to 0"),
        (TREEBANK, T, "second_end", [-1, 3, -1, 1], "found second span 1 to 3 .*sentence of 2"),
        (TREEBANK, T, "second_start", [0, 1, -1, 0], "found second span 0 to -1 .*one span"),
        (TREEBANK, T, "second_start", [-1, -1, -1, 0], "found second span -1 to 2 of task pair"),
        (TREEBANK, T, "label", ["ADJ", "no", "DET", "yes"], "found label 'ADJ' of task upos"),
        (TREEBANK, T, "control", ["no", "no", "DET", "yes"], "found control 'no' of task upos"),
        (TREEBANK, T, "label", [None, "no", "DET", "yes"], "found a null in label"),
        (TREEBANK, T, "task", ["case", "pair", "upos", "pair"], "found task 'case'"),
        (TREEBANK, B, "target", [2, 4], "found target 4 in row 1; expected 0 to 3"),
        (TREEBANK, B, "sentence", [1, 2], "found sentence 2 in row 1"),
        (TREEBANK, B, "prediction", [None, "no"], "found a null in prediction"),
        (TREEBANK, B, "prediction", ["yes", "no"], "found prediction 'yes' of task upos"),
        (PURPOSES, E, "label", ["help", "title"], "found label 'title'; expected one of help, name"),
        (PURPOSES, E, "label", ["help", None], "found a null in label"),
        (PURPOSES, E, "text", ["Help.", None], "found a null in text"),
        (PURPOSES, E, "lang", ["en", "xx"], "found language 'xx'; expected one of en, de"),
        (PURPOSES, E, "part", ["train", "tset"], "found part 'tset'"),
        (PURPOSES, B, "example", [2], "found example 2 in row 0; expected 0 to 1"),
        (PURPOSES, B, "example", [None], "found a null in example"),
        (PURPOSES, B, "reference", ["title"], "found reference 'title'"),
    ],
)  # fmt: skip
def test_damage(
    tmp_path: Path,
    files: dict[str, dict[str, Any]],
    file: str,
    key: str,
    value: Any,
    expected: str,
) -> None:
    folder = write(tmp_path / "damaged", files, file, key, value)
    with pytest.raises(DataError, match=rf"(?s)/damaged/{file}: .*{expected}") as caught:
        read(folder)
    assert caught.value.mend == "run `dvc repro -f labels@damaged`"


def test_type_of_a_column(tmp_path: Path) -> None:
    folder = write(tmp_path / "damaged", PURPOSES, "", "", None)
    table = pa.table(PURPOSES[E] | {"label": [1, 2]})
    parquet.write_table(table, folder / E)
    with pytest.raises(DataError, match=r"examples\.parquet: found label of type int64; expected"):
        read(folder)
