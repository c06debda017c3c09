"""Reading and writing files: whole or not at all, and the same bytes for the same content."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tiebench.errors import BusyError, DataError, WriteError

UNWRITABLE = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` and move it there when the block succeeds.

    A kill, a full disk or an error leaves what was there before.

    Raises:
        WriteError: no room, or no permission.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        raise WriteError(
            path,
            found=os.strerror(error.errno),
            expected="room and permission to write",
            mend="free space or make the folder writable, then run the command again; what was "
            "there before is kept",
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`, which takes its place when the block succeeds."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def holding(lock: Path, subject: str) -> Iterator[None]:
    """Hold a lock file; a process that dies lets go of it.

    Raises:
        BusyError: another process holds it; the error names its pid.
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise BusyError(
                subject,
                found=f"process {file.read().strip() or 'unknown'} at work on it ({lock} is held)",
                expected="one process at a time",
                mend="wait for it to end, or stop it (`kill PID`); what it saved is kept",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with `\\n` line ends, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write JSON with a fixed layout; NaN and infinity are refused."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path, *, mend: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        DataError: the file is missing, is not JSON (with line and column), or no object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(path, found="no such file", expected="a JSON file", mend=mend) from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            path, found=f"broken JSON ({error})", expected="a JSON file", mend=mend
        ) from None
    if not isinstance(value, dict):
        found = f"{json.dumps(value):.60}"
        raise DataError(path, found=found, expected="a JSON object", mend=mend)
    return value


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """A sha256 of plain values (dicts, lists, strings, numbers), independent of key order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
