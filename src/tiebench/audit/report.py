"""An audit as lines for people and as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiebench.audit.headers import StoredTensor
from tiebench.audit.judging import RELATIONS, Audit
from tiebench.audit.settings import FLAG
from tiebench.audit.words import size_words
from tiebench.errors import TiebenchError


def as_lines(audit: Audit) -> list[str]:
    """An audit in words: what is stored, what is stated, the verdict, and each mend."""
    rows = list(_rows(audit))
    width = max(len(label) for label, _ in rows)
    return [f"{label:<{width}}  {text}".rstrip() for label, text in rows]


def _rows(audit: Audit) -> Iterator[tuple[str, str]]:
    checkpoint, stated, matrices = audit.checkpoint, audit.stated, audit.matrices
    classes = ", ".join(stated.architectures) or stated.model_type or "class not stated"
    size = sum(x.size for x in checkpoint.tensors.values())
    files = f"{len(checkpoint.files)} file{'s' if len(checkpoint.files) > 1 else ''}"
    count = f"{len(checkpoint.tensors):,} tensors, {size_words(size)} in {files}"
    yield "checkpoint", f"{checkpoint.path}: {classes}, {count}"
    held = [
        ("input", matrices.input),
        *(("input", copy) for copy in matrices.copies),
        ("head", matrices.head),
        *(("head", other) for other in matrices.other_heads),
    ]
    names = max((len(x.name) for _, x in held if x), default=0)
    for label, tensor in held:
        if tensor:
            rows, columns = tensor.shape
            shape = f"{rows:,} x {columns:,}  {tensor.dtype}  {size_words(tensor.size)}"
            yield label, f"{tensor.name:<{names}}  {shape}"
    yield "stored", RELATIONS[audit.relation] + _compared(audit)
    flags = [f"{key} is {'true' if value else 'false'}" for key, value in stated.flags.items()]
    yield "stated", ", ".join(flags) or f"nothing: {FLAG} is absent"
    if audit.wasted:
        yield "wasted", f"{size_words(audit.wasted)} in equal copies"
    yield "verdict", audit.verdict
    for finding in audit.findings:
        yield finding.code, finding.what
        yield "", f"To mend: {finding.mend}"
    for remark in audit.remarks:
        yield "note", remark


def _compared(audit: Audit) -> str:
    found = audit.comparison
    if found is None:
        return ""
    sampled = " sampled" if found.compared < found.rows else ""
    if found.differing:
        return f": {found.differing:,} of {found.compared:,}{sampled} rows differ"
    return f": all {found.rows:,} rows, byte by byte"


def as_json(audit: Audit) -> dict[str, Any]:
    """An audit as plain values, always with the same keys."""
    stated, matrices, found = audit.stated, audit.matrices, audit.comparison
    return {
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
        "stated": {
            "tied": stated.tied,
            "flags": stated.flags,
            "vocabulary": stated.vocabulary,
            "width": stated.width,
        },
        "class_default": None
        if stated.family is None or stated.tied is not None
        else {"model_type": stated.model_type, "tied": stated.family.tied},
        "comparison": None
        if found is None
        else {
            "rows": found.rows,
            "compared": found.compared,
            "differing": found.differing,
            "first": found.first,
        },
        "wasted_bytes": audit.wasted,
        "findings": [
            {"code": x.code, "what": x.what, "mend": x.mend} for x in audit.findings
        ],
        "remarks": audit.remarks,
        "error": None,
    }  # fmt: skip


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
    """What `--json` prints of a checkpoint that cannot be audited."""
    return {
        "checkpoint": source,
        "verdict": "unreadable",
        "error": {
            "subject": error.subject,
            "found": error.found,
            "expected": error.expected,
            "mend": error.mend,
        },
    }
