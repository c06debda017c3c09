"""What the benchmarks write: one list for all scripts, in which a name's result is replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiebench.files import write_json

RESULTS = Path(__file__).parents[1] / "results.json"


def record(result: dict[str, Any], path: Path = RESULTS) -> None:
    """Put a result (name, ours, peer, unit, ratio) in the place of the one with its name."""
    held = json.loads(path.read_bytes()) if path.exists() else []
    write_json(path, [*(x for x in held if x["name"] != result["name"]), result])
