"""Parameter accounting: what tying saves by scale, and RemBERT's printed counts."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import bars, scale, scale_figures
from tiebench.reporting.naming import joined, number, plain, signed, whole
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row

TUTORIAL = "a Chinese-language tutorial on weight tying, “一行代码的魔法”"


def savings_section(results: Results) -> Section:
    """What tying saves in published models, and in the tutorial."""
    return Section(
        "savings",
        "What tying saves, by scale",
        savings(results),
        [
            Figure(
                "savings_by_scale",
                "One matrix as a share of the total with two, of every published model whose two "
                f"could be one; crosses: as printed in {TUTORIAL}.",
                partial(scale_figures.savings_by_scale, results),
            ),
            Figure(
                "tutorial_pie",
                "The tutorial's pie of a model of 7B parameters, and the model itself.",
                partial(scale_figures.tutorial_pie, results),
            ),
        ],
        [savings_table(results), scale.pie_table(results), scale_table(results)],
    )


def savings(results: Results) -> list[str]:
    """What is wrong in the tutorial, and how the share varies with size."""
    table = list(results.where("parameter_savings", place="table"))
    wrong = [row for row in table if row["wrong"] != "nothing"]
    rows = sorted(results["savings_by_scale"], key=lambda row: float(row["saving_percent"]))
    parts = [f"{row['label']} ({row['wrong'].replace(' ', ', ')})" for row in wrong]
    hypothetical = [row["label"] for row in table if row["ties_as_shipped"] == "false"]
    example = next(results.where("parameter_savings", place="worked example"))
    pie = next(results.where("tutorial_pie", part="output_embedding"))
    return [
        f"{len(wrong)} of the {len(table)} rows in the table of {TUTORIAL}, print a wrong figure: "
        f"{joined(parts)}; in its worked example of {example['label']}: "
        f"{example['wrong'].replace(' ', ', ')}.",
        f"Its pie of a model of 7B has two slices of {pie['printed_millions']}M for the "
        f"vocabulary where {pie['model']} has two of {number(pie['counted_millions'], 0)}M.",
        f"For {joined(hypothetical)} nothing is saved in fact: the model ships two tables.",
        f"The share saved ranges from {number(rows[0]['saving_percent'], 2)}% of the untied total "
        f"({rows[0]['model']}) to {number(rows[-1]['saving_percent'], 2)}% ({rows[-1]['model']}); "
        "the models differ in vocabulary as well as in size.",
    ]


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
        f"Savings by tying in {TUTORIAL}, printed / true. The true share is one matrix over the "
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
            row["layers"].replace("+", " + "),
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
    caption = "What one matrix in place of two saves, in published models."
    return Table("savings_by_scale", caption, header, rows, long=True)


def rembert_section(results: Results) -> Section:
    """RemBERT's printed counts against its shapes."""
    return Section(
        "rembert-parameters",
        "RemBERT's parameter counts",
        rembert(results),
        [
            Figure(
                "rembert_parameters",
                "Pretraining parameters counted from the shapes, against those printed."
                + _ties(results),
                partial(bars.rembert_differences, results),
            ),
            Figure(
                "embedding_shares",
                "RemBERT's table 1: one vocabulary matrix as a share of the model, as printed and "
                "as counted from the checkpoints' shapes.",
                partial(scale_figures.printed_shares, results),
            ),
        ],
        [
            scale.shares_table(results),
            rembert_table(results),
            readings_table(results),
            conventions_table(results),
        ],
    )


def _leading(results: Results) -> list[Row]:
    """The conventions that give most figures."""
    rows = results["rembert_conventions"]
    return [row for row in rows if row["agreeing_figures"] == rows[0]["agreeing_figures"]]


def _ties(results: Results) -> str:
    others = [row["convention"] for row in _leading(results)[1:]]
    if not others:
        return ""
    return f" As many figures as {_leading(results)[0]['convention']} give: {'; '.join(others)}."


def rembert(results: Results) -> list[str]:
    """Which convention gives the printed counts."""
    leading, rows = _leading(results), results["rembert_parameters"]
    best, stages = leading[0], ("pretraining", "fine_tuning")
    full = {(row["figure"], s) for row in rows for s in stages if row[f"full_{s}_agrees"] == "true"}
    sentences = [
        f"{best['agreeing_figures']} of RemBERT's {best['figures']} printed figures come out when "
        f"{best['convention'].replace(', ', ' are counted and ')} to millions"
        + (f" ({len(leading) - 1} other ways to count do as well)" if len(leading) > 1 else "")
        + f"; counting every parameter and rounding gives {len(full)}."
    ]
    sentences += (
        f"Table {row['table']}, {row['row']}: {row['statement']}."
        for row in rows
        if best["convention"] not in row["statement"] and row["figure"] == row["row"]
    )
    readings = [row for row in rows if row["figure"] != row["row"]]
    pooled = (
        f"output width {row['output_width']} has {number(row['pooler_pretraining'], 2)}M, which "
        f"{'rounds' if row['pooler_pretraining_agrees'] == 'true' else 'does not round'} to it"
        for row in readings
    )
    printed = readings[0]["printed_pretraining"]
    sentences.append(
        f"RemBERT itself is printed with {printed}M. With the pooler counted beside every "
        f"parameter, {'; '.join(pooled)}; without it they have "
        f"{joined([number(row['full_pretraining'], 2) + 'M' for row in readings])}."
    )
    shares = results["embedding_shares"]
    others = [row for row in shares if row["agrees"] == "false"]
    models = joined(list(dict.fromkeys(row["model"] for row in others)))
    sentences.append(
        f"Of table 1, {len(shares) - len(others)} of {len(shares)} figures agree with the count "
        f"to the digits printed{f'; those that do not are of {models}' if others else ''}."
    )
    return sentences


def rembert_table(results: Results) -> Table:
    """RemBERT's printed counts and three ways to get them."""
    best = results["rembert_conventions"][0]["convention"]
    rows = []
    for row in results["rembert_parameters"]:
        cells = [row["table"], row["row"]]
        for stage in ("pretraining", "fine_tuning"):
            cells += [
                row[f"printed_{stage}"],
                number(row[f"best_{stage}"], 2),
                number(row[f"full_{stage}"], 2),
                signed(row[f"full_{stage}_difference_percent"], 2),
                number(row[f"pooler_{stage}"], 2),
            ]
        rows.append(cells)
    header = ["table", "row"]
    for stage in ("pretraining", "fine-tuning"):
        header += [
            f"{stage}: printed",
            best,
            "every parameter",
            "every parameter (% off)",
            "and pooler",
        ]
    caption = (
        f"RemBERT's parameters (millions): printed, and counted from the shapes.{_ties(results)} "
        "Of the ablation, positions, head transform and biases of the maps are not printed: "
        "RemBERT's own are assumed. Table 5's output width, 128, is derived from its totals; "
        "table 6's 16 heads and feed-forward width 4,096 at width 1024 are assumed."
    )
    return Table("rembert_parameters", caption, header, rows)


def readings_table(results: Results) -> Table:
    """Which ways to count give RemBERT's printed counts."""
    rows = [[row["row"], row["table"], row["statement"]] for row in results["rembert_parameters"]]
    caption = "Which ways to count agree with each row of RemBERT's printed figures."
    return Table("rembert_readings", caption, ["row", "table", "reading"], rows, long=True)


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
    caption = (
        "Ways to count that were tried on RemBERT's printed figures; the two readings of RemBERT "
        "itself are one row's figures."
    )
    header = ["counted, digits", "figures that agree", "rows whose two figures do not both agree"]
    return Table("rembert_conventions", caption, header, rows, long=True)
