"""Comparing two stored matrices byte by byte: sampled rows first, then all in pieces."""

from __future__ import annotations

import mmap
from contextlib import ExitStack
from dataclasses import dataclass

from tiebench.audit.headers import StoredTensor

SAMPLED = 64
"""Rows that are compared first, evenly spread."""
PIECE = 16 << 20
"""Bytes that are read of each matrix at a time."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison of the rows that two matrices share has found.

    Attributes:
        rows: how many both have.
        compared: how many of them were read.
        differing: how many of those differ in any byte.
        first: the first that differs.
    """

    rows: int
    compared: int
    differing: int
    first: int | None

    @property
    def equal(self) -> bool:
        """Whether no row differs: then all were compared."""
        return not self.differing


def comparable(one: StoredTensor, other: StoredTensor) -> bool:
    """Whether rows of two matrices can be equal byte by byte."""
    return one.dtype == other.dtype and one.shape[1] == other.shape[1]


def compare(one: StoredTensor, other: StoredTensor) -> Comparison:
    """Compare the rows that two comparable matrices share.

    A sampled row that differs decides, so that the rest is not read. Bytes are compared: two zeros
    of different sign differ.
    """
    rows = min(one.shape[0], other.shape[0])
    size = one.size // one.shape[0]
    sampled = sorted({i * (rows - 1) // (SAMPLED - 1) for i in range(SAMPLED)})
    with ExitStack() as stack:
        first, second = (_mapped(stack, x) for x in (one, other))

        def differs(row: int, count: int = 1) -> bool:
            starts = (x.start + row * size for x in (one, other))
            a, b = (x[s : s + count * size] for x, s in zip((first, second), starts, strict=True))
            return a != b

        found = [row for row in sampled if differs(row)]
        if found:
            return Comparison(rows, len(sampled), len(found), found[0])
        from tiebench.progress import progress

        step = max(1, PIECE // size)
        bar = progress(total=rows * size, unit="B", unit_scale=True, desc="comparing")
        with bar:
            for row in range(0, rows, step):
                count = min(step, rows - row)
                if differs(row, count):
                    found += [x for x in range(row, row + count) if differs(x)]
                bar.update(count * size)
    return Comparison(rows, rows, len(found), found[0] if found else None)


def _mapped(stack: ExitStack, tensor: StoredTensor) -> mmap.mmap:
    file = stack.enter_context(tensor.file.open("rb"))
    return stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
