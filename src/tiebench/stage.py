"""Running a stage's work: an error that a user can act on is printed without a traceback."""

from __future__ import annotations

import inspect
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tiebench.errors import LostError, SettingsError, TiebenchError
from tiebench.files import UNWRITABLE
from tiebench.lifeline import STAGE, end_with_dvc, end_with_parent
from tiebench.mending import keep_lock
from tiebench.training.workers import LAUNCHER, LOST, is_worker

OTHERS_SECONDS = 5.0
"""How long a worker leaves it to the first one to say what is wrong with the input of both."""


def run_stage(work: Callable[..., object], *arguments: object) -> None:
    """Call `work`; exit with status 1 and the message where it raises what a user can mend.

    Under DVC the process ends when DVC does, and a copy of dvc.lock is kept. Of several processes
    that train one model (see `tiebench.training.parallel`) each ends with the one that started
    it, and one says what is wrong.
    """
    try:
        _check_arguments(work, arguments)
        if is_worker():
            end_with_parent()
            if os.environ.get(LAUNCHER, str(os.getppid())) != str(os.getppid()):
                sys.exit(1)
        elif STAGE in os.environ:
            end_with_dvc()
            keep_lock()
        work(*arguments)
        sys.stdout.flush()  # here, where a reader that is gone is no defect
    except LostError as error:
        if is_worker() and LAUNCHER in os.environ:
            # Our launcher names the one that ended. A connection that broke aborts when it is
            # taken down, which would pass for the cause.
            sys.stdout.flush()
            os._exit(LOST)
        sys.exit(f"error: {error}")
    except TiebenchError as error:
        if is_worker() and os.environ["RANK"] != "0":
            time.sleep(OTHERS_SECONDS)
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        if not _reader_is_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        said = str(error).splitlines()[0] if str(error) else "none left"
        sys.exit(
            f"error: memory: found too little ({said}); expected room for the sizes in "
            "params.yaml. To mend: take smaller sizes; what was finished is kept"
        )
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is None:
            raise
        sys.exit(
            f"error: {error.filename}: found {error.strerror}; expected room and permission to "
            "write. To mend: free space or make the folder writable, then run the command again"
        )


def _check_arguments(work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    signature = inspect.signature(work)
    try:
        signature.bind(*arguments)
    except TypeError:
        raise SettingsError(
            Path(sys.argv[0]).name,
            found=" ".join(map(str, arguments)) or "no arguments",
            expected=" ".join(signature.parameters).upper() or "none",
            mend="give them, or run the stage by `dvc repro`",
        ) from None


def _reader_is_gone() -> bool:
    """Whether who reads what is printed, as `head`, has seen enough."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # errors are told in any case
    return bool(poll.poll(0))


def _out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: NumPy raises a MemoryError, torch a RuntimeError."""
    return isinstance(error, MemoryError) or "allocate memory" in str(error).lower()
