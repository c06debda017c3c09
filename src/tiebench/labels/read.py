"""Reading prepared label sets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiebench.errors import DataError
from tiebench.files import read_json


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
    read = _read_columns(path, ["key", "lang", "part", "text", "starts", "ends"])
    sentences = Sentences(
        key=read["key"].tolist(),
        lang=read["lang"],
        part=read["part"],
        text=read["text"].tolist(),
        starts=list(read["starts"]),
        ends=list(read["ends"]),
    )
    _require_sum(path, len(sentences.text), sum(meta["sentences"].values()))
    path = folder / "targets.parquet"
    targets = Targets(**_read_columns(path, list(Targets.__dataclass_fields__)))
    counts = (n for parts in meta["targets"].values() for n in parts.values())
    _require_sum(path, len(targets.task), sum(counts))
    return Treebank(sentences, targets, meta)


def read_purposes(folder: Path) -> Purposes:
    """The examples of prepared purposes.

    Raises:
        DataError: a file is missing or damaged, disagrees with another, or is of another kind.
    """
    meta = _read_meta(folder, "purposes")
    path = folder / "examples.parquet"
    read = _read_columns(path, ["key", "lang", "part", "text", "label"])
    counts = (
        n for languages in meta["examples"].values() for x in languages.values() for n in x.values()
    )
    _require_sum(path, len(read["text"]), sum(counts))
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
        DataError: a file is missing or damaged.
    """
    meta = _read_meta(folder)
    own = ["task", "target", "sentence"] if meta["kind"] == "treebank" else ["lang", "example"]
    names = ["baseline", *own, "reference", "prediction"]
    return Baselines(_read_columns(folder / "baselines.parquet", names), meta)


def _mend(path: Path) -> str:
    return f"run `dvc repro labels@{path.parent.name}`"


def _read_meta(folder: Path, kind: str | None = None) -> dict[str, Any]:
    path = folder / "meta.json"
    meta = read_json(path, mend=_mend(path))
    found = meta.get("kind")
    if found not in ("treebank", "purposes") or kind not in (None, found):
        raise DataError(
            path,
            found=f"kind {found}",
            expected=f"kind {kind or 'treebank or purposes'}",
            mend=f"name a label set of that kind in the settings, or {_mend(path)}",
        )
    return meta


def _read_columns(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Columns by name: text as object arrays of str, numbers as int32."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path, columns=names)
        return {name: table[name].to_numpy() for name in names}
    except FileNotFoundError:
        found = "no such file"
    except (OSError, KeyError, pa.ArrowException) as error:
        found = f"a damaged file ({str(error).splitlines()[0]})"
    raise DataError(path, found=found, expected=f"columns {', '.join(names)}", mend=_mend(path))


def _require_sum(path: Path, rows: int, counted: int) -> None:
    if rows != counted:
        raise DataError(
            path, found=f"{rows} rows", expected=f"{counted}, as meta.json says", mend=_mend(path)
        )
