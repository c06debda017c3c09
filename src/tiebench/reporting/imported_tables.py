"""Tables of imported models, and what figures and text share with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from tiebench.paths import IMPORTED
from tiebench.reporting.estimates import CUT, PERCENT, percent_and_sampled, seeds_of
from tiebench.reporting.naming import (
    DISTANCES,
    OFFSETS,
    direction,
    language,
    number,
    plain,
    task,
    whole,
    with_interval,
)
from tiebench.reporting.parts import Table
from tiebench.reporting.plotting import COLOURS, MARKERS, run_styles
from tiebench.reporting.probing_tables import measure, sentences_of
from tiebench.reporting.results import Results, Row, layers

Styles = Mapping[str, Any]


class Shown(NamedTuple):
    """A model beside others: an imported one, or one of the runs."""

    family: str
    run: str
    name: str
    """In words."""
    style: Styles


def beside(results: Results) -> list[Shown]:
    """The baseline run and its untrained control, then the imported models."""
    family = next(row["family"] for row in results["retrieval"])
    base, styles = results.baseline(family), run_styles(results, family)
    runs = [x for x in (base, results.run(family, base)["control"]) if x]
    shown = [Shown(family, x, results.called(family, x), styles[x]) for x in runs]
    for at, model in enumerate((row["model"] for row in results["imported"]), start=1):
        style = {
            "color": COLOURS[at % len(COLOURS)],
            "marker": MARKERS[at % len(MARKERS)],
            "linestyle": "-",
        }
        shown.append(Shown(IMPORTED, model, plain(model), style))
    return shown


def drawn_of(results: Results, shown: Shown, labels: str, code: str) -> Row | None:
    """The interval over strings of a model's accuracy in a language."""
    return results.one(
        "transfer_sentences", family=shown.family, run=shown.run, labels=labels, language=code,
        subset="all", metric="accuracy",
    )  # fmt: skip


def models(results: Results) -> Table:
    """What the models are."""
    rows = [
        [
            plain(row["model"]),
            row["architecture"],
            "one" if row["tied"] == "true" else "two",
            whole(row["input_width"]),
            whole(row["width"]),
            whole(row["output_width"]),
            whole(row["layers"]),
            whole(row["vocabulary"]),
            whole(row["pretraining"]),
            whole(row["fine_tuning"]),
            whole(row["maximum_length"]),
            row["sha256"][:12],
        ]
        for row in results["imported"]
    ]
    header = ["model", "architecture", "tables", "input width", "body width", "output width",
              "layers", "vocabulary", "parameters in pretraining", "in fine-tuning",
              "longest input (tokens)", "weights (sha256)"]  # fmt: skip
    caption = (
        "The imported models. Fine-tuning drops the output table and the head; a tied table stays "
        "as the input's. The sha256, whose start is given, is of the weights as imported; those of "
        "the files that were read are in the last table of the page."
    )
    return Table("imported_models", caption, header, rows)


def searched(results: Results) -> Table:
    """Every direction at the last and the best layer, with the headline's distance and offset."""
    rows = []
    for pair in results.pairs:
        for shown in beside(results):
            found = results.retrieval(shown.family, shown.run, pair)
            drawn = results.sentences(shown.family, shown.run, pair)
            own = layers(found)
            top = max(own, key=lambda layer: float(found[layer]["mean"]))
            rows.append(
                [
                    pair[0],
                    direction(*pair[1:]),
                    shown.name,
                    percent_and_sampled(found[own[-1]], drawn.get(own[-1])),
                    percent_and_sampled(found[top], drawn.get(top)),
                    f"{top} of {own[-1]}",
                    number(found["tokens"]["mean"], 1, 100) if "tokens" in found else "",
                ]
            )
    distance, offset = results.protocol
    caption = (
        f"Nearest-neighbour translation accuracy (%), {DISTANCES[distance]}, {OFFSETS[offset]}. An "
        "imported model is searched once; of a run, mean ± half of the t interval over seeds. In "
        f"brackets: {PERCENT} bootstrap interval over sentences. {CUT} The best layer is picked on "
        "the pairs that are scored. Bags of tokens are those of each model's own tokenizer."
    )
    header = ["set", "direction", "model", "last layer", "best layer", "at", "bag of tokens"]
    return Table("imported_retrieval", caption, header, rows)


def probed(results: Results, labels: str, tasks: list[str]) -> Table:
    """The probe on the mix of all layers, by task and model."""
    rows = []
    for name in tasks:
        for shown in beside(results):
            find = partial(measure, results, shown.family, shown.run, labels, name)
            accuracy = find("accuracy")
            if accuracy is None:
                continue
            drawn = sentences_of(results, shown.family, shown.run, labels, name, "mix")
            rows.append(
                [
                    task(name),
                    shown.name,
                    percent_and_sampled(accuracy, drawn),
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
    caption = (
        "Probes on the mix of all layers, test part; mean ± half of the t interval over seeds "
        f"where there are several. In brackets: {PERCENT} bootstrap interval over sentences. {CUT} "
        "Selectivity: minus the same probe on control labels. Centre of gravity and expected layer "
        "are in layers of each model."
    )
    header = ["task", "model", "accuracy (%)", "macro-F1 (%)", "selectivity (points)",
              "centre of gravity", "expected layer"]  # fmt: skip
    return Table("imported_probing", caption, header, rows)


def fine_tuned(results: Results, labels: str) -> Table:
    """Test accuracy by language, with what was fine-tuned and the learning rates chosen."""
    first, *others = results.tested_languages(labels)
    codes = [first, *others, "others"]
    rows = []
    for shown in beside(results):
        cells = [
            percent_and_sampled(
                results.transferred(shown.family, shown.run, labels, code, "accuracy"),
                drawn_of(results, shown, labels, code),
            )
            for code in codes
        ]
        of = partial(
            results.where, "transfer_cells", family=shown.family, run=shown.run, labels=labels
        )
        rates = Counter(row["value"] for row in of(metric="learning_rate"))
        cut = max((int(float(row["value"])) for row in of(metric="cut")), default=0)
        size = next((row["value"] for row in of(metric="parameters")), "")
        chosen = (f"{float(x):g} ({seeds_of(n)})" for x, n in sorted(rates.items()))
        rows.append([shown.name, number(size, 0), ", ".join(chosen), f"{cut:,}", *cells])
    caption = (
        "Transfer: test accuracy (%) by language, all strings; mean ± half of the t interval over "
        f"seeds where there are several. In brackets: {PERCENT} bootstrap interval over strings. "
        f"{CUT} Strings cut: those with more tokens than the model takes."
    )
    header = ["model", "parameters fine-tuned", "learning rate chosen", "strings cut",
              f"{language(first)} (trained on)", *map(language, others),
              "mean of the others"]  # fmt: skip
    return Table("imported_transfer", caption, header, rows)
