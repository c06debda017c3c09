"""The figures of a report, each a function from results to a matplotlib figure or None.

None: there is nothing to draw (a report without this table's rows). A band is the t interval over
seeds; with one seed there is none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.reporting.naming import PARTS, direction, plain
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import TEXT

COLOURS = ("#0077bb", "#ee7733", "#009988", "#cc3311", "#ee3377", "#33bbee")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)))
UNTRAINED = "#8a8f96"
PART_COLOURS = {
    "input_table": "#0077bb", "output_table": "#33bbee", "maps": "#ee3377",
    "head": "#ee7733", "positions": "#cc3311", "body": "#8a8f96",
}  # fmt: skip

Pair = tuple[str, str, str]


def run_styles(results: Results, family: str) -> dict[str, dict[str, Any]]:
    """Colour, marker and dash of each run, the same in every figure; untrained runs are grey."""
    styles: dict[str, dict[str, Any]] = {}
    trained = 0
    for row in results.runs(family):
        if row["trained"] == "true":
            styles[row["run"]] = {
                "color": COLOURS[trained % len(COLOURS)],
                "marker": MARKERS[trained % len(MARKERS)],
                "linestyle": DASHES[trained // len(COLOURS) % len(DASHES)],
            }
            trained += 1
        else:
            dash = DASHES[1 + (len(styles) - trained) % 2]
            styles[row["run"]] = {"color": UNTRAINED, "marker": "x", "linestyle": dash}
    return styles


def _figure(width: float = 4.7, height: float = 3.2, rows: int = 1) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(rows, 1)


def _legend(figure: Any, axes: Any, columns: int = 2) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, handlelength=2.2)


def learning_curves(results: Results, family: str, metric: str) -> Any:
    """Loss against tokens: mean over seeds, its interval as a band, each seed as a thin line."""
    figure, axes = _figure()
    styles, ends = run_styles(results, family), []
    for run, style in styles.items():
        by_tokens: dict[int, list[float]] = defaultdict(list)
        by_seed: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for row in results.where("learning_curves", family=family, run=run, metric=metric):
            by_tokens[int(row["tokens"])].append(float(row["value"]))
            by_seed[row["seed"]].append((int(row["tokens"]) / 1e6, float(row["value"])))
        if len(by_tokens) < 2:  # as initialized: a level, not a curve
            for values in by_tokens.values():
                level = sum(values) / len(values)
                line = {k: v for k, v in style.items() if k != "marker"}
                axes.axhline(level, label=plain(run), linewidth=1.2, **line)
            continue
        tokens = sorted(by_tokens)
        estimates = [mean_interval(by_tokens[t]) for t in tokens]
        x = [t / 1e6 for t in tokens]
        ends.append(estimates[-1].mean)
        if len(by_seed) > 1:
            for curve in by_seed.values():
                axes.plot(*zip(*curve, strict=True), color=style["color"], linewidth=0.4, alpha=0.5)
            low = [e.mean if e.low is None else e.low for e in estimates]
            high = [e.mean if e.high is None else e.high for e in estimates]
            axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)
        axes.plot(
            x, [e.mean for e in estimates], label=plain(run),
            color=style["color"], linestyle=style["linestyle"],
        )  # fmt: skip
    unigram = next(results.where("language_modeling", family=family, metric="unigram_loss"))
    level = float(unigram["value"])
    axes.axhline(level, color=TEXT, linewidth=1, linestyle=(0, (3, 2)), label="unigram")
    if ends:
        span = max(level, *ends) - min(ends)
        axes.set_ylim(min(ends) - 0.08 * span, max(level, *ends) + 0.3 * span)
    axes.set_xlabel("training tokens (millions)")
    axes.set_ylabel("nats per predicted token")
    _legend(figure, axes)
    return figure


def loss_by_frequency(results: Results, family: str) -> Any:
    """Validation loss by how often the predicted token occurs in the training part."""
    bins = list(
        dict.fromkeys(
            row["bin"]
            for row in results.where("language_modeling_summary", family=family, metric="loss")
            if row["bin"] != "all"
        )
    )
    if not bins:
        return None
    figure, axes = _figure()
    for run, style in run_styles(results, family).items():
        found = {
            row["bin"]: row
            for row in results.where(
                "language_modeling_summary", family=family, run=run, metric="loss", language="all"
            )
        }
        _line(axes, [(bins.index(b), found[b]) for b in bins if b in found], plain(run), style)
    axes.set_xticks(range(len(bins)), [b.replace("-", "–") for b in bins])
    axes.set_xlabel("occurrences of the token in the training part")
    axes.set_ylabel("nats per predicted token")
    _legend(figure, axes)
    return figure


def _line(
    axes: Any,
    points: list[tuple[float, Row]],
    label: str,
    style: Mapping[str, Any],
    scale: float = 1.0,
) -> None:
    """A line through the means of summary rows, with their intervals as a band."""
    if not points:
        return
    x = [position for position, _ in points]
    axes.plot(x, [scale * float(row["mean"]) for _, row in points], label=label, **style)
    if all(row["low"] for _, row in points):
        low, high = ([scale * float(row[end]) for _, row in points] for end in ("low", "high"))
        axes.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def retrieval_by_layer(
    results: Results, family: str, pair: Pair, *, small: bool = False, **cells: str
) -> Any:
    """Accuracy by layer; the bag of tokens as a level, untrained runs in grey."""
    figure, axes = _figure(3.2, 2.3) if small else _figure()
    layers = results.layers(family)
    bag: Row | None = None
    for run, style in run_styles(results, family).items():
        found = results.retrieval(family, run, pair, **cells)
        bag = bag or found.get("tokens")
        _line(axes, [(int(x), found[x]) for x in layers if x in found], plain(run), style, 100)
    if bag:
        level = 100 * float(bag["mean"])
        axes.axhline(level, color=TEXT, linewidth=1, linestyle=(0, (1, 1.5)), label="bag of tokens")
    axes.set_xticks(range(len(layers)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer (0: embedding)")
    axes.set_ylabel("accuracy (%)")
    if small:
        axes.set_title(direction(*pair[1:]))
    else:
        _legend(figure, axes)
    return figure


def published_retrieval(results: Results) -> Any:
    """RemBERT's figure 2 (read off, approximate)."""
    figure, axes = _figure()
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in results["published_curves"]:
        curves[row["output_width"]].append((int(row["layer"]), float(row["accuracy_percent"])))
    for (width, curve), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        axes.plot(
            *zip(*curve, strict=True), color=colour, marker=marker,
            linestyle=DASHES[1], label=f"output width {width}",
        )  # fmt: skip
    axes.set_xticks(range(1, 13))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("layer")
    axes.set_ylabel("accuracy (%)")
    _legend(figure, axes)
    return figure


def published_directions(results: Results, family: str, metrics: Iterable[str]) -> Any:
    """Our paired differences with intervals, one row per published comparison, by metric."""
    rows: dict[str, dict[tuple[str, str], Row]] = {}
    for row in results.where("published", family=family):
        rows.setdefault(row["metric"], {}).setdefault((row["first"], row["second"]), row)
    wanted = [metric for metric in metrics if metric in rows]
    if not wanted:
        return None
    count = max(len(rows[metric]) for metric in wanted)
    figure, panels = _figure(4.7, 0.75 + len(wanted) * (0.62 + 0.3 * count), len(wanted))
    for axes, metric in zip(panels if len(wanted) > 1 else [panels], wanted, strict=True):
        scale = 1 if metric == "loss" else 100
        for y, row in enumerate(rows[metric].values()):
            colour = {"agrees": COLOURS[2], "inconclusive": UNTRAINED}.get(row["verdict"], COLOURS[3])
            if row["low"]:
                ends = [scale * float(row["low"]), scale * float(row["high"])]
                axes.plot(ends, [y, y], color=colour, linewidth=2)
            axes.plot([scale * float(row["difference"])], [y], color=colour, marker="o", markersize=5)
        names = [_wrapped(f"{first} − {second}") for first, second in rows[metric]]
        axes.set_yticks(range(len(names)), names, fontsize=7.5)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.axvline(0, color=TEXT, linewidth=0.8)
        axes.grid(axis="y", visible=False)
        better = next(iter(rows[metric].values()))["better"]
        unit = "nats per predicted token" if metric == "loss" else "percentage points"
        axes.set_xlabel(f"{metric_name(metric)}: {unit} ({better} is better)")
    return figure


def metric_name(metric: str) -> str:
    """A headline metric in words."""
    known = {"loss": "validation loss", "accuracy": "masked-token accuracy"}
    if metric in known:
        return known[metric]
    start, *rest = metric.rsplit("_", 3)
    if not start.startswith("retrieval_") or len(rest) != 3:
        return plain(metric)
    source, target, which = rest
    what = {"last": "last layer", "best": "best layer", "drop": "best minus last layer"}[which]
    return f"{direction(source, target)}, {what} ({start.removeprefix('retrieval_')})"


def _wrapped(text: str, width: int = 26) -> str:
    from textwrap import fill

    return fill(text, width)


def parameters_of_runs(results: Results, family: str) -> Any:
    """Stacked bars: parameters by part, at pretraining and at fine-tuning."""
    counts: dict[str, dict[str, float]] = defaultdict(dict)
    for row in results.where("parameters", family=family):
        counts[row["run"]][row["metric"]] = float(row["value"]) / 1e6
    runs = [row["run"] for row in results.runs(family) if row["trained"] == "true"]
    runs = runs or list(counts)
    figure, axes = _figure(4.7, 1.1 + 0.62 * len(runs))
    labelled: set[str] = set()
    for index, run in enumerate(runs):
        for y, dropped in ((index - 0.19, ()), (index + 0.19, ("output_table", "head"))):
            left = 0.0
            for part, label in PARTS.items():
                width = 0.0 if part in dropped else counts[run][part]
                if width:
                    axes.barh(
                        y, width, 0.34, left=left, color=PART_COLOURS[part],
                        label=None if part in labelled else label,
                    )  # fmt: skip
                    labelled.add(part)
                    left += width
            name = "fine-tuning" if dropped else "pretraining"
            axes.text(left, y, f" {left:.2f}M, {name}", va="center", fontsize=7.5)
    axes.set_yticks(range(len(runs)), [_wrapped(plain(run), 16) for run in runs])
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, 1.45 * max(counts[run]["pretraining"] for run in runs))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("parameters (millions)")
    _legend(figure, axes, 3)
    return figure


def savings_by_scale(results: Results) -> Any:
    """What tying saves against model size, and the tutorial's printed shares."""
    figure, axes = _figure(4.7, 3.4)
    for ties, face, label in (("true", COLOURS[0], "ties as shipped"), ("false", "none", "ships two tables")):
        rows = list(results.where("savings_by_scale", ties_as_shipped=ties))
        x = [float(row["tied_total"]) for row in rows]
        y = [float(row["saving_percent"]) for row in rows]
        axes.scatter(x, y, s=28, facecolors=face, edgecolors=COLOURS[0], label=label, zorder=3)
        for row, *at in zip(rows, x, y, strict=True):
            axes.annotate(
                row["model"], at, xytext=(5, 3), textcoords="offset points", fontsize=7.5
            )
    scale = {"M": 1e6, "B": 1e9}
    printed = list(results.where("parameter_savings", place="table"))
    axes.scatter(
        [float(row["label"][:-1]) * scale[row["label"][-1]] for row in printed],
        [float(row["printed_share_percent"]) for row in printed],
        marker="x", color=COLOURS[1], s=30, label="printed in the tutorial", zorder=4,
    )  # fmt: skip
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * 4)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("parameters with one table")
    axes.set_ylabel("saved by tying (% of untied total)")
    _legend(figure, axes)
    return figure


def rembert_differences(results: Results) -> Any:
    """How far two ways to count are from RemBERT's printed pretraining figures, in percent."""
    rows = results["rembert_parameters"]
    figure, axes = _figure(4.7, 1.2 + 0.27 * len(rows))
    for kind, colour, marker, label in (
        ("best", COLOURS[0], "o", "tables and blocks only"),
        ("full", COLOURS[1], "s", "every parameter"),
    ):
        x = [float(row[f"{kind}_pretraining_difference_percent"]) for row in rows]
        axes.scatter(x, range(len(rows)), color=colour, marker=marker, s=22, label=label, zorder=3)
    axes.axvline(0, color=TEXT, linewidth=0.8)
    names = [row["row"].replace(" as printed in table 14", "").replace(" as in the checkpoint", "") for row in rows]
    axes.set_yticks(range(len(rows)), [f"{n} (T{r['table'].replace(' ', '')})" for n, r in zip(names, rows, strict=True)], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("counted minus printed, pretraining (%)")
    _legend(figure, axes)
    return figure


def corpus_strings(results: Results, corpus: str) -> Any:
    """Strings read, by what became of them, a bar per language."""
    rows = [row for row in results.where("corpus", corpus=corpus) if row["language"] != "all"]
    languages = list(dict.fromkeys(row["language"] for row in rows if row["part"] == "read"))
    kept: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["part"] == "dropped":
            kept[row["metric"]][row["language"]] = float(row["value"])
        elif row["metric"] == "strings" and row["part"] in ("train", "valid"):
            kept[row["part"]][row["language"]] = float(row["value"])
    heldout = float(next(results.where("corpus", corpus=corpus, part="heldout"))["value"])
    if heldout:
        kept["heldout"] = dict.fromkeys(languages, heldout)
    first = [part for part in ("train", "valid", "heldout") if part in kept]
    dropped = sorted(set(kept) - set(first), key=lambda p: -sum(kept[p].values()))
    for part in dropped[3:]:
        for language, strings in kept.pop(part).items():
            rest = kept["other reasons"]
            rest[language] = rest.get(language, 0.0) + strings
    order = first + dropped[:3] + [part for part in ("other reasons",) if part in kept]
    colours = ("#0077bb", "#33bbee", "#009988", "#8a8f96", "#ee7733", "#cc3311", "#ee3377")
    figure, axes = _figure(4.7, 1.5 + 0.3 * len(languages) + 0.14 * len(order))
    for y, language in enumerate(languages):
        left = 0.0
        for part, colour in zip(order, colours[: len(order)], strict=True):
            width = kept[part].get(language, 0.0) / 1e3
            axes.barh(y, width, 0.66, left=left, color=colour, label=None if y else _part_name(part))
            left += width
    axes.set_yticks(range(len(languages)), languages)
    axes.set_ylim(len(languages) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("strings (thousands)")
    _legend(figure, axes, 2)
    return figure


def _part_name(part: str) -> str:
    names = {"train": "training", "valid": "validation", "heldout": "held out"}
    if part in names:
        return names[part]
    return f"dropped: {plain(part)}"
