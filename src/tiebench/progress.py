"""One progress bar for all long work: rate and time left, quiet when not a terminal."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def progress(*args: Any, **kwargs: Any) -> Any:
    """A `tqdm` bar that is silent when standard error is not a terminal."""
    kwargs.setdefault("disable", not sys.stderr.isatty())
    kwargs.setdefault("dynamic_ncols", True)
    return tqdm(*args, **kwargs)
