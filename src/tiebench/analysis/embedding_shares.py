"""Vocabulary matrices as a share of a model: printed shares, other uses, vocabulary by width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tiebench.analysis.printed import agrees

Row = dict[str, Any]

BODIES = (100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000)
"""Parameters outside the vocabulary matrices, of the grid."""
VOCABULARIES = tuple(2**power for power in range(12, 19))
WIDTHS = tuple(2**power for power in range(7, 15))


def printed_shares(printed: Iterable[Row], models: Mapping[str, Row]) -> Iterator[Row]:
    """RemBERT's table 1 beside the counts of the checkpoints (Chung et al. 2021).

    Args:
        printed: model, vocabulary (thousands), parameters and embedding (millions), share
            (percent), as printed.
        models: rows of published_models by name.

    Yields:
        One row per model and quantity: what is printed, what is counted, and whether they agree to
        the digits printed.
    """
    for row in printed:
        model = models[row["model"]]
        total, matrix = model["shipped_total"], model["input_embedding"]
        counted = {
            "vocabulary": model["vocabulary"] / 1e3,
            "parameters": total / 1e6,
            "embedding": matrix / 1e6,
            "share": 100 * matrix / total,
        }
        for quantity, true in counted.items():
            yield {
                "model": row["model"],
                "quantity": quantity,
                "printed": row[quantity],
                "counted": true,
                "difference_percent": 100 * (row[quantity] / true - 1),
                "agrees": agrees(row[quantity], true),
            }


def printed_pie(pie: Row, models: Mapping[str, Row]) -> Iterator[Row]:
    """A tutorial's pie of a model of 7B, slice by slice, beside the model as it ships."""
    model = models[pie["model"]]
    whole = sum(piece["printed"] for piece in pie["slices"])
    for piece in pie["slices"]:
        true = model["untied_total"] - 2 * model["matrix"]
        if piece["part"] != "body":
            true = model[piece["part"]]
        yield {
            "slice": piece["slice"],
            "model": model["model"],
            "part": piece["part"],
            "printed_millions": piece["printed"],
            "printed_share_percent": 100 * piece["printed"] / whole,
            "counted_millions": true / 1e6,
            "counted_share_percent": 100 * true / model["untied_total"],
            "agrees": agrees(piece["printed"], true / 1e6),
        }


def three_way_sharing(models: Iterable[Row]) -> Iterator[Row]:
    """Encoder-decoders with one, two or three matrices (three-way tying, Press & Wolf 2017).

    One: the inputs of encoder and decoder and the output are the same matrix (T5). Two: the
    inputs are (T5 1.1, mT5). Three: none is. Totals count each matrix once.
    """
    for model in models:
        if "+" not in str(model["layers"]):
            continue
        matrix, body = model["matrix"], model["tied_total"] - model["matrix"]
        yield {
            "model": model["model"],
            "vocabulary": model["vocabulary"],
            "width": model["width"],
            "matrices_as_shipped": 1 if model["tied"] else 2,
            "matrix": matrix,
            **{f"total_{count}": body + count * matrix for count in (1, 2, 3)},
            **{
                f"saving_{count}_of_3_percent": 100 * (3 - count) * matrix / (body + 3 * matrix)
                for count in (1, 2)
            },
        }


def vocabulary_by_width() -> Iterator[Row]:
    """What one matrix in place of two saves, by vocabulary and embedding width, at fixed bodies."""
    for body in BODIES:
        for vocabulary in VOCABULARIES:
            for width in WIDTHS:
                matrix = vocabulary * width
                yield {
                    "body": body,
                    "vocabulary": vocabulary,
                    "width": width,
                    "matrix": matrix,
                    "saving_percent": 100 * matrix / (body + 2 * matrix),
                }
