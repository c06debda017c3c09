"""Ending with another process: a stage does not outlive DVC, nor a worker the one that started it.

A process that is killed with SIGKILL tells its children nothing. What DVC started would go on, and
hold its outputs against the next `dvc repro`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from itertools import pairwise

import psutil

STAGE = "DVC_STAGE"
"""Set by DVC for the commands that it runs."""
PR_SET_PDEATHSIG = 1
"""prctl(2): the signal that this process gets when its parent ends."""
LOOK_SECONDS = 0.2
"""How often a parent is looked for where the system does not tell of its end."""


def end_with_dvc() -> None:
    """Under DVC, end as soon as DVC has; anywhere else do nothing.

    DVC starts a command through a shell, which replaces itself by the command or waits for it.
    """
    stage = os.environ.get(STAGE)
    if stage is None:
        return
    chain = [os.getpid()]
    for process in psutil.Process().parents():
        chain.append(process.pid)
        if _stage_of(process) != stage:
            break
    if len(chain) > 1:
        if _is_stranger(chain[-1]):
            sys.exit(f"error: stage {stage}: DVC ended while it started; run `dvc repro` again")
        end_with(chain)


def end_with_parent() -> None:
    """End as soon as the process that started this one has."""
    if os.getppid() > 1:
        end_with([os.getpid(), os.getppid()])


def end_with(chain: list[int]) -> None:
    """End as soon as one of the processes of `chain`, from this one upwards, has lost its parent.

    Args:
        chain: numbers of processes: this one's, its parent's, and so on.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not _is_whole(chain):
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.platform != "linux" or len(chain) > 2:
        threading.Thread(target=_watch, args=(chain,), daemon=True).start()


def _watch(chain: list[int]) -> None:
    while _is_whole(chain):
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _is_whole(chain: list[int]) -> bool:
    """Whether each process still has the next one as its parent."""
    try:
        return all(psutil.Process(a).ppid() == b for a, b in pairwise(chain))
    except psutil.NoSuchProcess:
        return False


def _stage_of(process: psutil.Process) -> str | None:
    """The stage that a process is part of; None where that is not to be read."""
    try:
        return process.environ().get(STAGE)
    except psutil.Error:
        return None


def _is_stranger(pid: int) -> bool:
    """Whether DVC ended before this process looked, so that the system gave it another parent.

    DVC and its commands are of one session. The first process of a container may share it.
    """
    other_group = os.getpgid(pid) != os.getpgrp()
    return os.getsid(pid) != os.getsid(0) or (pid == 1 and other_group)
