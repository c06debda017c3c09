"""Processes that train one model together: how each knows of the others (no torch)."""

from __future__ import annotations

import os

WORKER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""Set by the launchers of accelerate and torch for each process that they start."""
LAUNCHER = "TIEBENCH_LAUNCHER"
"""Set by our own launcher, to its number, for the workers that it starts."""
LOST = os.EX_TEMPFAIL
"""The status of a worker that ends because another one has."""


def is_worker() -> bool:
    """Whether this is one of several processes that train one model."""
    return all(name in os.environ for name in WORKER) and os.environ["WORLD_SIZE"] != "1"
