"""Printed perplexities of recurrent models beside ours, where the settings are the printed ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.printed import agrees
from tiebench.analysis.recurrent_published import PublishedRow, published_rows, tolerance
from tiebench.analysis.statistics import mean_interval
from tiebench.training.recurrent_settings import LARGEST_LOSS

Row = dict[str, Any]
SPLITS = ("train", "valid", "test")
Losses = Mapping[tuple[str, str], Mapping[int, float]]
"""(run, split) -> seed -> nats per word."""
PUBLISHED = (
    "source", "place", "row", "run", "split", "published", "released", "reproduction", "seeds",
    "perplexity", "low", "high", "difference_percent", "released_difference_percent",
    "reproduction_difference_percent", "tolerance_percent", "within", "as_published", "reason",
)  # fmt: skip


def beside(about: Row, printed: Iterable[PublishedRow], count: int) -> Row:
    """The printed row that is nearest to a run: of its coupling, with fewest other settings."""
    found = [(others, row) for row in printed if (others := row.others(about)) is not None]
    if not found:
        empty = dict.fromkeys(
            ("published_table", "published_row", "published_parameters", "parameters_agree")
        )
        return {**empty, "as_published": False, "reason": "no printed row of this coupling"}
    others, row = min(found, key=lambda x: len(x[0]))
    complete = "true" if row.complete else "as far as printed"
    counted = row.parameters if not others else None
    return {
        "published_table": row.table,
        "published_row": row.row,
        "published_parameters": row.parameters,
        "parameters_agree": counted and agrees(counted, float(count), 10**6),
        "as_published": "false" if others else complete,
        "reason": "; ".join(
            dict.fromkeys(_other(x, about.get(x), row.settings[x]) for x in others)
        ),
    }


def _other(name: str, mine: Any, printed: Any) -> str:
    section, _, key = name.partition(".")
    if section == "corpus" and key in SPLITS:
        return "other text than Penn Treebank"
    said = ["none" if x is None else f"{x:.6g}" if isinstance(x, float) else str(x)
            for x in (mine, printed)]  # fmt: skip
    return f"{key.replace('.', ' ').replace('_', ' ')} {said[0]}, not {said[1]}"


def published_beside(runs: Sequence[Row], losses: Losses) -> Iterator[Row]:
    """Every printed figure; beside it each of our runs that has its settings."""
    limit = tolerance()
    for printed in published_rows():
        at = (printed.table, printed.row)
        ours = [x for x in runs if (x["published_table"], x["published_row"]) == at]
        same = [row for row in ours if row["as_published"] != "false"]
        for row in same or (None,):
            for split, value in printed.printed.items():
                reproduction = printed.reproduction if split == "test" else None
                said: Row = {
                    "source": printed.source, "place": printed.place, "row": printed.row,
                    "split": split, "published": value,
                    "released": printed.released.get(split), "reproduction": reproduction,
                    "tolerance_percent": limit,
                }  # fmt: skip
                held = row and losses.get((row["run"], split))
                if row is None or not held:
                    reason = "; ".join(f"{x['run']}: {x['reason']}" for x in ours)
                    yield dict.fromkeys(PUBLISHED) | said | {"reason": reason or "no such run"}
                    continue
                found = mean_interval(list(held.values()))
                mean = math.exp(found.mean)
                percent = 100 * (mean / value - 1)
                against = {
                    f"{x}_difference_percent": said[x] and 100 * (mean / said[x] - 1)
                    for x in ("released", "reproduction")
                }
                yield {
                    **said, "run": row["run"], "seeds": found.n, "perplexity": mean,
                    "low": exponential(found.low), "high": exponential(found.high),
                    "difference_percent": percent, **against,
                    "within": abs(percent) <= limit, "as_published": row["as_published"],
                    "reason": None,
                }  # fmt: skip


def exponential(value: float | None) -> float | None:
    """None too for the end of an interval that no number can hold."""
    return None if value is None or value > LARGEST_LOSS else math.exp(value)
