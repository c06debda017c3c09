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

PUBLISHED_PARAMETERS = Path(__file__).with_name("published_parameters.yaml")

Row = dict[str, Any]

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
    """RemBERT's printed counts beside two conventions, in millions.

    `full` is every parameter of the graph with head (rounded to compare); `best` is the
    convention of `rembert_conventions` that gives most of the printed figures.
    """
    best = _best(printed, models)
    rows = []
    for row in printed:
        shape = models[row["model"]]
        full = _millions(row, shape, ("positions", "maps", "head"))
        counted = _millions(row, shape, best["optional_parts"])
        out: Row = {
            "table": row["table"],
            "row": row["row"],
            "vocabulary": shape.vocabulary,
            "width": shape.width,
            "layers": shape.layers,
            "input_width": shape.widths[0],
            "output_width": shape.widths[1],
            "tied": shape.tied,
        }
        both = tuple(enumerate(("pretraining", "fine_tuning")))
        out |= {f"printed_{stage}": row[stage] for _, stage in both}
        for name, values in (("full", full), ("best", counted)):
            whole = ROUNDINGS[best["rounding"]] if name == "best" else round
            for index, stage in both:
                out[f"{name}_{stage}"] = values[index]
                out[f"{name}_{stage}_difference_percent"] = 100 * (values[index] / row[stage] - 1)
                out[f"{name}_{stage}_agrees"] = whole(values[index]) == row[stage]
        fits = [out[f"best_{stage}_agrees"] for _, stage in both]
        others = [c["convention"] for c in best["all"] if row["row"] in c["fitting"]]
        if all(fits):
            out["statement"] = f"agrees when counting {best['convention']}"
        elif others:
            out["statement"] = f"agrees only when counting {others[0]}"
        else:
            out["statement"] = f"agrees under none of the {len(best['all'])} conventions tried"
        rows.append(out)
    return rows


def rembert_conventions(printed: list[Row], models: Mapping[str, Shape]) -> list[Row]:
    """Every way to count that was tried, best first, with the rows whose two figures it gives."""
    return [
        {
            "convention": c["convention"],
            "figures": 2 * len(printed),
            "agreeing_figures": c["agreeing"],
            "fitting_rows": len(c["fitting"]),
            "rows_not_fitting": "; ".join(
                row["row"] for row in printed if row["row"] not in c["fitting"]
            ),
        }
        for c in _conventions(printed, models)
    ]


def _best(printed: list[Row], models: Mapping[str, Shape]) -> Row:
    ranked = _conventions(printed, models)
    return {**ranked[0], "all": ranked}


def _conventions(printed: list[Row], models: Mapping[str, Shape]) -> list[Row]:
    tried = []
    for size in range(len(OPTIONAL_PARTS) + 1):
        for parts in combinations(OPTIONAL_PARTS, size):
            for name, to_whole in ROUNDINGS.items():
                hits = {
                    row["row"]: [
                        to_whole(counted) == row[stage]
                        for counted, stage in zip(
                            _millions(row, models[row["model"]], parts),
                            ("pretraining", "fine_tuning"),
                            strict=True,
                        )
                    ]
                    for row in printed
                }
                tried.append(
                    {
                        "convention": f"{' + '.join(('tables', 'blocks', *parts))}, {name}",
                        "optional_parts": parts,
                        "rounding": name,
                        "agreeing": sum(map(sum, hits.values())),
                        "fitting": [row for row, hit in hits.items() if all(hit)],
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
