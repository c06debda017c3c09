"""Reading and writing files: whole or not at all, and the same bytes for the same content."""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from tiebench.errors import BusyError, DataError, WriteError

UNWRITABLE = (
    errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.EDQUOT, errno.ENAMETOOLONG,
    errno.EBUSY, errno.EFBIG,
)  # fmt: skip


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` and move it there when the block succeeds.

    A kill, a full disk or an error leaves what was there before. A kill also leaves the temporary
    file, which the next process to write the same path removes.

    Raises:
        WriteError: no room, or no permission.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _sweep(path)
            temporary.touch()
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`, which takes its place when the block succeeds.

    What a kill leaves beside it is put right by the next call: `folder` is then what it was before,
    or what the block wrote. One process at a time (`holding`).

    Raises:
        WriteError: no room, or no permission.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    before = folder.with_name(f".{folder.name}.before.partial")
    with writing(folder):
        if before.exists() and not folder.exists():  # killed between the two moves below
            before.rename(folder)
        for left in (partial, before):
            if left.is_symlink() or left.is_file():
                left.unlink()
            elif left.exists():
                shutil.rmtree(left)
        partial.mkdir(parents=True)
    try:
        yield partial
        with writing(folder):
            if folder.exists():
                folder.rename(before)
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if before.is_symlink() or before.is_file():
        before.unlink(missing_ok=True)
    shutil.rmtree(before, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say with its path what keeps something from being written."""
    try:
        yield
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


def _sweep(path: Path) -> None:
    """Remove temporary files of `path` whose process is gone; this one's number may be reused."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        pid = left.name.split(".")[-2]
        if pid.isdecimal() and (int(pid) == os.getpid() or not is_alive(int(pid))):
            left.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine has this number."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True


@contextmanager
def holding(lock: Path, subject: str) -> Iterator[None]:
    """Hold a lock file; a process that dies lets go of it.

    Raises:
        BusyError: another process holds it; the error names its pid.
        WriteError: no room, or no permission.
    """
    with writing(lock):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                subject,
                found=f"{_holder(file)} at work on it ({lock} is held)",
                expected="one process at a time",
                mend="wait for it to end, or stop it (`kill PID`); what it saved is kept",
            ) from None
        with writing(lock):
            file.truncate(0)
            os.write(file.fileno(), str(os.getpid()).encode())  # nothing is left for `close`
        yield


def _holder(file: IO[str]) -> str:
    """The process that holds a lock file, in words.

    Between taking the lock and writing its number, the file still has that of the one before: a
    number that no process has is waited out.
    """
    for _ in range(20):
        file.seek(0)
        pid = file.read().strip()
        if pid.isdecimal() and is_alive(int(pid)):
            return f"process {pid}"
        time.sleep(0.01)
    return "another process"


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
        DataError: the file is missing or cannot be read, is not JSON (with line and column), or
            no object.
    """
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(path, found="no such file", expected="a JSON file", mend=mend) from None
    except OSError as error:
        found = error.strerror or str(error)
        raise DataError(path, found=found, expected="a JSON file", mend=mend) from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            path, found=f"broken JSON ({error})", expected="a JSON file", mend=mend
        ) from None
    if not isinstance(value, dict):
        found = f"{json.dumps(value):.60}"
        raise DataError(path, found=found, expected="a JSON object", mend=mend)
    return value


def remembered(path: Path, make: Callable[[], Any]) -> Any:
    """The plain value (dicts, lists, strings, numbers) that `make` gave before, or gives now.

    Args:
        path: the JSON file that keeps it; a missing or damaged one is made anew.
        make: the work.

    Raises:
        WriteError: no room, or no permission.
    """
    try:
        held = read_json(path, mend="")
        if held.keys() == {"value", "digest"} and held["digest"] == digest_of(held["value"]):
            return held["value"]
    except DataError:
        pass
    value = make()
    write_json(path, {"value": value, "digest": digest_of(value)})
    return value


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(value: Any) -> str:
    """A sha256 of plain values (dicts, lists, strings, numbers), independent of key order."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
