"""What the benchmarks write: one list for all scripts, in which a name's result is replaced.

A result has the keys name, ours, peer, unit, ratio and target. The ratio is ours / peer
everywhere, and the target says whether that should be large or small.

Run: python benchmarks/support/results.py    (the table of all results)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tabulate import tabulate

from tiebench.files import write_json

RESULTS = Path(__file__).parents[1] / "results.json"
COLUMNS = ("name", "ours", "peer", "unit", "ratio", "target", "met")


def record(
    name: str, ours: float, peer: float, unit: str, target: str | None, path: Path = RESULTS
) -> None:
    """Put a result in the place of the one with its name, and print it.

    Args:
        name: what was measured, and against what.
        ours: measured on our side, in `unit`.
        peer: measured on the other, or a budget.
        unit: of both.
        target: "at least X" or "at most X", of ours / peer; None where there is none.
        path: the file to write.
    """
    ratio = rounded(ours / peer)
    result = {
        "name": name,
        "ours": rounded(ours),
        "peer": rounded(peer),
        "unit": unit,
        "ratio": ratio,
        "target": target,
    }
    held = json.loads(path.read_bytes()) if path.exists() else []
    write_json(path, [*(x for x in held if x["name"] != name), result])
    print(f"{name}: {ours:,.4g} against {peer:,.4g} {unit}, ratio {ratio:g}", flush=True)


def rounded(value: float) -> float:
    """Three significant digits; all digits before the point."""
    return float(f"{value:.3g}") if abs(value) < 100 else round(value)


def met(result: dict[str, Any]) -> str:
    """Whether the ratio reaches the target: yes, no, or nothing where there is none."""
    if result["target"] is None:
        return ""
    kind, bound = result["target"].rsplit(" ", 1)
    reached = (
        result["ratio"] >= float(bound) if kind == "at least" else result["ratio"] <= float(bound)
    )
    return "yes" if reached else "no"


def table(results: list[dict[str, Any]]) -> str:
    """The results as lines of text."""
    rows = [[*(x[key] for key in COLUMNS[:-1]), met(x)] for x in results]
    return tabulate(
        rows, COLUMNS, maxcolwidths=[60, *[None] * (len(COLUMNS) - 1)], disable_numparse=True
    )


if __name__ == "__main__":
    print(table(json.loads(RESULTS.read_bytes())))
