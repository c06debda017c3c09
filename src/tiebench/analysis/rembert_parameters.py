"""RemBERT's printed parameter counts, and the ways to count that give them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tiebench.account.parts import Parts
from tiebench.account.registry import PublishedModel
from tiebench.analysis.counting import affine, count
from tiebench.analysis.shapes import Shape
from tiebench.schema import validate

Row = dict[str, Any]

STAGES = ("pretraining", "fine_tuning")
OPTIONAL_PARTS = ("positions", "maps", "head", "pooler")
ROUNDINGS: Mapping[str, Callable[[float], int]] = {"rounded": round, "truncated": math.floor}


@dataclass(frozen=True)
class PrintedCounts:
    """One printed row and the shape that it is about.

    Attributes:
        printed: millions by stage.
        fine_tuning_layers: blocks kept at fine-tuning where some are dropped.
        figure: rows with the same one are several readings of one printed row.
        assumed: what of the shape is not printed, beside what is assumed of all.
    """

    table: str
    row: str
    printed: dict[str, int]
    shape: Shape
    tied: bool
    fine_tuning_layers: int
    figure: str
    assumed: str | None


def printed_counts(
    held: Mapping[str, Any], models: Mapping[str, PublishedModel]
) -> list[PrintedCounts]:
    """The printed rows with their shapes, from the plain values of the file that holds them."""
    rows = []
    for row in held["rows"]:
        if "model" in row:
            shape, tied = models[row["model"]].shape, models[row["model"]].tied
        else:
            values = {**held["common"], **held["ablation"], **row.get("shape", {})}
            shape, tied = validate(Shape, values, row["row"]), row.get("tied", False)
        rows.append(
            PrintedCounts(
                table=row["table"],
                row=row["row"],
                printed={stage: row[stage] for stage in STAGES},
                shape=shape,
                tied=tied,
                fine_tuning_layers=row.get("fine_tuning_layers", shape.layers),
                figure=row.get("figure", row["row"]),
                assumed=row.get("assumed"),
            )
        )
    return rows


def rembert_parameters(printed: list[PrintedCounts]) -> list[Row]:
    """RemBERT's printed counts beside three ways to count, in millions.

    `full` is every parameter of the graph with head, `pooler` adds BERT's pooler (both rounded to
    compare); `best` is the convention of `rembert_conventions` that gives most of the printed
    figures. `statement` says which conventions give the row, else each of its two figures.
    """
    conventions = _conventions(printed)
    best = conventions[0]
    ways: dict[str, tuple[tuple[str, ...], Callable[[float], int]]] = {
        "best": (best["optional_parts"], ROUNDINGS[best["rounding"]]),
        "full": (OPTIONAL_PARTS[:-1], round),
        "pooler": (OPTIONAL_PARTS, round),
    }
    rows = []
    for row in printed:
        shape = row.shape
        out: Row = {
            "table": row.table,
            "row": row.row,
            "figure": row.figure,
            "vocabulary": shape.vocabulary,
            "width": shape.width,
            "layers": shape.layers,
            "input_width": shape.widths[0],
            "output_width": shape.widths[1],
            "tied": row.tied,
        }
        out |= {f"printed_{stage}": row.printed[stage] for stage in STAGES}
        for name, (parts, whole) in ways.items():
            for stage, value in zip(STAGES, _millions(row, parts), strict=True):
                out[f"{name}_{stage}"] = value
                out[f"{name}_{stage}_difference_percent"] = 100 * (value / row.printed[stage] - 1)
                out[f"{name}_{stage}_agrees"] = whole(value) == row.printed[stage]
        rows.append({**out, "statement": _statement(row, conventions)})
    return rows


def _statement(row: PrintedCounts, conventions: list[Row]) -> str:
    """Which conventions give both figures of a row; where none does, those that give each."""
    giving = {
        stage: [c["convention"] for c in conventions if (row.row, stage) in c["given"]]
        for stage in STAGES
    }
    both = [name for name in giving[STAGES[0]] if name in giving[STAGES[1]]]
    if conventions[0]["convention"] in both:
        return f"agrees when counting {conventions[0]['convention']}"
    if both:
        return f"agrees only when counting {'; or '.join(both)}"
    if not any(giving.values()):
        return f"agrees under none of the {len(conventions)} conventions tried"
    figures = (
        f"{row.printed[stage]}M at {stage.replace('_', '-')} agrees "
        + (f"only when counting {'; or '.join(names)}" if names else "under no convention tried")
        for stage, names in giving.items()
    )
    return f"no convention gives both; {', and '.join(figures)}"


def rembert_conventions(printed: list[PrintedCounts]) -> list[Row]:
    """Every way to count that was tried, best first; a figure counts once, however it is read."""
    figures = {(row.figure, stage) for row in printed for stage in STAGES}
    return [
        {
            "convention": c["convention"],
            "figures": len(figures),
            "agreeing_figures": c["agreeing"],
            "rows_not_fitting": "; ".join(
                row.row
                for row in printed
                if any((row.row, stage) not in c["given"] for stage in STAGES)
            ),
        }
        for c in _conventions(printed)
    ]


def _conventions(printed: list[PrintedCounts]) -> list[Row]:
    """Every convention with the (row, stage) that it gives, that which gives most figures first."""
    tried = []
    for size in range(len(OPTIONAL_PARTS) + 1):
        for parts in combinations(OPTIONAL_PARTS, size):
            counted = {row.row: _millions(row, parts) for row in printed}
            for rounding, whole in ROUNDINGS.items():
                given = {
                    (row.row, stage): row.figure
                    for row in printed
                    for stage, value in zip(STAGES, counted[row.row], strict=True)
                    if whole(value) == row.printed[stage]
                }
                tried.append(
                    {
                        "convention": f"{' + '.join(('tables', 'blocks', *parts))}, {rounding}",
                        "optional_parts": parts,
                        "rounding": rounding,
                        "agreeing": len({(figure, stage) for (_, stage), figure in given.items()}),
                        "given": given,
                    }
                )
    return sorted(tried, key=lambda c: -c["agreeing"])


def _millions(row: PrintedCounts, parts: tuple[str, ...]) -> tuple[float, float]:
    """Pretraining and fine-tuning parameters, counting tables, blocks and the optional parts."""
    kept = row.shape.model_copy(update={"layers": row.fine_tuning_layers})
    held, dropped = count(row.shape), count(kept)
    pretraining = (0 if row.tied else held.output_embedding) + (held.head if "head" in parts else 0)
    return (
        (_kept(row.shape, held, parts) + pretraining) / 1e6,
        _kept(kept, dropped, parts) / 1e6,
    )


def _kept(shape: Shape, counts: Parts, parts: tuple[str, ...]) -> int:
    return (
        counts.input_embedding
        + counts.body
        + (counts.positions if "positions" in parts else 0)
        + (counts.maps if "maps" in parts else 0)
        + (affine(shape.width, shape.width) if "pooler" in parts else 0)
    )
