"""Every key of params.yaml with its type, default and use, from the schema."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from tiebench.schema import Settings
from tiebench.settings import Params


def explain(cls: type[Settings] = Params) -> str:
    """One paragraph a key; `<name>` stands for the keys of a mapping, `[]` for list items."""
    return "\n".join(_keys(cls, ""))


def _keys(cls: type[Settings], prefix: str) -> Iterator[str]:
    for name, field in cls.model_fields.items():
        key = f"{prefix}{name}"
        held = field.get_default()
        default = "" if field.is_required() or isinstance(held, Settings) else f" = {_shown(held)}"
        yield f"{key}: {_type(field.annotation)}{default}"
        if field.description:
            yield from (f"    {line.strip()}" for line in field.description.splitlines())
        for inner, suffix in _nested(field.annotation):
            yield from _keys(inner, f"{key}{suffix}.")


def _nested(annotation: Any, suffix: str = "") -> Iterator[tuple[type[Settings], str]]:
    """The settings classes inside an annotation, and how their keys are reached."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        yield annotation, suffix
        return
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is dict:
        yield from _nested(inner[1], f"{suffix}.<name>")
    elif origin is list:
        yield from _nested(inner[0], f"{suffix}[]")
    elif origin is Annotated:
        yield from _nested(inner[0], suffix)
    elif origin in (Union, types.UnionType):
        for part in inner:
            yield from _nested(part, suffix)


def _type(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "null"
    if annotation is Any:
        return "any"
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type, inner)))
    if origin is dict:
        return f"mapping of {_type(inner[1])}"
    if origin is list:
        return f"list of {_type(inner[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return "section"
    return str(getattr(annotation, "__name__", annotation))


def _shown(value: Any) -> str:
    """A value as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
