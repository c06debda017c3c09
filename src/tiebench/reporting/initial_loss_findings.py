"""What the initial losses say, as the tables have it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting.estimates import seeds_of
from tiebench.reporting.initial_loss_deep import deep_findings
from tiebench.reporting.initial_loss_results import (
    NEGLIGIBLE,
    SU,
    called,
    excess,
    identity,
    of_run,
    point,
    sizes,
    width_of,
)
from tiebench.reporting.naming import (
    capital,
    joined,
    number,
    plain,
    signed,
    whole,
    with_interval,
)
from tiebench.reporting.results import Results, Row

EFFECT = 2.0
"""How many times ln n the product d sigma is where the effect is plain."""
REMEDIES = ("untied", "orthogonal", "half_swap", "channel_shuffle", "bert_head")
SAME_VALUES = ("shared_initialization", "linear_map")


def findings(results: Results) -> list[str]:
    """Agreement with theory, where the effect is, what removes it, and what a deep body does."""
    told = [*_agreement(results), *_effect(results), *_repeats(results)]
    if _seeds(results) < MINIMUM_SEEDS:
        return [*told, *_few(results), *deep_findings(results)]
    return [
        *told,
        *_remedies(results),
        *_same_values(results),
        *_variance(results),
        *_rescaled(results),
        *_log_vocabulary(results),
        *deep_findings(results),
        *_moments(results),
    ]


def _seeds(results: Results) -> int:
    """Seeds of every point without a body and of every moment."""
    rows = [*identity(results), *results["initial_loss_moments"]]
    return min((int(row["seeds"]) for row in rows), default=0)


def _few(results: Results) -> Iterator[str]:
    """How far above ln n runs start, where too few seeds decide what that shows."""
    held: dict[str, list[float]] = defaultdict(list)
    for row in identity(results):
        held[called(row["run"])].append(excess(row))
    if held:
        ends = {run: (f"{min(x):z.2f}", f"{max(x):z.2f}") for run, x in held.items()}
        shown = joined([f"{run} {' to '.join(dict.fromkeys(x))}" for run, x in ends.items()])
        yield (
            f"Nats above ln n at the start, over all widths, in the mean over "
            f"{seeds_of(_seeds(results))}, without a claim: {shown}."
        )


def _agreement(results: Results) -> Iterator[str]:
    rows = [row for row in identity(results) if row["relative_difference"]]
    if not rows:
        return
    off = [row for row in rows if row["agrees"] == "false"]
    tolerance = float(rows[0]["tolerance"])
    first = [abs(float(r["mean"]) / float(r["theory"]) - 1) <= tolerance for r in rows]
    worst = max(rows, key=lambda row: abs(float(row["relative_difference"])))
    said = (
        f"With no layers between the tables, {len(rows) - len(off)} of {len(rows)} points lie "
        f"within {tolerance:.0%} of theory to second order; the largest difference is "
        f"{signed(worst['relative_difference'], 1, 100)}% ({point(worst)}). {SU} computes to first "
        f"order, log(e^(dσ) + n - 1), to which {sum(first)} of them are as near."
    )
    noise = [row for row in off if _covers(row)]
    other = [row for row in off if not _covers(row)]
    if noise:
        said += (
            f" Of those outside, the interval over seeds covers theory at {_points(noise)}: noise "
            "of few tokens and seeds is enough of a reason."
        )
    if other:
        said += f" Outside for no reason in the tables: {_points(other)}."
    yield said


def _covers(row: Row) -> bool:
    if not row["low"]:
        return False
    return float(row["low"]) <= float(row["theory_second_order"]) <= float(row["high"])


def _points(rows: list[Row]) -> str:
    return joined([point(row) for row in rows])


def _effect(results: Results) -> Iterator[str]:
    """From which width on a shared table starts far above ln n."""
    for run in ("tied", "fixed_std"):
        rows = of_run(results, run)
        if not rows:
            continue
        std = "1/sqrt(d)" if run == "tied" else f"{float(rows[0]['std']):g}"
        said = []
        for size in sizes(results):
            held = [row for row in rows if row["vocabulary"] == size]
            plainly = [
                int(row["width"])
                for row in held
                if float(row["d_sigma"]) >= EFFECT * float(row["log_vocabulary"])
            ]
            if held:
                where = f"d = {min(plainly)}" if plainly else "no width here"
                said.append(f"from {where} at n = {whole(size)}" if plainly else
                            f"at {where} where n = {whole(size)}")  # fmt: skip
        worst = max(rows, key=excess)
        yield (
            f"One table with std {std} has dσ of at least {EFFECT:g} ln n {joined(said)}. The "
            f"highest start is {with_interval(worst, 2)} nats, where ln n is "
            f"{number(worst['log_vocabulary'], 2)} ({point(worst)})."
        )


def _repeats(results: Results) -> Iterator[str]:
    """What the assumption that no token repeats the one before leaves out."""
    shares = {
        row["corpus"]: float(row["value"])
        for row in results["corpus"]
        if row["metric"] == "repeated_token_share" and row["language"] == "all"
    }
    rows = of_run(results, "tied")
    if not shares or not rows:
        return
    corpus, share = max(shares.items(), key=lambda held: held[1])
    worst = max(rows, key=excess)
    less = share * float(worst["d_sigma"])
    yield (
        f"The inputs are tokens drawn at random and no target equals its input, as {SU} assumes. "
        f"In the texts of this report up to {100 * share:.1f}% of the tokens repeat the one before "
        f"({plain(corpus)}); each has its own logit, dσ, to its advantage, which would take at "
        f"most {less:.2f} nats off ({point(worst)})."
    )


def _remedies(results: Results) -> Iterator[str]:
    tied = of_run(results, "tied")
    held = [run for run in REMEDIES if of_run(results, run)]
    if not tied or not held:
        return
    rows = [row for run in held for row in of_run(results, run)]
    low, high = min(map(excess, rows)), max(map(excess, rows))
    most = max(map(excess, tied))
    verdict = (
        f"far below the {most:.1f} of one table" if high < most / 2
        else f"which is not far below the {most:.1f} of one table"
    )  # fmt: skip
    yield (
        f"{capital(SU)}'s countermeasures that keep the std ({joined([called(x) for x in held])}) "
        f"start {low:.2f} to {high:.2f} nats above ln n at every width, {verdict}."
    )


def _same_values(results: Results) -> Iterator[str]:
    """Initial values decide, not the sharing of parameters."""
    tied = {(row["vocabulary"], row["width"]): row for row in of_run(results, "tied")}
    for run in SAME_VALUES:
        rows = [row for row in of_run(results, run) if (row["vocabulary"], row["width"]) in tied]
        if not rows:
            continue
        most = max(
            abs(float(row["mean"]) - float(tied[row["vocabulary"], row["width"]]["mean"]))
            for row in rows
        )
        what = {
            "shared_initialization": "Two tables that begin with the same values have",
            "linear_map": "One table behind a map that begins as the identity (W = EA) has",
        }[run]
        yield (
            f"{what} the initial loss of one table (within {most:.2f} nats): the initial values "
            "decide, not what is trained as one."
            if most < NEGLIGIBLE
            else f"{what} another initial loss than one table, by up to {most:.2f} nats."
        )


def _variance(results: Results) -> Iterator[str]:
    """The excess of two tables, which first order leaves out."""
    for run in ("untied", "untied_fixed_std"):
        rows = of_run(results, run)
        if not rows:
            continue
        wide = [row for row in rows if row["width"] == max(rows, key=width_of)["width"]]
        by_theory = float(wide[0]["d_sigma"]) * float(wide[0]["std"]) / 2
        found = sum(map(excess, wide)) / len(wide)
        near = abs(found - by_theory) < max(NEGLIGIBLE, by_theory / 4)
        yield (
            f"Two tables ({called(run)}) start {found:.2f} nats above ln n at d = "
            f"{wide[0]['width']}. First order has 0 there; half of the variance of the logits, "
            f"dσ²/2, is {by_theory:.2f}, which "
            + ("accounts for it." if near else "does not account for it.")
        )


def _rescaled(results: Results) -> Iterator[str]:
    """Whether e^(sigma sqrt d) is negligible beside n, by std."""
    said: dict[bool, list[str]] = defaultdict(list)
    for run in ("rescaled", "rescaled_fixed_std", "std_1_rescaled"):
        rows = of_run(results, run)
        if rows:
            worst = max(rows, key=excess)
            said[excess(worst) < NEGLIGIBLE].append(
                f"{_std(rows)} (at most {excess(worst):z.2f} nats above ln n)"
            )
    if not said:
        return
    text = "With the logits divided by sqrt(d), the term e^(σ sqrt(d)) is "
    parts = []
    if said[True]:
        parts.append(f"negligible, as the reply says, with {joined(said[True])}")
    if said[False]:
        parts.append(f"not negligible with {joined(said[False])}")
    yield text + "; it is ".join(parts) + "." + _same_as_tied(results)


def _std(rows: list[Row]) -> str:
    stds = {float(row["std"]) for row in rows}
    if len(stds) == 1:
        return "T5's std 1" if stds == {1.0} else f"std {stds.pop():g}"
    inverse = all(abs(float(row["std"]) * float(row["d_sigma"]) - 1) < 1e-4 for row in rows)
    return "std 1/sqrt(d)" if inverse else "several stds"


def _same_as_tied(results: Results) -> str:
    one, other = (of_run(results, run) for run in ("tied", "std_1_rescaled"))
    held = {(row["vocabulary"], row["width"]): float(row["mean"]) for row in one}
    pairs = [
        (float(row["mean"]), held[row["vocabulary"], row["width"]])
        for row in other
        if (row["vocabulary"], row["width"]) in held
    ]
    if not pairs or not all(math.isclose(a, b, rel_tol=1e-4) for a, b in pairs):
        return ""
    return (
        " T5's pair of std 1 and division is one table with std 1/sqrt(d) and no division: both "
        "have an own logit of sqrt(d), and start with the same loss."
    )


def _log_vocabulary(results: Results) -> Iterator[str]:
    rows = of_run(results, "log_vocabulary")
    if not rows:
        return
    differences = [float(row["mean"]) - float(row["theory"]) for row in rows]
    worst = max(rows, key=lambda row: abs(float(row["mean"]) - float(row["theory"])))
    second = float(worst["theory_second_order"]) - float(worst["theory"])
    yield (
        "With std ln(n)/d, e^(dσ) is n and the loss starts at ln(2n - 1), ln 2 above ln n, and "
        f"not at ln n: measured {min(differences):+.2f} to {max(differences):+.2f} nats from that. "
        f"The farthest ({point(worst)}) has {second:+.2f} by second order."
    )


def _moments(results: Results) -> Iterator[str]:
    rows = [
        row for row in results["initial_loss_moments"]
        if row["quantity"] == "product" and row["metric"] == "variance"
    ]  # fmt: skip
    if not rows:
        return
    off = max(abs(float(row["mean"]) / float(row["theory"]) - 1) for row in rows)
    cubes = [abs(math.log(float(r["mean"]) * int(r["width"]) ** 3)) for r in rows]
    lines = [abs(math.log(float(r["mean"]) * int(r["width"]))) for r in rows]
    text = "The variance of the inner product of two rows with σ² = 1/d is dσ⁴ = 1/d"
    if all(line < cube for line, cube in zip(lines, cubes, strict=True)):
        kinds = len({row["distribution"] for row in rows})
        yield (
            f"{text}, not 1/d³ as the text of {SU} has it: measured within {100 * off:.1f}% of 1/d "
            f"for all {kinds} distributions."
        )
    else:
        yield f"{text} by theory; measured, it is up to {100 * off:.0f}% from that."
