"""What DVC writes in place, and a kill in that moment leaves cut off: dvc.lock and its own locks.

Each stage that DVC starts keeps a copy of dvc.lock beside it (`keep_lock`); `mend` puts it back.
What the copy does not have yet, DVC takes from its cache of runs: nothing is computed twice.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

from tiebench.errors import DataError
from tiebench.files import replacing
from tiebench.paths import SCRATCH

LOCK = Path("dvc.lock")
COPY = SCRATCH / LOCK
DAMAGED = SCRATCH / "dvc.lock.damaged"
TEMPORARY = Path(".dvc/tmp")


def keep_lock() -> None:
    """Copy dvc.lock as it is when a stage starts, if it is whole and not the same as the copy.

    Raises:
        WriteError: no room, or no permission.
    """
    try:
        content = LOCK.read_bytes()
    except FileNotFoundError:
        return
    if (not COPY.exists() or COPY.read_bytes() != content) and is_whole(content):
        _write(COPY, content)


def mend() -> list[str]:
    """Put right what a killed DVC left damaged; says in words what was done.

    Raises:
        DataError: dvc.lock is damaged and there is no whole copy.
        WriteError: no room, or no permission.
    """
    return [*_mend_lock(), *_mend_claims()]


def is_whole(content: bytes) -> bool:
    """Whether this is a whole dvc.lock: DVC ends it with a line end, and what is cut off earlier
    has no such end, is not YAML, or lacks parts of its last stage."""
    import yaml

    if not content.endswith(b"\n"):
        return False
    try:
        value = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError):
        return False
    stages = value.get("stages") if isinstance(value, dict) else None
    return isinstance(stages, dict) and all(_is_stage(x) for x in stages.values())


def _is_stage(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("cmd"), str | list):
        return False
    parts, params = [value.get(part, []) for part in ("deps", "outs")], value.get("params", {})
    if not all(isinstance(part, list) for part in parts) or not isinstance(params, dict):
        return False
    files = [entry for part in parts for entry in part]
    return all(isinstance(x, dict) and x.keys() >= {"path", "hash", "md5"} for x in files) and all(
        isinstance(values, dict) for values in params.values()
    )


def _mend_lock() -> list[str]:
    if not LOCK.exists():
        return []
    content = LOCK.read_bytes()
    if is_whole(content):
        return []
    if not COPY.exists():
        raise DataError(
            LOCK,
            found="a damaged file, as a kill leaves it while DVC writes it, and no copy",
            expected="what DVC wrote",
            mend="`git checkout dvc.lock`, or delete it: what was made is taken from DVC's cache",
        )
    _write(DAMAGED, content)
    _write(LOCK, COPY.read_bytes())
    return [f"{LOCK} was damaged: put back as it was at the last stage ({DAMAGED} is what it was)"]


def _mend_claims() -> list[str]:
    """The file in which DVC notes who works on which output; a whole one DVC cleans by itself."""
    claims, guard = TEMPORARY / "rwlock", TEMPORARY / "rwlock.lock"
    if not claims.exists():
        return []
    with guard.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # a DVC that lives is at it
            return []
        try:
            json.loads(claims.read_bytes())
        except ValueError:
            claims.unlink()
            return [f"{claims} was damaged: removed, as no DVC is at work on it"]
    return []


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)
