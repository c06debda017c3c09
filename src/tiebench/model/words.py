"""A coupling in words: what its tables start as and are made into, and its head."""

from __future__ import annotations

from tiebench.model.settings import ChannelShuffle, CouplingSettings, Linear, Operation


def head_words(coupling: CouplingSettings, body_width: int, vocabulary: int) -> str:
    """What stands between the body's last state and the logits, besides the output table."""
    output_width = coupling.widths(body_width)[1]
    said = [_operation(operation, output_width) for operation in coupling.transform]
    scale = coupling.logit_factor(body_width, vocabulary)
    said += [f"times {scale:.4g}"] if scale != 1 else []
    said += ["bias"] if coupling.bias else []
    return ", ".join(said) or "none"


def table_words(coupling: CouplingSettings, body_width: int, vocabulary: int) -> str:
    """What the tables start as, and what each side makes of them."""
    widths = coupling.widths(body_width)
    stds = {f"{coupling.table_std(vocabulary, width):.4g}" for width in widths}
    if coupling.output_std is not None:
        stds = {f"{coupling.table_std(vocabulary, widths[0]):.4g}", f"{coupling.output_std:.4g}"}
    said = f"{coupling.distribution.replace('_', ' ')}, std {' and '.join(sorted(stds))}"
    said += ", equal at the start" if coupling.shared_initialization else ""
    for side in ("input", "output"):
        made = [
            f"{x.kind} of rank {x.rank}" if hasattr(x, "rank") else x.kind.replace("_", " ")
            for x in getattr(coupling, f"{side}_operations")
        ]
        said += f"; {side} side {', '.join(made)}" if made else ""
    scale = coupling.input_factor(body_width)
    said += f"; looked-up rows times {scale:.4g}" if scale != 1 else ""
    return said.replace("low_rank_", "low-rank ")


def _operation(operation: Operation, output_width: int) -> str:
    if isinstance(operation, ChannelShuffle):
        return f"{operation.kind} in {operation.groups} groups"
    if not isinstance(operation, Linear):
        return operation.kind
    start = "" if operation.initialization == "normal" else f"{operation.initialization} "
    said = f"{'' if operation.trained else 'frozen '}{start}linear to "
    return f"{said}{operation.width or output_width}{'' if operation.bias else ' without bias'}"
