"""What the sweeps say, in sentences made from their tables."""

from __future__ import annotations

from itertools import pairwise

from tiebench.analysis.statistics import (
    MINIMUM_SEEDS,
    PairedDifference,
    paired_difference,
    shared_seeds,
)
from tiebench.reporting.estimates import seeds_of
from tiebench.reporting.naming import counted, joined, plain, signed
from tiebench.reporting.results import Results, Row

LOST = 0.01
"""A share of a gradient's entries below which their loss is called slight."""


def sweeps_of(results: Results, table: str) -> list[str]:
    """The sweeps that a table is about."""
    return list(dict.fromkeys(row["sweep"] for row in results[table]))


def fixed_of(results: Results, sweep: str) -> str:
    """The axes of a sweep that have one value, in words."""
    values: dict[str, dict[str, None]] = {}
    for row in results.where("sweep_points", sweep=sweep):
        values.setdefault(row["axis"], {})[row["value"]] = None
    held = [f"{axis_name(x)} {plain(*found)}" for x, found in values.items() if len(found) == 1]
    return f"all trainings have {joined(held)}" if held else ""


def findings(results: Results) -> list[str]:
    """One or two sentences on each sweep."""
    said = [_chosen(results, sweep) for sweep in sweeps_of(results, "sweep_choices")]
    said += [_stable(results, sweep) for sweep in sweeps_of(results, "stability")]
    said += [_regularized(results, sweep) for sweep in sweeps_of(results, "regularization")]
    said += [_lost(results, sweep) for sweep in sweeps_of(results, "underflow")]
    return said


def _chosen(results: Results, sweep: str) -> str:
    """Which runs use other rates than the pilot chooses."""
    rows = list(results.where("sweep_choices", sweep=sweep))
    runs = list(dict.fromkeys(row["run"] for row in rows))
    differing = {}
    for run in runs:
        other = [row for row in rows if row["run"] == run and row["same"] == "false"]
        if other:
            differing[run] = joined(
                [f"{axis_name(x['axis'])} {x['chosen']} where {x['used']} is used" for x in other]
            )
    broken = [plain(run) for run in runs
              if all(not row["chosen"] for row in rows if row["run"] == run)]  # fmt: skip
    steps = rows[0]["steps"]
    start = f"The {plain(sweep)} (trainings of {counted(int(steps), 'update')})"
    parts = []
    if not differing and not broken:
        return f"{start} chooses the rates that are used for {_all(runs)}."
    if differing:
        told = [f"{plain(run)} ({text})" for run, text in differing.items()]
        parts.append(
            f"chooses other rates than are used for {len(differing)} of "
            f"{counted(len(runs), 'run')}: {joined(told)}"
        )
    if broken:
        parts.append(f"has no training that went to its end for {joined(broken)}")
    return f"{start} {'; it '.join(parts)}."


def _all(runs: list[str]) -> str:
    return plain(runs[0]) if len(runs) == 1 else f"all {len(runs)} runs in it"


def axis_name(name: str) -> str:
    """`training.learning_rate` as `learning rate`."""
    return plain(name.partition(".")[2])


def _stable(results: Results, sweep: str) -> str:
    """By run, where trainings first break or end above the unigram loss, and spikes."""
    rows = list(results.where("stability", sweep=sweep))
    runs = list(dict.fromkeys(row["run"] for row in rows))
    told = []
    for run in runs:
        of = [row for row in rows if row["run"] == run]
        broke = [row for row in of if float(row["broke"]) > 0]
        above = [row for row in of if float(row["diverged"]) > float(row["broke"])]
        spiked = sum(float(row["spikes"] or 0) * float(row["seeds"]) for row in of)
        parts = []
        if broke:
            first = min(broke, key=lambda row: float(row["learning_rate"]))
            parts.append(f"breaks (not finite) from learning rate {first['learning_rate']} on")
        if above:
            rates = joined([_often(row) for row in above])
            parts.append(f"ends above the loss of token frequencies at {rates}")
        if not parts:
            parts.append("diverges at no rate")
        spikes = counted(round(spiked), "spike") if round(spiked) else "no spikes"
        told.append(f"{plain(run)} {joined(parts)}, with {spikes}")
    few = _few(rows)
    return f"Stability ({_length(rows)}): {'; '.join(told)}.{few}"


def _often(row: Row) -> str:
    """A learning rate at which trainings end too high, and how many of them do."""
    share, seeds = float(row["diverged"]) - float(row["broke"]), int(row["seeds"])
    often = "" if share == 1 else f" ({round(share * seeds)} of {seeds})"
    return f"{row['learning_rate']}{often}"


def _length(rows: list[Row]) -> str:
    steps = sorted({int(row["steps"]) for row in rows})
    text = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    return f"trainings of {text} updates, {seeds_of(int(rows[0]['seeds']))}"


def _few(rows: list[Row]) -> str:
    few = int(rows[0]["seeds"]) < MINIMUM_SEEDS
    return f" Fewer than {MINIMUM_SEEDS} seeds: no claim." if few else ""


def _regularized(results: Results, sweep: str) -> str:
    """Whether the gap of a run is smaller than the first run's, by verdict or in the mean."""
    rows = [row for row in results.where("regularization", sweep=sweep) if row["verdict"]]
    every = list(results.where("regularization", sweep=sweep))
    start = f"Regularization ({_length(every)}):"
    if not rows:
        return f"{start} no two runs are compared."
    base = rows[0]["baseline"]
    shares = [float(row["data_share"]) for row in every]
    small = [row for row in rows if float(row["data_share"]) == min(shares)]
    at = [
        f"{plain(row['run'])} minus {plain(base)} {_difference(row)}"
        + (f" ({row['others']})" if row["others"] else "")
        for row in small
    ]
    passes = max(float(row["epochs"]) for row in every)
    told = (
        f"with {100 * min(shares):g}% of the text (up to {passes:.2g} passes) the gaps between "
        f"validation and training loss differ by {joined(at)} nats"
    )
    decided = [row for row in rows if row["verdict"] != "undecided"]
    if not decided:
        wider = sum(float(row["difference"]) > 0 for row in rows)
        return (
            f"{start} {told}. No verdict; in the mean, without a claim, the gap is wider than that "
            f"of {plain(base)} in {wider} of {counted(len(rows), 'comparison')}."
        )
    counts = {
        "wider": sum(x["verdict"] == "different" and float(x["difference"]) > 0 for x in decided),
        "narrower": sum(
            x["verdict"] == "different" and float(x["difference"]) < 0 for x in decided
        ),
        "alike": sum(x["verdict"] == "equivalent" for x in decided),
        "undecided": len(rows) - len(decided),
    }
    parts = [f"{kind} in {count}" for kind, count in counts.items() if count]
    return (
        f"{start} {told}. Of {counted(len(rows), 'comparison')} with {plain(base)} the gap is "
        f"{joined(parts)}."
    )


def _difference(row: Row) -> str:
    text = signed(row["difference"], 3)
    if row["difference_low"]:
        ends = (signed(row[f"difference_{end}"], 3) for end in ("low", "high"))
        text += f" ({' to '.join(ends)})"
    return text


def _lost(results: Results, sweep: str) -> str:
    """What of a gradient a format loses, at the smallest and the largest std."""
    rows = [
        row
        for row in results.where("underflow", sweep=sweep, when="start")
        if row["limit"] == "subnormal"
    ]
    told = []
    for format_ in dict.fromkeys(row["format"] for row in rows):
        of = [row for row in rows if row["format"] == format_]
        worst = max(of, key=lambda row: float(row["share"]))
        share = float(worst["share"])
        if not share:
            told.append(f"{format_} holds every entry")
        else:
            slight = ", slight" if share < LOST else ""
            at = f"at std {float(worst['deviation']):.3g}"
            told.append(f"{format_} loses up to {100 * share:.2g}% ({at}{slight})")
    half = [
        row
        for row in results.where("underflow", sweep=sweep, when="start", format="float16")
        if row["limit"] == "normal" and float(row["deviation"]) > 0
    ]
    ends = sorted(half, key=lambda row: float(row["deviation"]))
    alike = [x for x in ends if all(x[key] == ends[0][key] for key in ("run", "others"))]
    trend = _trend(results, alike) if len(alike) > 1 else ""
    return f"Gradients of the table before training, without loss scaling: {joined(told)}.{trend}"


def _trend(results: Results, points: list[Row]) -> str:
    """What float16 holds only as a subnormal number, from a run's smallest to its largest std."""
    first, last = points[0], points[-1]
    low, high = float(first["share"]), float(last["share"])
    shares = f"{100 * low:.2g}% to {100 * high:.2g}%"
    start = (
        f" From std {float(first['deviation']):.3g} to {float(last['deviation']):.3g} the share "
        "below float16's normal numbers"
    )
    found = _paired(results, first, last)
    if found is None or found.n < MINIMUM_SEEDS:
        few = seeds_of(found.n if found else int(first["seeds"]))
        return f"{start} goes from {shares} in the mean over {few}, without a claim."
    if not found.sign:
        return f"{start} is not shown to change ({shares})."
    kind = "falls" if found.sign < 0 else "rises"
    steps = [float(b["share"]) - float(a["share"]) for a, b in pairwise(points)]
    each = all(step * found.sign > 0 for step in steps)
    return f"{start} {kind} ({shares}), {'at each step' if each else 'though not at each step'}."


def _paired(results: Results, first: Row, last: Row) -> PairedDifference | None:
    """The share at the last point minus that at the first, over the seeds that both have."""
    values, others = (
        {
            int(x["seed"]): float(x["value"])
            for x in results.where(
                "sweeps", sweep=row["sweep"], run=row["run"], point=row["point"],
                metric=f"{row['format']}_below_{row['limit']}_{row['when']}",
            )
        }
        for row in (last, first)
    )  # fmt: skip
    shared = shared_seeds(values, others)
    return paired_difference(*shared) if shared[0] else None
