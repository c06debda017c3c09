"""The two forms of records that every source yields, as `datasets.Dataset`.

Text: `key, lang, text`; records that share a key translate each other.
Labelled: `key, lang, tokens, space_after, targets`, one record per sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from tiebench.errors import DataError

if TYPE_CHECKING:
    from datasets import Dataset


class Text(NamedTuple):
    """One string of one language."""

    key: str
    lang: str
    text: str


class Target(TypedDict):
    """A labelled span, or a labelled pair of spans; token positions, end-exclusive."""

    task: str
    span1: list[int]
    span2: list[int] | None
    label: str


class Labelled(NamedTuple):
    """One sentence with its labels.

    `space_after[i]` is true where white space follows token i in the written sentence.
    """

    key: str
    lang: str
    tokens: list[str]
    space_after: list[bool]
    targets: list[Target]


def text_dataset(records: Iterable[Text], subject: object) -> Dataset:
    """Text records as a Dataset.

    Args:
        records: in the source's order.
        subject: the source's name, for the error.

    Raises:
        DataError: two strings of one language share a key.
    """
    from datasets import Dataset, Features, Value

    rows = list(_distinct(records, subject))
    columns: dict[str, list[Any]] = {
        name: [row[position] for row in rows] for position, name in enumerate(Text._fields)
    }
    return Dataset.from_dict(columns, Features({name: Value("string") for name in Text._fields}))


def labelled_dataset(records: Iterable[Labelled], subject: object) -> Dataset:
    """Labelled records as a Dataset; errors as `text_dataset`."""
    from datasets import Dataset, Features, List, Value

    rows = list(_distinct(records, subject))
    columns: dict[str, list[Any]] = {
        name: [row[position] for row in rows] for position, name in enumerate(Labelled._fields)
    }
    span = List(Value("int32"))
    target = {"task": Value("string"), "span1": span, "span2": span, "label": Value("string")}
    features = Features(
        {
            "key": Value("string"),
            "lang": Value("string"),
            "tokens": List(Value("string")),
            "space_after": List(Value("bool")),
            "targets": List(target),
        }
    )
    return Dataset.from_dict(columns, features)


def _distinct(records: Iterable[Any], subject: object) -> Iterator[Any]:
    seen: set[tuple[str, str]] = set()
    for record in records:
        if (record.key, record.lang) in seen:
            raise DataError(
                subject,
                found=f"two records with key {record.key!r} in {record.lang}",
                expected="keys that identify a string of a language",
                mend="give each record its own identifier, or read fewer files",
            )
        seen.add((record.key, record.lang))
        yield record


def without_text(subject: object, format: str) -> DataError:
    """The error for text asked of what has none."""
    return DataError(
        subject,
        found=f"format {format}",
        expected="a format with running text",
        mend="name another source for this corpus",
    )


def unlabelled(subject: object, format: str) -> DataError:
    """The error for labels asked of text."""
    return DataError(
        subject,
        found=f"format {format}, which has no labels",
        expected="a labelled format (conllu or iob2)",
        mend="name another source for this task",
    )
