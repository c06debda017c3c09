"""What a vocabulary table is told by its two sides: shares, agreement, coverage."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting.naming import joined, number, with_interval
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.plotting import legend, new_figure, run_styles
from tiebench.reporting.results import Results, Row

PUBLISHED_SHARE = 0.832
"""Output side of the summed row norms over the first 1,000 steps (Lopardo et al. 2026)."""
COLUMN = "a column on weight tying"
ORTHOGONAL = 0.29
"""1 - |a + b| / (|a| + |b|) of two orthogonal vectors of one length: no sign of conflict."""


def families(results: Results) -> list[str]:
    """The families of which any run has instruments."""
    return list(dict.fromkeys(row["family"] for row in results["gradients_summary"]))


def section(results: Results, family: str, title: str) -> Section:
    """Figures of cosine, share and coverage; what they say of the published claims."""
    figures = [
        Figure(
            f"{family}_gradient_cosine",
            "Cosine between the gradients that a shared table gets from its input and its output "
            "side; dashed: rows of one side permuted within bins of frequency.",
            partial(over_tokens, results, family, "cosine", "null_cosine"),
        ),
        Figure(
            f"{family}_gradient_share",
            "Share of the output side in both sums of row norms (of a shared table; with two "
            "tables, of both).",
            partial(over_tokens, results, family, "output_row_share", None, every=True),
        ),
        Figure(
            f"{family}_gradient_cosine_by_bin",
            "Cosine between both sides by the frequency of the token, mean over the steps "
            "measured.",
            partial(by_bin, results, family, "cosine"),
        ),
        Figure(
            f"{family}_gradient_coverage",
            "Rows with a gradient from the input side in one batch, by the frequency of the token; "
            "from the output side it is every row.",
            partial(by_bin, results, family, "input_coverage"),
        ),
    ]
    return Section(
        f"{family}-gradients",
        f"Do the two sides of a table pull apart?{title}",
        findings(results, family),
        figures,
        [measures(results, family)],
    )


def _mean(
    results: Results, family: str, run: str, metric: str, batch: str = "update"
) -> Row | None:
    return results.one(
        "gradients_summary", family=family, run=run, metric=metric, batch=batch, step="mean",
        bin="all",
    )  # fmt: skip


def _runs(results: Results, family: str, *, tied: bool) -> list[str]:
    rows = results.where("gradients_summary", family=family, tied=str(tied).lower())
    return list(dict.fromkeys(row["run"] for row in rows))


def findings(results: Results, family: str) -> list[str]:
    """Conflict, share and coverage, each against what was published."""
    return [
        *_conflict(results, family),
        *_share(results, family),
        *_coverage(results, family),
    ]


def _conflict(results: Results, family: str) -> list[str]:
    shared = _runs(results, family, tied=True)
    if not shared:
        return []
    parts = []
    for run in shared:
        cosine, null = (_mean(results, family, run, x) for x in ("cosine", "null_cosine"))
        if cosine is not None and null is not None:
            parts.append(
                f"{results.called(family, run)} {with_interval(cosine, 3)} (permuted "
                f"{number(null['mean'], 3)})"
            )
    said = (
        f"That the two sides of a shared table pull against each other, as {COLUMN} has it without "
        f"a measurement, was measured: mean cosine between their gradients {joined(parts)}. "
    )
    said += _verdicts(results, family)
    large = [
        f"{results.called(family, run)} {with_interval(row, 3)}"
        for run in shared
        if (row := _mean(results, family, run, "cosine", "large")) is not None
    ]
    if large:
        said += f"On a large batch: {joined(large)}."
    lost = [
        (float(row["mean"]), run)
        for run in shared
        if (row := _mean(results, family, run, "cancellation")) is not None
    ]
    worst = max(lost, default=None)
    if worst is not None:
        said += (
            f" The part that can cancel, max(0, -cosine), is at most {worst[0]:.3f} in the mean "
            f"({results.called(family, worst[1])}); the ratio of the norm of the sum to the sum of "
            f"norms is no measure of it, as orthogonal gradients lose {ORTHOGONAL} by it."
        )
    return [said.strip()]


def _verdicts(results: Results, family: str) -> str:
    """What is decided of the batch of an update, corrected over all that was measured."""
    rows = list(results.where("gradients_conflicts", family=family, batch="update"))
    names: dict[str, list[str]] = {"below": [], "above": [], "undecided": []}
    for row in rows:
        names[row["verdict"]].append(results.called(family, row["run"]))
    said = ""
    if names["below"]:
        said += f"Below that of permuted rows: {joined(names['below'])}. "
    if names["above"]:
        said += f"Above it, so that the sides agree more than chance: {joined(names['above'])}. "
    if names["undecided"]:
        few = min(int(row["seeds"]) for row in rows)
        why = f" (fewer than {MINIMUM_SEEDS} seeds: {few})" if few < MINIMUM_SEEDS else ""
        said += f"Undecided against permuted rows{why}: {joined(names['undecided'])}. "
    return said


def _share(results: Results, family: str) -> list[str]:
    parts = [
        f"{with_interval(row, 1, 100)}% in {results.called(family, run)}"
        for run in _runs(results, family, tied=True)
        if (row := _mean(results, family, run, "output_row_share")) is not None
    ]
    if not parts:
        return []
    return [
        f"The output side's share of the summed row norms is {joined(parts)}; published: "
        f"{100 * PUBLISHED_SHARE:.1f}% (Lopardo et al. 2026, the first 1,000 steps of a model of "
        "one billion parameters: another scale, tokenizer and batch)."
    ]


def _coverage(results: Results, family: str) -> list[str]:
    runs = [*_runs(results, family, tied=True), *_runs(results, family, tied=False)]
    sent = [_mean(results, family, run, "output_coverage") for run in runs]
    given = [_mean(results, family, run, "input_coverage") for run in runs]
    outputs = [float(row["mean"]) for row in sent if row is not None]
    inputs = [float(row["mean"]) for row in given if row is not None]
    if not outputs or not inputs:
        return []
    said = (
        f"In one batch {_range(outputs)} of the rows get a gradient from the output side, and "
        f"{_range(inputs)} from the input side."
    )
    if min(outputs) > max(inputs):
        said += (
            " That an output row gets a gradient only when its token is the target, as a tutorial "
            "on weight tying says, is wrong: the softmax reaches every row; it is the input row "
            "that waits for its token."
        )
    untied = _runs(results, family, tied=False)
    moved = [
        float(row["mean"])
        for run in untied
        if (row := _mean(results, family, run, "input_updated")) is not None
    ]
    if moved:
        said += (
            f" Of an input table of its own an update moves {_range(moved)} of the rows: Adam's "
            "averages go on after a gradient, and a penalty reaches every row."
        )
    return [said]


def _range(shares: list[float]) -> str:
    """`26.4%`, or `26.4 to 30.1%`."""
    low, high = f"{100 * min(shares):.1f}", f"{100 * max(shares):.1f}"
    return f"{low}%" if low == high else f"{low} to {high}%"


def measures(results: Results, family: str) -> Table:
    """The means over steps, all rows of the table."""
    shown = {
        "cosine": (3, 1), "null_cosine": (3, 1), "cancellation": (3, 1),
        "output_share": (1, 100), "output_row_share": (1, 100), "input_coverage": (1, 100),
        "output_coverage": (1, 100), "input_updated": (1, 100),
    }  # fmt: skip
    rows = []
    for batch in dict.fromkeys(row["batch"] for row in results["gradients_summary"]):
        for run in (row["run"] for row in results.trained(family)):
            cells = [
                "" if (row := _mean(results, family, run, metric, batch)) is None
                else with_interval(row, digits, scale)
                for metric, (digits, scale) in shown.items()
            ]  # fmt: skip
            if any(cells):
                rows.append([results.called(family, run), batch, *cells])
    header = ["run", "batch", "cosine", "permuted", "max(0, -cos)",
              "output share, Frobenius (%)", "output share, rows (%)", "input rows reached (%)",
              "output rows reached (%)", "input rows moved (%)"]  # fmt: skip
    caption = (
        "Gradients of the input and the output side of the vocabulary tables, mean over the steps "
        "measured; intervals over seeds. Special tokens are left out."
    )
    return Table(f"{family}_gradients", caption, header, rows, long=True)


def over_tokens(
    results: Results, family: str, metric: str, null: str | None, *, every: bool = False
) -> Any:
    """A metric of the batch of the update against tokens."""
    figure, axes = new_figure()
    runs = set(_runs(results, family, tied=True))
    if every:
        runs |= set(_runs(results, family, tied=False))
    for run, style in run_styles(results, family).items():
        if run not in runs:
            continue
        points = {name: _points(results, family, run, name) for name in (metric, null) if name}
        line = {"color": style["color"], "linewidth": 1.3}
        if points[metric]:
            axes.plot(*zip(*points[metric], strict=True), label=results.called(family, run), **line)
        if null and points[null]:
            axes.plot(
                *zip(*points[null], strict=True), color=style["color"], linewidth=0.7,
                linestyle=(0, (4, 2)),
            )  # fmt: skip
    if not axes.lines:
        return None
    axes.axhline(0, color="#8a8f96", linewidth=0.8)
    axes.set_xlabel("training tokens (thousands)")
    axes.set_ylabel("cosine" if metric == "cosine" else "share of the output side")
    legend(figure, axes)
    return figure


def _points(results: Results, family: str, run: str, metric: str) -> list[tuple[float, float]]:
    rows = results.where(
        "gradients_summary", family=family, run=run, metric=metric, batch="update", bin="all"
    )
    return sorted(
        (int(row["tokens"]) / 1e3, float(row["mean"])) for row in rows if row["step"] != "mean"
    )


def by_bin(results: Results, family: str, metric: str) -> Any:
    """A metric by the frequency of the token, mean over the steps."""
    figure, axes = new_figure()
    held: dict[str, dict[str, float]] = defaultdict(dict)
    for row in results.where(
        "gradients_summary", family=family, metric=metric, batch="update", step="mean"
    ):
        if row["bin"] != "all" and (row["tied"] == "true" or metric != "cosine"):
            held[row["run"]][row["bin"]] = float(row["mean"])
    bins = list(
        dict.fromkeys(row["bin"] for row in results["gradients_summary"] if row["bin"] != "all")
    )
    for run, style in run_styles(results, family).items():
        points = [(index, held[run][x]) for index, x in enumerate(bins) if x in held.get(run, {})]
        if points:
            axes.plot(*zip(*points, strict=True), label=results.called(family, run), **style)
    if not axes.lines:
        return None
    axes.set_xticks(range(len(bins)), bins, fontsize=9)
    axes.set_xlabel("occurrences of the token in the training part")
    axes.set_ylabel("cosine" if metric == "cosine" else "share of rows")
    legend(figure, axes)
    return figure
