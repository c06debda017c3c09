"""Sweeps: what a pilot would choose, stability, regularization, gradients that underflow."""

from __future__ import annotations

from functools import partial

from tiebench.analysis.statistics import LEVEL
from tiebench.reporting import sweeps_figures as figures
from tiebench.reporting.naming import capital, number, plain, signed
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row
from tiebench.reporting.sweeps_findings import axis_name, findings, fixed_of, sweeps_of

PERCENT = f"{100 * LEVEL:g}%"


def section(results: Results) -> Section:
    """All sweeps, by purpose."""
    shown = [
        Figure(
            f"{sweep}_{name}",
            caption,
            partial(draw, results, sweep),
        )
        for table, name, caption, draw in (
            ("stability", "loss", "Validation loss at the end of short trainings by learning rate "
             "(means over the seeds that went to their end); dotted: the loss of token "
             f"frequencies. Bands: {PERCENT} t interval over seeds.", figures.stability),
            ("regularization", "gap", "Validation loss minus loss on the text trained on, by the "
             f"share of the text that is used. Bands: {PERCENT} t interval over seeds.",
             figures.regularization),
            ("underflow", "share", "Share of the entries of the table's gradient, other than "
             "exact zeros, that are below the smallest normal or the smallest number of a format, "
             "by the initial std.", figures.underflow),
        )
        for sweep in sweeps_of(results, table)
    ]  # fmt: skip
    return Section(
        "sweeps", "Sweeps", findings(results), shown,
        [table for table in (choices(results), stability(results), regularization(results),
                             underflow(results)) if table.rows],
        notes(results),
    )  # fmt: skip


def notes(results: Results) -> list[str]:
    """What the measures are, and what is held fixed."""
    fixed = [f"{capital(plain(sweep))}: {text}." for sweep in sweeps_of(results, "sweep_points")
             if (text := fixed_of(results, sweep))]  # fmt: skip
    return [
        *fixed,
        "Each training of a sweep is short, and its model is not kept: what it shows is about so "
        "many updates.",
        "A spike: an update whose training loss is more than 6 standard deviations above the mean "
        "of the 10 losses in a row, before it, whose mean is lowest. Diverged: a loss, gradient or "
        "weight is not finite, or the last validation loss is above that of token frequencies, "
        "which a training that is too short or too slow also is. Gradient norms are those before "
        "clipping.",
        "The gap is the validation loss less the final model's loss on windows of the text that it "
        "was trained on, spread as those of the validation are.",
    ]


def choices(results: Results) -> Table:
    """What the pilots choose, beside what params.yaml uses."""
    rows = [
        [
            plain(row["run"]), axis_name(row["axis"]), row["chosen"], row["used"],
            {"true": "yes", "false": "no"}.get(row["same"], ""), row["edge"],
            number(row["loss"], 3), number(row["used_loss"], 3),
        ]
        for row in results["sweep_choices"]
    ]  # fmt: skip
    header = ["run", "setting", "chosen", "used", "same", "end of the grid",
              "validation loss", "at the used rates"]  # fmt: skip
    caption = "Rates chosen by validation loss on seeds that are not reported, and those in use."
    return Table("sweep_choices", caption, header, rows)


def stability(results: Results) -> Table:
    """Losses, spikes and gradient norms by learning rate."""
    rows = [
        [
            plain(row["run"]), row["learning_rate"], row["others"], row["seeds"],
            number(row["broke"], 0, 100), number(row["diverged"], 0, 100), number(row["spikes"], 1),
            number(row["gradient_norm_mean"], 2), number(row["gradient_norm_max"], 2),
            number(row["logit_std"], 2), _estimate(row, "loss"), _difference_cell(row),
        ]
        for row in results["stability"]
    ]  # fmt: skip
    header = ["run", "learning rate", "at", "seeds", "not finite (%)", "diverged (%)", "spikes",
              "mean gradient norm", "largest", "std of the logits", "loss",
              "minus the first run"]  # fmt: skip
    caption = "Means over seeds; losses in nats, of the trainings that went to their end."
    return Table("stability", caption, header, rows)


def regularization(results: Results) -> Table:
    """Gaps between training and validation loss."""
    rows = [
        [
            plain(row["run"]), f"{100 * float(row['data_share']):g}", row["others"], row["seeds"],
            number(row["epochs"], 1), number(row["train_loss"], 3), number(row["loss"], 3),
            _estimate(row, "gap"), _difference_cell(row), number(row["detectable"], 3),
            row["verdict"], row["reason"],
        ]
        for row in results["regularization"]
    ]  # fmt: skip
    header = ["run", "text used (%)", "at", "seeds", "passes", "training loss", "validation loss",
              "gap", "gap minus the first run's", "smallest detectable", "verdict",
              "why"]  # fmt: skip
    caption = (
        "Training and validation loss (nats) of the final models, and the gap between them, with "
        f"{PERCENT} t intervals over seeds; p values of the verdicts are corrected over the sweep."
    )
    return Table("regularization", caption, header, rows)


def underflow(results: Results) -> Table:
    """Shares of small entries of the gradients."""
    rows = [
        [
            plain(row["run"]), plain(row["std"]), number(row["deviation"], 4), row["others"],
            row["format"], f"smallest {row['limit']}",
            "before training" if row["when"] == "start" else "at the end", row["seeds"],
            number(row["share"], 3, 100),
        ]
        for row in results["underflow"]
    ]  # fmt: skip
    header = ["run", "std", "value", "at", "format", "below", "when", "seeds", "entries (%)"]
    caption = (
        "Entries of the gradient of the vocabulary tables, without those that are exactly zero, "
        "that are below a limit of a format: the mean loss of one batch, in float32, without loss "
        "scaling."
    )
    return Table("underflow", caption, header, rows, long=True)


def _estimate(row: Row, metric: str) -> str:
    text = number(row[metric], 3)
    if row["low"]:
        text += f" ± {(float(row['high']) - float(row['low'])) / 2:.3f}"
    return text


def _difference_cell(row: Row) -> str:
    text = signed(row["difference"], 3)
    if row["difference_low"]:
        half = (float(row["difference_high"]) - float(row["difference_low"])) / 2
        text += f" ± {half:.3f}"
    return text
