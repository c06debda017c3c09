"""Typed settings: the base class of every settings class, and validation that names the key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tiebench.errors import SettingsError


class Settings(BaseModel):
    """Immutable settings that refuse unknown keys and wrong types.

    Field docstrings are the documentation; `tiebench params --explain` prints them.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


S = TypeVar("S", bound=Settings)


def distinct(values: list[Any]) -> list[Any]:
    """A list as it is, if no value is there twice, to the digits that tables print.

    Raises:
        ValueError: one is.
    """
    if len({f"{x:.7g}" if isinstance(x, float) else x for x in values}) != len(values):
        raise ValueError(f"distinct values ({values})")
    return values


Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]
"""A name that becomes part of a path."""


def validate(cls: type[S], mapping: Mapping[str, Any] | None, path: str = "") -> S:
    """Build `cls` from a plain mapping.

    Args:
        mapping: nested plain values, as read from YAML.
        path: where the mapping stands in params.yaml; prefixed to the keys in the error.

    Raises:
        SettingsError: names every offending key with its full path.
    """
    values = dict(mapping or {})
    try:
        return cls.model_validate(values)
    except ValidationError as error:
        problems = [_problem(path, item, values) for item in error.errors()]
    first = problems[0]
    more = "".join(
        f"\n  also {p['key']}: found {p['found']}; expected {p['expected']}" for p in problems[1:]
    )
    raise SettingsError(
        first["key"],
        found=first["found"],
        expected=first["expected"] + more,
        mend="edit the key in conf/ and run `tiebench params`, or edit params.yaml",
    )


def _problem(path: str, item: Any, values: Any) -> dict[str, str]:
    kind, value = item["type"], item["input"]
    location = list(_location(item["loc"], values, kind == "missing"))
    key = ".".join([path, *location] if path else location) or "params.yaml"
    if kind == "extra_forbidden":
        return {"key": key, "found": "a key that no setting has", "expected": "a known key"}
    if kind == "missing":
        return {"key": key, "found": "nothing", "expected": "a value"}
    message = item["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    together = kind == "value_error" and isinstance(value, dict)
    shown = _combination(value, message) if together else repr(value)
    return {
        "key": key,
        "found": shown if len(shown) <= 120 else f"{shown[:117]}...",
        "expected": message[0].lower() + message[1:],
    }


def _combination(values: Mapping[str, Any], message: str) -> str:
    """The single values of which a message speaks."""
    single = {x: value for x, value in values.items() if not isinstance(value, dict | list)}
    named = {x: single[x] for x in re.findall(r"\w+", message) if x in single}
    shown = ", ".join(f"{name} {value!r}" for name, value in named.items())
    return "a combination of values that is refused" + (f": {shown}" if shown else "")


def _location(parts: Sequence[Any], values: Any, missing: bool) -> Iterator[str]:
    """The parts that are keys of the values: pydantic also names the kind that a union chose."""
    for index, part in enumerate(parts):
        held = range(len(values)) if isinstance(values, list) else values
        if isinstance(held, dict | range) and part in held:
            values = values[part]
        elif not (missing and index == len(parts) - 1):
            continue
        yield str(part)
