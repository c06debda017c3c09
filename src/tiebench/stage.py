"""Running a stage's work: an error that a user can act on is printed without a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from tiebench.errors import TiebenchError
from tiebench.files import UNWRITABLE


def run_stage(work: Callable[..., object], *arguments: object) -> None:
    """Call `work`; exit with status 1 and the message where it raises what a user can mend."""
    try:
        work(*arguments)
    except TiebenchError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is None:
            raise
        sys.exit(
            f"error: {error.filename}: found {error.strerror}; expected room and permission to "
            "write. To mend: free space or make the folder writable, then run the command again"
        )
