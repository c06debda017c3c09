"""Tables of vocabulary scaling: what is printed, published models on the curve, tying, shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiebench.analysis.vocabulary_scaling.law import Law, published
from tiebench.analysis.vocabulary_scaling.shares import (
    exponent_rows,
    law_shares,
    model_shares,
)
from tiebench.analysis.vocabulary_scaling.tying import matrices_of_the_fit, tying_rows

Row = dict[str, Any]

SCALING = (
    "source", "name", "family", "decoder", "tied", "square", "non_vocabulary", "width", "approach",
    "flops", "characters", "flops_ratio", "vocabulary", "vocabulary_parameters",
    "printed_vocabulary", "printed_vocabulary_parameters", "printed_flops", "difference",
    "vocabulary_agrees", "parameters_agree", "flops_agree", "agrees",
    "model_vocabulary", "ratio", "below", "inside_fit",
)  # fmt: skip
OTHER_OBJECTIVES = ("bert", "t5", "xlm", "electra", "bart", "marian", "nllb")
"""Parts of the names of models that are no decoders; the laws are about decoders."""


def vocabulary_tables(model_rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Row]]:
    """Every table of vocabulary scaling by name.

    Args:
        model_rows: published models with model, family, vocabulary, width, input_width,
            output_width, tied, and non_vocabulary: parameters outside the two matrices.
    """
    held = published()
    law = Law(**held["fits"])
    models = [_model(row, held["fitted_on"]) for row in model_rows]
    sizes = [_size(row, law, held) for row in (*held["small_end"]["models"], *held["table_1"])]
    sizes.sort(key=lambda row: row["non_vocabulary"])
    gamma = next(float(x["printed"]) for x in held["exponents"] if x["approach"] == "derivative")
    shares = [*law_shares(law, gamma, sizes), *model_shares(models)]
    scaling = [
        *_printed_rows(law, held),
        *_text_rows(law, held),
        *_small_end(law, held),
        *_model_rows(law, held, models),
    ]
    return {
        "vocabulary_scaling": scaling,
        "vocabulary_tying": list(tying_rows(law, sizes)),
        "vocabulary_matrices": list(matrices_of_the_fit(held["small_end"])),
        "vocabulary_share": shares,
        "vocabulary_exponents": list(exponent_rows(law, held["exponents"], sizes, shares)),
    }


def _printed_rows(law: Law, held: Row) -> Iterator[Row]:
    """Table 1 as it comes out, at the width printed and, where another, the one in the code."""
    for row in held["table_1"]:
        widths = {"": row["width"]}
        if "printed_width" in row:
            widths = {
                f", width {row['printed_width']:,} as printed": row["printed_width"],
                f", width {row['width']:,} as in the code": row["width"],
            }
        for words, width in widths.items():
            for at, approach in enumerate(held["approaches"]):
                found = _optimum(law, held, approach, row["non_vocabulary"], width)
                yield _row(
                    "printed table",
                    row["name"] + words,
                    **found,
                    printed_vocabulary=row["vocabulary"][at],
                    printed_vocabulary_parameters=row["matrix"][at],
                    printed_flops=row["flops"],
                )


def _text_rows(law: Law, held: Row) -> Iterator[Row]:
    for row in held["text"]:
        approaches = held["approaches"] if row["approach"] == "least" else [row["approach"]]
        found = [
            _optimum(law, held, x, row["non_vocabulary"], row["width"], row.get("budget"))
            for x in approaches
        ]
        least = min(found, key=lambda x: x["vocabulary"])
        yield _row("text", row["name"], **least, printed_vocabulary=row["vocabulary"])


def _small_end(law: Law, held: Row) -> Iterator[Row]:
    for row in held["small_end"]["models"]:
        for approach in held["approaches"]:
            found = _optimum(law, held, approach, row["non_vocabulary"], row["width"])
            yield _row("small end", _called(row["non_vocabulary"]), **found)


def _model_rows(law: Law, held: Row, models: Iterable[Row]) -> Iterator[Row]:
    """Published models beside the optimum at their size and width."""
    for model in models:
        for approach in held["approaches"]:
            found = _optimum(law, held, approach, model["non_vocabulary"], model["width"])
            ratio = model["vocabulary"] / found["vocabulary"]
            found |= {
                "model_vocabulary": model["vocabulary"],
                "ratio": ratio,
                "below": ratio < 1,
                "inside_fit": model["inside_fit"],
            }
            kept = {key: model[key] for key in ("family", "decoder", "tied", "square")}
            yield _row("models", model["name"], **kept, **found)


def _optimum(
    law: Law,
    held: Row,
    approach: str,
    non_vocabulary: float,
    width: float,
    budget: float | None = None,
) -> Row:
    flops = law.budget(non_vocabulary) if budget is None else budget
    matrix = law.vocabulary_parameters(approach, non_vocabulary, flops)
    vocabulary = matrix / width
    found = {
        "non_vocabulary": non_vocabulary,
        "width": width,
        "approach": approach,
        "flops": flops,
        "vocabulary": vocabulary,
        "vocabulary_parameters": matrix,
        "inside_fit": _inside(held["fitted_on"], non_vocabulary, vocabulary),
    }
    if approach == "isoflops":
        # the three power laws were fitted one by one: together they should spend the budget
        characters = law.characters(flops)
        spent = law.flops(non_vocabulary, vocabulary, width, characters)
        found |= {"characters": characters, "flops_ratio": spent / flops}
    return found


def _row(source: str, name: str, **cells: Any) -> Row:
    row: Row = {**dict.fromkeys(SCALING), "source": source, "name": name, **cells}
    printed = row["printed_vocabulary"]
    if printed is not None:
        thousands = row["vocabulary"] / 1e3
        row["difference"] = thousands - printed
        row["vocabulary_agrees"] = round(thousands) == printed
    if row["printed_vocabulary_parameters"] is not None:
        shown = f"{row['vocabulary_parameters'] / 1e9:.1f}"
        row["parameters_agree"] = shown == row["printed_vocabulary_parameters"]
        row["flops_agree"] = f"{row['flops']:.1e}".replace("+", "") == row["printed_flops"]
    told = [row[x] for x in ("vocabulary_agrees", "parameters_agree", "flops_agree")]
    row["agrees"] = all(x is not False for x in told) if told[0] is not None else None
    assert len(row) == len(SCALING), sorted(row.keys() - set(SCALING))
    return row


def _model(row: Mapping[str, Any], fitted_on: Row) -> Row:
    """A published model as the tables need it; `square`: both matrices as wide as the body."""
    widths = {row["input_width"], row["output_width"]}
    names = f"{row['family']} {row['model']}".lower()
    return {
        "name": row["model"],
        "family": row["family"],
        "decoder": not any(part in names for part in OTHER_OBJECTIVES),
        "tied": row["tied"],
        "square": widths == {row["width"]},
        "tieable": len(widths) == 1,
        "vocabulary": row["vocabulary"],
        "width": row["width"],
        "non_vocabulary": row["non_vocabulary"],
        "matrix": row["vocabulary"] * row["output_width"],
        "inside_fit": _inside(fitted_on, row["non_vocabulary"], row["vocabulary"]),
    }


def _size(row: Row, law: Law, held: Row) -> Row:
    """A size of the paper; `fitted`: of the models trained for it."""
    n, width = row["non_vocabulary"], row["width"]
    vocabularies = [law.vocabulary_parameters(x, n) / width for x in held["approaches"]]
    return {
        "name": _called(n),
        "non_vocabulary": n,
        "width": width,
        "fitted": "total" in row,
        "inside_fit": all(_inside(held["fitted_on"], n, v) for v in vocabularies),
    }


def _inside(fitted_on: Row, non_vocabulary: float, vocabulary: float) -> bool:
    given = {"non_vocabulary": non_vocabulary, "vocabulary": vocabulary}
    return all(low <= given[key] <= high for key, (low, high) in fitted_on.items())


def _called(non_vocabulary: float) -> str:
    scale, unit = (1e9, "B") if non_vocabulary >= 1e9 else (1e6, "M")
    return f"{non_vocabulary / scale:g}{unit}"
