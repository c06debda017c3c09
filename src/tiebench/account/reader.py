"""Typed values of a config.json, and what had to be taken from its class instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiebench.errors import DataError

LARGEST = 1_000_000_000
"""Of a width or number of rows; more is a damaged file."""
SIZES = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "feedforward_width": "intermediate_size",
}
"""By field of a shape, its key."""
RESTORE = "correct it in config.json, or restore the file"

IN_WORDS = "give the shape in words: `tiebench account vocab=... width=... layers=...`"


class Reader:
    """Values by key; of several keys the first that is there, since some have two names."""

    def __init__(self, values: Mapping[str, Any], path: Path | str) -> None:
        self.values, self.path = values, path
        self.notes: list[str] = []

    def size(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, above 0 unless `least` is 0.

        Args:
            default: what the class takes where the key is missing or null; a missing one is noted.

        Raises:
            DataError: another value, or none without a default.
        """
        key, value = self._find(keys, default)
        if type(value) is not int or not least <= value <= LARGEST:
            found = "nothing" if value is None else f"{json.dumps(value):.60}"
            expected = f"a whole number from {least} to {LARGEST:,}"
            raise self.error(" or ".join(keys) if value is None else key, found, expected)
        return value

    def is_null(self, key: str) -> bool:
        """Whether a key is there and says that there is none."""
        return key in self.values and self.values[key] is None

    def flag(self, key: str, default: bool) -> bool:
        """True or false.

        Raises:
            DataError: another value.
        """
        _, value = self._find((key,), default)
        if not isinstance(value, bool):
            raise self.error(key, f"{json.dumps(value):.60}", "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A name.

        Raises:
            DataError: another value, or none.
        """
        _, value = self._find((key,), default)
        if not isinstance(value, str) or not value.isprintable():
            found = "nothing" if value is None else f"{json.dumps(value):.60}"
            raise self.error(key, found, "a name")
        return value

    def names(self, key: str) -> list[str]:
        """Names; none where the key is missing or null.

        Raises:
            DataError: another value.
        """
        value = self.values.get(key) or []
        if not isinstance(value, list) or not all(isinstance(x, str) for x in value):
            raise self.error(key, f"{json.dumps(value):.60}", "a list of names")
        return value

    def sizes(self, *, divided: bool = True) -> dict[str, Any]:
        """Fields of a shape under the keys that most classes have for them.

        Args:
            divided: whether the heads have to divide the width.

        Raises:
            DataError: a size that is missing or none, or heads that do not divide the width.
        """
        sizes = {field: self.size(key) for field, key in SIZES.items()}
        if divided:
            self.divided(sizes["width"], sizes["heads"], SIZES["heads"])
        return sizes

    def divided(self, width: int, heads: int, keys: str) -> int:
        """The width of a head.

        Raises:
            DataError: heads that do not divide the width.
        """
        if width % heads:
            raise self.error(keys, f"{heads:,}", f"a divisor of the width, {width:,}")
        return width // heads

    def only(self, key: str, value: object) -> None:
        """Refuse any other value of a key that adds parameters which are not counted here.

        Raises:
            DataError: another value.
        """
        found = self.values.get(key)
        if found is not None and found != value:
            raise self.error(
                key,
                f"{json.dumps(found):.60}",
                f"{json.dumps(value)}, the only one that is counted here",
                IN_WORDS,
            )

    def error(self, key: str, found: str, expected: str, mend: str = RESTORE) -> DataError:
        """An error about one key."""
        return DataError(f"{self.path}: {key}", found=found, expected=expected, mend=mend)

    def _find(self, keys: tuple[str, ...], default: object) -> tuple[str, Any]:
        for key in keys:
            if self.values.get(key) is not None:
                return key, self.values[key]
        if default is not None and not any(key in self.values for key in keys):
            said = f"{default:,}" if type(default) is int else json.dumps(default).strip('"')
            self.notes.append(f"config.json has no {keys[0]}: {said}, as the class has it")
        return keys[0], default
