"""Tables of probing, and the numbers that they share with the text."""

from __future__ import annotations

from functools import partial

from tiebench.analysis.statistics import PairedDifference
from tiebench.reporting import label_sets
from tiebench.reporting.estimates import (
    CUT,
    PERCENT,
    alone,
    drawn_over,
    over,
    percent_and_sampled,
    points,
)
from tiebench.reporting.naming import (
    BASELINES,
    percent,
    probe,
    task,
    with_interval,
)
from tiebench.reporting.parts import Table
from tiebench.reporting.results import Results, Row

MIX = {"probe": "mix", "metric": "accuracy"}


def minus_control(
    results: Results, family: str, run: str, labels: str, name: str
) -> PairedDifference | None:
    control = results.run(family, run)["control"]
    if not control:
        return None
    return results.paired("probing", family, run, control, labels=labels, task=name, **MIX)


def measure(
    results: Results, family: str, run: str, labels: str, name: str, metric: str
) -> Row | None:
    return results.one(
        "probing_summary", family=family, run=run, labels=labels, task=name, probe="mix",
        metric=metric,
    )  # fmt: skip


def sentences_of(
    results: Results, family: str, run: str, labels: str, name: str, which: str
) -> Row | None:
    """The interval over sentences of a probe's accuracy."""
    return results.one(
        "probing_sentences", family=family, run=run, labels=labels, task=name, probe=which,
        metric="accuracy",
    )  # fmt: skip


def headline(results: Results, family: str, labels: str, names: list[str]) -> Table:
    """The probe on the mix of all layers, a row per task and run, then the baselines."""
    rows = []
    for name in names:
        for row in results.all_runs(family):
            run = row["run"]
            find = partial(measure, results, family, run, labels, name)
            accuracy = find("accuracy")
            if accuracy is None:
                continue
            found = minus_control(results, family, run, labels, name)
            drawn = sentences_of(results, family, run, labels, name, "mix")
            rows.append(
                [
                    task(name),
                    results.called(family, run),
                    percent_and_sampled(accuracy, drawn),
                    points(found) if found else "",
                    *(
                        with_interval(x, digits, scale) if (x := find(metric)) else ""
                        for metric, digits, scale in (
                            ("macro_f1", 1, 100),
                            ("selectivity", 1, 100),
                            ("center_of_gravity", 2, 1),
                            ("expected_layer", 2, 1),
                        )
                    ),
                ]
            )
        rows += (
            [task(name), BASELINES[baseline], *cells, "", "", ""]
            for baseline, cells in label_sets.baselines(results, labels, name).items()
        )
    caption = (
        f"Probes on the mix of all layers, test part; {over(results, family, matched=True)}. "
        f"{drawn_over(results, family, 'sentences')}. {CUT} "
        "Selectivity: minus the accuracy of the same probe on control labels (Hewitt and Liang "
        "2019). Centre of gravity and expected layer are in layers of the run (0: embedding; "
        "Tenney et al. 2019)."
    )
    if not alone(results, family):
        caption += " Minus control: paired by seed, with the ends of its interval over seeds."
    header = ["task", "run", "accuracy (%)", "minus untrained control (points)", "macro-F1 (%)",
              "selectivity (points)", "centre of gravity", "expected layer"]  # fmt: skip
    return Table(f"{family}_probing", caption, header, rows)


def every_probe(results: Results, family: str, labels: str, names: list[str]) -> Table:
    """Every probe of every run."""
    rows = []
    for name in names:
        for run in (row["run"] for row in results.all_runs(family)):
            f1 = {
                row["probe"]: row
                for row in results.where(
                    "probing_summary", family=family, run=run, labels=labels, task=name,
                    metric="macro_f1",
                )
            }  # fmt: skip
            for which, row in results.probes(family, run, labels, name).items():
                drawn = sentences_of(results, family, run, labels, name, which)
                rows.append(
                    [
                        task(name),
                        results.called(family, run),
                        probe(which),
                        percent_and_sampled(row, drawn),
                        percent(f1[which]) if which in f1 else "",
                    ]
                )
    caption = (
        f"Every probe; {over(results, family, matched=True)}. In brackets: {PERCENT} bootstrap "
        "interval over sentences. Each mix is trained on its own."
    )
    header = ["task", "run", "probe", "accuracy (%)", "macro-F1 (%)"]
    return Table(f"{family}_probing_by_probe", caption, header, rows, long=True)
