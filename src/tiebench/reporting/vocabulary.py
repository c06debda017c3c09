"""Vocabulary scaling: the published laws, published models on them, and what tying changes."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import vocabulary_figures as figures
from tiebench.reporting.naming import number, plain, signed, whole
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row
from tiebench.reporting.vocabulary_findings import (
    TAO,
    approach_name,
    findings,
    notes,
    quantity_name,
)


def section(results: Results) -> Section:
    """What the laws give, what is printed, and what they mean for tying."""
    shaded = "Shaded: the sizes that the laws were fitted on."
    drawn = [
        Figure(
            "vocabulary_optimum",
            f"Optimal vocabulary by the three approaches of {TAO} at the paper's widths; hollow "
            f"markers: table 1 as printed; crosses: published decoders. {shaded}",
            partial(figures.optimum, results),
        ),
        Figure(
            "vocabulary_ratio",
            "Vocabulary of published decoders over the optimum at their own size and width, from "
            f"the least to the largest of the three approaches. {shaded}",
            partial(figures.ratio, results),
        ),
        Figure(
            "vocabulary_share",
            "One matrix as a share of the total with two, along the laws and in published models.",
            partial(figures.shares, results),
        ),
        Figure(
            "vocabulary_tying",
            "Optimal vocabulary by approach 3 under each way to count the matrices, over the "
            f"published one; band: the three approaches as published. {shaded}",
            partial(figures.tying, results),
        ),
    ]
    tables = [
        printed_table(results),
        exponents_table(results),
        tying_table(results),
        matrices_table(results),
        share_table(results),
        models_table(results),
    ]
    return Section(
        "vocabulary-scaling",
        "How large a vocabulary should be, and what tying has to do with it",
        findings(results),
        drawn,
        [table for table in tables if table.rows],
        notes(results),
    )


def printed_table(results: Results) -> Table:
    """Table 1 and what is named in the text, printed and as the fits give it."""
    rows = [
        [
            row["name"],
            whole(row["width"]),
            approach_name(row),
            f"{float(row['flops']):.1e}",
            row["printed_vocabulary"],
            number(row["vocabulary"], 1, 1e-3),
            signed(row["difference"], 1),
            row["printed_vocabulary_parameters"],
            number(row["vocabulary_parameters"], 3, 1e-9),
            "yes" if row["agrees"] == "true" else "no",
            number(row["flops_ratio"], 2),
        ]
        for source in ("printed table", "text")
        for row in results.where("vocabulary_scaling", source=source)
    ]
    header = ["other parameters", "width", "by", "FLOPs", "V printed (K)", "V (K)", "difference",
              "matrix printed (B)", "matrix (B)", "agrees", "FLOPs of the parts"]  # fmt: skip
    caption = (
        f"Table 1 of {TAO}, and vocabularies that the text names, printed and from the released "
        "coefficients. It agrees when vocabulary, matrix and FLOPs all round to what is printed. "
        "Last column: 6 (N_nv + V d) H f(V) over the budget, with H as printed; the three power "
        "laws of approach 1 were fitted apart."
    )
    return Table("vocabulary_scaling", caption, header, rows, long=True)


def exponents_table(results: Results) -> Table:
    """Exponents of growth."""
    rows = [
        [
            row["source"],
            plain(row["approach"]),
            quantity_name(row),
            row["points"],
            number(row["exponent"], 4),
            f"{number(row['low'], 3)} to {number(row['high'], 3)}" if row["low"] else "",
            row["printed"],
        ]
        for row in results["vocabulary_exponents"]
    ]
    header = ["source", "approach", "quantity", "points", "exponent", "95% interval", "printed"]
    caption = (
        "Exponents of growth. Law: the released coefficients, and in the limit of large models; "
        "refit: approach 2 made again, one or two vocabulary products in the FLOPs; paper's "
        "sizes: least squares on logarithms over the sizes of the paper at its widths; models: "
        "the same over published ones."
    )
    return Table("vocabulary_exponents", caption, header, rows, long=True)


def tying_table(results: Results) -> Table:
    """The optimum under each way to count, at the smallest, a middle and the largest size."""
    sizes = list(dict.fromkeys(row["name"] for row in results["vocabulary_tying"]))
    chosen = [sizes[0], sizes[len(sizes) // 2], sizes[-1]]
    kinds = dict.fromkeys((row["approach"], row["reading"]) for row in results["vocabulary_tying"])
    rows = []
    for approach, reading in kinds:
        held = {
            row["name"]: row
            for row in results.where("vocabulary_tying", approach=approach, reading=reading)
        }
        first = held[sizes[0]]
        cells = [f"{number(held[x]['vocabulary'], 1, 1e-3)} ({number(held[x]['ratio'], 2)})"
                 for x in chosen]  # fmt: skip
        by = "approach 3" if approach == "loss_fit" else "least compute"
        rows.append([by, reading, first["held"], first["used"], *cells, first["statement"]])
    header = ["by", "reading", "in the loss", "in the FLOPs", *chosen, "why"]
    caption = (
        "Optimal vocabulary (thousands; in brackets: over the published one) by matrices counted "
        "in the loss and in the FLOPs, at three sizes outside the matrices."
    )
    return Table("vocabulary_tying", caption, header, rows)


def matrices_table(results: Results) -> Table:
    """How many matrices the models of the fit held."""
    held: dict[str, dict[str, Row]] = {}
    for row in results["vocabulary_matrices"]:
        held.setdefault(row["total"], {})[row["matrices"]] = row
    rows = [
        [
            number(total, 0, 1e-6),
            whole(found["1"]["width"]),
            number(found["1"]["printed_non_vocabulary"], 0, 1e-6),
            *(
                number(found[count]["non_vocabulary"], 1, 1e-6)
                + (", agrees" if found[count]["agrees"] == "true" else "")
                for count in ("1", "2")
            ),
        ]
        for total, found in held.items()
    ]
    vocabulary = results["vocabulary_matrices"][0]["vocabulary"]
    header = ["total (M)", "width", "others printed (M)", "less one matrix", "less two"]
    caption = (
        f"Totals that the released runs of {TAO} are named by, less one or two matrices of "
        f"{whole(vocabulary)} tokens."
    )
    return Table("vocabulary_matrices", caption, header, rows, long=True)


def share_table(results: Results) -> Table:
    """Shares along the laws."""
    rows = [
        [
            row["name"],
            plain(row["approach"]),
            number(row["vocabulary_parameters"], 1, 1e-6),
            number(row["share_of_tied_percent"], 2),
            number(row["saved_percent"], 2),
            number(row["saved_exponent_non_vocabulary"], 4),
            number(row["saved_exponent"], 4),
            number(row["limit_exponent"], 4),
        ]
        for row in results.where("vocabulary_share", source="law")
    ]
    header = ["other parameters", "approach", "matrix (M)", "of the tied total (%)",
              "saved of the untied total (%)", "exponent by others", "exponent by total",
              "limit"]  # fmt: skip
    caption = (
        "Along the laws: one matrix, its share of a tied model, what tying saves of an untied "
        "one, and the local exponents with which that falls."
    )
    return Table("vocabulary_share", caption, header, rows, long=True)


def models_table(results: Results) -> Table:
    """Published models beside the optimum."""
    held: dict[str, dict[str, Row]] = {}
    for row in results.where("vocabulary_scaling", source="models"):
        held.setdefault(row["name"], {})[row["approach"]] = row
    rows = []
    for name, found in held.items():
        row = found["isoflops"]
        low, high = figures.spread(results, name)
        rows.append(
            [
                name,
                number(row["non_vocabulary"], 1, 1e-6),
                whole(row["width"]),
                "yes" if row["tied"] == "true" else "no",
                number(row["model_vocabulary"], 1, 1e-3),
                *(number(found[x]["vocabulary"], 1, 1e-3) for x in figures.APPROACHES),
                f"{low:.2f} to {high:.2f}",
                "yes" if row["decoder"] == "true" else "no",
                "yes" if row["inside_fit"] == "true" else "no",
            ]
        )
    header = ["model", "other parameters (M)", "width", "ties", "V (K)", "approach 1",
              "approach 2", "approach 3", "V / optimum", "decoder", "fitted range"]  # fmt: skip
    caption = (
        "Vocabularies (thousands) of published models, and the optimum at their parameters "
        "outside the vocabulary matrices and their body's width. The laws are about decoders."
    )
    return Table("vocabulary_models", caption, header, rows, long=True)
