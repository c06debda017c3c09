"""Parameter accounting: published counts and savings next to what the shapes give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiebench.account.registry import PublishedModel, as_model, published_models
from tiebench.analysis.embedding_shares import (
    printed_pie,
    printed_shares,
    three_way_sharing,
    vocabulary_by_width,
)
from tiebench.analysis.pipeline_parallel import Assumptions, pipeline_costs
from tiebench.analysis.printed import agrees
from tiebench.analysis.published_totals import published_models_rows
from tiebench.analysis.rembert_parameters import (
    printed_counts,
    rembert_conventions,
    rembert_parameters,
)
from tiebench.analysis.shapes import read_data
from tiebench.analysis.tables import write_table
from tiebench.analysis.vocabulary_scaling.tables import vocabulary_tables
from tiebench.published.figures import PUBLISHED_PARAMETERS

Row = dict[str, Any]


def account(folder: Path) -> None:
    """Write every accounting table into `folder`, one CSV file each."""
    models, held = published_models(), read_data(PUBLISHED_PARAMETERS)
    printed = printed_counts(held["rembert"], models)
    rows = published_models_rows(models)
    named = {row["model"]: row for row in rows}
    tables = {
        "published_models": rows,
        "three_way_sharing": list(three_way_sharing(rows)),
        "embedding_shares": list(printed_shares(held["shares"], named)),
        "tutorial_pie": list(printed_pie(held["pie"], named)),
        "vocabulary_by_width": list(vocabulary_by_width()),
        "pipeline_parallel": list(pipeline_costs(named, Assumptions(**held["pipeline"]))),
        "savings_by_scale": savings_by_scale(models),
        "parameter_savings": parameter_savings(held["tutorial"], models),
        "rembert_parameters": rembert_parameters(printed),
        "rembert_conventions": rembert_conventions(printed),
        **vocabulary_tables(rows),
    }
    for name, rows in tables.items():
        write_table(folder / f"{name}.csv", list(rows[0]), rows)


def savings_by_scale(models: Mapping[str, PublishedModel]) -> list[Row]:
    """What tying saves in each released model whose two tables could be one, smallest first."""
    rows = []
    for published in models.values():
        model, shape = as_model(published), published.shape
        if model.tied_total is not None and model.matrix is not None:
            rows.append(
                {
                    "model": model.name,
                    "vocabulary": shape.vocabulary,
                    "width": shape.width,
                    "layers": "+".join(map(str, shape.stacks)),
                    "ties_as_shipped": model.tied,
                    "shipped_total": model.shipped_total,
                    "tied_total": model.tied_total,
                    "untied_total": model.untied_total,
                    "matrix": model.matrix,
                    "share_of_tied_percent": 100 * model.matrix / model.tied_total,
                    "saving_percent": 100 * model.matrix / model.untied_total,
                }
            )
    return sorted(rows, key=lambda row: row["tied_total"])


def parameter_savings(printed: list[Row], models: Mapping[str, PublishedModel]) -> list[Row]:
    """A tutorial's savings as printed, the true ones, and which figure is wrong and why."""
    return [_savings_row(row, models[row["model"]]) for row in printed]


def _savings_row(row: Row, published: PublishedModel) -> Row:
    model, shape = as_model(published), published.shape
    tied, untied, matrix = (
        model.tied_total,
        model.untied_total,
        shape.vocabulary * shape.width / 1e6,
    )
    assert tied is not None, "the tutorial is about models of one width"
    share, share_of_tied = 100 * matrix * 1e6 / untied, 100 * matrix * 1e6 / tied
    reasons: dict[str, str] = {}
    if row["vocabulary"] != shape.vocabulary:
        reasons["vocabulary"] = f"{model.name} has {shape.vocabulary:,} entries"
    if row["width"] != shape.width:
        reasons["width"] = f"{model.name} is {shape.width:,} wide"
    if not agrees(row["saved"], matrix):
        reasons["saving"] = f"{shape.vocabulary:,} x {shape.width:,} is {matrix:.1f}M"
    if not agrees(row["share"], share):
        product = row["vocabulary"] * row["width"] / 1e6
        basis = f"{share:.1f}% of the untied total of {untied / 1e6:,.1f}M is saved"
        if agrees(row["share"], 100 * product / row["nominal"]):
            basis += f"; the printed share is {row['saved']:g}M over the nominal {row['label']}"
            if agrees(row["saved"], matrix):
                basis += f", the matrix as a share of the tied model ({share_of_tied:.1f}%)"
        reasons["share"] = basis
    statement = "; ".join(f"{part}: {reason}" for part, reason in reasons.items())
    if not model.tied:
        statement += f"{'; ' if statement else ''}hypothetical: {model.name} ships two matrices"
    return {
        "place": row["place"],
        "label": row["label"],
        "model": model.name,
        "printed_vocabulary": row["vocabulary"],
        "vocabulary": shape.vocabulary,
        "printed_width": row["width"],
        "width": shape.width,
        "printed_saving_millions": row["saved"],
        "saving_millions": matrix,
        "printed_share_percent": row["share"],
        "saving_percent": share,
        "share_of_tied_percent": share_of_tied,
        "ties_as_shipped": model.tied,
        "wrong": " ".join(reasons) or "nothing",
        "statement": statement,
    }
