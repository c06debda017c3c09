"""Models that were trained elsewhere, beside the baseline run and its untrained control."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tiebench.paths import IMPORTED
from tiebench.reporting.curves import line
from tiebench.reporting.dots import SPREAD
from tiebench.reporting.estimates import PERCENT, both, seeds_of
from tiebench.reporting.imported_tables import (
    Shown,
    beside,
    drawn_of,
    fine_tuned,
    models,
    probed,
    searched,
)
from tiebench.reporting.naming import (
    BASELINES,
    DISTANCES,
    OFFSETS,
    amount,
    capital,
    counted,
    direction,
    joined,
    language,
    number,
    plain,
    task,
    whole,
)
from tiebench.reporting.parts import Figure, Section
from tiebench.reporting.plotting import LEVELS, legend, new_figure
from tiebench.reporting.probing_tables import measure, sentences_of
from tiebench.reporting.results import Pair, Results, Row, layers
from tiebench.reporting.svg import TEXT


def section(results: Results) -> Section:
    """Translation by relative depth, probing and transfer, and what the models are."""
    pair, (distance, offset) = results.pairs[0], results.protocol
    (labels, tasks), strings = _probed(results), _transferred(results)
    bars = _bars(results)
    return Section(
        "imported",
        "Imported models",
        findings(results),
        [
            Figure(
                "imported_retrieval",
                f"Nearest-neighbour translation, {direction(*pair[1:])}, set {pair[0]}, "
                f"{DISTANCES[distance]}, {OFFSETS[offset]}, by depth as a share of each model's "
                "own layers. Grey: untrained. Every model has its own tokenizer.",
                partial(by_depth, results, pair),
            ),
            Figure(
                "imported_probing",
                "Probing: test accuracy on a learnt mix of all layers. Dotted: "
                f"{BASELINES['majority']}; dash-dotted: {BASELINES['word_type']}. {bars}",
                partial(probing, results, labels, tasks),
            ),
            Figure(
                "imported_transfer",
                "Transfer: test accuracy by language after fine-tuning on the first one alone. "
                f"Short lines: {BASELINES['surface']}; dotted: {BASELINES['majority']}. {bars}",
                partial(transfer, results, strings),
            ),
        ],
        [
            models(results),
            searched(results),
            probed(results, labels, tasks),
            fine_tuned(results, strings),
        ],
        notes(results),
    )


def _probed(results: Results) -> tuple[str, list[str]]:
    rows = list(results.where("probing_summary", family=IMPORTED, probe="mix", metric="accuracy"))
    return rows[0]["labels"], list(dict.fromkeys(row["task"] for row in rows))


def _transferred(results: Results) -> str:
    return next(results.where("transfer_summary", family=IMPORTED))["labels"]


def _bars(results: Results) -> str:
    """What the bars of the figures are."""
    count = len(results["imported"][0]["seeds"].split())
    own = (
        f"of an imported model {seeds_of(count)} of what is fitted on top"
        if count > 1
        else "an imported model has one, and no bar"
    )
    return f"Bars: {PERCENT} t interval over seeds: of a run those of its training; {own}."


def findings(results: Results) -> list[str]:
    """Which models, what holds against every comparison, and the three tasks."""
    rows = results["imported"]
    said = [
        f"{plain(row['model'])} ({row['architecture']}, {counted(int(row['layers']), 'layer')}, "
        f"{whole(row['width'])} wide, {amount(int(row['pretraining']))} parameters)"
        for row in rows
    ]
    several = len(rows) > 1
    runs = [shown.name for shown in beside(results) if shown.family != IMPORTED]
    control = f" and its control, {runs[1]}" if len(runs) > 1 else ""
    first = (
        f"{'Models that were' if several else 'A model that was'} trained elsewhere: "
        f"{joined(said)}; beside {'them' if several else 'it'} the baseline run, {runs[0]}"
        f"{control}. {'They differ' if several else 'It differs'} from the runs of this report in "
        "tokenizer, training text, size and training at once, so that no difference here is one "
        "of couplings. Whether the training text held the sentences and strings of these "
        "evaluations is not known: a level may be that of text that was seen. Nothing here is "
        "tested; intervals stand alone."
    )
    return [first, _translation(results), *_probes(results), *_strings(results)]


def _translation(results: Results) -> str:
    """Every model at its best and its last layer."""
    pair, (distance, offset) = results.pairs[0], results.protocol
    said, bags, best = [], {}, {}
    for shown in beside(results):
        found = results.retrieval(shown.family, shown.run, pair)
        own = layers(found)
        top = max(own, key=lambda layer: float(found[layer]["mean"]))
        best[shown.run] = float(found[top]["mean"])
        drawn = results.sentences(shown.family, shown.run, pair).get(top)
        said.append(
            f"{shown.name} {both(found[top], drawn)} at layer {top} of {own[-1]}, "
            f"{number(found[own[-1]]['mean'], 1, 100)}% at the last"
        )
        if "tokens" in found:
            bags[shown.run] = float(found["tokens"]["mean"])
    start = (
        f"{direction(*pair[1:])}, with {DISTANCES[distance]} and {OFFSETS[offset]}, the best "
        "layer picked on the pairs that are scored"
    )
    return f"{start}: {'; '.join(said)}.{_not_above(results, best, bags)}"


def _not_above(
    results: Results, levels: Mapping[str, float], bags: Mapping[str, float] | None = None
) -> str:
    """Imported models that are in the mean not above baseline run, control or bag of tokens."""
    runs = [shown for shown in beside(results) if shown.family != IMPORTED]
    said = []
    for shown in beside(results):
        level = levels[shown.run]
        under = [x.name for x in runs if level <= levels[x.run]]
        under += ["a bag of its own tokens"] * (level <= (bags or {}).get(shown.run, -1.0))
        if shown.family == IMPORTED and under:
            said.append(f"{shown.name} (against {joined(under)})")
    return f" In the mean not above: {joined(said)}." if said else ""


def _probes(results: Results) -> Iterator[str]:
    """The mix of every model in every task."""
    labels, tasks = _probed(results)
    for name in tasks:
        said, levels = [], {}
        for shown in beside(results):
            row = measure(results, shown.family, shown.run, labels, name, "accuracy")
            if row:
                drawn = sentences_of(results, shown.family, shown.run, labels, name, "mix")
                levels[shown.run] = float(row["mean"])
                said.append(f"{shown.name} {both(row, drawn)}")
        if len(said) == len(beside(results)):
            yield f"Probing, {task(name)}: {'; '.join(said)}.{_not_above(results, levels)}"


def _strings(results: Results) -> Iterator[str]:
    """Every model in the mean of the languages that are not trained on."""
    labels = _transferred(results)
    said, levels = [], {}
    for shown in beside(results):
        row = results.transferred(shown.family, shown.run, labels, "others", "accuracy")
        if row:
            drawn = drawn_of(results, shown, labels, "others")
            levels[shown.run] = float(row["mean"])
            said.append(f"{shown.name} {both(row, drawn, 'strings')}")
    if len(said) == len(beside(results)):
        start = "Transfer, mean of the languages not fine-tuned on"
        yield f"{start}: {'; '.join(said)}.{_not_above(results, levels)}{_edges(results, labels)}"


def _edges(results: Results, labels: str) -> str:
    """Imported models that chose the smallest or largest learning rate that was tried."""
    said = []
    for row in results["imported"]:
        rates = [float(x) for x in row["learning_rates"].split()]
        chosen = {
            float(x["value"])
            for x in results.where(
                "transfer_cells", family=IMPORTED, run=row["model"], labels=labels,
                metric="learning_rate",
            )
        }  # fmt: skip
        said += [
            f"{plain(row['model'])} chose {rate:g}, the {word} of {len(rates)}"
            for word, rate in (("smallest", min(rates)), ("largest", max(rates)))
            if len(rates) > 1 and rate in chosen
        ]
    if not said:
        return ""
    return f" At an end of imported.learning_rates, so that others may do better: {joined(said)}."


def notes(results: Results) -> list[str]:
    """What an interval holds, and what was noted when the models were read."""
    fixed = (
        "The weights of an imported model are given: seeds are those of its probes and its "
        "fine-tuning, and an interval over them says nothing of another training of the model. "
        "It is fine-tuned with learning rates of its own (imported.learning_rates). Bags of tokens "
        "and pairs without an identical token are by each model's own tokenizer."
    )
    read = (f"{capital(plain(x['model']))}: {x['notes']}." for x in results["imported"])
    return [fixed, *(text for text in read if not text.endswith(": ."))]


def by_depth(results: Results, pair: Pair) -> Any:
    """Accuracy by layer as a share of a model's layers."""
    figure, axes = new_figure()
    for shown in beside(results):
        found = results.retrieval(shown.family, shown.run, pair)
        own = layers(found)
        points = [(int(x) / max(1, int(own[-1])), found[x]) for x in own]
        line(axes, points, shown.name, shown.style, percent=True)
    highest = max(max(drawn.get_ydata()) for drawn in axes.lines)
    axes.set_ylim(0, max(1.0, min(axes.get_ylim()[1], 1.6 * highest)))
    axes.set_xlabel("layer / number of layers (0: embedding)")
    axes.set_ylabel("accuracy (%)")
    legend(figure, axes)
    return figure


def probing(results: Results, labels: str, tasks: list[str]) -> Any:
    """The mix of every model in every task."""

    def row_of(shown: Shown, name: str) -> Row | None:
        return measure(results, shown.family, shown.run, labels, name, "accuracy")

    def level(baseline: str, name: str) -> Row | None:
        return results.one(
            "label_baselines", labels=labels, task=name, baseline=baseline, metric="accuracy"
        )

    names = [capital(task(name)).replace(" ", "\n") for name in tasks]
    return _groups(beside(results), tasks, names, row_of, ("word_type", "majority"), level)


def transfer(results: Results, labels: str) -> Any:
    """Every model in every language."""

    def row_of(shown: Shown, code: str) -> Row | None:
        return results.transferred(shown.family, shown.run, labels, code, "accuracy")

    def level(baseline: str, code: str) -> Row | None:
        return results.one(
            "label_baselines", labels=labels, language=code, baseline=baseline, metric="accuracy"
        )

    first, *others = results.tested_languages(labels)
    codes = [first, *others, "others"]
    names = [f"{language(first)}\n(trained on)", *map(language, others), "mean of\nthe others"]
    return _groups(beside(results), codes, names, row_of, ("surface", "majority"), level)


def _groups(
    beside: Sequence[Shown],
    groups: Sequence[str],
    names: Sequence[str],
    row_of: Callable[[Shown, str], Row | None],
    baselines: Sequence[str],
    level: Callable[[str, str], Row | None],
) -> Any:
    """Points of each model in each group, side by side, and baselines as short lines."""
    figure, axes = new_figure()
    for index, shown in enumerate(beside):
        shift = SPREAD * ((index + 0.5) / len(beside) - 0.5)
        held = [(x + shift, row) for x, group in enumerate(groups) if (row := row_of(shown, group))]
        style = {**shown.style, "linestyle": "", "markersize": 5}
        line(axes, held, shown.name, style, percent=True)
    for baseline in baselines:
        for x, group in enumerate(groups):
            row = level(baseline, group)
            if row:
                axes.hlines(
                    100 * float(row["value"]), x - 0.42, x + 0.42, color=TEXT, linewidth=1.1,
                    linestyle=LEVELS[baseline], label="_" if x else BASELINES[baseline],
                )  # fmt: skip
    axes.set_xticks(range(len(groups)), names, fontsize=9)
    axes.grid(axis="x", visible=False)
    axes.margins(x=0.08)
    axes.set_ylabel("accuracy (%)")
    legend(figure, axes)
    return figure
