"""Cells that are killed at a chosen moment, for test_resume.py.

`python dying.py FOLDER MOMENT FOLDER MOMENT ...`: each in a child of its own, which kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from tests.training.cells import make_params
from tiebench.model import tensors
from tiebench.training import cell, pretrain


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half(save: Callable[..., None], held: object, path: Path, **named: object) -> None:
    """Die with half of a file written."""
    save(held, path, **named)
    os.truncate(path, path.stat().st_size // 2)
    die()


MOMENTS = {
    "in an update": (pretrain.Loop, "_update", 18, die),
    "half of a checkpoint": (tensors, "save_file", 9, half),
    "half of the last checkpoint": (tensors, "save_file", 30, half),
    "half of the model": (tensors, "save_file", 31, half),
    "half of the outputs": (cell, "write_text", 1, die),
    "between the old outputs and the new": (Path, "rename", 2, die),
    "before the checkpoint is removed": (pretrain, "remove_scratch", 1, die),
}
"""By name: whose function, its name, the call of it (counted from 1), and what is done then."""


def die_at(owner: object, name: str, number: int, then: Callable[..., None]) -> None:
    """Call `then` at a call of a function, with the function and its arguments."""
    original, calls = getattr(owner, name), []

    def counting(*arguments: object, **named: object) -> object:
        calls.append(None)
        if len(calls) == number:
            then(original, *arguments, **named)
        return original(*arguments, **named)

    setattr(owner, name, counting)


if __name__ == "__main__":
    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])  # imports for all children at once
    for folder, moment in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        if not os.fork():
            os.chdir(folder)
            os.fsync = lambda _: None  # slow, and a kill loses nothing that is written
            die_at(*MOMENTS[moment])
            pretrain.pretrain(make_params(), "encoders", "tied", 0)
            os._exit(0)
        status = os.wait()[1]
        assert os.WTERMSIG(status) == signal.SIGKILL, f"{moment}: {status}"
