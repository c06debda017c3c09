"""Compositions that a test process remembers: each takes Hydra a second, and many are alike."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any


def memoize(composition: ModuleType) -> None:
    """Let `compose` and `parse` work once for equal choices and equal files of conf/."""
    compose, parse = composition.compose, composition.parse
    composed: dict[tuple[tuple[str, ...], str], tuple[str, dict[str, str]]] = {}
    parsed = functools.cache(parse)

    @functools.wraps(compose)
    def compose_once(
        overrides: Iterable[str] = (), conf: Path = composition.CONF
    ) -> tuple[str, dict[str, str]]:
        key = tuple(overrides), _digest(conf)
        if key not in composed:
            composed[key] = compose(key[0], conf)
        text, choices = composed[key]
        return text, dict(choices)

    @functools.wraps(parse)
    def parse_once(text: str) -> dict[str, Any]:
        return copy.deepcopy(parsed(text))

    composition.compose, composition.parse = compose_once, parse_once


def _digest(conf: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(conf.rglob("*.yaml")):
        digest.update(str(path.relative_to(conf)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
