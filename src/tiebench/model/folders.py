"""Where a checkpoint comes from, and a new folder that one process at a time fills."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tiebench.errors import BusyError, DataError, WriteError

FILES = "a folder with config.json, safetensors and tokenizer.json"


def source_folder(source: str, expected: str = FILES) -> Path:
    """The folder of a checkpoint: itself, or that of a repository in the cache of the hub.

    Args:
        source: a path, or the id of a repository, with its revision behind an @ if it is not main.
        expected: what an error asks for.

    Raises:
        DataError: neither a folder nor in the cache.
    """
    if os.path.isdir(source):  # noqa: PTH112 (a name that is too long is none)
        return Path(source)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    repository, _, revision = source.partition("@")
    try:
        return Path(snapshot_download(repository, revision=revision or None, local_files_only=True))
    except (HFValidationError, LocalEntryNotFoundError):
        raise DataError(
            source,
            found="no such folder, and no such repository in the local Hugging Face cache",
            expected=expected,
            mend="name the folder, or fill the cache with `hf download REPOSITORY`",
        ) from None


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Hold a folder that is missing or empty, so that one process at a time fills it.

    The folder is its own lock: nothing is left beside it, and a process that dies lets go of it.
    It is made where it is missing, and removed again when the block fails.

    Yields:
        The folder, with links followed; `replacing_folder` may take its place.

    Raises:
        DataError: a file, or a folder that holds something.
        BusyError: another process fills it.
        WriteError: it cannot be made.
    """
    folder = folder.resolve()
    _check_empty(folder)
    missing = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise WriteError(
            folder,
            found=os.strerror(error.errno or 0),
            expected="room and permission to write",
            mend="name another folder",
        ) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = os.path.samestat(os.fstat(handle), folder.stat())  # not replaced meanwhile
        except (BlockingIOError, FileNotFoundError):
            held = False
        if not held:
            raise BusyError(
                folder,
                found="another process at work on it",
                expected="one process at a time",
                mend="wait for it to end, or name another folder",
            )
        _check_empty(folder)
        try:
            yield folder
        except BaseException:
            if missing:
                with suppress(OSError):
                    folder.rmdir()
            raise
    finally:
        os.close(handle)


def _check_empty(folder: Path) -> None:
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise DataError(
            folder,
            found="a file" if folder.is_file() else "a folder that is not empty",
            expected="a new folder",
            mend="name another, or remove it first",
        )
