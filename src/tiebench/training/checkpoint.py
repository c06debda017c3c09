"""Resuming: a scratch folder outside the outputs, keyed by everything that decides the result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tiebench.errors import TrainingError
from tiebench.model.lm import LanguageModel
from tiebench.model.tensors import save_tensors
from tiebench.paths import SCRATCH

STATE = ("exp_avg", "exp_avg_sq", "step")
"""What AdamW holds of a parameter that it has updated: the moments, and how often."""


def scratch_folder(cell: str, key: str) -> Path:
    """Where the checkpoint of a cell stands.

    Args:
        cell: a readable name.
        key: digest of settings, code and data; another key never resumes this one's checkpoint.
    """
    return SCRATCH / f"{cell}-{key[:16]}"


def remove_scratch(cell: str) -> None:
    """Remove the checkpoints of a cell that is done, also those of other keys."""
    for finished in SCRATCH.glob(f"{cell}-{'[0-9a-f]' * 16}"):
        shutil.rmtree(finished)


def save_checkpoint(
    folder: Path,
    model: LanguageModel,
    optimizer: torch.optim.Optimizer,
    step: int,
    record: dict[str, Any],
    carried: Mapping[str, Tensor] | None = None,
) -> None:
    """Write weights, the optimizer's state, `step` (updates done) and `record` as one file.

    Args:
        carried: by name, what else the next update begins with (the state of a recurrent body).

    Raises:
        WriteError: no room, or no permission; the checkpoint before is kept.
    """
    tensors = {f"carried/{name}": held.cpu() for name, held in (carried or {}).items()}
    for name, parameter in model.named_parameters():
        tensors[f"weight/{name}"] = parameter.detach().cpu()
        for part, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{part}/{name}"] = value.cpu()
    metadata = {"step": str(step), "record": json.dumps(record)}
    save_tensors(folder / "checkpoint.safetensors", tensors, metadata)


def read_step(folder: Path) -> int:
    """Updates done at the checkpoint in a folder; 0 without one, or with a damaged one."""
    try:
        with safe_open(folder / "checkpoint.safetensors", framework="pt") as file:
            return int(file.metadata()["step"])
    except (OSError, SafetensorError, TypeError, KeyError, ValueError):
        return 0


def read_carried(folder: Path, names: Iterable[str]) -> dict[str, Tensor]:
    """What a checkpoint that was loaded carries by these names; empty where it has none."""
    with safe_open(folder / "checkpoint.safetensors", framework="pt") as file:
        held = set(file.keys())
        return {x: file.get_tensor(f"carried/{x}") for x in names if f"carried/{x}" in held}


def load_checkpoint(
    folder: Path, model: LanguageModel, optimizer: torch.optim.Optimizer
) -> tuple[int, dict[str, Any]] | None:
    """Restore what `save_checkpoint` wrote: (step, record), or None when there is nothing.

    Raises:
        TrainingError: the file is damaged.
    """
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            step, record = int(metadata["step"]), json.loads(metadata["record"])
            with torch.no_grad():
                updated = {x.partition("/")[2] for x in file.keys() if x.startswith("step/")}  # noqa: SIM118
                for name, parameter in model.named_parameters():
                    parameter.copy_(file.get_tensor(f"weight/{name}"))
                    if name in updated:
                        optimizer.state[parameter] = {
                            part: file.get_tensor(f"{part}/{name}").to(parameter.device)
                            for part in STATE
                        }
    except (SafetensorError, TypeError, KeyError, ValueError, RuntimeError) as error:
        raise TrainingError(
            path,
            found=f"a damaged checkpoint ({error})",
            expected="a checkpoint written by this program",
            mend="delete the file; the cell then starts from the beginning",
        ) from None
    return step, record
