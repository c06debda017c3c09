"""How the work is executed: device, threads, processes. They change speed, never results beyond
rounding.

Read from the environment and never from params.yaml: `TIEBENCH_DEVICE` (`cpu`, `cuda`),
`TIEBENCH_THREADS` (of each process), `TIEBENCH_PROCESSES` (that train one model together),
`TIEBENCH_PRODUCTS` (`torch`, or `onednn`: who computes the products of the cross-entropy) and
`TIEBENCH_CHECKPOINT_SECONDS`.
"""

from __future__ import annotations

import math
import os
from typing import Any

import torch

from tiebench.errors import SettingsError

CHECKPOINT_SECONDS = 30.0
"""Time between checkpoints, unless the environment says another."""
MOST = 1024
"""Threads of a process, or processes, that the environment can ask for."""


def prepare_runtime(local: int = 0, beside: int = 1) -> torch.device:
    """Set threads and deterministic kernels, and return the device.

    Args:
        local: number of this process among those of this machine that work together.
        beside: how many these are. Each takes its share of the cores, and a CUDA device of its own.

    Raises:
        SettingsError: an environment variable that names no device or thread count.
    """
    threads = _count("TIEBENCH_THREADS", "the number of cores to use")
    if threads is not None:
        torch.set_num_threads(threads)
    elif beside > 1 and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // beside))
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
    _check_products(name)
    if name == "cpu" or beside == 1:
        return torch.device(name)
    if beside > torch.cuda.device_count():
        raise SettingsError(
            "TIEBENCH_PROCESSES",
            found=f"{beside} processes and {torch.cuda.device_count()} CUDA devices",
            expected="at most one process for each",
            mend="start fewer processes",
        )
    torch.cuda.set_device(local)
    return torch.device(name, local)


def wanted_processes() -> int | None:
    """How many processes train a model together, by the environment; None where it does not say.

    Raises:
        SettingsError: no whole number from 1 to MOST.
    """
    return _count("TIEBENCH_PROCESSES", "the number of processes that train a model")


def onednn_products() -> bool:
    """Whether oneDNN computes the products of the cross-entropy, not torch's own library."""
    return os.environ.get("TIEBENCH_PRODUCTS") == "onednn"


def _check_products(device: str) -> None:
    name = "TIEBENCH_PRODUCTS"
    given, why = os.environ.get(name, "torch"), ""
    if given == "onednn" and device != "cpu":
        why = f" with TIEBENCH_DEVICE={device}"
    elif given == "onednn" and not torch.backends.mkldnn.is_available():
        why = ", and torch was built without it"
    if given not in ("torch", "onednn") or why:
        raise SettingsError(
            name,
            found=repr(given) + why,
            expected="torch, or onednn on the CPU where torch was built with it",
            mend="unset it for torch",
        )


def checkpoint_seconds() -> float:
    """Time between checkpoints; when one is written changes no result.

    Raises:
        SettingsError: no number of seconds.
    """
    name = "TIEBENCH_CHECKPOINT_SECONDS"
    given = os.environ.get(name)
    if given is None:
        return CHECKPOINT_SECONDS
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise SettingsError(
            name,
            found=repr(given),
            expected="a number of seconds, 0 (after every update) or above",
            mend=f"unset it for {CHECKPOINT_SECONDS:g} seconds",
        )
    return seconds


def _count(name: str, meaning: str) -> int | None:
    given = os.environ.get(name)
    if given is None:
        return None
    if given not in map(str, range(1, MOST + 1)):
        raise SettingsError(
            name,
            found=repr(given),
            expected=f"a whole number from 1 to {MOST}",
            mend=f"unset it or set {meaning}",
        )
    return int(given)


def describe_runtime(device: torch.device) -> dict[str, Any]:
    """Device, threads and who multiplies, for the side file of a run."""
    return {
        "device": device.type,
        "threads": torch.get_num_threads(),
        "products": "onednn" if onednn_products() else "torch",
        "torch": torch.__version__,
    }
