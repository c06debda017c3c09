"""Writing tensors: whole or not at all, and a full disk is said to be one."""

from __future__ import annotations

import errno
from pathlib import Path

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
