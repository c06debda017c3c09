"""Edge probing: what a small classifier reads from frozen states, layer by layer."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import curves, label_sets
from tiebench.reporting.estimates import (
    CUT,
    PERCENT,
    against_controls,
    both,
    differences,
    over,
    percent_and_sampled,
    points,
    spread,
)
from tiebench.reporting.naming import (
    BASELINES,
    capital,
    joined,
    number,
    percent,
    probe,
    task,
    with_interval,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row

MIX = {"probe": "mix", "metric": "accuracy"}


def section(results: Results, family: str, title: str) -> Section:
    """Accuracy by probe and weights by layer for each task, and what the labels are."""
    labels, names = probed(results, family)
    shown = [
        Figure(
            f"{family}_probing_{name}",
            f"{capital(task(name))}: test accuracy of a probe on each layer alone and on a learnt "
            f"mix of all layers. {spread(results, family, 'Bands and bars')} Dotted: the most "
            "frequent label; dash-dotted: the most frequent label of the word type.",
            partial(curves.accuracy_by_probe, results, family, labels, name),
        )
        for name in names
    ]
    shown += (
        Figure(
            f"{family}_probing_weights_{name}",
            f"{capital(task(name))}: weight of each layer in the mix (they add up to 1), runs as "
            "in the figure of the task; dotted: equal weights.",
            partial(curves.weights_by_layer, results, family, labels, name),
            small=True,
        )
        for name in names
    )
    return Section(
        f"{family}-probing",
        f"Probing{title}",
        findings(results, family),
        shown,
        [
            headline(results, family, labels, names),
            *label_sets.treebank_tables(results, labels),
            every_probe(results, family, labels, names),
        ],
    )


def probed(results: Results, family: str) -> tuple[str, list[str]]:
    """The label set of a family's probes, and its tasks."""
    rows = list(results.where("probing_summary", family=family, **MIX))
    return rows[0]["labels"], list(dict.fromkeys(row["task"] for row in rows))


def findings(results: Results, family: str) -> list[str]:
    """By task the best run against control and baselines; then the couplings, and the layers."""
    labels, names = probed(results, family)
    trained = results.trained(family)
    if not trained:
        return [label_sets.treebank(results, labels), "No run of this report is trained."]
    sentences = [label_sets.treebank(results, labels)]
    for name in names:
        held = {row["run"]: results.probes(family, row["run"], labels, name) for row in trained}
        accuracy = {run: found["mix"] for run, found in held.items() if "mix" in found}
        if accuracy:
            sentences.append(_task(results, family, labels, name, accuracy))
            sentences += _not_above(results, family, labels, name, accuracy)
            sentences += differences(
                results, family, accuracy, "points", 1, 100.0, where=task(name)
            )
    return [*sentences, *_layers(results, family, labels, names)]


def _task(results: Results, family: str, labels: str, name: str, accuracy: dict[str, Row]) -> str:
    """The best trained run: its accuracy, its control, the baselines and the control task."""
    best = max(accuracy, key=lambda run: float(accuracy[run]["mean"]))
    drawn = sentences_of(results, family, best, labels, name, "mix")
    text = (
        f"{capital(task(name))}: the best trained run in the mean is "
        f"{results.called(family, best)}, {both(accuracy[best], drawn)}"
    )
    control = results.run(family, best)["control"]
    found = control and results.paired(
        "probing", family, best, control, labels=labels, task=name, **MIX
    )
    if found:
        text += (
            f"; that minus its control, {results.called(family, control)}: {points(found)} points"
        )
    levels = [
        f"{number(row['value'], 1, 100)}% {BASELINES.get(row['baseline'], row['baseline'])}"
        for row in results.where("label_baselines", labels=labels, task=name, metric="accuracy")
    ]
    if levels:
        text += f"; baselines: {joined(levels)}"
    row = results.one(
        "probing_summary", family=family, run=best, labels=labels, task=name,
        metric="selectivity",
    )  # fmt: skip
    if row:
        text += f"; {number(row['mean'], 1, 100)} points above the same probe on control labels"
    return f"{text}."


def _not_above(
    results: Results, family: str, labels: str, name: str, accuracy: dict[str, Row]
) -> list[str]:
    """Trained runs not shown to be above their control, or not above a baseline in the mean."""
    said = against_controls(results, "probing", family, labels=labels, task=name, **MIX)
    sentences = [f"{capital(task(name))}, {x}." for x in said if x.startswith("not")]
    for level in results.where("label_baselines", labels=labels, task=name, metric="accuracy"):
        below = [
            f"{results.called(family, run)} ({number(row['mean'], 1, 100)}%)"
            for run, row in accuracy.items()
            if float(row["mean"]) <= float(level["value"])
        ]
        if below:
            words = BASELINES.get(level["baseline"], level["baseline"])
            sentences.append(
                f"{capital(task(name))}, in the mean not above the baseline of the {words} "
                f"({number(level['value'], 1, 100)}%): {joined(below)}."
            )
    return sentences


def _layers(results: Results, family: str, labels: str, names: list[str]) -> list[str]:
    """Which layers the mixes lean on."""
    said = []
    for name in names:
        held = {
            row["run"]: float(found["mean"])
            for row in results.trained(family)
            if (found := _measure(results, family, row["run"], labels, name, "center_of_gravity"))
        }
        if held:
            low, high = (f(held, key=lambda run: held[run]) for f in (min, max))
            ends = f"{held[low]:.2f} ({results.called(family, low)})"
            ends += f" to {held[high]:.2f} ({results.called(family, high)})"
            same = f"{held[low]:.2f}" == f"{held[high]:.2f}"
            said.append(f"{task(name)} {f'{held[low]:.2f}' if same else ends}")
    last = results.probed_layers(family)[-1]
    return [
        f"Centre of gravity of the mix, in layers (0: embedding, {last}: last), of the trained "
        f"runs in the mean over seeds: {'; '.join(said)}."
    ] if said else []  # fmt: skip


def _measure(
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
            find = partial(_measure, results, family, run, labels, name)
            accuracy = find("accuracy")
            if accuracy is None:
                continue
            found = row["control"] and results.paired(
                "probing", family, run, row["control"], labels=labels, task=name, **MIX
            )
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
            [task(name), BASELINES.get(baseline, baseline), *cells, "", "", ""]
            for baseline, cells in label_sets.baselines(results, labels, name).items()
        )
    caption = (
        f"Probes on the mix of all layers, test part; {over(results, family, matched=True)}. In "
        f"brackets: {PERCENT} bootstrap interval over sentences of the mean over seeds. {CUT} "
        "Selectivity: minus the accuracy of the same probe on control labels (Hewitt and Liang "
        "2019). Centre of gravity and expected layer are in layers (Tenney et al. 2019). Minus "
        "control: paired by seed, with the ends of its interval over seeds."
    )
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
