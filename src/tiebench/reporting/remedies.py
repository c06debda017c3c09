"""The study `remedies`: where shared tables start, how fast each remedy learns, where runs end."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import remedies_figures as figures
from tiebench.reporting.estimates import bands, over, spread
from tiebench.reporting.naming import capital, difference, number, plain, with_interval
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.remedies_findings import difference_text, findings, rows_of, summary_of
from tiebench.reporting.results import Results, Row

METRICS = {"area": "mean loss on the way", "loss": "final loss"}
CLAIMS = {
    "slowest": "ln(n)/d is slowest",
    "alike": "the other remedies are as fast as each other",
    "finals": "all remedies end alike",
    "control": "a remedy against its control",
    "standard": "remedies against one table, with standard branches",
}


def section(results: Results, family: str, title: str) -> Section:
    """Initial losses, curves from the start, and differences from one table."""
    lines = spread(results, family, "Lines")
    shown = [
        Figure(
            f"{family}_remedies_initial",
            f"Loss before training (points) and theory for branches that start at zero (bars). "
            f"Dotted: ln n. {lines}",
            partial(figures.initial, results, family),
        ),
        Figure(
            f"{family}_remedies_curves",
            f"Validation loss from the start, tokens on a logarithmic scale. "
            f"{bands(results, family)}",
            partial(figures.curves, results, family),
        ),
        *(
            Figure(
                f"{family}_remedies_{metric}",
                f"{capital(what)} minus that of {results.called(family, results.baseline(family))}"
                f", paired by seed. {lines}",
                partial(figures.differences, results, family, metric),
            )
            for metric, what in METRICS.items()
        ),
    ]
    return Section(
        f"{family}-remedies",
        f"Remedies for a high initial loss{title}",
        findings(results, family),
        shown,
        [overview(results, family), verdicts(results, family)],
        notes(results, family),
    )


def notes(results: Results, family: str) -> list[str]:
    """How runs were made comparable, and how they are judged."""
    rates = {(row["learning_rate"], row["table_learning_rate"]) for row in rows_of(results, family)}
    one = len(rates) == 1
    return [
        "Mean loss on the way: the area under the validation curve over the training tokens, from "
        "the loss before training on. It is of the whole training, so that it is judged although "
        "curves still fall; final losses are judged where they have flattened.",
        f"{'All runs have one pair of rates' if one else 'Each run has its own pair of rates'} "
        "(learning rate, multiplier for the vocabulary table); the pilot among the sweeps shows "
        "what it would choose.",
        "Claims are corrected for the number of their pairs. Alike: the corrected test of "
        "equivalence within the margin that was stated before any run.",
    ]


def overview(results: Results, family: str) -> Table:
    """Every run: where it starts, its way, where it ends."""
    shares = sorted(
        {r["metric"] for r in results.where("remedies_summary", family=family)
         if r["metric"].startswith("loss_at_")},
        key=lambda metric: float(metric.removeprefix("loss_at_")),
    )  # fmt: skip
    tokens = int(results.run(family, results.baseline(family))["tokens"])
    rows = []
    for row in rows_of(results, family):
        found = {
            metric: summary_of(results, family, row["run"], metric)
            for metric in ("initial_loss", *shares, "area", "loss")
        }
        cells = [results.called(family, row["run"]), plain(row["branch"])]
        cells += [number(row["d_sigma"], 2), _cell(found["initial_loss"], 2)]
        cells += [number(row["theory"], 2)]
        cells += [_cell(found[metric], 3) for metric in shares]
        for metric in METRICS:
            held = found[metric]
            cells += [_cell(held, 3), "" if held is None else difference(held, 3)]
        rate = f"{float(row['learning_rate']):g} × {float(row['table_learning_rate']):g}"
        rows.append([*cells, rate])
    at = [f"at {float(x.removeprefix('loss_at_')) * tokens / 1e3:,.0f}k tokens" for x in shares]
    header = ["run", "branches", "d sigma", "initial loss", "theory", *at]
    header += [x for what in METRICS.values() for x in (what, "minus baseline")]
    log = number(rows_of(results, family)[0]["log_vocabulary"], 2)
    caption = (
        f"Validation losses in nats; {over(results, family)}. ln n is {log}. Rates: learning rate "
        "times multiplier for the vocabulary table. Token counts were fixed beforehand."
    )
    return Table(f"{family}_remedies", caption, [*header, "rates"], rows)


def _cell(row: Row | None, digits: int) -> str:
    return "" if row is None else with_interval(row, digits)


def verdicts(results: Results, family: str) -> Table:
    """Every pair of a claim."""
    rows = [
        [
            CLAIMS[row["claim"]],
            METRICS[row["metric"]],
            f"{results.called(family, row['first'])} − {results.called(family, row['second'])}",
            difference_text(row),
            number(row["detectable"], 3),
            number(row["p_adjusted"], 4),
            number(row["p_equivalence_adjusted"], 4),
            row["verdict"],
            results.reason(family, row["reason"]),
        ]
        for row in results.where("remedies_pairs", family=family)
    ]
    header = ["claim", "metric", "pair", "difference", "smallest detectable", "p, corrected",
              "p of equivalence, corrected", "verdict", "why"]  # fmt: skip
    caption = "Differences in nats with 95% t intervals over seeds, and a verdict on each."
    return Table(f"{family}_remedies_pairs", caption, header, rows, long=True)
