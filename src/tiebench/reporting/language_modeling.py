"""What the runs have learned: loss and accuracy on the validation part."""

from __future__ import annotations

import math
from functools import partial

from tiebench.reporting import curves, dots
from tiebench.reporting.estimates import CUT, bands, differences, over, paired_by_seed, value
from tiebench.reporting.naming import (
    amount,
    capital,
    difference,
    joined,
    language,
    number,
    percent,
    with_interval,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row


def section(results: Results, family: str, title: str) -> Section:
    """Curves, loss by group, and the differences between the runs."""
    lines = {"validation": "; the dashed line is the unigram loss", "training": ""}
    shown = [
        Figure(
            f"{family}_{split}_loss",
            f"{split.capitalize()} loss against training tokens{line}. {bands(results, family)} "
            f"{_start(results, family)}",
            partial(curves.learning_curves, results, family, f"{split}_loss"),
        )
        for split, line in lines.items()
    ]
    shown += [
        Figure(
            f"{family}_loss_by_operations",
            "Validation loss against the floating-point operations of training (matrix products, "
            "forward and backward): a wide output costs more per token. "
            f"{bands(results, family)}",
            partial(curves.learning_curves, results, family, "validation_loss", operations=True),
        ),
        Figure(
            f"{family}_loss_by_bin",
            "Validation loss by the frequency of the predicted token in the training part.",
            partial(curves.loss_by_frequency, results, family),
        ),
        Figure(
            f"{family}_loss_by_language",
            "Validation loss by language, trained runs.",
            partial(dots.loss_by_language, results, family),
        ),
    ]
    told = findings(results, family)
    rates = [shared_rate(results, x) for x in (results.trained(family),) if x]
    by_group = (loss_by_group(results, family, group) for group in ("bin", "language"))
    return Section(
        f"{family}-language-modeling",
        f"Language modeling{title}",
        told,
        shown,
        [losses(results, family), *filter(None, by_group)],
        [rate for rate in rates if rate not in told],
    )


def _start(results: Results, family: str) -> str:
    """Where the runs start, as measured."""
    rows = results.where("summary", family=family, metric="initial_loss")
    initial = [float(row["mean"]) for row in rows]
    entries = int(results.runs(family)[0]["vocabulary"])
    low, high = f"{min(initial):.2f}", f"{max(initial):.2f}"
    return (
        f"The start, {low if low == high else f'{low} to {high}'} nats (the logarithm of the "
        f"vocabulary is {math.log(entries):.2f}), is cut off once the runs are below the unigram "
        "loss."
    )


def findings(results: Results, family: str) -> list[str]:
    """The best run, how the runs differ from the baseline, and what that does not say."""
    trained = results.trained(family)
    losses = {row["run"]: results.summary(family, row["run"], "loss") for row in trained}
    held = {run: row for run, row in losses.items() if row is not None}
    if not held:
        return ["No run of this report is trained."]
    unigram = results.summary(family, next(iter(held)), "unigram_loss")
    assert unigram is not None
    best = min(held, key=lambda run: float(held[run]["mean"]))
    gap = float(unigram["mean"]) - float(held[best]["mean"])
    first = (
        f"After {amount(float(trained[0]['tokens']))} tokens the lowest validation loss is that of "
        f"{results.called(family, best)}, {value(held[best], 3)} nats per predicted token, "
        f"{abs(gap):.2f} {'below' if gap > 0 else 'above'} what token frequencies of each "
        f"language alone give ({number(unigram['mean'], 2)})."
    )
    caveat = shared_rate(results, trained)
    above = [
        results.called(family, run)
        for run, row in held.items()
        if float(row["mean"]) >= float(unigram["mean"])
    ]
    if above:
        verb = "has" if len(above) == 1 else "have"
        caveat = (
            f"{capital(joined(above))} {verb} not passed the unigram loss: at this budget "
            "the comparison says nothing about what these couplings can learn."
        )
    return [first, *differences(results, family, held, "nats", 3), caveat]


def shared_rate(results: Results, trained: list[Row]) -> str:
    """What the learning rates mean for the differences between couplings."""
    rates = sorted({row["learning_rate"] for row in trained}, key=float)
    if len(rates) > 1:
        return (
            f"The runs have learning rates of their own, {rates[0]} to {rates[-1]}. At this "
            "budget, differences in loss compare how fast the couplings learn, each under its rate."
        )
    rate = rates[0]
    return (
        f"One learning rate, {rate}, served all couplings. At this budget, differences in loss "
        "compare how fast the couplings learn under that rate."
    )


def losses(results: Results, family: str) -> Table:
    """Validation loss and accuracy of every run, and the difference from the baseline."""
    measured = results.summary(family, results.runs(family)[0]["run"], "bits_per_byte")
    rows = []
    for run in (row["run"] for row in results.all_runs(family)):
        loss = results.summary(family, run, "loss")
        accuracy = results.summary(family, run, "accuracy")
        bits = results.summary(family, run, "bits_per_byte")
        assert loss is not None and accuracy is not None
        rows.append(
            [
                results.called(family, run),
                with_interval(loss, 3),
                difference(loss, 3),
                number(loss["detectable"], 3),
                percent(accuracy),
                difference(accuracy, 1, 100),
                *([with_interval(bits, 3)] if bits else []),
            ]
        )
    header = ["run", "loss (nats)", "minus baseline", "smallest detectable", "accuracy (%)",
              "minus baseline (points)", *(["bits per byte"] if measured else [])]  # fmt: skip
    caption = (
        "Validation loss and accuracy at the fixed predictions that all runs share; "
        f"{over(results, family, matched=True)}. {paired_by_seed(results, family)}{CUT}"
    )
    return Table(f"{family}_language_modeling", caption, header, rows)


def loss_by_group(results: Results, family: str, group: str) -> Table | None:
    """Loss by `language` or by frequency `bin`, a column per group."""
    other = "bin" if group == "language" else "language"
    held: dict[str, dict[str, Row]] = {}
    for row in results.where("language_modeling_summary", family=family, **{other: "all"}):
        if row[group] != "all" and row["metric"] in ("loss", "predicted_tokens"):
            held.setdefault(row[group], {})[f"{row['metric']} {row['run']}"] = row
    if not held:
        return None
    runs = [row["run"] for row in results.all_runs(family)]
    rows = [
        [
            results.called(family, run),
            *(with_interval(cells[f"loss {run}"], 2) for cells in held.values()),
        ]
        for run in runs
    ]
    counts = [cells[f"predicted_tokens {runs[0]}"]["mean"] for cells in held.values()]
    rows.append(["predictions", *(number(count, 0) for count in counts)])
    names = [language(key) if group == "language" else key for key in held]
    what = "language" if group == "language" else "occurrences of the token in the training part"
    caption = f"Validation loss (nats) by {what}; {over(results, family, matched=True)}."
    return Table(f"{family}_loss_by_{group}", caption, ["run", *names], rows)
