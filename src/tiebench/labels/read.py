"""Reading prepared label sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tiebench.errors import DataError
from tiebench.files import read_json
from tiebench.labels import check

Kind = Literal["text", "number", "numbers"]

SENTENCES: Mapping[str, Kind] = {
    "key": "text",
    "lang": "text",
    "part": "text",
    "text": "text",
    "starts": "numbers",
    "ends": "numbers",
}
TARGETS: Mapping[str, Kind] = {
    "task": "text",
    "sentence": "number",
    "first_start": "number",
    "first_end": "number",
    "second_start": "number",
    "second_end": "number",
    "label": "text",
    "control": "text",
}
TESTED_TARGETS: Mapping[str, Kind] = {"task": "text", "target": "number", "sentence": "number"}
TESTED_EXAMPLES: Mapping[str, Kind] = {"lang": "text", "example": "number"}
ANSWERS: Mapping[str, Kind] = {"reference": "text", "prediction": "text"}


@dataclass(frozen=True)
class Sentences:
    """The sentences of a treebank, in the order of the file."""

    key: list[str]
    lang: np.ndarray
    """`[sentences]` str."""
    part: np.ndarray
    """`[sentences]` str: train, development or test."""
    text: list[str]
    starts: list[np.ndarray]
    """Of each sentence the first character of every token in its text, `[tokens]` int32."""
    ends: list[np.ndarray]
    """The character after the last, `[tokens]` int32."""


@dataclass(frozen=True)
class Targets:
    """Labelled spans, `[targets]` each; token positions inside the sentence, end-exclusive."""

    task: np.ndarray
    sentence: np.ndarray
    """Row of the sentence."""
    first_start: np.ndarray
    first_end: np.ndarray
    second_start: np.ndarray
    """-1 in tasks with one span."""
    second_end: np.ndarray
    label: np.ndarray
    control: np.ndarray
    """Label of the control task (Hewitt & Liang 2019)."""


@dataclass(frozen=True)
class Treebank:
    """A label set of kind `treebank`."""

    sentences: Sentences
    targets: Targets
    meta: dict[str, Any]


@dataclass(frozen=True)
class Purposes:
    """A label set of kind `purposes`, in the order of the file."""

    key: list[str]
    lang: np.ndarray
    """`[examples]` str."""
    part: np.ndarray
    """`[examples]` str: train, development or test."""
    text: list[str]
    label: np.ndarray
    """`[examples]` str."""
    meta: dict[str, Any]


@dataclass(frozen=True)
class Baselines:
    """Predictions without a model for the test part."""

    columns: dict[str, np.ndarray]
    """By name, `[predictions]` each: `baseline`, `reference`, `prediction`; and of a treebank
    `task`, `target`, `sentence`, of purposes `lang`, `example`."""
    meta: dict[str, Any]


def read_treebank(folder: Path) -> Treebank:
    """The sentences and targets of a prepared treebank.

    Raises:
        DataError: a file is missing or damaged, disagrees with another, or is of another kind.
    """
    meta = _read_meta(folder, "treebank")
    path = folder / "sentences.parquet"
    read = _read_columns(path, SENTENCES)
    sentences = Sentences(
        key=read["key"].tolist(),
        lang=read["lang"],
        part=read["part"],
        text=read["text"].tolist(),
        starts=list(read["starts"]),
        ends=list(read["ends"]),
    )
    check.check_sentences(path, read, meta)
    path = folder / "targets.parquet"
    columns = _read_columns(path, TARGETS)
    check.check_targets(path, columns, np.array([len(x) for x in sentences.starts]), meta)
    return Treebank(sentences, Targets(**columns), meta)


def read_purposes(folder: Path) -> Purposes:
    """The examples of prepared purposes.

    Raises:
        DataError: a file is missing or damaged, disagrees with another, or is of another kind.
    """
    meta = _read_meta(folder, "purposes")
    path = folder / "examples.parquet"
    read = _read_columns(path, dict.fromkeys(("key", "lang", "part", "text", "label"), "text"))
    check.check_examples(path, read, meta)
    return Purposes(
        key=read["key"].tolist(),
        lang=read["lang"],
        part=read["part"],
        text=read["text"].tolist(),
        label=read["label"],
        meta=meta,
    )


def read_baselines(folder: Path) -> Baselines:
    """The baselines of a prepared label set of either kind.

    Raises:
        DataError: a file is missing or damaged, or disagrees with meta.json.
    """
    meta = _read_meta(folder)
    path = folder / "baselines.parquet"
    own = TESTED_TARGETS if meta["kind"] == "treebank" else TESTED_EXAMPLES
    columns = _read_columns(path, {"baseline": "text", **own, **ANSWERS})
    check.check_baselines(path, columns, meta)
    return Baselines(columns, meta)


def _read_meta(folder: Path, kind: str | None = None) -> dict[str, Any]:
    path = folder / "meta.json"
    meta = read_json(path, mend=check.mend(path))
    found = meta.get("kind")
    if found not in ("treebank", "purposes") or kind not in (None, found):
        raise DataError(
            path,
            found=f"kind {found}",
            expected=f"kind {kind or 'treebank or purposes'}",
            mend=f"name a label set of that kind in the settings, or {check.mend(path)}",
        )
    check.check_meta(path, meta)
    return meta


def _read_columns(path: Path, types: Mapping[str, Kind]) -> dict[str, np.ndarray]:
    """Columns by name: text as object arrays of str, numbers as int32, none of them null."""
    import pyarrow as pa
    from pyarrow import parquet

    expected = f"columns {', '.join(types)}"
    try:
        table = parquet.read_table(path, columns=list(types))
        columns = {name: table[name].combine_chunks() for name in types}
    except FileNotFoundError:
        raise check.damaged(path, "no such file", expected) from None
    except (OSError, KeyError, pa.ArrowException) as error:
        found = f"a damaged file ({str(error).splitlines()[0]})"
        raise check.damaged(path, found, expected) from None
    for name, column in columns.items():
        if column.type not in _arrow_types(types[name]):
            raise check.damaged(path, f"{name} of type {column.type}", types[name])
        if column.null_count or (types[name] == "numbers" and column.flatten().null_count):
            raise check.damaged(path, f"a null in {name}", "a value in every row")
    return {name: column.to_numpy(zero_copy_only=False) for name, column in columns.items()}


def _arrow_types(kind: Kind) -> tuple[Any, ...]:
    import pyarrow as pa

    return {
        "text": (pa.string(), pa.large_string()),
        "number": (pa.int32(),),
        "numbers": (pa.list_(pa.int32()),),
    }[kind]
