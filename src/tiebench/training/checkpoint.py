"""Resuming: a scratch folder outside the outputs, keyed by everything that decides the result."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tiebench.errors import TrainingError
from tiebench.files import replacing
from tiebench.model.lm import LanguageModel
from tiebench.paths import SCRATCH

MOMENTS = ("exp_avg", "exp_avg_sq")


@contextmanager
def scratch(cell: str, key: str) -> Iterator[Path]:
    """Hold a scratch folder for one cell; remove it when the block succeeds.

    Args:
        cell: a readable name, for the error of a second process.
        key: digest of settings, code and data; another key never resumes this one's checkpoint.

    Raises:
        TrainingError: another process holds the cell; the error names its pid.
    """
    folder = SCRATCH / f"{cell}-{key[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    lock = SCRATCH / f"{cell}.lock"
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise TrainingError(
                cell,
                found=f"process {file.read().strip() or 'unknown'} at work on it ({lock} is held)",
                expected="one process per cell",
                mend="wait for it to end, or stop it (`kill PID`); what it saved is resumed",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield folder
        shutil.rmtree(folder)


def save_checkpoint(
    folder: Path,
    model: LanguageModel,
    optimizer: torch.optim.Optimizer,
    step: int,
    record: dict[str, Any],
) -> None:
    """Write weights, moments, `step` (updates done) and `record` as one file, atomically."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"weight/{name}"] = parameter.detach().cpu()
        for moment in MOMENTS:
            tensors[f"{moment}/{name}"] = optimizer.state[parameter][moment].cpu()
    metadata = {"step": str(step), "record": json.dumps(record)}
    with replacing(folder / "checkpoint.safetensors") as temporary:
        save_file(tensors, temporary, metadata=metadata)


def load_checkpoint(
    folder: Path, model: LanguageModel, optimizer: torch.optim.Optimizer
) -> tuple[int, dict[str, Any]] | None:
    """Restore what `save_checkpoint` wrote: (step, record), or None when there is nothing."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            step = int(metadata["step"])
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(file.get_tensor(f"weight/{name}"))
                    state = optimizer.state[parameter]
                    state["step"] = torch.tensor(float(step))
                    for moment in MOMENTS:
                        state[moment] = file.get_tensor(f"{moment}/{name}").to(parameter.device)
    except SafetensorError as error:
        raise TrainingError(
            path,
            found=f"a damaged checkpoint ({error})",
            expected="a checkpoint written by this program",
            mend="delete the file; the cell then starts from the beginning",
        ) from None
    return step, json.loads(metadata["record"])
