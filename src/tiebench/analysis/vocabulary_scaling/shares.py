"""What share of a model tying saves along the law and in published models, and how it falls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import LEVEL
from tiebench.analysis.vocabulary_scaling.law import Law

Row = dict[str, Any]

PRINTED = "derivative_printed"
"""Approach 2 with the exponent as the paper prints it, which is where N^-0.17 comes from."""
STEP = 1e-3
"""Half the step in ln N_nv over which a local exponent is taken."""
BEYOND = (1e12, 1e13, 1e14)
"""Sizes past the paper's, to see where the exponent settles."""

SHARES = (
    "source", "name", "approach", "decoder", "tied", "non_vocabulary", "vocabulary_parameters",
    "tied_total", "untied_total", "share_of_tied_percent", "saved_percent",
    "matrix_exponent", "share_exponent_non_vocabulary", "share_exponent",
    "saved_exponent_non_vocabulary", "saved_exponent", "limit_exponent", "falls", "inside_fit",
)  # fmt: skip
EXPONENTS = (
    "source", "approach", "quantity", "against", "points", "exponent", "low", "high", "printed",
    "agrees",
)  # fmt: skip


def curves(law: Law, printed_gamma: float) -> dict[str, tuple[Callable[[float], float], float]]:
    """By approach, N_v as a function of N_nv, and its exponent in the limit of large N_nv."""
    limits = law.limits
    made: dict[str, tuple[Callable[[float], float], float]] = {
        "isoflops": (lambda n: law.by_isoflops(law.budget(n)), limits["isoflops"]),
        "derivative": (law.by_derivative, limits["derivative"]),
        "loss_fit": (lambda n: law.by_loss(n, law.budget(n)), limits["loss_fit"]),
    }
    return {**made, PRINTED: (lambda n: law.by_derivative(n, printed_gamma), printed_gamma)}


def law_shares(law: Law, printed_gamma: float, sizes: Sequence[Row]) -> Iterator[Row]:
    """Shares along each approach's curve with their exact local exponents.

    With r = N_v / N_nv, one matrix is r / (1 + r) of a tied model, and tying saves r / (1 + 2r) of
    an untied one. N_v grows as N_nv^g, so that the latter falls as N_nv^((g - 1) / (1 + 2r)): as
    N_nv^(g - 1) only once N_v is small beside N_nv.

    Args:
        law: the fits.
        printed_gamma: exponent of approach 2 as printed.
        sizes: name, non_vocabulary, inside_fit, from small to large.

    Yields:
        Rows with SHARES. Exponents are against N_nv, and against the total: of the tied model for
        `share`, of the untied one for `saved`. `falls` is against the size before.
    """
    beyond = [{"name": f"{n / 1e12:g}T", "non_vocabulary": n, "inside_fit": False} for n in BEYOND]
    for approach, (matrix, limit) in curves(law, printed_gamma).items():
        before = None
        for size in (*sizes, *beyond):
            n = size["non_vocabulary"]
            held = matrix(n)
            ends = [math.log(matrix(n * math.exp(step))) for step in (-STEP, STEP)]
            growth = (ends[1] - ends[0]) / (2 * STEP)
            ratio = held / n
            row: Row = {
                **dict.fromkeys(SHARES),
                "source": "law",
                "name": size["name"],
                "approach": approach,
                **_shares(n, held),
                "matrix_exponent": growth,
                "limit_exponent": limit - 1,
                "inside_fit": size["inside_fit"],
            }
            for name, matrices in (("share", 1), ("saved", 2)):
                part = 1 + matrices * ratio
                slope = (growth - 1) / part
                row[f"{name}_exponent_non_vocabulary"] = slope
                # the total grows as N_nv to the power of the denominator
                row[f"{name}_exponent"] = slope / (1 + matrices * ratio * (growth - 1) / part)
            if before is not None:
                row["falls"] = row["saved_percent"] < before
            before = row["saved_percent"]
            yield {key: row[key] for key in SHARES}


def model_shares(models: Sequence[Row]) -> Iterator[Row]:
    """Shares of published models whose two matrices could be one; rows with SHARES.

    Args:
        models: name, decoder, tied, non_vocabulary, matrix (its parameters), tieable, inside_fit.
    """
    for model in models:
        if model["tieable"]:
            yield {
                **dict.fromkeys(SHARES),
                "source": "models",
                **{key: model[key] for key in ("name", "decoder", "tied", "inside_fit")},
                **_shares(model["non_vocabulary"], model["matrix"]),
            }


def _shares(non_vocabulary: float, matrix: float) -> Row:
    return {
        "non_vocabulary": non_vocabulary,
        "vocabulary_parameters": matrix,
        "tied_total": non_vocabulary + matrix,
        "untied_total": non_vocabulary + 2 * matrix,
        "share_of_tied_percent": 100 * matrix / (non_vocabulary + matrix),
        "saved_percent": 100 * matrix / (non_vocabulary + 2 * matrix),
    }


def exponent_rows(
    law: Law, printed: Sequence[Row], shapes: Sequence[Row], shares: Sequence[Row]
) -> Iterator[Row]:
    """Growth exponents: as released beside those printed, over the paper's sizes, and of models.

    Args:
        law: the fits.
        printed: approach, quantity, against, printed (text).
        shapes: non_vocabulary and width of the paper's sizes; those of the fit have `fitted`.
        shares: rows of `law_shares` and `model_shares`.

    Yields:
        Rows with EXPONENTS, by source. `law`: exact ones, beside those printed. `law, limit`: for
        sizes without bound. `refit`: of approach 2, made anew, with one or two matrices in the
        FLOPs. `paper's sizes`: least squares on logarithms over those sizes at the paper's widths.
        `models`: least squares over published models, with a t interval that treats them as
        independent, which they are not: a description.
    """
    limits = law.limits
    exact = {
        ("isoflops", "non_vocabulary", "flops"): 0.5,
        ("isoflops", "vocabulary_parameters", "flops"): law.isoflops["vocabulary_exponent"],
        ("isoflops", "vocabulary_parameters", "non_vocabulary"): limits["isoflops"],
        ("derivative", "vocabulary_parameters", "non_vocabulary"): limits["derivative"],
    }
    for row in printed:
        key = (row["approach"], row["quantity"], row["against"])
        yield _exponent("law", *key, exponent=exact[key], printed=row["printed"])
    matrix = ("vocabulary_parameters", "non_vocabulary")
    saved = ("saved_share", "untied_total")
    for approach, limit in limits.items():
        yield _exponent("law, limit", approach, *matrix, exponent=limit)
        yield _exponent("law, limit", approach, *saved, exponent=limit - 1)
    fitted = [(row["non_vocabulary"], row["width"]) for row in shapes if row["fitted"]]
    for matrices, name in ((1, "refit, one product"), (2, "refit, two products")):
        gamma = law.fitted_gamma(fitted, matrices)
        found = _exponent(name, "derivative", *matrix, points=len(fitted), exponent=gamma)
        if matrices == 1:
            # the released coefficient, to four digits
            released = f"{limits['derivative']:.4f}"
            found |= {"printed": released, "agrees": f"{gamma:.4f}" == released}
        yield found
    yield from _over_sizes(shapes, shares)
    for decoders, name in ((False, "models"), (True, "models, decoders")):
        held = [
            row for row in shares if row["source"] == "models" and (row["decoder"] or not decoders)
        ]
        if len(held) > 2:
            slope = power([r["untied_total"] for r in held], [r["saved_percent"] for r in held])
            yield {
                **_exponent(name, None, *saved, points=len(held), exponent=slope["exponent"]),
                **slope,
            }


def _over_sizes(shapes: Sequence[Row], shares: Sequence[Row]) -> Iterator[Row]:
    sizes = [row["non_vocabulary"] for row in shapes]
    widths = [row["width"] for row in shapes]
    name = "paper's sizes"
    slope = power(sizes, widths)["exponent"]
    yield _exponent(name, None, "width", "non_vocabulary", points=len(sizes), exponent=slope)
    for approach in dict.fromkeys(row["approach"] for row in shares if row["source"] == "law"):
        rows = [
            row for row in shares if row["approach"] == approach and row["non_vocabulary"] in sizes
        ]
        matrices = [row["vocabulary_parameters"] for row in rows]
        columns = {
            "vocabulary_parameters": matrices,
            "vocabulary": [matrix / width for matrix, width in zip(matrices, widths, strict=True)],
            "saved_share": [row["saved_percent"] for row in rows],
        }
        for quantity, values in columns.items():
            for against in ("non_vocabulary", "untied_total"):
                slope = power([row[against] for row in rows], values)["exponent"]
                yield _exponent(name, approach, quantity, against, points=len(rows), exponent=slope)


def power(x: Sequence[float], y: Sequence[float]) -> Mapping[str, float]:
    """Slope of ln y on ln x by ordinary least squares with its t interval."""
    from scipy import stats

    fit = stats.linregress([math.log(v) for v in x], [math.log(v) for v in y])
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 2) * fit.stderr)
    slope = float(fit.slope)
    return {"exponent": slope, "low": slope - half, "high": slope + half}


def _exponent(
    source: str,
    approach: str | None,
    quantity: str,
    against: str,
    *,
    exponent: float,
    points: int | None = None,
    printed: str | None = None,
) -> Row:
    agrees = None if printed is None else f"{exponent:.{len(printed) - 2}f}" == printed
    values = (source, approach, quantity, against, points, exponent, None, None, printed, agrees)
    return dict(zip(EXPONENTS, values, strict=True))
