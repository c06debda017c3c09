"""Edge probing: what a small classifier reads from frozen states, layer by layer."""

from __future__ import annotations

from functools import partial

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting import curves, label_sets
from tiebench.reporting.estimates import (
    against_controls,
    alone,
    apart,
    both,
    claim,
    differences,
    direction_of,
    points,
    seeds_of,
    single,
    spread,
    standing,
)
from tiebench.reporting.naming import (
    BASELINES,
    capital,
    joined,
    number,
    signed,
    task,
)
from tiebench.reporting.parts import Figure, Section
from tiebench.reporting.probing_tables import (
    MIX,
    every_probe,
    headline,
    measure,
    minus_control,
    sentences_of,
)
from tiebench.reporting.results import Results, Row

UNTRAINED = (
    " Layer 0 of an untrained encoder can do well: its vectors, though random, are distinct, so "
    "that they identify the pieces of a word, and a probe can learn words by heart, which "
    "selectivity measures."
)


def section(results: Results, family: str, title: str) -> Section:
    """Accuracy by probe and weights by layer for each task, and what the labels are."""
    labels, names = probed(results, family)
    shown = [
        Figure(
            f"{family}_probing_{name}",
            f"{capital(task(name))}: test accuracy of a probe on each layer alone and on a learnt "
            f"mix of all layers. {spread(results, family, 'Bands and bars')} Dotted: "
            f"{BASELINES['majority']}; dash-dotted: {BASELINES['word_type']}."
            f"{UNTRAINED if name == names[0] else ''}",
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
        notes(results, family),
    )


def probed(results: Results, family: str) -> tuple[str, list[str]]:
    """The label set of a family's probes, and its tasks."""
    rows = list(results.where("probing_summary", family=family, **MIX))
    return rows[0]["labels"], list(dict.fromkeys(row["task"] for row in rows))


def findings(results: Results, family: str) -> list[str]:
    """The best trained run against control and baselines, the couplings, and what probes learn."""
    labels, names = probed(results, family)
    held = {name: _accuracies(results, family, labels, name) for name in names}
    held = {name: accuracy for name, accuracy in held.items() if accuracy}
    if not held:
        return ["No run of this report is trained."]
    return [
        _against_control(results, family, labels, held),
        *_couplings(results, family, held),
        _caveat(results, family, labels, held),
    ]


def notes(results: Results, family: str) -> list[str]:
    """What is probed for, every task at length, and the layers."""
    labels, names = probed(results, family)
    sentences = [label_sets.treebank(results, labels, names)]
    for name in names:
        accuracy = _accuracies(results, family, labels, name)
        if accuracy:
            sentences.append(_task(results, family, labels, name, accuracy))
            sentences += _not_above(results, family, labels, name, accuracy)
            sentences += differences(
                results, family, accuracy, "points", 1, 100.0, where=task(name)
            )
    return [*sentences, *_layers(results, family, labels, names)]


def _accuracies(results: Results, family: str, labels: str, name: str) -> dict[str, Row]:
    """By trained run, the accuracy of its mix in a task."""
    held = {
        row["run"]: results.probes(family, row["run"], labels, name)
        for row in results.trained(family)
    }
    return {run: found["mix"] for run, found in held.items() if "mix" in found}


def _best(accuracy: dict[str, Row]) -> str:
    return max(accuracy, key=lambda run: float(accuracy[run]["mean"]))


def _against_control(
    results: Results, family: str, labels: str, held: dict[str, dict[str, Row]]
) -> str:
    """How the best trained run stands to its control, by task; then to the baselines."""
    best = {name: _best(accuracy) for name, accuracy in held.items()}
    runs = {name: results.called(family, run) for name, run in best.items()}
    several = len(set(runs.values())) > 1
    which = "the best trained run"
    if not several:
        which += f", {next(iter(runs.values()))},"
    relations: dict[str, dict[str, str]] = {}
    for name, run in best.items():
        found = minus_control(results, family, run, labels, name)
        if found:
            who = f"{runs[name]}, " if several else ""
            told = f"{task(name)} ({who}{apart(found)})"
            relations.setdefault(standing(found), {})[name] = told
    order = [name for by_task in relations.values() for name in by_task]
    if len(order) < len(best):
        said = [f"{task(name)} ({runs[name]})" if several else task(name) for name in best]
        text = f"Read off frozen states by a small classifier: {joined(said)}, by {which}"
        return f"{text.rstrip(',')}. {_levels(results, labels, held, list(best))}"
    even = relations.keys() <= {"below", "not shown to be above"}
    whose = ("its untrained control", *["it"] * (len(relations) - 1))
    stands = (
        f"{relation} {control} in {joined(list(by_task.values()))}"
        for control, (relation, by_task) in zip(whose, relations.items(), strict=True)
    )
    return (
        f"Read off frozen states by a small classifier, {'even ' if even else ''}{which} is "
        f"{'; '.join(stands)}{claim(relations)}. {_levels(results, labels, held, order)}"
    )


def _levels(
    results: Results, labels: str, held: dict[str, dict[str, Row]], order: list[str]
) -> str:
    """The best accuracies of the tasks in this order, and those of each baseline."""
    accuracy = [float(held[name][_best(held[name])]["mean"]) for name in order]
    levels: dict[str, dict[str, float]] = {}
    for row in results.where("label_baselines", labels=labels, metric="accuracy"):
        levels.setdefault(row["baseline"], {})[row["task"]] = float(row["value"])
    against = []
    for baseline, by_task in levels.items():
        if by_task.keys() >= set(order):
            values = [by_task[name] for name in order]
            sides = [direction_of(x - y) for x, y in zip(accuracy, values, strict=True)]
            side = sides[0]
            if len(set(sides)) > 1:
                side = f"in {sides.count('above')} of {len(sides)} tasks above"
            against.append(f"{side} the {BASELINES[baseline]} ({_percents(values)})")
    start = "In that order it" if len(order) > 1 else "It"
    text = f"{start} gets {_percents(accuracy)}"
    return f"{text}: in the mean {'; '.join(against)}." if against else f"{text} in the mean."


def _percents(values: list[float]) -> str:
    return joined([f"{100 * value:.1f}%" for value in values])


def _couplings(results: Results, family: str, held: dict[str, dict[str, Row]]) -> list[str]:
    """In which tasks an interval against the baseline excludes zero; all are in the notes."""
    compared = {
        (run, name): row
        for name, accuracy in held.items()
        for run, row in accuracy.items()
        if row["difference"]
    }
    if not compared:
        return []
    shown = [
        f"{results.called(family, run)} {signed(row['difference'], 1, 100)} in {task(name)} "
        f"(smallest detectable {number(row['detectable'], 1, 100)})"
        for (run, name), row in compared.items()
        if int(row["seeds"]) >= MINIMUM_SEEDS
        and row["difference_low"]
        and (float(row["difference_low"]) > 0 or float(row["difference_high"]) < 0)
    ]
    few = min(int(row["seeds"]) for row in compared.values())
    baseline = results.called(family, results.baseline(family))
    if few < MINIMUM_SEEDS:
        text = f"{seeds_of(few)} decide nothing between the couplings; the notes have the numbers."
        return [capital(text if few > 1 else text.replace("decide", "decides"))]
    text = (
        f"against {baseline}, {len(shown)} of {len(compared)} differences by run and task have an "
        "interval over seeds without zero"
    )
    text += f", in points: {joined(shown)}." if shown else "."
    return [capital(f"{text} {single(results, family)}".strip())]


def _caveat(results: Results, family: str, labels: str, held: dict[str, dict[str, Row]]) -> str:
    """That the best run is picked after the fact, and what its probes learn by heart."""
    said = []
    for name, accuracy in held.items():
        row = measure(results, family, _best(accuracy), labels, name, "selectivity")
        if row:
            said.append(f"{task(name)}, {_selectivity(row)}")
    text = "The best trained run is picked on the test targets that it is scored on."
    if said:
        text += (
            " Against the same probe on control labels, which are drawn per word and can only be "
            f"learnt by heart, its accuracy is: {'; '.join(said)}."
        )
    short = _short_of_a_layer(results, family, labels, held)
    if short:
        text += f" Its mix falls short of the probe on one layer alone in {joined(short)}."
    return text


def _short_of_a_layer(
    results: Results, family: str, labels: str, held: dict[str, dict[str, Row]]
) -> list[str]:
    """Tasks in which the best run's mix, which could be any of its layers, is below one."""
    said = []
    for name, accuracy in held.items():
        found = results.probes(family, _best(accuracy), labels, name)
        mix = float(found["mix"]["mean"])
        layer = max((x for x in found if x.startswith("layer_")), key=lambda x: found[x]["mean"])
        best = float(found[layer]["mean"])
        if mix < best:
            where = layer.removeprefix("layer_")
            said.append(
                f"{task(name)} ({100 * mix:.1f}% against {100 * best:.1f}% of layer {where})"
            )
    return said


def _selectivity(row: Row) -> str:
    """How far the accuracy is above that on control labels, or below it."""
    size = 100 * float(row["mean"])
    text = f"{abs(size):.1f} points {direction_of(size)}"
    if row["low"]:
        text += f" ({signed(row['low'], 1, 100)} to {signed(row['high'], 1, 100)})"
    return text


def _task(results: Results, family: str, labels: str, name: str, accuracy: dict[str, Row]) -> str:
    """The best trained run: its accuracy, its control, the baselines and the control task."""
    best = _best(accuracy)
    drawn = sentences_of(results, family, best, labels, name, "mix")
    text = (
        f"{capital(task(name))}: the best trained run in the mean is "
        f"{results.called(family, best)}, {both(accuracy[best], drawn)}"
    )
    control = results.run(family, best)["control"]
    found = minus_control(results, family, best, labels, name)
    if found:
        text += (
            f"; that minus its control, {results.called(family, control)}: {points(found)} points"
        )
    levels = [
        f"{number(row['value'], 1, 100)}% {BASELINES[row['baseline']]}"
        for row in results.where("label_baselines", labels=labels, task=name, metric="accuracy")
    ]
    if levels:
        text += f"; baselines: {joined(levels)}"
    row = measure(results, family, best, labels, name, "selectivity")
    if row:
        text += f"; against the same probe on control labels, {_selectivity(row)}"
    return f"{text}."


def _not_above(
    results: Results, family: str, labels: str, name: str, accuracy: dict[str, Row]
) -> list[str]:
    """Trained runs not shown to be above their control, or in the mean not above a baseline."""
    controls = against_controls(results, "probing", family, labels=labels, task=name, **MIX)
    sentences = [
        f"{capital(task(name))}, {relation} the untrained control, in points: {joined(said)}"
        f"{claim([relation])}."
        for relation, said in controls.items()
        if relation != "above"
    ]
    for level in results.where("label_baselines", labels=labels, task=name, metric="accuracy"):
        below = [
            f"{results.called(family, run)} ({number(row['mean'], 1, 100)}%)"
            for run, row in accuracy.items()
            if float(row["mean"]) <= float(level["value"])
        ]
        if below:
            words = BASELINES[level["baseline"]]
            sentences.append(
                f"{capital(task(name))}, in the mean not above the baseline of the {words} "
                f"({number(level['value'], 1, 100)}%): {joined(below)}."
            )
    return sentences


def _layers(results: Results, family: str, labels: str, names: list[str]) -> list[str]:
    """Which layers the mixes lean on; of runs of other numbers of layers, each with its own."""
    depths = {row["run"]: row["layers"] for row in results.trained(family)}
    same = len(set(depths.values())) == 1
    said = []
    for name in names:
        held = {
            run: f"{float(found['mean']):.2f}"
            for run in depths
            if (found := measure(results, family, run, labels, name, "center_of_gravity"))
        }
        if same and len(set(held.values())) == 1:
            said.append(f"{task(name)} {next(iter(held.values()))}")
        elif same and held:
            ends = (f(held, key=lambda run: float(held[run])) for f in (min, max))
            shown = " to ".join(f"{held[run]} ({results.called(family, run)})" for run in ends)
            said.append(f"{task(name)} {shown}")
        elif held:
            shown = joined(
                [f"{x} of {depths[run]} ({results.called(family, run)})" for run, x in held.items()]
            )
            said.append(f"{task(name)} {shown}")
    last = f"{max(depths.values())}: last" if same else "each of the run's own number"
    mean = "" if alone(results, family) else " in the mean over seeds"
    return [
        f"Centre of gravity of the mix, in layers (0: embedding, {last}), of the trained runs"
        f"{mean}: {'; '.join(said)}."
    ] if said else []  # fmt: skip
