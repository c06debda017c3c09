"""An account as lines, as Markdown and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tiebench.account.model import ADAM, DTYPES, Model
from tiebench.audit.words import size_words

ROWS = {
    "input_embedding": "input embedding",
    "output_embedding": "output embedding",
    "maps": "maps",
    "positions": "positions",
    "attention": "body: attention",
    "feedforward": "body: feed-forward",
    "norms": "body: norms",
    "head": "head",
}
"""By part, as it is called in a table."""
NONE = "-"


@dataclass(frozen=True)
class Table:
    """One table, with lines below it; without columns only lines."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    below: list[str] = field(default_factory=list)


def tables(model: Model) -> Iterator[Table]:
    """Everything that is said of a model."""
    yield _parts(model)
    yield _totals(model)
    yield _tie(model)
    yield _flops(model)
    if model.notes:
        yield Table("notes", [], [], model.notes)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%"


def _parts(model: Model) -> Table:
    tied, untied = model.tied_total, model.untied_total
    rows = []
    for key, name in ROWS.items():
        number = getattr(model.parts, key)
        again = key == "output_embedding"
        of_tied = NONE if tied is None or again else _percent(number, tied)
        rows.append([name, f"{number:,}", of_tied, _percent(number, untied)])
    columns = ["part", "parameters", "of tied", "of untied"]
    if tied is None:
        columns, rows = [x for x in columns if x != "of tied"], [[*r[:2], r[3]] for r in rows]
        return Table("parts", columns, rows)
    below = ["tied, the output embedding is the input embedding and no part of its own"]
    return Table("parts", columns, rows, below)


def _totals(model: Model) -> Table:
    kept = f"{model.parts.fine_tuning:,}"
    shipped = model.shipped_total
    as_shipped = ["as it ships", "not stated", kept]
    if shipped is not None:
        as_shipped[1] = f"{shipped:,}"
    rows = [as_shipped]
    if model.tied_total is not None:
        rows.append(["tied: one matrix, counted once", f"{model.tied_total:,}", kept])
    else:
        narrow, wide = model.shape.widths
        rows.append(["tied", f"none: widths {narrow:,} and {wide:,}", NONE])
    rows.append(["untied: two matrices", f"{model.untied_total:,}", kept])
    if model.tied is not False and model.tied_total is not None:
        times = "twice" if len(model.shape.stacks) == 1 else "three times"
        rows.append([f"tied, but the matrix counted {times}", f"{model.by_use_total:,}", kept])
    below = ["at fine-tuning output embedding and head are gone; a tied matrix stays as the input"]
    return Table("totals", ["total", "pretraining", "fine-tuning"], rows, below)


def _tie(model: Model) -> Table:
    matrix, tied = model.matrix, model.tied_total
    if matrix is None or tied is None:
        return Table(
            "tying", [], [], ["the widths differ, so that tying can neither save nor add anything"]
        )
    does = {True: "tying saves", False: "tying would save", None: "tying saves, or untying adds"}
    says = {True: "untying would add", False: "two matrices add", None: "untying adds"}
    rows = [
        [f"{does[model.tied]}: parameters", f"{matrix:,}"],
        ["share of the untied total", _percent(matrix, model.untied_total)],
        [f"{says[model.tied]}, of the tied total", _percent(matrix, tied)],
        *([f"bytes in {dtype}", size_words(size * matrix)] for dtype, size in DTYPES.items()),
        ["Adam's two moments", size_words(ADAM["moments"] * matrix)],
        [
            "Adam's moments and float32 weights",
            size_words(ADAM["moments_and_master_weights"] * matrix),
        ],
    ]
    below = [
        "Adam: two float32 moments, 8 bytes a parameter; 12 with a float32 copy of 16-bit weights; "
        "gradients not included"
    ]
    return Table("tying", ["quantity", "value"], rows, below)


def _flops(model: Model) -> Table:
    forward, shape = model.head_flops, model.shape
    rows = [["forward", f"{forward:,}"], ["forward and backward", f"{3 * forward:,}"]]
    below = [
        f"product with the output embedding, 2 x {shape.vocabulary:,} x {shape.widths[1]:,}; the "
        "same tied or untied: tying saves none of it"
    ]
    return Table("head", ["head FLOPs a token", "value"], rows, below)


def head_lines(model: Model) -> list[tuple[str, str]]:
    """What the model is."""
    shape = model.shape
    narrow, wide = shape.widths
    widths = "" if narrow == wide == shape.width else f" (input {narrow:,}, output {wide:,})"
    layers = " + ".join(f"{number:,}" for number in shape.stacks)
    return [
        ("model", model.name),
        ("from", model.source),
        ("shape", f"vocabulary {shape.vocabulary:,}, width {shape.width:,}{widths}, "
                  f"layers {layers}"),
        ("tie", model.statement),
    ]  # fmt: skip


def as_lines(model: Model) -> list[str]:
    """An account for people."""
    lines = [f"{name:<6} {value}" for name, value in head_lines(model)]
    for table in tables(model):
        lines.append("")
        if table.columns:
            cells = [table.columns, *table.rows]
            lengths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
            for row in cells:
                first, *rest = (
                    f"{cell:{'>' if i else '<'}{lengths[i]}}" for i, cell in enumerate(row)
                )
                lines.append("  ".join([first, *rest]).rstrip())
        form = "({})" if table.columns else "note: {}" if table.title == "notes" else "{}"
        lines += [form.format(line) for line in table.below]
    return lines


def as_markdown(model: Model) -> list[str]:
    """An account in Markdown."""
    lines = [f"# {_escaped(model.name)}", ""]
    lines += [f"- {name}: {_escaped(value)}" for name, value in head_lines(model)]
    for table in tables(model):
        lines.append("")
        if table.columns:
            lines.append(f"| {' | '.join(map(_escaped, table.columns))} |")
            lines.append(f"|---|{'---:|' * (len(table.columns) - 1)}")
            lines += [f"| {' | '.join(map(_escaped, row))} |" for row in table.rows]
        if table.columns and table.below:
            lines.append("")
        mark = "- " if table.title == "notes" else ""
        lines += [f"{mark}{_escaped(line)}" for line in table.below]
    return lines


def _escaped(text: str) -> str:
    for mark in "\\|*_<":
        text = text.replace(mark, f"\\{mark}")
    return text


def as_json(model: Model) -> dict[str, Any]:
    """An account as plain values; null where nothing states the tie, or the widths differ."""
    matrix, kept = model.matrix, model.parts.fine_tuning
    return {
        "model": model.name,
        "source": model.source,
        "vocabulary": model.shape.vocabulary,
        "width": model.shape.width,
        "layers": list(model.shape.stacks),
        "input_width": model.shape.widths[0],
        "output_width": model.shape.widths[1],
        "tied": model.tied,
        "tie_statement": model.statement,
        "class_ties_by_default": model.default,
        "headless": model.headless,
        "parts": {**asdict(model.parts), "body": model.parts.body},
        "pretraining": {
            "as_shipped": model.shipped_total,
            "tied": model.tied_total,
            "untied": model.untied_total,
            "matrix_counted_by_use": None if matrix is None else model.by_use_total,
        },
        "fine_tuning": kept,
        "tying": None
        if matrix is None or model.tied_total is None
        else {
            "parameters": matrix,
            "share_of_untied": matrix / model.untied_total,
            "share_of_tied": matrix / model.tied_total,
            "bytes": {dtype: size * matrix for dtype, size in DTYPES.items()},
            "adam_bytes": {name: size * matrix for name, size in ADAM.items()},
        },
        "head_flops_per_token": {
            "forward": model.head_flops,
            "with_backward": 3 * model.head_flops,
        },
        "notes": model.notes,
    }
