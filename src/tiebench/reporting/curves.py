"""Figures of curves: loss against tokens or operations, loss by frequency, accuracy by layer.

A band is the t interval over seeds; with one seed there is none. A figure is None when the report
has nothing to draw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.reporting.naming import BASELINES, capital, direction, task, within
from tiebench.reporting.plotting import DASHES, LEVELS, MARKERS, legend, new_figure, run_styles
from tiebench.reporting.results import Pair, Results, Row
from tiebench.reporting.svg import TEXT

PUBLISHED = ("#6a45ab", "#8e6cc9", "#a98fd8")
"""Colours of published curves, none of which is a run's."""


def learning_curves(results: Results, family: str, metric: str, *, operations: bool = False) -> Any:
    """Loss against tokens: mean over seeds, its interval as a band, each seed as a thin line.

    With `operations`, against floating-point operations of training, which a run spends at a
    constant rate.
    """
    figure, axes = new_figure()
    styles, ends = run_styles(results, family), []
    most = max(int(row["tokens"]) for row in results.where("learning_curves", family=family))
    unit, word = (1e6, "millions") if most >= 1e6 else (1e3, "thousands")
    for run, style in styles.items():
        by_tokens: dict[int, list[float]] = defaultdict(list)
        by_seed: dict[str, list[tuple[float, float]]] = defaultdict(list)
        described = results.run(family, run)
        if operations and int(described["tokens"]):
            unit = 1e12 * int(described["tokens"]) / float(described["train_flops"])
        for row in results.where("learning_curves", family=family, run=run, metric=metric):
            by_tokens[int(row["tokens"])].append(float(row["value"]))
            by_seed[row["seed"]].append((int(row["tokens"]) / unit, float(row["value"])))
        if len(by_tokens) < 2:  # as initialized: no curve
            continue
        tokens = sorted(by_tokens)
        estimates = [mean_interval(by_tokens[t]) for t in tokens]
        x = [t / unit for t in tokens]
        ends.append(estimates[-1].mean)
        if len(by_seed) > 1:
            for curve in by_seed.values():
                axes.plot(*zip(*curve, strict=True), color=style["color"], linewidth=0.4, alpha=0.5)
            low = [e.mean if e.low is None else e.low for e in estimates]
            high = [e.mean if e.high is None else e.high for e in estimates]
            axes.fill_between(x, low, high, color=style["color"], alpha=0.16, linewidth=0)
        axes.plot(
            x, [e.mean for e in estimates], label=results.called(family, run),
            color=style["color"], linestyle=style["linestyle"],
        )  # fmt: skip
    unigram = next(results.where("language_modeling", family=family, metric="unigram_loss"))
    level = float(unigram["value"])
    if not ends:
        return None
    if metric == "validation_loss":  # its predictions are the ones that the level is about
        axes.axhline(level, color=TEXT, linewidth=1, linestyle=(0, (3, 2)), label="unigram")
    if max(ends) < level:
        span = level - min(ends)
        axes.set_ylim(min(ends) - 0.1 * span, level + 0.3 * span)
    axes.set_xlabel("training FLOPs (10¹²)" if operations else f"training tokens ({word})")
    axes.set_ylabel("nats per predicted token")
    legend(figure, axes)
    return figure


def loss_by_frequency(results: Results, family: str) -> Any:
    """Validation loss by how often the token occurs in training."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in results.where(
        "language_modeling_summary", family=family, metric="loss", language="all"
    ):
        if row["bin"] != "all":
            found[row["run"]][row["bin"]] = row
    groups = list(next(iter(found.values()), {}))
    if not groups:
        return None
    figure, axes = new_figure()
    for run, style in run_styles(results, family).items():
        line(axes, list(enumerate(found[run].values())), results.called(family, run), style)
    axes.set_xticks(range(len(groups)), groups, fontsize=9)
    axes.margins(x=0.08)
    axes.set_xlabel("occurrences of the token in the training part")
    axes.set_ylabel("nats per predicted token")
    legend(figure, axes)
    return figure


def line(
    axes: Any,
    points: Sequence[tuple[float, Row]],
    label: str,
    style: Mapping[str, Any],
    *,
    percent: bool = False,
) -> None:
    """Means of summary rows, joined unless the style has no line, with their intervals.

    In `percent`, the rows are accuracies: the intervals are cut at 0 and 100.
    """
    if not points:
        return
    x, scale = [position for position, _ in points], 100 if percent else 1
    label = label or "_"
    axes.plot(x, [scale * float(row["mean"]) for _, row in points], label=label, **style)
    if not any(row["low"] for _, row in points):
        return
    ends = []
    for _, row in points:
        held = row if row["low"] else {"low": row["mean"], "high": row["mean"]}
        ends.append(within(held) if percent else (float(held["low"]), float(held["high"])))
    low, high = ([scale * end for end in side] for side in zip(*ends, strict=True))
    if style["linestyle"]:
        axes.fill_between(x, low, high, color=style["color"], alpha=0.12, linewidth=0)
    else:
        axes.vlines(x, low, high, color=style["color"])


def retrieval_by_layer(
    results: Results, family: str, pair: Pair, *, small: bool = False, **cells: str
) -> Any:
    """Accuracy by layer; the bag of tokens as a level, untrained runs in grey."""
    figure, axes = new_figure(3.2, 2.3) if small else new_figure()
    layers = results.layers(family)
    bag: Row | None = None
    for run, style in run_styles(results, family).items():
        found = results.retrieval(family, run, pair, **cells)
        bag = bag or found.get("tokens")
        points = [(int(x), found[x]) for x in layers if x in found]
        line(axes, points, results.called(family, run), style, percent=True)
    if bag:
        level = 100 * float(bag["mean"])
        axes.axhline(level, color=TEXT, linewidth=1, linestyle=(0, (1, 1.5)), label="bag of tokens")
    if not axes.lines:
        return None
    axes.set_xticks([int(x) for x in layers])
    # at two seeds a band may be wider than everything else
    highest = max(max(line.get_ydata()) for line in axes.lines)
    axes.set_ylim(0, max(1.0, min(axes.get_ylim()[1], 1.6 * highest)))
    axes.set_xlabel("layer (0: embedding)")
    axes.set_ylabel("accuracy (%)")
    if small:
        axes.set_title(direction(*pair[1:]))
    else:
        legend(figure, axes)
    return figure


def accuracy_by_probe(results: Results, family: str, labels: str, name: str) -> Any:
    """Accuracy of the probe on each layer and, apart, on the mix of all; baselines as levels."""
    figure, axes = new_figure()
    layers = results.probed_layers(family)
    styles = run_styles(results, family)
    for index, (run, style) in enumerate(styles.items()):
        found = results.probes(family, run, labels, name)
        points = [(x, found[f"layer_{x}"]) for x in layers if f"layer_{x}" in found]
        line(axes, points, results.called(family, run), style, percent=True)
        shift = 0.4 * ((index + 0.5) / len(styles) - 0.5)
        mix = [(len(layers) + shift, found["mix"])] if "mix" in found else []
        line(axes, mix, "", style | {"linestyle": ""}, percent=True)
    if not axes.lines:
        return None
    for row in results.where("label_baselines", labels=labels, task=name, metric="accuracy"):
        axes.axhline(
            100 * float(row["value"]), color=TEXT, linewidth=1,
            linestyle=LEVELS[row["baseline"]], label=BASELINES[row["baseline"]],
        )  # fmt: skip
    axes.set_xticks([*layers, len(layers)], [*map(str, layers), "mix"])
    axes.margins(x=0.08)
    axes.set_xlabel("layer (0: embedding)")
    axes.set_ylabel("accuracy (%)")
    axes.set_title(capital(task(name)))
    legend(figure, axes)
    return figure


def weights_by_layer(results: Results, family: str, labels: str, name: str) -> Any:
    """The weight of each layer in the learnt mix."""
    figure, axes = new_figure(3.2, 2.3)
    layers = results.probed_layers(family)
    for run, style in run_styles(results, family).items():
        rows = results.where(
            "probing_weights_summary", family=family, run=run, labels=labels, task=name
        )
        line(axes, [(int(row["layer"]), row) for row in rows], "", style)
    if not axes.lines:
        return None
    axes.axhline(1 / len(layers), color=TEXT, linewidth=1, linestyle=(0, (1, 1.5)))
    axes.set_xticks(layers)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer (0: embedding)")
    axes.set_ylabel("weight in the mix")
    axes.set_title(capital(task(name)))
    return figure


def published_retrieval(results: Results) -> Any:
    """RemBERT's figure 2 (read off, approximate)."""
    figure, axes = new_figure()
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in results["published_curves"]:
        curves[row["output_width"]].append((int(row["layer"]), float(row["accuracy_percent"])))
    for (width, curve), colour, marker in zip(curves.items(), PUBLISHED, MARKERS, strict=False):
        axes.plot(
            *zip(*curve, strict=True), color=colour, marker=marker,
            linestyle=DASHES[1], label=f"output width {width}",
        )  # fmt: skip
    axes.set_xticks(range(1, 13))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer")
    axes.set_ylabel("accuracy (%)")
    legend(figure, axes)
    return figure
