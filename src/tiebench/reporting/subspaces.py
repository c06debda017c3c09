"""Inan et al.'s subspace experiment: how much of the output table lies outside the input table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from tiebench.paths import RECURRENT
from tiebench.reporting.curves import PUBLISHED, line
from tiebench.reporting.estimates import PERCENT, seeds_of, value
from tiebench.reporting.naming import joined, number, signed
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.plotting import COLOURS, DASHES, MARKERS, legend, new_figure
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT


def section(results: Results) -> Section:
    """The curve over the share of the augmented loss, beside the published ends, and all tables."""
    rows = results["subspaces_summary"]
    seeds = int(rows[0]["seeds"])
    bands = "One seed: no interval."
    if seeds > 1:
        bands = f"Bands: {PERCENT} t interval over {seeds_of(seeds)}."
    caption = (
        "Relative residual of the output table outside the columns of the input table, after "
        "training, by the share of the augmented loss in what is minimized. Violet: read off the "
        f"published figure. Dashed: tables of independent random rows. {bands}"
    )
    figure = Figure("subspaces", caption, partial(draw, results))
    shown = [summary(results), trends(results), published(results)]
    return Section(
        "subspaces", "Subspaces of input and output tables", findings(results), [figure], shown,
        notes(),
    )  # fmt: skip


def by_temperature(results: Results) -> Iterator[tuple[str, list[Row]]]:
    """The runs of each temperature by share, from those without the augmented loss on."""
    rows = results["subspaces_summary"]
    for row in results["subspaces_trends"]:
        held = [x for x in rows if x["temperature"] in ("", row["temperature"])]
        yield row["temperature"], sorted(held, key=lambda x: float(x["share"]))


def draw(results: Results) -> Any:
    """Residual against share, a line for each temperature."""
    figure, axes = new_figure()
    for index, (temperature, rows) in enumerate(by_temperature(results)):
        style = {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": DASHES[index // len(COLOURS) % len(DASHES)],
        }
        points = [(float(row["share"]), row) for row in rows]
        line(axes, points, f"temperature {float(temperature):g}", style)
    for index, row in enumerate(results["subspaces_published"]):
        label = "_" if index else f"published, temperature {float(row['temperature']):g}"
        axes.plot(
            float(row["share"]), float(row["published"]), color=PUBLISHED[0], marker="D",
            markerfacecolor="none", markersize=7, linestyle="", label=label,
        )  # fmt: skip
    level = float(results["subspaces_summary"][0]["chance"])
    axes.axhline(level, color=TEXT, linewidth=1, linestyle=(0, (3, 2)), label="random tables")
    axes.set_ylim(0, 1.06)
    axes.set_xlabel("share of the augmented loss (β)")
    axes.set_ylabel("residual |W − P W| / |W|")
    legend(figure, axes)
    return figure


def findings(results: Results) -> list[str]:
    """How far the residual falls, what of the loss is left, and the published ends."""
    said = []
    for row in results["subspaces_trends"]:
        ends = [
            next(x for x in results["subspaces_summary"] if float(x["share"]) == float(row[key])
                 and x["temperature"] in ("", row["temperature"]))
            for key in ("from_share", "to_share")
        ]  # fmt: skip
        said.append(
            f"At temperature {float(row['temperature']):g}, the residual is "
            f"{number(ends[0]['mean'], 3)} without the augmented loss and "
            f"{number(ends[1]['mean'], 3)} where it has {100 * float(row['to_share']):g}% "
            f"({_difference(row)} in the mean over {seeds_of(int(row['seeds']))}; rank "
            f"correlation of share and residual over {row['runs']} runs "
            f"{signed(row['spearman'], 2)})."
        )
    held = [x for x in results["subspaces_published"] if x["run"]]
    if held:
        pairs = [
            f"{number(x['ours'], 2)} beside {number(x['published'], 2)} at share "
            f"{float(x['share']):g}"
            for x in held
        ]
        said.append(
            f"Of {held[0]['source']}, temperature {float(held[0]['temperature']):g}, ours beside "
            f"what is read off the figure: {joined(pairs)}."
        )
    learnt = [x for x in results["subspaces_summary"] if x["augmented_loss"]]
    least = min(learnt, key=_left, default=None)
    most = max(learnt, key=_left, default=None)
    if least is not None and most is not None:
        said.append(
            "The theory is about a loss of zero. What is left of the augmented loss after training "
            f"is {number(str(_left(least)), 2)} to {number(str(_left(most)), 2)} times that of the "
            "best prediction that is the same for every word."
        )
    return said


def _left(row: Row) -> float:
    return float(row["augmented_loss"]) / float(row["augmented_constant"])


def _difference(row: Row) -> str:
    text = signed(row["difference"], 3)
    if row["low"]:
        text += f", {signed(row['low'], 3)} to {signed(row['high'], 3)}"
    return text


def summary(results: Results) -> Table:
    """Residuals and losses by run."""
    rows = [
        [
            results.called(RECURRENT, row["run"]), number(row["share"], 2),
            f"{float(row['temperature']):g}" if row["temperature"] else "", row["seeds"],
            value(row, 3), number(row["initial_residual"], 3), number(row["chance"], 3),
            number(row["cross_entropy"], 3), number(row["augmented_loss"], 3),
            number(row["augmented_constant"], 3),
        ]
        for row in results["subspaces_summary"]
    ]  # fmt: skip
    header = ["run", "β", "temperature", "seeds", "residual", "before training", "random tables",
              "cross-entropy", "augmented loss", "of one prediction for all"]  # fmt: skip
    caption = (
        f"Relative residual with its {PERCENT} t interval over seeds, and what is left of the "
        "losses after training, in nats per word of the training text, read in parts side by side "
        "as in training; the augmented loss times temperature² times vocabulary, as it is "
        "minimized, beside the least that it is where every word is predicted alike."
    )
    return Table("subspaces", caption, header, rows)


def trends(results: Results) -> Table:
    """The ends of each curve."""
    rows = [
        [
            f"{float(row['temperature']):g}", row["runs"], row["seeds"],
            number(row["from_share"], 2), number(row["to_share"], 2), _difference(row),
            number(row["p"], 4), signed(row["spearman"], 2),
        ]
        for row in results["subspaces_trends"]
    ]  # fmt: skip
    header = ["temperature", "runs", "seeds", "from β", "to β", "difference", "p",
              "rank correlation"]  # fmt: skip
    caption = (
        "Residual at the largest share minus that without the augmented loss, paired by seed, "
        f"with the {PERCENT} t interval; rank correlation of share and residual over the runs, in "
        "the mean over seeds."
    )
    return Table("subspaces_trends", caption, header, rows)


def published(results: Results) -> Table:
    """Published ends beside ours."""
    rows = [
        [
            f"{row['source']}, {row['place']}", f"{float(row['temperature']):g}",
            number(row["share"], 2), number(row["published"], 2),
            results.called(RECURRENT, row["run"]) if row["run"] else "", row["seeds"],
            value({**row, "mean": row["ours"]}, 3) if row["run"] else "", row["reason"],
        ]
        for row in results["subspaces_published"]
    ]  # fmt: skip
    header = ["source", "temperature", "β", "read off the figure", "our run", "seeds", "ours",
              "why none"]  # fmt: skip
    caption = "The ends of the published curve (read off a figure, approximate) and ours."
    return Table("subspaces_published", caption, header, rows)


def notes() -> list[str]:
    """What is measured, and how."""
    return [
        "With L the input table and W the output table `[words, width]`, P projects onto the "
        "columns of L, which are the row space of the paper's L: the residual is 0 where W is L A "
        "for a square A, and about the root of 1 − width / words for independent random tables. "
        "Rows are those of the words of the training text.",
        "Where the augmented loss has all the weight, a stationary point for W has its columns "
        "among those of L at high temperatures, whatever loss is left; what W starts as outside "
        "them fades at the pace at which states vary. Where it has some of the weight, the "
        "cross-entropy moves W out of them as long as it is above zero.",
        "Losses are those of the final weights, from a state of zeros at the start of each part. "
        "Where the first words of a part drive the cell state away, the loss of that part stays "
        "high, and the mean lies above the training loss of the last epoch.",
    ]
