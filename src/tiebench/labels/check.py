"""Checks of a label set's files as they are read, so that what uses them can rely on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tiebench.errors import DataError
from tiebench.labels.parts import PARTS, Part

Columns = Mapping[str, np.ndarray]
"""By name, `[rows]` each: text as str, numbers as int32."""

Count = Annotated[int, Field(ge=0)]
Names = Annotated[list[str], Field(min_length=1)]
Tasks = Annotated[dict[str, Names], Field(min_length=1)]


class _Meta(BaseModel):
    model_config = ConfigDict(strict=True)
    option: str
    languages: Names


class _DroppedTargets(BaseModel):
    model_config = ConfigDict(strict=True)
    reason: str
    task: str | None
    targets: Count


class _DroppedExamples(BaseModel):
    model_config = ConfigDict(strict=True)
    reason: str
    lang: str
    examples: Count


class TreebankMeta(_Meta):
    """meta.json of a treebank."""

    kind: Literal["treebank"]
    labels: Tasks
    spans: dict[str, Literal[1, 2]]
    sentences: dict[Part, Count]
    targets: dict[str, dict[Part, Count]]
    dropped: list[_DroppedTargets]


class PurposesMeta(_Meta):
    """meta.json of purposes."""

    kind: Literal["purposes"]
    labels: Names
    examples: dict[Part, dict[str, dict[str, Count]]]
    dropped: list[_DroppedExamples]


def mend(path: Path) -> str:
    """What makes the files of a label set anew, by force where a file is damaged, not missing."""
    force = "-f " if path.exists() else ""
    return f"run `dvc repro {force}labels@{path.parent.name}`"


def damaged(path: Path, found: str, expected: str) -> DataError:
    """The error for a file of a label set that is not as its stage wrote it."""
    return DataError(path, found=found, expected=expected, mend=mend(path))


def check_meta(path: Path, meta: dict[str, Any]) -> None:
    """Check the keys of meta.json and their types.

    Raises:
        DataError: a key is missing or holds something else; tasks differ between keys.
    """
    cls = TreebankMeta if meta["kind"] == "treebank" else PurposesMeta
    try:
        cls.model_validate(meta)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise damaged(path, f"no {key}", "one") from None
        raise damaged(path, f"{key} {first['input']!r:.60}", first["msg"]) from None
    if meta["kind"] == "treebank":
        for key in ("spans", "targets"):
            if set(meta[key]) != set(meta["labels"]):
                found = f"{key} of {', '.join(sorted(meta[key]))}"
                raise damaged(path, found, f"tasks {', '.join(sorted(meta['labels']))}")


def check_sentences(path: Path, columns: Columns, meta: dict[str, Any]) -> None:
    """Check the number of sentences, their parts and languages, and where their tokens are.

    Raises:
        DataError: what disagrees, with its row.
    """
    _require_rows(path, columns, sum(meta["sentences"].values()))
    _require_known(path, "part", columns["part"], PARTS)
    _require_known(path, "language", columns["lang"], meta["languages"])
    for row, (text, starts, ends) in enumerate(
        zip(columns["text"], columns["starts"], columns["ends"], strict=True)
    ):
        if len(starts) != len(ends):
            raise damaged(path, f"{len(starts)} starts, {len(ends)} ends in row {row}", "as many")
        inside = (starts >= 0) & (starts < ends) & (ends <= len(text))
        if not inside.all():
            at = int(np.argmin(inside))
            found = f"token {at} of row {row} from {starts[at]} to {ends[at]}"
            raise damaged(path, found, f"characters of a text of {len(text)}")


def check_targets(path: Path, columns: Columns, tokens: np.ndarray, meta: dict[str, Any]) -> None:
    """Check targets against their sentences and against meta.json.

    Args:
        path: the file, for the error.
        columns: those of targets.parquet.
        tokens: number of tokens of each sentence, `[sentences]`.
        meta: that of the label set.

    Raises:
        DataError: what disagrees, with its row.
    """
    counts = (n for parts in meta["targets"].values() for n in parts.values())
    _require_rows(path, columns, sum(counts))
    task = columns["task"]
    _require_known(path, "task", task, meta["labels"])
    _require_inside(path, "sentence", columns["sentence"], len(tokens))
    length = tokens[columns["sentence"]]
    pairs = np.isin(task.astype(str), [x for x, spans in meta["spans"].items() if spans == 2])
    for name, present in (("first", np.ones(len(task), bool)), ("second", pairs)):
        start, end = columns[f"{name}_start"], columns[f"{name}_end"]
        inside = (start >= 0) & (start < end) & (end <= length)
        wrong = np.flatnonzero(~np.where(present, inside, (start == -1) & (end == -1)))
        if len(wrong):
            row = wrong[0]
            raise damaged(
                path,
                f"{name} span {start[row]} to {end[row]} of task {task[row]} in row {row}",
                f"tokens of a sentence of {length[row]}" if present[row] else "-1 to -1, one span",
            )
    _require_labels_of_tasks(path, columns, ("label", "control"), meta)


def check_examples(path: Path, columns: Columns, meta: dict[str, Any]) -> None:
    """Check the number of examples, their parts, languages and labels.

    Raises:
        DataError: what disagrees, with its row.
    """
    _require_rows(path, columns, _examples(meta))
    _require_known(path, "part", columns["part"], PARTS)
    _require_known(path, "language", columns["lang"], meta["languages"])
    _require_known(path, "label", columns["label"], meta["labels"])


def check_baselines(path: Path, columns: Columns, meta: dict[str, Any]) -> None:
    """Check that baselines speak of rows, tasks, languages and labels that there are.

    Raises:
        DataError: what disagrees, with its row.
    """
    answers = ("reference", "prediction")
    if meta["kind"] == "treebank":
        targets = sum(n for parts in meta["targets"].values() for n in parts.values())
        _require_known(path, "task", columns["task"], meta["labels"])
        _require_inside(path, "target", columns["target"], targets)
        _require_inside(path, "sentence", columns["sentence"], sum(meta["sentences"].values()))
        _require_labels_of_tasks(path, columns, answers, meta)
    else:
        _require_known(path, "language", columns["lang"], meta["languages"])
        _require_inside(path, "example", columns["example"], _examples(meta))
        for name in answers:
            _require_known(path, name, columns[name], meta["labels"])


def _examples(meta: dict[str, Any]) -> int:
    return sum(
        n for languages in meta["examples"].values() for x in languages.values() for n in x.values()
    )


def _require_rows(path: Path, columns: Columns, counted: int) -> None:
    rows = len(next(iter(columns.values())))
    if rows != counted:
        raise damaged(path, f"{rows} rows", f"{counted}, as meta.json says")


def _require_known(
    path: Path, what: str, values: np.ndarray, known: Collection[str], of: str = ""
) -> None:
    unknown = set(values.tolist()) - set(known)
    if unknown:
        raise damaged(path, f"{what} {min(unknown)!r}{of}", f"one of {', '.join(known)}")


def _require_inside(path: Path, what: str, values: np.ndarray, count: int) -> None:
    wrong = np.flatnonzero((values < 0) | (values >= count))
    if len(wrong):
        row = wrong[0]
        raise damaged(path, f"{what} {values[row]} in row {row}", f"0 to {count - 1}")


def _require_labels_of_tasks(
    path: Path, columns: Columns, names: Collection[str], meta: dict[str, Any]
) -> None:
    for task, labels in meta["labels"].items():
        own = columns["task"] == task
        for name in names:
            _require_known(path, name, columns[name][own], labels, f" of task {task}")
