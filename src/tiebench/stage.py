"""Running a stage's work: an error that a user can act on is printed without a traceback."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

from tiebench.errors import LostError, TiebenchError
from tiebench.files import UNWRITABLE
from tiebench.lifeline import STAGE, end_with_dvc, end_with_parent
from tiebench.mending import keep_lock

WORKER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""Set by the launchers of accelerate and torch for each process that they start."""
LAUNCHER = "TIEBENCH_LAUNCHER"
"""Set by our own launcher, to its number, for the workers that it starts."""
LOST = os.EX_TEMPFAIL
"""The status of a worker that ends because another one has."""
OTHERS_SECONDS = 5.0
"""How long a worker leaves it to the first one to say what is wrong with the input of both."""


def run_stage(work: Callable[..., object], *arguments: object) -> None:
    """Call `work`; exit with status 1 and the message where it raises what a user can mend.

    Under DVC the process ends when DVC does, and a copy of dvc.lock is kept. Of several processes
    that train one model (see `tiebench.training.parallel`) each ends with the one that started
    it, and one says what is wrong.
    """
    try:
        if is_worker():
            end_with_parent()
            if os.environ.get(LAUNCHER, str(os.getppid())) != str(os.getppid()):
                sys.exit(1)
        elif STAGE in os.environ:
            end_with_dvc()
            keep_lock()
        work(*arguments)
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
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is None:
            raise
        sys.exit(
            f"error: {error.filename}: found {error.strerror}; expected room and permission to "
            "write. To mend: free space or make the folder writable, then run the command again"
        )


def is_worker() -> bool:
    """Whether this is one of several processes that train one model."""
    return all(name in os.environ for name in WORKER) and os.environ["WORLD_SIZE"] != "1"
