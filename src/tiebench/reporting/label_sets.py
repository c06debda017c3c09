"""What labelled sets consist of, and what answers without a model get on them."""

from __future__ import annotations

from collections import defaultdict

from tiebench.reporting.naming import (
    NOTES,
    REASONS,
    capital,
    counted,
    joined,
    language,
    number,
    plain,
    task,
    whole,
)
from tiebench.reporting.parts import Table
from tiebench.reporting.results import Results

PARTS = ("train", "development", "test")


def treebank(results: Results, labels: str, names: list[str]) -> str:
    """What the tasks `names` probe for, in a sentence or two."""
    sizes = {
        row["part"]: row["value"]
        for row in results.where("label_sets", labels=labels, metric="sentences")
    }
    uses = {"train": "training", "development": "choosing the epoch", "test": "testing"}
    counts = [f"{whole(sizes[part])} for {use}" for part, use in uses.items() if part in sizes]
    notes = [note for start, note in NOTES.items() if labels.startswith(start)]
    text = (
        "The models are frozen; a small classifier with two dense layers reads gold labels off "
        f"their states: {joined([task(name) for name in names])}. Sentences of {plain(labels)}: "
        f"{joined(counts)}."
    )
    return " ".join([text, *notes])


def purposes(results: Results, labels: str) -> str:
    """What is transferred, in a sentence or two."""
    rows = list(results.where("label_sets", labels=labels, metric="examples"))
    first, *others = results.tested_languages(labels)
    sizes: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows:
        sizes[row["part"], row["language"]] += int(row["value"])
    count = counted(len({row["label"] for row in rows}), "label")
    tests = joined([f"{sizes['test', code]:,} {language(code)}" for code in (first, *others)])
    return (
        f"The whole encoder and a new classifier are fine-tuned on {sizes['train', first]:,} "
        f"{language(first)} interface strings to say what a string is for ({count}, from "
        f"its place in the software), and tested without further training on {tests} strings. "
        f"Learning rate and epoch are chosen on {sizes['development', first]:,} {language(first)} "
        "strings. The form of a string (its length, its end) gives the label away in part: the "
        "surface baseline has only that."
    )


def baselines(results: Results, labels: str, name: str) -> dict[str, list[str]]:
    """By baseline, accuracy, an empty difference, and macro-F1 in a task of a treebank."""
    held: dict[str, dict[str, str]] = defaultdict(dict)
    for row in results.where("label_baselines", labels=labels, task=name):
        held[row["baseline"]][row["metric"]] = number(row["value"], 1, 100)
    return {
        baseline: [found.get("accuracy", ""), "", found.get("macro_f1", "")]
        for baseline, found in held.items()
    }


def treebank_tables(results: Results, labels: str) -> list[Table]:
    """Sentences, and targets by task, of each part; and what was dropped."""
    held: dict[str, dict[str, str]] = defaultdict(dict)
    for row in results.where("label_sets", labels=labels):
        if row["metric"] in ("sentences", "targets"):
            held[task(row["task"]) if row["task"] else "sentences"][row["part"]] = row["value"]
    rows = [
        [name, *(whole(found.get(part, "0")) for part in PARTS)] for name, found in held.items()
    ]
    caption = f"{capital(plain(labels))}: sentences, and labelled words or pairs by task."
    header = ["", "training", "development", "test"]
    return [Table(f"labels_{labels}", caption, header, rows), *dropped(results, labels)]


def purposes_tables(results: Results, labels: str) -> list[Table]:
    """Strings by label: those trained on, and those tested in each language; what was dropped."""
    first, *others = results.tested_languages(labels)
    held: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for row in results.where("label_sets", labels=labels, metric="examples"):
        held[row["label"]][row["part"], row["language"]] = row["value"]
    columns = [("train", first), ("development", first), *(("test", x) for x in (first, *others))]
    rows = [
        [plain(label), *(whole(found.get(column, "0")) for column in columns)]
        for label, found in held.items()
    ]
    words = {"train": "training", "development": "development", "test": "test"}
    header = ["label", *(f"{words[part]}, {language(code)}" for part, code in columns)]
    caption = f"Strings of {plain(labels)} by label."
    return [Table(f"labels_{labels}", caption, header, rows, long=True), *dropped(results, labels)]


def dropped(results: Results, labels: str) -> list[Table]:
    """What of a label set was dropped, and why."""
    held: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in results.where("label_sets", labels=labels, metric="dropped"):
        held[row["label"], row["task"]][row["language"]] = row["value"]
    if not held:
        return []
    codes = list(dict.fromkeys(code for found in held.values() for code in found))
    tasks = any(name for _, name in held)
    rows = [
        [
            capital(REASONS.get(reason, plain(reason))),
            *([task(name)] if tasks else []),
            *(whole(found.get(code, "0")) for code in codes),
        ]
        for (reason, name), found in held.items()
    ]
    counted = "targets" if tasks else "strings"
    header = ["reason", *(["task"] if tasks else []),
              *(language(code) if code else counted for code in codes)]  # fmt: skip
    caption = f"{capital(plain(labels))}: {counted} dropped, by reason."
    return [Table(f"labels_{labels}_dropped", caption, header, rows, long=True)]
