"""An audit as lines for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from tiebench.audit.headers import StoredTensor
from tiebench.audit.judging import RELATIONS, Audit
from tiebench.audit.matrices import Matrices
from tiebench.audit.settings import FLAG
from tiebench.audit.words import count_words, size_words
from tiebench.errors import TiebenchError

VERDICTS = {
    "agrees": "agrees",
    "disagrees": "disagrees",
    "unstated": "nothing to disagree with: no tie is stated",
}
KEYS = (
    "checkpoint", "verdict", "relation", "files", "tensors", "model_type", "architectures", "input",
    "input_copies", "head", "other_heads", "unknown", "maps", "stated", "class_default",
    "comparison", "wasted_bytes", "findings", "remarks", "error",
)  # fmt: skip
"""Of the JSON object, always all of them."""


def as_lines(audit: Audit) -> list[str]:
    """An audit in words: what is stored, what is stated, the verdict, and each mend."""
    rows = list(_rows(audit))
    width = max(len(label) for label, _ in rows)
    return [f"{label:<{width}}  {text}".rstrip() for label, text in rows]


def _rows(audit: Audit) -> Iterator[tuple[str, str]]:
    checkpoint, stated, matrices = audit.checkpoint, audit.stated, audit.matrices
    size = sum(x.size for x in checkpoint.tensors.values())
    yield "checkpoint", str(checkpoint.path)
    classes = ", ".join(stated.architectures) or stated.model_type or "class not stated"
    tensors = count_words(len(checkpoint.tensors), "tensor")
    files = count_words(len(checkpoint.files), "file")
    yield "model", f"{classes}, {tensors}, {size_words(size)} in {files}"
    held = [
        ("input", matrices.input),
        *(("input", copy) for copy in matrices.copies),
        ("head", matrices.head),
        *(("head", other) for other in matrices.other_heads),
        ("head?", matrices.unknown),
        *(("map", x) for x in _maps(matrices)),
    ]
    columns = [
        (label, x.name, f"{x.shape[0]:,} x {x.shape[1]:,}", x.dtype, size_words(x.size))
        for label, x in held
        if x
    ]
    lengths = [max(map(len, column)) for column in zip(*columns, strict=True)]
    for label, *cells in columns:
        pairs = zip(cells, lengths[1:], "<><>", strict=True)
        yield label, "  ".join(f"{cell:{to}{length}}" for cell, length, to in pairs)
    yield "stored", RELATIONS[audit.relation] + _compared(audit)
    flags = [f"{key} is {'true' if value else 'false'}" for key, value in stated.flags.items()]
    yield "stated", ", ".join(flags) or f"nothing: {FLAG} is absent"
    if audit.wasted:
        yield "wasted", f"{size_words(audit.wasted)} in equal copies"
    yield "verdict", VERDICTS[audit.verdict]
    for finding in audit.findings:
        yield "disagrees", f"{finding.what} [{finding.code}]"
        yield "to mend", finding.mend
    for remark in audit.remarks:
        yield "note", remark


def _maps(matrices: Matrices) -> list[StoredTensor]:
    """Maps between different widths."""
    held = (*matrices.input_maps, *matrices.output_maps)
    return [x for x in held if len(x.shape) == 2 and x.shape[0] != x.shape[1]]


def _compared(audit: Audit) -> str:
    found = audit.comparison
    if found is None:
        return ""
    if found.differing:
        sampled = " sampled" if found.compared < found.rows else ""
        return f": {found.differing:,} of {found.compared:,}{sampled} rows differ"
    if audit.relation == "equal":
        return f": all {found.rows:,} rows, byte by byte"
    return f": the first {found.rows:,} rows are equal, byte by byte"


def as_json(audit: Audit) -> dict[str, Any]:
    """An audit as plain values, with KEYS."""
    stated, matrices = audit.stated, audit.matrices
    said = {
        "checkpoint": str(audit.checkpoint.path),
        "verdict": audit.verdict,
        "relation": audit.relation,
        "files": [file.name for file in audit.checkpoint.files],
        "tensors": len(audit.checkpoint.tensors),
        "model_type": stated.model_type,
        "architectures": stated.architectures,
        "input": _tensor(matrices.input),
        "input_copies": [_tensor(x) for x in matrices.copies],
        "head": _tensor(matrices.head),
        "other_heads": [_tensor(x) for x in matrices.other_heads],
        "unknown": _tensor(matrices.unknown),
        "maps": [_tensor(x) for x in _maps(matrices)],
        "stated": {
            "tied": stated.tied,
            "flags": stated.flags,
            "vocabulary": stated.vocabulary,
            "width": stated.width,
            "input_width": stated.input_width,
        },
        "comparison": asdict(audit.comparison) if audit.comparison else None,
        "wasted_bytes": audit.wasted,
        "findings": [asdict(finding) for finding in audit.findings],
        "remarks": audit.remarks,
    }
    if stated.family and stated.tied is None:
        said["class_default"] = {"model_type": stated.model_type, "tied": stated.family.tied}
    return dict.fromkeys(KEYS) | said


def _tensor(tensor: StoredTensor | None) -> dict[str, Any] | None:
    if tensor is None:
        return None
    return {
        "name": tensor.name,
        "file": tensor.file.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "bytes": tensor.size,
    }


def error_as_json(source: str, error: TiebenchError) -> dict[str, Any]:
    """What `--json` prints of a checkpoint that cannot be audited, with KEYS."""
    parts = ("subject", "found", "expected", "mend")
    said = {part: getattr(error, part) for part in parts}
    return dict.fromkeys(KEYS) | {"checkpoint": source, "verdict": "unreadable", "error": said}
