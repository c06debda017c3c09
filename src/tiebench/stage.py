"""Running a stage's work: an error that a user can act on is printed without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tiebench.errors import TiebenchError


def run_stage(work: Callable[..., object], *arguments: object) -> None:
    """Call `work`; exit with status 1 and the message where it raises a `TiebenchError`."""
    try:
        work(*arguments)
    except TiebenchError as error:
        sys.exit(f"error: {error}")
