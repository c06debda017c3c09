"""Parameter accounting: published counts and savings next to what the shapes give."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from tiebench.analysis.counting import Counts, affine, count
from tiebench.analysis.shapes import Shape, published_models, read_data
from tiebench.analysis.tables import write_table
from tiebench.analysis.vocabulary_scaling.tables import vocabulary_tables

PUBLISHED_PARAMETERS = Path(__file__).with_name("published_parameters.yaml")

Row = dict[str, Any]

STAGES = ("pretraining", "fine_tuning")
OPTIONAL_PARTS = ("positions", "maps", "head", "pooler")
ROUNDINGS: Mapping[str, Callable[[float], int]] = {"rounded": round, "truncated": math.floor}


def account(folder: Path) -> None:
    """Write every accounting table into `folder`, one CSV file each."""
    models, printed = published_models(), read_data(PUBLISHED_PARAMETERS)
    tables = {
        "published_counts": published_counts(models),
        "savings_by_scale": savings_by_scale(models),
        "parameter_savings": parameter_savings(printed["tutorial"], models),
        "rembert_parameters": rembert_parameters(printed["rembert"], models),
        "rembert_conventions": rembert_conventions(printed["rembert"], models),
        **vocabulary_tables(vocabulary_models(models)),
    }
    for name, rows in tables.items():
        write_table(folder / f"{name}.csv", list(rows[0]), rows)


def published_counts(models: Mapping[str, Shape]) -> list[Row]:
    """Every registered shape with its counts by part, as shipped."""
    return [
        {
            "model": shape.name,
            "group": shape.group,
            "vocabulary": shape.vocabulary,
            "width": shape.width,
            "layers": shape.layers,
            "input_width": shape.widths[0],
            "output_width": shape.widths[1],
            "tied": shape.tied,
            **count(shape).as_dict(),
            "source": shape.source,
        }
        for shape in models.values()
    ]


def vocabulary_models(models: Mapping[str, Shape]) -> list[Row]:
    """Released models with what vocabulary scaling reads of them."""
    rows = []
    for shape in models.values():
        if shape.group == "released":
            counts = count(shape)
            rows.append(
                {
                    "model": shape.name,
                    "family": shape.architecture,
                    "vocabulary": shape.vocabulary,
                    "width": shape.width,
                    "input_width": shape.widths[0],
                    "output_width": shape.widths[1],
                    "tied": shape.tied,
                    "non_vocabulary": counts.pretraining - counts.input_table - counts.output_table,
                }
            )
    return rows


def savings_by_scale(models: Mapping[str, Shape]) -> list[Row]:
    """What tying saves in each released model whose two tables could be one, smallest first."""
    rows = []
    for shape in models.values():
        if shape.group == "released" and shape.tieable:
            tied, untied = (count(shape.with_tables(tied=flag)) for flag in (True, False))
            matrix = untied.output_table
            rows.append(
                {
                    "model": shape.name,
                    "vocabulary": shape.vocabulary,
                    "width": shape.width,
                    "layers": shape.layers,
                    "ties_as_shipped": shape.tied,
                    "shipped_total": count(shape).pretraining,
                    "tied_total": tied.pretraining,
                    "untied_total": untied.pretraining,
                    "matrix": matrix,
                    "share_of_tied_percent": 100 * matrix / tied.pretraining,
                    "saving_percent": 100 * matrix / untied.pretraining,
                }
            )
    return sorted(rows, key=lambda row: row["tied_total"])


def parameter_savings(printed: list[Row], models: Mapping[str, Shape]) -> list[Row]:
    """A tutorial's savings as printed, the true ones, and which figure is wrong and why."""
    return [_savings_row(row, models[row["model"]]) for row in printed]


def _savings_row(row: Row, shape: Shape) -> Row:
    tied, untied = (count(shape.with_tables(tied=flag)).pretraining for flag in (True, False))
    matrix = shape.vocabulary * shape.width / 1e6
    share, share_of_tied = 100 * matrix * 1e6 / untied, 100 * matrix * 1e6 / tied
    reasons: dict[str, str] = {}
    if row["vocabulary"] != shape.vocabulary:
        reasons["vocabulary"] = f"{shape.name} has {shape.vocabulary:,} entries"
    if row["width"] != shape.width:
        reasons["width"] = f"{shape.name} is {shape.width:,} wide"
    if not _agrees(row["saved"], matrix):
        reasons["saving"] = f"{shape.vocabulary:,} x {shape.width:,} is {matrix:.1f}M"
    if not _agrees(row["share"], share):
        product = row["vocabulary"] * row["width"] / 1e6
        basis = f"{share:.1f}% of the untied total of {untied / 1e6:,.1f}M is saved"
        if _agrees(row["share"], 100 * product / row["nominal"]):
            basis += f"; the printed share is {row['saved']:g}M over the nominal {row['label']}"
            if _agrees(row["saved"], matrix):
                basis += f", the matrix as a share of the tied model ({share_of_tied:.1f}%)"
        reasons["share"] = basis
    statement = "; ".join(f"{part}: {reason}" for part, reason in reasons.items())
    if not shape.tied:
        statement += f"{'; ' if statement else ''}hypothetical: {shape.name} ships two matrices"
    return {
        "place": row["place"],
        "label": row["label"],
        "model": shape.name,
        "printed_vocabulary": row["vocabulary"],
        "vocabulary": shape.vocabulary,
        "printed_width": row["width"],
        "width": shape.width,
        "printed_saving_millions": row["saved"],
        "saving_millions": matrix,
        "printed_share_percent": row["share"],
        "saving_percent": share,
        "share_of_tied_percent": share_of_tied,
        "ties_as_shipped": shape.tied,
        "wrong": " ".join(reasons) or "nothing",
        "statement": statement,
    }


def _agrees(printed: float, true: float) -> bool:
    """Whether `true`, rounded to the digits of `printed`, is `printed`."""
    digits = len(str(printed).partition(".")[2]) if isinstance(printed, float) else 0
    return round(true, digits) == printed


def rembert_parameters(printed: list[Row], models: Mapping[str, Shape]) -> list[Row]:
    """RemBERT's printed counts beside three ways to count, in millions.

    `full` is every parameter of the graph with head, `pooler` adds BERT's pooler (both rounded to
    compare); `best` is the convention of `rembert_conventions` that gives most of the printed
    figures. `statement` says which conventions give the row, else each of its two figures.
    """
    conventions = _conventions(printed, models)
    best = conventions[0]
    ways: dict[str, tuple[tuple[str, ...], Callable[[float], int]]] = {
        "best": (best["optional_parts"], ROUNDINGS[best["rounding"]]),
        "full": (OPTIONAL_PARTS[:-1], round),
        "pooler": (OPTIONAL_PARTS, round),
    }
    rows = []
    for row in printed:
        shape = models[row["model"]]
        out: Row = {
            "table": row["table"],
            "row": row["row"],
            "figure": _figure(row),
            "vocabulary": shape.vocabulary,
            "width": shape.width,
            "layers": shape.layers,
            "input_width": shape.widths[0],
            "output_width": shape.widths[1],
            "tied": shape.tied,
        }
        out |= {f"printed_{stage}": row[stage] for stage in STAGES}
        for name, (parts, whole) in ways.items():
            for stage, value in zip(STAGES, _millions(row, shape, parts), strict=True):
                out[f"{name}_{stage}"] = value
                out[f"{name}_{stage}_difference_percent"] = 100 * (value / row[stage] - 1)
                out[f"{name}_{stage}_agrees"] = whole(value) == row[stage]
        rows.append({**out, "statement": _statement(row, conventions)})
    return rows


def _statement(row: Row, conventions: list[Row]) -> str:
    """Which conventions give both figures of a row; where none does, those that give each."""
    giving = {
        stage: [c["convention"] for c in conventions if (row["row"], stage) in c["given"]]
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
        f"{row[stage]}M at {stage.replace('_', '-')} agrees "
        + (f"only when counting {'; or '.join(names)}" if names else "under no convention tried")
        for stage, names in giving.items()
    )
    return f"no convention gives both; {', and '.join(figures)}"


def rembert_conventions(printed: list[Row], models: Mapping[str, Shape]) -> list[Row]:
    """Every way to count that was tried, best first; a figure counts once, however it is read."""
    figures = {(_figure(row), stage) for row in printed for stage in STAGES}
    return [
        {
            "convention": c["convention"],
            "figures": len(figures),
            "agreeing_figures": c["agreeing"],
            "rows_not_fitting": "; ".join(
                row["row"]
                for row in printed
                if any((row["row"], stage) not in c["given"] for stage in STAGES)
            ),
        }
        for c in _conventions(printed, models)
    ]


def _figure(row: Row) -> str:
    return str(row.get("figure", row["row"]))


def _conventions(printed: list[Row], models: Mapping[str, Shape]) -> list[Row]:
    """Every convention with the (row, stage) that it gives, that which gives most figures first."""
    tried = []
    for size in range(len(OPTIONAL_PARTS) + 1):
        for parts in combinations(OPTIONAL_PARTS, size):
            counted = {row["row"]: _millions(row, models[row["model"]], parts) for row in printed}
            for rounding, whole in ROUNDINGS.items():
                given = {
                    (row["row"], stage): _figure(row)
                    for row in printed
                    for stage, value in zip(STAGES, counted[row["row"]], strict=True)
                    if whole(value) == row[stage]
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


def _millions(row: Row, shape: Shape, parts: tuple[str, ...]) -> tuple[float, float]:
    """Pretraining and fine-tuning parameters, counting tables, blocks and the optional parts."""
    kept = shape.model_copy(update={"layers": row.get("fine_tuning_layers", shape.layers)})
    held, dropped = count(shape), count(kept)
    pretraining = held.output_table + (held.head if "head" in parts else 0)
    return (
        (_kept(shape, held, parts) + pretraining) / 1e6,
        _kept(kept, dropped, parts) / 1e6,
    )


def _kept(shape: Shape, counts: Counts, parts: tuple[str, ...]) -> int:
    return (
        counts.input_table
        + counts.body
        + (counts.positions if "positions" in parts else 0)
        + (counts.maps if "maps" in parts else 0)
        + (affine(shape.width, shape.width) if "pooler" in parts else 0)
    )
