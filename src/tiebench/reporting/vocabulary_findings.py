"""What the page says of vocabulary scaling."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from tiebench.reporting import vocabulary_figures as figures
from tiebench.reporting.accounts import TUTORIAL
from tiebench.reporting.naming import capital, counted, joined, number
from tiebench.reporting.results import Results, Row

TAO = "Tao et al. 2024"
NAMED = 6
"""Models that a sentence names before it counts the rest."""


def findings(results: Results) -> list[str]:
    """What the laws give, where published models lie, and what both mean for tying."""
    return [*printed(results)[:1], *models(results), *tying(results), *shares(results)]


def notes(results: Results) -> list[str]:
    """What else is printed, beside what the released fits give."""
    return printed(results)[1:]


def printed(results: Results) -> list[str]:
    """Which printed vocabularies and exponents the released fits give."""
    rows = list(results.where("vocabulary_scaling", source="printed table"))
    other = [row for row in rows if row["name"].endswith("as printed")]
    table = [row for row in rows if row not in other]
    agreeing = [row for row in table if row["vocabulary_agrees"] == "true"]
    wrong = [_apart(row) for row in table if row["vocabulary_agrees"] == "false"]
    said = (
        f"{len(agreeing)} of the {len(table)} vocabularies in table 1 of {TAO} come out to the "
        "digits printed when the released coefficients are evaluated"
    )
    sentences = [f"{said}; not {joined(wrong)}." if wrong else f"{said}."]
    if other:
        width = int(other[0]["width"])
        code = [
            row
            for row in table
            if row["non_vocabulary"] == other[0]["non_vocabulary"] and row not in other
        ]
        sentences.append(
            f"At the width of {width:,} printed for {other[0]['name'].split(',')[0]}, "
            f"{_agreeing(other)} come out; at {int(code[0]['width']):,}, the width in their code, "
            f"{_agreeing(code)}."
        )
    text = list(results.where("vocabulary_scaling", source="text"))
    parts = [
        f"{row['name']}: {row['printed_vocabulary']}K printed, "
        f"{number(row['vocabulary'], 1, 1e-3)}K by {approach_name(row)}"
        for row in text
    ]
    if parts:
        sentences.append(f"Vocabularies named in the text: {'; '.join(parts)}.")
    law = list(results.where("vocabulary_exponents", source="law"))
    off = [
        f"{quantity_name(row)} of {approach_name(row)} ({row['printed']} printed, "
        f"{number(row['exponent'], 4)} released)"
        for row in law
        if row["agrees"] == "false"
    ]
    if law:
        sentences.append(
            f"{len(law) - len(off)} of {len(law)} printed exponents are the released ones rounded"
            + (f"; not {joined(off)}." if off else ".")
            + _quotient(law)
        )
    refits = {row["source"].split(", ")[1]: row["exponent"] for row in _refits(results)}
    if refits:
        told = [f"{number(exponent, 4)} with {name}" for name, exponent in refits.items()]
        sentences.append(
            "Approach 2 takes its exponent from f(V) and FLOPs alone, without a loss: fitted anew, "
            f"{joined(told)} per token in the FLOPs."
        )
    return sentences


def _quotient(law: list[Row]) -> str:
    """Whether a printed gamma is the quotient of the exponents of compute, as printed."""
    printed = {(row["approach"], row["quantity"], row["against"]): row["printed"] for row in law}
    for approach, quantity, against in printed:
        parts = [printed.get((approach, x, "flops")) for x in (quantity, against)]
        if against != "flops" and all(parts):
            gamma = printed[approach, quantity, against]
            if f"{float(parts[0] or 0) / float(parts[1] or 1):.2f}" == gamma:
                return f" {gamma} is the quotient of the rounded {parts[0]} and {parts[1]}."
    return ""


def _refits(results: Results) -> list[Row]:
    return [row for row in results["vocabulary_exponents"] if row["source"].startswith("refit")]


def _apart(row: Row) -> str:
    name, printed_thousands = row["name"].split(",")[0], row["printed_vocabulary"]
    found = number(row["vocabulary"], 1, 1e-3)
    return f"{name} by {approach_name(row)} ({printed_thousands}K printed, {found}K)"


def approach_name(row: Row) -> str:
    """`approach 1` for a row of the first approach."""
    return figures.APPROACHES[row["approach"]][0].split(",")[0]


def _agreeing(rows: list[Row]) -> str:
    count = sum(row["vocabulary_agrees"] == "true" for row in rows)
    words = {0: "none", len(rows): "all"}.get(count, str(count))
    return f"{words} of the {len(rows)} vocabularies"


def models(results: Results) -> list[str]:
    """Which published decoders have more tokens than the optimum, and which fewer."""
    rows = figures.models_of(results)
    if not rows:
        return []
    ends = {row["name"]: figures.spread(results, row["name"]) for row in rows}
    below = [name for name, (_, high) in ends.items() if high < 1]
    above = sorted((name for name, (low, _) in ends.items() if low > 1), key=lambda x: -ends[x][0])
    inside = [row for row in rows if row["inside_fit"] == "true"]
    between = len(rows) - len(below) - len(above)
    said = (
        f"Of {counted(len(rows), 'published decoder')}, {len(below)} have a smaller vocabulary "
        f"than each of the three approaches gives at their size and width, {len(above)} a larger "
        f"one, and {between or 'none'} one between."
    )
    if above:
        shown = [f"{name} ({number(str(ends[name][0]), 1)} times)" for name in above[:NAMED]]
        rest = len(above) - len(shown)
        said += f" Farthest above: {joined(shown)}{f'; and {rest} more' if rest else ''}."
    return [
        said,
        f"{len(inside)} of them lie within the sizes and vocabularies that the laws were fitted "
        "on; for the others the laws are extrapolated. They are about the compute-optimal amount "
        "of training text; models trained longer should have more tokens by approach 3.",
    ]


def tying(results: Results) -> list[str]:
    """What counting one matrix or two does to the optimum."""
    rows = list(results.where("vocabulary_tying", approach="loss_fit"))
    matrices = results["vocabulary_matrices"]
    held = {
        count: sum(row["agrees"] == "true" for row in matrices if row["matrices"] == count)
        for count in ("1", "2")
    }
    models_counted = len({row["total"] for row in matrices})
    ranges = {
        reading: _range(row["ratio"] for row in rows if row["reading"] == reading)
        for reading in dict.fromkeys(row["reading"] for row in rows)
    }
    moved = [f"{name}: {low} to {high}" if low != high else f"{name}: {low}"
             for name, (low, high) in list(ranges.items())[1:]]  # fmt: skip
    low, high = _range(row["approaches_ratio"] for row in rows)
    loss = max(float(row["excess_loss"]) for row in rows)
    sentences = [
        "The law counts one matrix, N_v = V d. Its FLOPs hold for tied and untied models alike: "
        "the head is one product, and looking up an input row is none. The named totals of its "
        f"own models less two matrices are the parameters printed for {held['2']} of "
        f"{models_counted} models, less one matrix for {held['1']}.",
        "Optimal vocabulary by approach 3 at the same budget, times the published one: "
        f"{'; '.join(moved)}. The three approaches differ among themselves by {low} to {high} "
        "times at one size.",
        "Using the published optimum under another reading costs at most "
        f"{loss:.3f} nats by the fitted loss.",
    ]
    if held["2"] == models_counted > held["1"]:
        sentences.append(
            "By these totals all models of the fit held two matrices, of which it counts one: none "
            "was tied, and the fit cannot say which reading holds for a tied model."
        )
    return sentences


def _range(cells: Iterable[str]) -> tuple[str, str]:
    values = sorted(float(cell) for cell in cells)
    return f"{values[0]:.2f}", f"{values[-1]:.2f}"


def shares(results: Results) -> list[str]:
    """How the share that tying saves falls along the laws, and in published models."""
    sentences = []
    laws = [
        list(results.where("vocabulary_share", source="law", approach=approach))
        for approach in figures.APPROACHES
    ]
    parts = []
    for rows in laws:
        first, last = rows[0], rows[-1]
        parts.append(
            f"{approach_name(first)} from {number(first['saved_percent'], 1)}% at "
            f"{first['name']} to {number(last['saved_percent'], 1)}% at {last['name']}, "
            f"exponent {number(first['saved_exponent'], 3)} to "
            f"{number(last['saved_exponent'], 3)}, limit {number(last['limit_exponent'], 3)}"
        )
    rows = [row for held in laws for row in held]
    steps = [row for row in rows if row["falls"]]
    falls = sum(row["falls"] == "true" for row in steps)
    at_steps = "every step" if falls == len(steps) else f"{falls} of {len(steps)} steps"
    grow = all(
        float(a["vocabulary_parameters"]) < float(b["vocabulary_parameters"])
        for held in laws
        for a, b in pairwise(held)
    )
    flatter = all(float(row["saved_exponent"]) > float(row["limit_exponent"]) for row in rows)
    sentences.append(
        f"Along the laws the share that tying saves falls at {at_steps} in size"
        + (", while the parameters saved grow" if grow else "")
        + f": {'; '.join(parts)}."
        + (
            " At every size the share falls more slowly than in the limit, since the matrices "
            "themselves are part of the total."
            if flatter
            else ""
        )
    )
    printed_rows = list(
        results.where("vocabulary_share", source="law", approach="derivative_printed")
    )
    if printed_rows:
        near = next(
            (
                row
                for row in printed_rows
                if round(float(row["saved_exponent"]), 2) == round(float(row["limit_exponent"]), 2)
            ),
            None,
        )
        limit = float(printed_rows[0]["limit_exponent"])
        at = f"from {near['name']} on" if near else "at no size tried"
        sentences.append(
            f"With the exponent as printed the share falls as N^{limit:.2f} in the limit; to two "
            f"digits that holds {at}, and at {printed_rows[0]['name']} it is "
            f"N^{float(printed_rows[0]['saved_exponent']):.2f}."
        )
    width = results.one("vocabulary_exponents", quantity="width")
    vocabulary = [
        row
        for row in results.where(
            "vocabulary_exponents", source="paper's sizes", quantity="vocabulary",
            against="non_vocabulary",
        )
        if row["approach"] in figures.APPROACHES
    ]  # fmt: skip
    if width and vocabulary:
        low, high = _range(row["exponent"] for row in vocabulary)
        matrix = [
            row["exponent"]
            for row in results.where(
                "vocabulary_exponents", source="law, limit", quantity="vocabulary_parameters"
            )
        ]
        least, most = _range(matrix)
        sentences.append(
            f"{capital(TUTORIAL)}, writes "
            "V proportional to a power of all parameters N. The law is about the vocabulary's "
            f"parameters against all others, with exponents of {least} to {most}; tokens grow "
            f"slower, with {low} to {high} at the paper's widths, which grow with "
            f"{number(width['exponent'], 2)} themselves."
        )
    fits = [row for row in results["vocabulary_exponents"] if row["source"].startswith("models")]
    if fits:
        told = [
            f"{number(row['exponent'], 2)} ({number(row['low'], 2)} to {number(row['high'], 2)}, "
            f"{row['points']} {'decoders' if 'decoders' in row['source'] else 'models'})"
            for row in fits
        ]
        sentences.append(
            "In published models the share saved goes with the total to the power of "
            f"{joined(told)}: a description by least squares, as families share sizes and "
            "tokenizers."
        )
    return sentences


def quantity_name(row: Row) -> str:
    """What grows with what, of a row of exponents."""
    names = {
        "non_vocabulary": "other parameters", "vocabulary_parameters": "vocabulary parameters",
        "saved_share": "share saved", "flops": "FLOPs", "untied_total": "total with two matrices",
    }  # fmt: skip
    quantity, against = (names.get(row[key], row[key]) for key in ("quantity", "against"))
    return f"{quantity} by {against}"
