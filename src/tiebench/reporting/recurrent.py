"""Recurrent language models: perplexity by coupling, beside published figures."""

from __future__ import annotations

from functools import partial

from tiebench.paths import RECURRENT
from tiebench.reporting import recurrent_figures as figures
from tiebench.reporting.estimates import CORRECTED, PERCENT
from tiebench.reporting.naming import number, plain, signed, whole
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.recurrent_findings import SPLITS, findings
from tiebench.reporting.results import Results, Row

ORDER = ("train", "valid", "test")
RUN_COLUMNS = {
    "corpus": "corpus",
    "tied": "tables",
    "projection": "projection",
    "projection_penalty": "penalty",
    "augmented_weight": "weight of the augmented loss",
    "augmented_share": "its share of what is minimized",
    "augmented_temperature": "its temperature",
    "dropout": "dropout",
    "dropout_input": "of the looked-up rows",
    "dropout_between": "between the layers",
    "dropout_recurrent": "of the carried state",
    "dropout_output": "before the head",
    "units": "units",
    "layers": "layers",
    "vocabulary": "vocabulary",
    "epochs": "epochs",
    "constant_epochs": "of these at the first rate",
    "decay": "decay",
    "learning_rate": "learning rate",
    "clip": "clip",
    "batch_size": "parts side by side",
    "sequence_length": "steps",
    "seeds": "seeds",
    "parameters": "parameters",
    "published_table": "printed table",
    "published_row": "printed row",
    "published_parameters": "printed parameters (M)",
    "parameters_agree": "ours round to it",
    "as_published": "at the printed settings",
    "reason": "what differs",
}


def section(results: Results) -> Section:
    """Curves, test perplexities, differences, and all tables."""
    shown = [
        Figure(
            f"recurrent_{split}",
            f"{words} by epoch, from the first on. {_bands(results)}",
            partial(figures.curves, results, split),
        )
        for split, words in (
            ("valid", "Validation perplexity after each epoch"),
            ("train", "Training perplexity, in the mean of an epoch of the model as it was"),
        )
    ]
    shown.append(
        Figure(
            "recurrent_test",
            "Test perplexity after the last epoch. Violet: printed, with the released code, and of "
            "an independent reproduction, where a run has the printed settings. "
            f"{_bands(results, 'Lines')}",
            partial(figures.tests, results),
        )
    )
    shown += [
        Figure(
            f"recurrent_differences_{split}",
            f"Difference in log {SPLITS[split]} perplexity between runs that differ in one thing; "
            f"below zero it helps. {_bands(results, 'Lines')}",
            partial(figures.differences, results, split),
        )
        for split in SPLITS
    ]
    return Section(
        "recurrent", "Recurrent language models", findings(results), shown,
        [runs(results), perplexities(results), published(results), pairs(results)], notes(),
    )  # fmt: skip


def _bands(results: Results, what: str = "Bands") -> str:
    seeds = max(int(row["seeds"]) for row in results["recurrent_summary"])
    if seeds == 1:
        return "One seed: no interval."
    return f"{what}: {PERCENT} t interval over {seeds} seeds, of log perplexity."


def runs(results: Results) -> Table:
    """What the runs are; what all share is said in the caption."""
    rows = results["recurrent_runs"]
    cells = [{words: _cell(row, key) for key, words in RUN_COLUMNS.items()} for row in rows]
    shared = {
        words: cells[0][words]
        for words in RUN_COLUMNS.values()
        if len(cells) > 1 and len({x[words] for x in cells}) == 1
    }
    kept = [words for words in RUN_COLUMNS.values() if words not in shared]
    said = "; ".join(f"{words} {value}" for words, value in shared.items() if value)
    names = [results.called(RECURRENT, row["run"]) for row in rows]
    body = [[name, *(x[words] for words in kept)] for name, x in zip(names, cells, strict=True)]
    caption = "The recurrent runs." + (f" The same for all: {said}." if said else "")
    return Table("recurrent_runs", caption, ["run", *kept], body)


def _cell(row: Row, key: str) -> str:
    value = row[key]
    if key == "tied":
        return "one" if value == "true" else "two"
    if key in ("parameters", "vocabulary"):
        return whole(value)
    if key == "projection_penalty":
        return f"{float(value):.3g}" if value else ""
    if key in ("corpus", "as_published", "parameters_agree"):
        return {"true": "yes", "false": "no"}.get(value, plain(value))
    return value


def perplexities(results: Results) -> Table:
    """Perplexities by run and split."""
    held: dict[str, dict[str, Row]] = {}
    for row in results["recurrent_summary"]:
        held.setdefault(row["run"], {})[row["split"]] = row
    best: dict[str, list[Row]] = {}
    for row in results.where("recurrent_perplexity", split="valid"):
        best.setdefault(row["run"], []).append(row)
    rows = [
        [
            results.called(RECURRENT, run),
            cells["test"]["seeds"],
            *(_perplexity(cells.get(split)) for split in ORDER),
            " ".join(row["best_epoch"] for row in best[run]),
            " ".join(number(row["at_best_epoch"], 1) for row in best[run]),
        ]
        for run, cells in held.items()
    ]
    header = ["run", "seeds", *(SPLITS[split] for split in ORDER), "best epoch", "validation there"]
    caption = (
        f"Perplexity after the last epoch: exponential of the mean loss, with its {PERCENT} t "
        "interval over seeds. Best epoch: of the lowest validation loss, by seed."
    )
    return Table("recurrent_perplexity", caption, header, rows)


def _perplexity(row: Row | None) -> str:
    if row is None:
        return ""
    text = number(row["perplexity"], 1)
    if row["perplexity_low"]:
        text += f" ({number(row['perplexity_low'], 1)} to {number(row['perplexity_high'], 1)})"
    return text


def published(results: Results) -> Table:
    """Printed figures beside ours."""
    rows = [
        [
            f"{row['source']}, {row['place']}", row["row"], SPLITS[row["split"]],
            number(row["published"], 1), number(row["released"], 2),
            number(row["reproduction"], 2),
            results.called(RECURRENT, row["run"]) if row["run"] else "", row["seeds"],
            number(row["perplexity"], 1), signed(row["difference_percent"], 1),
            signed(row["released_difference_percent"], 1),
            signed(row["reproduction_difference_percent"], 1),
            {"true": "yes", "false": "no"}.get(row["within"], ""),
            row["reason"].replace("_", " "),
        ]
        for row in results["recurrent_published"]
    ]  # fmt: skip
    limit = next((row["tolerance_percent"] for row in results["recurrent_published"]), "")
    header = ["source", "row", "text", "printed", "with the released code", "reproduced elsewhere",
              "our run", "seeds",
              "ours", "ours minus printed (%)",
              "minus the released code's (%)", "minus the reproduction (%)", f"within {limit}%",
              "why none"]  # fmt: skip
    caption = (
        "Printed perplexities on Penn Treebank, and ours where a run has the printed settings. The "
        "settings of Inan et al. are not all printed: theirs are compared as far as they are."
    )
    return Table("recurrent_published", caption, header, rows, long=len(rows) > 20)


def pairs(results: Results) -> Table:
    """Differences with verdicts."""
    rows = [
        [
            SPLITS[row["split"]],
            f"{results.called(RECURRENT, row['first'])} − "
            f"{results.called(RECURRENT, row['second'])}",
            row["differs"], row["seeds"], _difference(row), number(row["ratio"], 3),
            number(row["p_adjusted"], 4), number(row["detectable"], 3), number(row["margin"], 2),
            number(row["p_equivalence_adjusted"], 4), row["verdict"],
            results.reason(RECURRENT, row["reason"]),
        ]
        for row in results["recurrent_pairs"]
    ]  # fmt: skip
    header = ["text", "runs", "differ in", "seeds", "difference", "ratio of perplexities",
              "p, corrected", "smallest detectable", "margin", "p of equivalence", "verdict",
              "why"]  # fmt: skip
    caption = (
        f"Differences in log perplexity, paired by seed, with the {PERCENT} t interval over seeds; "
        f"p values are corrected over the pairs of a text. {CORRECTED}"
    )
    return Table("recurrent_pairs", caption, header, rows, long=True)


def _difference(row: Row) -> str:
    text = signed(row["difference"], 3)
    if row["low"]:
        text += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
    return text


def notes() -> list[str]:
    """What is measured, and how."""
    return [
        "Perplexity is over all words of a text but the first, read as one stream with a carried "
        "state. That of training is the mean over the last epoch of the model as it was at each "
        "update, with what was then dropped.",
        "The penalty on a projection and the augmented loss are part of what is minimized, and of "
        "no perplexity here.",
    ]
