"""Released models by part, tied and untied, and where a total disagrees with a printed one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tiebench.account.families import DECODERS
from tiebench.account.model import ADAM
from tiebench.account.registry import PublishedModel, as_model
from tiebench.analysis.printed import agrees

Row = dict[str, Any]

UNITS = {"M": 10**6, "B": 10**9}


def published_models_rows(models: Mapping[str, PublishedModel]) -> list[Row]:
    """Every released model: shape, tie, parts, totals, and whether the printed ones agree."""
    return [_row(model) for model in models.values()]


def _row(published: PublishedModel) -> Row:
    model = as_model(published)
    shape, parts, matrix = model.shape, model.parts, model.matrix
    shipped = model.tied_total if published.tied else model.untied_total
    assert shipped is not None, "the registry ties equal widths alone"
    figures = published.figures
    outside = parts.maps + parts.positions + parts.body + parts.head
    return {
        "model": model.name,
        "family": published.family,
        "year": published.year,
        "decoder": published.model_type in DECODERS,
        "source": published.source,
        "model_type": published.model_type,
        "vocabulary": shape.vocabulary,
        "width": shape.width,
        "layers": "+".join(map(str, shape.stacks)),
        "input_width": shape.widths[0],
        "output_width": shape.widths[1],
        "tied": published.tied,
        "class_ties": published.class_ties,
        "input_embedding": parts.input_embedding,
        "output_embedding": parts.output_embedding,
        "maps": parts.maps,
        "positions": parts.positions,
        "attention": parts.attention,
        "feedforward": parts.feedforward,
        "norms": parts.norms,
        "head": parts.head,
        "shipped_total": shipped,
        "tied_total": model.tied_total,
        "untied_total": model.untied_total,
        "fine_tuning_total": parts.fine_tuning,
        "counted_twice_total": model.by_use_total,
        "matrix": matrix,
        "share_of_shipped_percent": None if matrix is None else 100 * matrix / shipped,
        "vocabulary_percent": 100 * (shipped - outside) / shipped,
        "saving_percent": None if matrix is None else 100 * matrix / model.untied_total,
        "non_vocabulary": outside,
        "head_flops_per_token": model.head_flops,
        "adam_bytes": None if matrix is None else ADAM["moments"] * matrix,
        "printed": "; ".join(figures),
        "agrees": all(agrees(figure[:-1], shipped, UNITS[figure[-1]]) for figure in figures)
        if figures
        else None,
        "reason": published.disagreement,
    }


def rounds_to(printed: str, total: int) -> bool:
    """Whether a total rounds to a printed one, such as 125M or 1.5B."""
    return agrees(printed[:-1], total, UNITS[printed[-1]])


def disagreements(rows: Iterable[Row]) -> list[Row]:
    """The rows whose total does not round to what is printed."""
    return [row for row in rows if row["agrees"] is False]


def other_ties(rows: Iterable[Row]) -> list[Row]:
    """The rows whose checkpoint does another thing than its class does by default."""
    return [row for row in rows if row["tied"] != row["class_ties"]]
