"""The tables that a reader sees, made from the long ones: captions, headers, formatted cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tiebench.reporting.naming import (
    DISTANCES,
    OFFSETS,
    PARTS,
    REASONS,
    SUBSETS,
    difference,
    direction,
    language,
    metric_name,
    number,
    plain,
    signed,
    whole,
    with_interval,
)
from tiebench.reporting.results import Results, Row


@dataclass(frozen=True)
class Table:
    """A table as it is shown. `long` ones are collapsed on the page."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[str]]
    long: bool = False

    def numeric(self, column: int) -> bool:
        """Whether a column is set flush right."""
        cells = [row[column] for row in self.rows if row[column]]
        return bool(column and cells) and all(cell.lstrip("+-")[:1].isdigit() for cell in cells)


def over(results: Results, family: str) -> str:
    """What an interval in this report is over."""
    seeds = next(results.where("runs", family=family))["seeds"].split()
    if len(seeds) == 1:
        return "one seed: no interval"
    return f"mean ± half of the 95% t interval over {len(seeds)} seeds"


def runs_table(results: Results, family: str) -> Table:
    """What the runs are."""
    rows = [
        [
            plain(row["run"]) + (" (baseline)" if row["baseline"] == "true" else ""),
            "one" if row["tied"] == "true" else "two",
            row["input_width"],
            row["width"],
            row["output_width"],
            row["head"],
            row["layers"],
            whole(row["tokens"]),
            f"{float(row['train_flops']):.2e}" if float(row["train_flops"]) else "",
        ]
        for row in results.runs(family)
    ]
    header = ["run", "tables", "input width", "body width", "output width", "head before the table",
              "layers", "tokens", "training FLOPs"]  # fmt: skip
    return Table(f"{family}_runs", "The runs.", header, rows)


def language_modeling_table(results: Results, family: str) -> Table:
    """Validation loss and accuracy of every run, and the difference from the baseline."""
    causal = next(results.where("runs", family=family))["objective"] == "causal"
    rows = []
    for run in (row["run"] for row in results.runs(family)):
        loss = results.summary(family, run, "loss")
        accuracy = results.summary(family, run, "accuracy")
        bits = results.summary(family, run, "bits_per_byte")
        assert loss is not None and accuracy is not None
        rows.append(
            [
                plain(run),
                with_interval(loss, 3),
                difference(loss, 3),
                number(loss["detectable"], 3),
                with_interval(accuracy, 1, 100),
                difference(accuracy, 1, 100),
                *([with_interval(bits, 3)] if causal and bits else []),
            ]
        )
    header = ["run", "loss (nats)", "minus baseline", "smallest detectable", "accuracy (%)",
              "minus baseline (points)", *(["bits per byte"] if causal else [])]  # fmt: skip
    caption = (
        "Validation loss and accuracy at the fixed predictions that all runs share; "
        f"{over(results, family)}. Differences are paired by seed. Smallest detectable: the true "
        "difference that this number of seeds finds with power 0.8."
    )
    return Table(f"{family}_language_modeling", caption, header, rows)


def loss_by_group_table(results: Results, family: str, group: str) -> Table | None:
    """Loss by `language` or by frequency `bin`, a column per group."""
    other = "bin" if group == "language" else "language"
    held: dict[str, dict[str, Row]] = {}
    for row in results.where("language_modeling_summary", family=family, **{other: "all"}):
        if row[group] != "all" and row["metric"] in ("loss", "predicted_tokens"):
            held.setdefault(row[group], {})[f"{row['metric']} {row['run']}"] = row
    if not held:
        return None
    runs = [row["run"] for row in results.runs(family)]
    rows = [
        [plain(run), *(with_interval(cells[f"loss {run}"], 2) for cells in held.values())]
        for run in runs
    ]
    counts = [cells[f"predicted_tokens {runs[0]}"]["mean"] for cells in held.values()]
    rows.append(["predictions", *(number(count, 0) for count in counts)])
    names = [language(key) if group == "language" else key for key in held]
    what = "language" if group == "language" else "occurrences of the token in the training part"
    caption = f"Validation loss (nats) by {what}; {over(results, family)}."
    return Table(f"{family}_loss_by_{group}", caption, ["run", *names], rows)


def retrieval_table(results: Results, family: str, pair: tuple[str, str, str]) -> Table:
    """Accuracy by layer for one direction, all sentences and those without a shared token."""
    layers = [*results.layers(family), "tokens"]
    rows = []
    for subset, words in SUBSETS.items():
        for run in (row["run"] for row in results.runs(family)):
            found = results.retrieval(family, run, pair, subset=subset)
            if found:
                cells = [with_interval(found[x], 1, 100) if x in found else "" for x in layers]
                rows.append([plain(run), words, *cells])
    distance, offset = results.protocol
    name, source, target = pair
    caption = (
        f"Nearest-neighbour translation accuracy (%), {direction(source, target)}, set {name}, "
        f"{DISTANCES[distance]}, {OFFSETS[offset]}; {over(results, family)}. "
        f"{pool_note(results, pair)}"
    )
    header = ["run", "pairs", *(f"layer {x}" for x in layers[:-1]), "bag of tokens"]
    return Table(f"{family}_retrieval_{'_'.join(pair)}", caption, header, rows)


def pool_note(results: Results, pair: tuple[str, str, str]) -> str:
    """How many sentences are searched, and how many pairs share no token."""
    name, source, target = pair
    sizes: dict[str, str] = {}
    for row in results.where("retrieval", set=name, source=source, target=target):
        sizes.setdefault(row["subset"], row["n"])
    separate = sizes.get("no_shared_token", "0")
    note = f"The pool has {whole(sizes['all'])} sentences; {whole(separate)} pairs share no token."
    counts = {
        metric: max(
            int(r["value"]) for r in results.where("retrieval_sets", set=name, metric=metric)
        )
        for metric in ("equal_sentences", "zero_vectors", "seen_in_training")
    }
    for metric, words in (
        ("equal_sentences", "sentences equal another (each is a correct answer)"),
        ("zero_vectors", "vectors are zero in a run (at distance 1 by angle)"),
        ("seen_in_training", "sentences have a text that was trained on, in some language"),
    ):
        if counts[metric]:
            note += f" {counts[metric]:,} {words}."
    return note


def retrieval_variants_table(results: Results, family: str) -> Table:
    """Every direction, distance and offset: accuracy at the last layer and at the best."""
    layers = results.layers(family)
    variants = dict.fromkeys((r["distance"], r["offset"]) for r in results["retrieval"])
    rows = []
    for pair in results.pairs:
        for distance, offset in variants:
            for run in (row["run"] for row in results.runs(family)):
                found = results.retrieval(family, run, pair, distance=distance, offset=offset)
                best = max(layers, key=lambda x: float(found[x]["mean"]))
                rows.append(
                    [
                        pair[0],
                        direction(*pair[1:]),
                        DISTANCES[distance],
                        plain(offset),
                        plain(run),
                        number(found[layers[-1]]["mean"], 1, 100),
                        number(found[best]["mean"], 1, 100),
                        best,
                        number(found["tokens"]["mean"], 1, 100) if "tokens" in found else "",
                    ]
                )
    header = ["set", "direction", "distance", "offset", "run", "last layer", "best layer", "at",
              "bag of tokens"]  # fmt: skip
    caption = (
        "Accuracy (%) in every direction, with every distance and offset; mean over seeds. The "
        "best layer is chosen on the pairs it is scored on."
    )
    return Table(f"{family}_retrieval_variants", caption, header, rows, long=True)


def published_table(results: Results, family: str) -> Table:
    """Published differences beside ours, with the verdict on the direction."""
    rows = []
    for row in results.where("published", family=family):
        loss = row["metric"] == "loss"
        digits, scale = (3, 1.0) if loss else (1, 100.0)
        ours = {
            f"difference{end}": row[key]
            for end, key in (("", "difference"), ("_low", "low"), ("_high", "high"))
        }
        rows.append(
            [
                f"{row['first']} against {row['second']}",
                row["verdict"] + (f" ({row['reason']})" if row["reason"] else ""),
                f"{metric_name(row['metric'])}, {'nats' if loss else 'points'} "
                f"({row['better']} is better)",
                difference(ours, digits, scale),
                f"{signed(row['published_difference'], 1)} ({row['published_first']} against "
                f"{row['published_second']})",
                f"{row['measure']}, {row['source']}",
                number(row["detectable"], digits, scale),
            ]
        )
    caption = (
        "Published differences and ours, in direction only: the published configuration (12 "
        "layers, 768 wide, 120k entries, 104 languages) was not run. A verdict needs five seeds, "
        "both runs below the unigram loss, and a 95% interval of our difference, paired by seed, "
        "that excludes zero; intervals are not adjusted for their number."
    )
    header = ["comparison", "verdict", "our measure", "our difference", "published difference",
              "published measure", "ours: smallest detectable"]  # fmt: skip
    return Table(f"{family}_published", caption, header, rows)


def parameters_table(results: Results, family: str) -> Table:
    """Parameters of the runs by part."""
    rows = []
    for run in (row["run"] for row in results.runs(family)):
        counts = {
            r["metric"]: r["value"] for r in results.where("parameters", family=family, run=run)
        }
        total, kept = int(counts["pretraining"]), int(counts["fine_tuning"])
        tables = int(counts["input_table"]) + int(counts["output_table"])
        cells = [whole(counts[part]) for part in PARTS]
        rows.append([plain(run), f"{total:,}", f"{kept:,}", *cells, f"{100 * tables / total:.1f}"])
    header = ["run", "pretraining", "fine-tuning", *PARTS.values(), "tables (% of pretraining)"]
    caption = "Parameters of the runs. Fine-tuning drops output table and head, as RemBERT counts."
    return Table(f"{family}_parameters", caption, header, rows)


def savings_table(results: Results) -> Table:
    """The tutorial's rows as printed next to the true ones."""
    rows = [
        [
            f"{row['label']}, {row['place']}",
            plain(row["wrong"]).replace(" ", ", "),
            f"{whole(row['printed_vocabulary'])} / {whole(row['vocabulary'])}",
            f"{whole(row['printed_width'])} / {whole(row['width'])}",
            f"{row['printed_saving_millions']}M / {number(row['saving_millions'], 1)}M",
            f"{row['printed_share_percent']}% / {number(row['saving_percent'], 2)}%",
            row["statement"],
        ]
        for row in results["parameter_savings"]
    ]
    header = ["row", "wrong", "vocabulary", "width", "saved", "share", "why"]
    caption = (
        "A tutorial's savings by tying, printed / true. The true share is one matrix over the "
        "total with two tables."
    )
    return Table("parameter_savings", caption, header, rows)


def scale_table(results: Results) -> Table:
    """Savings of the registered models."""
    rows = [
        [
            row["model"],
            whole(row["vocabulary"]),
            whole(row["width"]),
            row["layers"],
            "yes" if row["ties_as_shipped"] == "true" else "no",
            number(row["shipped_total"], 1, 1e-6),
            number(row["matrix"], 1, 1e-6),
            number(row["share_of_tied_percent"], 2),
            number(row["saving_percent"], 2),
        ]
        for row in results["savings_by_scale"]
    ]
    header = ["model", "vocabulary", "width", "layers", "ties", "total (M)", "matrix (M)",
              "matrix (% of tied total)", "saved (% of untied total)"]  # fmt: skip
    return Table("savings_by_scale", "What one table instead of two saves.", header, rows)


def rembert_table(results: Results) -> Table:
    """RemBERT's printed counts and two ways to get them."""
    rows = []
    for row in results["rembert_parameters"]:
        cells = [row["table"], row["row"]]
        for stage in ("pretraining", "fine_tuning"):
            cells += [
                row[f"printed_{stage}"],
                number(row[f"best_{stage}"], 2),
                number(row[f"full_{stage}"], 2),
                signed(row[f"full_{stage}_difference_percent"], 2),
            ]
        rows.append([*cells, row["statement"]])
    header = ["table", "row"]
    for stage in ("pretraining", "fine-tuning"):
        header += [
            f"{stage}: printed",
            "tables and blocks",
            "every parameter",
            "every parameter (% off)",
        ]
    caption = (
        "RemBERT's parameters (millions): printed, and counted from the shapes in two ways. Head "
        "transform and positions of the ablation are not printed; RemBERT's own are assumed."
    )
    return Table("rembert_parameters", caption, [*header, "reading"], rows)


def conventions_table(results: Results) -> Table:
    """Every way to count that was tried."""
    rows = [
        [
            row["convention"],
            f"{row['agreeing_figures']} of {row['figures']}",
            row["rows_not_fitting"],
        ]
        for row in results["rembert_conventions"]
    ]
    caption = "Ways to count that were tried on RemBERT's printed figures."
    return Table(
        "rembert_conventions",
        caption,
        ["counted, digits", "figures that agree", "rows that do not"],
        rows,
        long=True,
    )


def corpus_tables(results: Results, corpus: str) -> Iterator[Table]:
    """Sizes by language, and what was dropped and why."""
    held: dict[tuple[str, str], dict[str, str]] = {}
    for row in results.where("corpus", corpus=corpus):
        held.setdefault((row["part"], row["metric"]), {})[row["language"]] = row["value"]
    languages = list(held["read", "strings"])
    names = [language(code) for code in languages]
    wanted = [
        ("read", "strings", "strings read", 0, 1.0),
        ("train", "strings", "training strings", 0, 1.0),
        ("train", "words", "training words", 0, 1.0),
        ("train", "tokens", "training tokens", 0, 1.0),
        ("train", "bytes_per_token", "bytes per token", 2, 1.0),
        ("train", "repeated_token_share", "tokens equal to the one before (%)", 3, 100.0),
        ("valid", "strings", "validation strings", 0, 1.0),
        ("valid", "tokens", "validation tokens", 0, 1.0),
    ]
    rows = [
        [label, *(number(held[part, metric].get(code, ""), digits, scale) for code in languages)]
        for part, metric, label, digits, scale in wanted
        if (part, metric) in held
    ]
    heldout = held["heldout", "strings"]["all"]
    if int(heldout):
        rows.append(["held-out sentences", *(whole(heldout) for _ in languages)])
    yield Table(f"corpus_{corpus}", f"Corpus {corpus} by language.", ["", *names], rows)
    dropped = [
        [REASONS.get(metric, plain(metric)), *(number(by.get(code, "0"), 0) for code in languages)]
        for (part, metric), by in held.items()
        if part == "dropped"
    ]
    if dropped:
        caption = f"Corpus {corpus}: strings dropped, by reason."
        yield Table(f"corpus_{corpus}_dropped", caption, ["reason", *names], dropped)


def provenance_table(results: Results) -> Table:
    """Command, data, versions."""
    rows = [[row["item"], row["value"]] for row in results["provenance"]]
    return Table("provenance", "What the tables were made from.", ["item", "value"], rows)
