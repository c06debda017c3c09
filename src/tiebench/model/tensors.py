"""Drawing tensors from names, and writing them whole or not at all."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from tiebench.files import replacing


def save_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file.

    Raises:
        WriteError: no room, or no permission.
    """
    with replacing(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:  # the library tells a full disk in words only
            raise OSError(errno.ENOSPC, str(error)) from None


def generator_of(seed: int, *names: str) -> torch.Generator:
    """A generator that depends on seed and names alone, so that nothing shifts another's draw."""
    key = hashlib.sha256("/".join([f"{seed}", *names]).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(key[:8]) >> 1)
