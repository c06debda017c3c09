"""What the runs are, and what they cost in parameters."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import bars
from tiebench.reporting.naming import PARTS, amount, capital, counted, joined, number, plain, whole
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row


def section(results: Results, family: str, title: str) -> Section:
    """Parameters by part, and how each run was trained."""
    return Section(
        f"{family}-parameters",
        f"Parameters and runs{title}",
        findings(results, family),
        [
            Figure(
                f"{family}_parameters",
                "Parameters by part; fine-tuning drops the output table and the head.",
                partial(bars.parameters_of_runs, results, family),
            )
        ],
        [parameters(results, family), runs(results, family)],
    )


def lead(results: Results, family: str) -> str:
    """The runs in a sentence or two, for the top of the page."""
    rows, trained = results.runs(family), results.trained(family)
    seeds, first = len(results.seeds(family)), rows[0]
    matched = [results.called(family, row["run"]) for row in results.matched(family)]
    names = [results.called(family, row["run"]) for row in rows]
    held = list(dict.fromkeys(row["layers"] for row in rows))
    layers = f"{joined(held)} layer{'s' * (held != ['1'])}"
    each = " each" * (len(rows) > 1)
    text = (
        f"{counted(len(rows), family.removesuffix('s'))} ({', '.join(names)}), "
        f"{counted(seeds, 'seed')}{each}, {layers}, {first['width']} wide, "
        f"{first['objective']} objective, "
        f"{int(first['vocabulary']):,} vocabulary entries. "
    )
    if matched:
        others = len(results.matched_seeds(family))
        text += (
            f"{len(matched)} more, matched in parameters to another run: {joined(matched)}, "
            f"{counted(others, 'seed')}{' each' * (len(matched) > 1)}. "
        )
    if not trained:
        return text + "None of them is trained."
    seen, corpus = int(trained[0]["tokens"]), trained[0]["corpus"]
    size = sum(
        float(row["value"])
        for row in results.where("corpus", corpus=corpus, part="train", metric="tokens")
    )
    share = float(trained[0]["data_share"])
    said = _below_all(trained[0]["data_share"])
    part = f"the first {said}% of " if said else ""
    who = "Each" if len(trained) == len(rows) else "Each trained run"
    if len(trained) == 1:
        who = "It" if len(rows) == 1 else "The trained run"
    return text + (
        f"{who} saw {amount(seen)} tokens: on average {seen / size / share:.2g} passes over "
        f"{part}the {amount(size)} training tokens of {plain(corpus)}.{_decided(results, family)}"
    )


def _decided(results: Results, family: str) -> str:
    """Whether any difference between two couplings is."""
    verdicts = [row["verdict"] for row in results.where("pairs", family=family)]
    if not verdicts:
        return ""
    decided = sum(verdict != "undecided" for verdict in verdicts)
    said = f"{decided} of {len(verdicts)}" if decided else f"none of {len(verdicts)}"
    return (
        f" Of the differences between two couplings, {said} {'is' if decided < 2 else 'are'} "
        "decided (see Differences between runs)."
    )


def findings(results: Results, family: str) -> list[str]:
    """What the couplings cost at pretraining and at fine-tuning."""
    counts: dict[str, dict[str, int]] = {}
    for row in results.where("parameters", family=family):
        counts.setdefault(row["run"], {})[row["metric"]] = int(row["value"])
    baseline = results.baseline(family)
    base = counts[baseline]
    changes = []
    trained = [row["run"] for row in results.trained(family)]
    for run in trained:
        ratios = [counts[run][stage] / base[stage] for stage in ("pretraining", "fine_tuning")]
        if run != baseline and ratios != [1.0, 1.0]:
            changes.append(
                f"{results.called(family, run)} has {ratios[0]:.2f} times its parameters at "
                f"pretraining and {ratios[1]:.2f} times at fine-tuning"
            )
    name = capital(results.called(family, baseline))
    start = f"{name} has {amount(base['pretraining'])} parameters"
    alike = ", as every other trained run" if len(trained) > 1 else ""
    sentences = [f"{'; '.join([start, *changes])}." if changes else f"{start}{alike}."]
    for row in results.matched(family):
        stage, other = row["matched_in"], row["matches"]
        share = counts[row["run"]][stage] / counts[other][stage]
        sentences.append(
            f"{capital(results.called(family, row['run']))} has {share:.3f} times the parameters "
            f"of {results.called(family, other)} in {stage.replace('_', '-')}, by a feed-forward "
            f"width of {whole(row['feedforward_width'])}."
        )
    return sentences


def parameters(results: Results, family: str) -> Table:
    """Parameters of the runs by part."""
    rows = []
    for run in (row["run"] for row in results.all_runs(family)):
        counts = {
            r["metric"]: r["value"] for r in results.where("parameters", family=family, run=run)
        }
        total, kept = int(counts["pretraining"]), int(counts["fine_tuning"])
        tables = int(counts["input_table"]) + int(counts["output_table"])
        cells = [whole(counts[part]) for part in PARTS]
        share = f"{100 * tables / total:.1f}"
        rows.append([results.called(family, run), f"{total:,}", f"{kept:,}", *cells, share])
    header = ["run", "pretraining", "fine-tuning", *PARTS.values(), "tables (% of pretraining)"]
    caption = "Parameters of the runs. Fine-tuning drops output table and head, as RemBERT counts."
    return Table(f"{family}_parameters", caption, header, rows)


def runs(results: Results, family: str) -> Table:
    """What the runs are and how they are trained; what all share is said in the caption."""
    described = [_described(results, family, row) for row in results.all_runs(family)]
    shared = {}
    for key in list(described[0]):
        values = {cells[key] for cells in described}
        trained = values - {""} if key in ONLY_TRAINED else values
        if key != "run" and len(described) > 1 and len(trained) == 1:
            shared[key] = trained.pop()
    header = [key for key in described[0] if key not in shared]
    rows = [[cells[key] for key in header] for cells in described]
    said = "; ".join(f"{key} {value}" for key, value in shared.items() if value)
    caption = (
        "The runs. Predicted: share of the positions of a window that are masked and predicted. "
        "The control is what a trained run is held against."
        + (f" The same for all (that are trained): {said}." if said else "")
    )
    return Table(f"{family}_runs", caption, header, rows)


def _below_all(share: str) -> str:
    """A share in percent, or nothing where it is all of something."""
    return number(share, 1, 100) if share and float(share) < 1 else ""


ONLY_TRAINED = frozenset(
    {"learning rate", "share of the text (%)", "steps", "batch (windows x tokens)",
     "predicted (%)", "tokens", "training FLOPs"}
)  # fmt: skip
"""Columns that are empty for untrained runs."""


def _described(results: Results, family: str, row: Row) -> dict[str, str]:
    """The cells of a run by column."""
    trained = row["trained"] == "true"
    baseline = " (baseline)" if row["baseline"] == "true" else ""
    return {
        "run": results.called(family, row["run"]) + baseline,
        "untrained control": results.called(family, row["control"]) if row["control"] else "",
        "matches": f"{results.called(family, row['matches'])} in {plain(row['matched_in'])}"
        if row["matches"]
        else "",
        "tables": "one" if row["tied"] == "true" else "two",
        "input width": row["input_width"],
        "body width": row["width"],
        "output width": row["output_width"],
        "feed-forward width": whole(row["feedforward_width"]),
        "head before the table": row["head"],
        "start of the tables": row["tables"],
        "layers": row["layers"],
        "seeds": str(len(row["seeds"].split())),
        "learning rate": row["learning_rate"],
        "differs in training": row["replaced"],
        "share of the text (%)": _below_all(row["data_share"]),
        "steps": whole(row["steps"]) if trained else "",
        "batch (windows x tokens)": f"{row['batch_size']} x {row['sequence_length']}"
        if trained
        else "",
        "predicted (%)": number(row["masking"], 0, 100),
        "tokens": whole(row["tokens"]) if trained else "",
        "training FLOPs": f"{float(row['train_flops']):.2e}" if trained else "",
    }
