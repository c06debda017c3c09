"""What a deep body leaves of the initial loss of one table: the reply's objection to Su 2023."""

from __future__ import annotations

from collections.abc import Iterator

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting.initial_loss_results import (
    NEGLIGIBLE,
    SU,
    branches,
    deep,
    excess,
    one_table,
    own_share,
    width_of,
)
from tiebench.reporting.naming import capital, counted, joined, number, with_interval
from tiebench.reporting.results import Results, Row


def deep_findings(results: Results) -> Iterator[str]:
    """The reply's objection, at the widest deep body."""
    rows = deep(results)
    if not rows:
        return
    width = max(map(width_of, rows))
    rows = [row for row in rows if width_of(row) == width]
    one = {row["branch"]: row for row in one_table(results) if width_of(row) == width}
    if not one:
        return
    first = next(iter(one.values()))
    wanted = excess(first, "theory_second_order")
    starts = [f"{with_interval(row, 2)} with {branches(x)}" for x, row in one.items()]
    shares = [f"{own_share(row) or 0:.0%} ({branches(x)})" for x, row in one.items()]
    yield (
        f"With {first['layers']} layers, std {float(first['std']):g} and d = {width} (dσ = "
        f"{number(first['d_sigma'], 1)}, ln n = {number(first['log_vocabulary'], 2)}), one table "
        f"starts at {joined(starts)}; with no layers it would be "
        f"{number(first['theory_second_order'], 2)}. Of the own logit, dσ, the layers keep "
        f"{joined(shares)}."
    )
    yield _washing_out(one, wanted)
    yield from _tied_or_not(rows)


def _washing_out(one: dict[str, Row], wanted: float) -> str:
    """Which branches take the effect away."""
    seeds = min(int(row["seeds"]) for row in one.values())
    if wanted < NEGLIGIBLE:
        return "At this width there is no effect that layers could take away."
    if seeds < MINIMUM_SEEDS:
        return f"{capital(counted(seeds, 'seed'))} decide nothing about what the layers take away."
    gone = [x for x, row in one.items() if excess(row) < wanted / 2]
    there = [x for x in one if x not in gone]
    parts = []
    if gone:
        parts.append(
            "The layers take most of the effect away with "
            + joined([branches(x) for x in gone])
            + (", as the reply says" if "standard" in gone else "")
        )
    if there:
        verdict = f"it is there, as {SU} says, with" if "standard" not in there else (
            "it is there, against the reply, with"
        )  # fmt: skip
        parts.append(f"{verdict} {joined([branches(x) for x in there])}")
    text = capital("; ".join(parts)) + "."
    if "inverse_sqrt_depth" in gone and "zero" in there:
        share = own_share(one["inverse_sqrt_depth"]) or 0
        text += (
            " Division by sqrt(2 layers) does not suppress branches enough for his premise: they "
            f"leave {share:.0%} of the own logit."
        )
    return text


def _tied_or_not(rows: list[Row]) -> Iterator[str]:
    """The reply's two observations at standard branches."""
    held = {row["run"]: row for row in rows if row["branch"] == "standard"}
    if not {"fixed_std", "untied_fixed_std"} <= held.keys():
        return
    tied, untied = excess(held["fixed_std"]), excess(held["untied_fixed_std"])
    slightly = 0 < tied < 1 and 0 < untied < 1
    few = min(int(row["seeds"]) for row in rows) < MINIMUM_SEEDS
    said = (
        f"With standard branches one table starts {tied:.2f} and two tables {untied:.2f} nats "
        "above ln n, "
        + ("without a claim." if few else
           "slightly above it, tied or not, as the reply observes." if slightly else
           "which is not what the reply observes (slightly above it, tied or not).")
    )  # fmt: skip
    scaled = [row for row in rows if row["run"] == "rescaled_fixed_std"]
    if scaled:
        most = max(map(excess, scaled))
        said += (
            f" With the logits divided by sqrt(d), one table starts at most {most:z.2f} nats above "
            "it, whatever the branches."
        )
    yield said
