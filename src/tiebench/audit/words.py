"""Numbers as they are read."""

from __future__ import annotations


def size_words(count: int) -> str:
    """Bytes in the largest unit that fits, of 1000 each."""
    value, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"


def count_words(count: int, name: str) -> str:
    """A number of things, one or more of which have a name."""
    return f"{count:,} {name}{'' if count == 1 else 's'}"
