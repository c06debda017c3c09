"""What tying does to the optimal vocabulary: matrices counted in the loss and in the FLOPs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiebench.analysis.vocabulary_scaling.law import Law

Row = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """A way to count vocabulary matrices in the fitted loss and the compute."""

    name: str
    held: float
    """Matrices that the model holds, which enter the loss."""
    used: float
    """Matrices that each token is multiplied with, which enter the FLOPs."""
    counted: float
    """Matrices that the fit's models held for each one that the fit counted."""
    statement: str


READINGS = (
    Reading(
        "as published", 1, 1, 1,
        "one matrix in the loss and in the FLOPs; the FLOPs are those of tied and untied models "
        "alike, since looking up an input row multiplies nothing",
    ),
    Reading(
        "untied, fit's own models", 2, 1, 2,
        "two matrices held, as by the models that were fitted: counting both rescales a "
        "coefficient and moves nothing",
    ),
    Reading(
        "tied, half of the fit's", 1, 1, 2,
        "one matrix held where the fit's models held two, if parameters are what lowers the loss",
    ),
    Reading(
        "two in the loss", 2, 1, 1,
        "both matrices put into the formula as printed, which was fitted with one",
    ),
    Reading("two in the FLOPs", 1, 2, 1, "the look-up counted as if it were a second product"),
    Reading(
        "two in both", 2, 2, 1,
        "both matrices put into loss and FLOPs: exactly half of the vocabulary",
    ),
)  # fmt: skip


def tying_rows(law: Law, sizes: list[Row]) -> Iterator[Row]:
    """The optimal vocabulary under each reading, at the budget of each size.

    Args:
        law: the fits.
        sizes: name, non_vocabulary, width, inside_fit.

    Yields:
        Rows of the parametric fit of the loss, then of the vocabulary at which fixed characters
        cost least (its FLOPs alone can be counted twice). `ratio` is to the published reading;
        `approaches_ratio` the largest of the three approaches over the smallest, at this size;
        `excess_loss` what the published optimum loses, in nats, if the reading holds.
    """
    for size in sizes:
        n, width = size["non_vocabulary"], size["width"]
        budget = law.budget(n)
        own = [law.vocabulary_parameters(approach, n) for approach in law.limits]
        published = law.by_loss(n, budget)
        common = {
            "name": size["name"],
            "non_vocabulary": n,
            "width": width,
            "flops": budget,
            "inside_fit": size["inside_fit"],
            "approaches_ratio": max(own) / min(own),
        }
        for reading in READINGS:
            ways = {"held": reading.held, "used": reading.used, "counted": reading.counted}
            matrix = law.by_loss(n, budget, **ways)
            excess = law.loss(n, published, budget, **ways) - law.loss(n, matrix, budget, **ways)
            yield {
                **common,
                "approach": "loss_fit",
                "reading": reading.name,
                **ways,
                "vocabulary_parameters": matrix,
                "vocabulary": matrix / width,
                "ratio": matrix / published,
                # less than a rounding error is none
                "excess_loss": round(excess, 12),
                "statement": reading.statement,
            }
        once = law.least_compute(n, width)
        for used, name in ((1, "as published"), (2, "two in the FLOPs")):
            vocabulary = law.least_compute(n, width, used)
            yield {
                **common,
                "approach": "least_compute",
                "reading": name,
                "held": None,
                "used": used,
                "counted": None,
                "vocabulary_parameters": vocabulary * width,
                "vocabulary": vocabulary,
                "ratio": vocabulary / once,
                "excess_loss": None,
                "statement": "compute alone at fixed characters, from which approach 2 takes its "
                "exponent but not its level",
            }


def matrices_of_the_fit(small_end: Row) -> Iterator[Row]:
    """How many vocabulary matrices the fit's models held: their named totals say so.

    A total minus `matrices` V d is N_nv as printed, up to both roundings: a million in the total,
    three digits in N_nv.
    """
    for model in small_end["models"]:
        matrix = small_end["vocabulary"] * model["width"]
        for matrices in (1, 2):
            left = 1e6 * model["total"] - matrices * matrix
            printed = model["non_vocabulary"]
            rounding = 0.5e6 + (0.5e6 if printed < 1e9 else 5e6)
            yield {
                "total": 1e6 * model["total"],
                "width": model["width"],
                "vocabulary": small_end["vocabulary"],
                "matrices": matrices,
                "non_vocabulary": left,
                "printed_non_vocabulary": printed,
                "agrees": abs(left - printed) <= rounding,
            }
