"""How the work is executed: device and threads. They change speed, never results beyond rounding.

Read from the environment and never from params.yaml: `TIEBENCH_DEVICE` (`cpu`, `cuda`) and
`TIEBENCH_THREADS`.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from tiebench.errors import SettingsError


def prepare_runtime() -> torch.device:
    """Set threads and deterministic kernels, and return the device.

    Raises:
        SettingsError: an environment variable that names no device or thread count.
    """
    threads = os.environ.get("TIEBENCH_THREADS")
    if threads is not None:
        if not threads.isdecimal() or threads == "0":
            raise SettingsError(
                "TIEBENCH_THREADS",
                found=repr(threads),
                expected="a whole number above 0",
                mend="unset it or set the number of cores to use",
            )
        torch.set_num_threads(int(threads))
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # As use_deterministic_algorithms(True), which also imports the compiler: 1.4 s a process.
    torch.set_deterministic_debug_mode("error")
    name = os.environ.get("TIEBENCH_DEVICE", "cpu")
    if name != "cpu" and not (name == "cuda" and torch.cuda.is_available()):
        raise SettingsError(
            "TIEBENCH_DEVICE",
            found=repr(name) + ("" if name != "cuda" else ", and torch sees no CUDA device"),
            expected="cpu, or cuda on a machine that has it",
            mend="unset it to compute on the CPU",
        )
    return torch.device(name)


def describe_runtime(device: torch.device) -> dict[str, Any]:
    """Device and threads, for the side file of a run."""
    return {"device": device.type, "threads": torch.get_num_threads(), "torch": torch.__version__}
