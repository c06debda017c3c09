"""What both kinds of label set share: parts by text, counts of what is dropped, Parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tiebench.corpus.split import rank
from tiebench.errors import DataError
from tiebench.files import replacing
from tiebench.labels.settings import LabelSettings

Part = Literal["train", "development", "test"]
PARTS: tuple[Part, ...] = ("train", "development", "test")

Dropped = Counter[tuple[str, str]]
"""(reason, task or language) -> targets or examples."""


def part_of(groups: Iterable[str], settings: LabelSettings) -> dict[str, Part]:
    """The part of each group, by a seeded rank; shares are shares of the distinct groups.

    Args:
        groups: what examples that must stay together have in common, as a text.
        settings: seed and shares.
    """
    order = sorted(set(groups), key=lambda group: (rank(settings.seed, "part", group), group))
    test = round(settings.test_share * len(order))
    development = test + round(settings.development_share * len(order))
    return {
        group: "test" if index < test else "development" if index < development else "train"
        for index, group in enumerate(order)
    }


def subject(settings: LabelSettings) -> str:
    """What an error about the whole label set names."""
    return f"label set {settings.option}"


def require_parts(counts: Mapping[str, int], what: str, settings: LabelSettings) -> None:
    """Refuse a label set that has nothing to train on, to choose by, or to score.

    Args:
        counts: examples by part.
        what: what is counted, for the error.
        settings: those of the label set.

    Raises:
        DataError: a part without any.
    """
    for part in PARTS:
        if not counts.get(part):
            held = ", ".join(f"{counts.get(name, 0)} {name}" for name in PARTS)
            raise DataError(
                subject(settings),
                found=f"no {what} in the {part} part ({held})",
                expected="at least one in every part",
                mend="read more files, raise development_share, test_share or a limit on the "
                "number, or lower minimum",
            )


def majority(labels: Iterable[str]) -> str:
    """The most frequent label; of equally frequent ones the first in alphabetical order."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def write_columns(
    path: Path, columns: Mapping[str, Sequence[Any]], types: Mapping[str, str]
) -> None:
    """Write columns as Parquet, whole or not at all.

    Args:
        path: the file.
        columns: values by name; empty ones keep their type.
        types: `int32` or `list<int32>` by name; text where a name is absent.
    """
    import pyarrow as pa
    from pyarrow import parquet

    known = {"int32": pa.int32(), "list<int32>": pa.list_(pa.int32())}
    arrays = {
        name: pa.array(values, type=known[types[name]] if name in types else pa.string())
        for name, values in columns.items()
    }
    with replacing(path) as temporary:
        parquet.write_table(pa.table(arrays), temporary)
