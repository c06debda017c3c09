"""Which tensors of a checkpoint are its input embedding, its head and the maps beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tiebench.audit.families import (
    COMPOSED,
    HEADS,
    INPUT_MAPS,
    INPUTS,
    OUTPUT_MAPS,
    QUANTIZED,
    VAGUE_HEADS,
    VAGUE_INPUTS,
    ends_with,
)
from tiebench.audit.headers import Checkpoint, StoredTensor
from tiebench.audit.settings import Stated
from tiebench.audit.words import count_words
from tiebench.errors import DataError

POSITIONS = re.compile(r"pos|wpe")
"""In the names of position tables, which may have as many rows as a small vocabulary."""
FLOATS = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
"""Dtypes of matrices that are not quantized."""


@dataclass(frozen=True)
class Matrices:
    """The matrices of a checkpoint; None where none is stored.

    Attributes:
        input: the input embedding; in an encoder-decoder the shared one or the decoder's.
        copies: other input embeddings of an encoder-decoder.
        head: the output head.
        other_heads: matrices under a second name of a head.
        ignored: input embeddings of other models in the same file.
        unknown: a matrix of the input embedding's shape under a name that no family has.
        three_uses: whether there are an encoder's input, a decoder's input and a head.
    """

    input: StoredTensor | None
    copies: list[StoredTensor]
    head: StoredTensor | None
    other_heads: list[StoredTensor]
    ignored: list[StoredTensor]
    unknown: StoredTensor | None
    input_maps: list[StoredTensor]
    output_maps: list[StoredTensor]
    three_uses: bool = field(default=False)

    @property
    def vocabulary(self) -> int | None:
        """Rows of the input embedding, or of the head without one."""
        held = self.input or self.head
        return held.shape[0] if held else None


def find_matrices(checkpoint: Checkpoint, stated: Stated) -> Matrices:
    """Find the matrices by their names, and by shape where a name says too little.

    Raises:
        DataError: none of them, quantized ones, or shapes that no such matrix has.
    """
    tensors = list(checkpoint.tensors.values())
    _refuse_quantized(tensors)
    inputs = _named(tensors, INPUTS) or _vague_inputs(tensors, stated)
    family = stated.family.heads if stated.family else ()
    heads = _named(tensors, (*(x for x in family if x not in VAGUE_HEADS), *HEADS))
    for tensor in (*inputs, *heads):
        _check_shape(tensor)
    composed = stated.model_type in COMPOSED
    several = _has_sides(inputs)
    first, others = _main_input(inputs, stated, several, composed)
    heads += _vague_heads(tensors, first, stated, (*family, *VAGUE_HEADS))
    if stated.family:
        heads.sort(key=lambda x: ends_with(x.name, family) is None)
    if first is None and not heads:
        raise _nothing_found(checkpoint)
    head = heads[0] if heads else None
    unknown = None if head or first is None else _unknown_head(tensors, [first, *others], first)
    return Matrices(
        input=first,
        copies=others if several else [],
        head=head,
        other_heads=heads[1:],
        ignored=[] if several else others,
        unknown=unknown,
        input_maps=_named(tensors, INPUT_MAPS),
        output_maps=_named(tensors, OUTPUT_MAPS),
        three_uses=several and stated.head is not False,
    )


def side(tensor: StoredTensor) -> str:
    """Which input of an encoder-decoder a matrix is, by its name."""
    parts = tensor.name.split(".")
    return next((part for part in ("encoder", "decoder") if part in parts), "shared")


def _named(tensors: Iterable[StoredTensor], ends: tuple[str, ...]) -> list[StoredTensor]:
    """The tensors with one of some ends, in the order of the ends."""
    held = [(end, x) for x in tensors if (end := ends_with(x.name, ends))]
    return [x for _, x in sorted(held, key=lambda pair: (ends.index(pair[0]), pair[1].name))]


def _vague_inputs(tensors: list[StoredTensor], stated: Stated) -> list[StoredTensor]:
    held = [x for x in _named(tensors, VAGUE_INPUTS) if len(x.shape) == 2]
    return [x for x in held if stated.vocabulary in (None, x.shape[0])]


def _vague_heads(
    tensors: list[StoredTensor], first: StoredTensor | None, stated: Stated, ends: tuple[str, ...]
) -> list[StoredTensor]:
    """Matrices with a vague name and about as many rows as the vocabulary."""
    vocabulary = stated.vocabulary or (first.shape[0] if first else None)
    widths = {stated.width, first.shape[1] if first else None} - {None}
    return [
        x
        for x in _named(tensors, ends)
        if not ends_with(x.name, HEADS)
        and len(x.shape) == 2
        and vocabulary is not None
        and 2 * x.shape[0] >= vocabulary
        and (not widths or x.shape[1] in widths)
    ]


def _unknown_head(
    tensors: list[StoredTensor], inputs: list[StoredTensor], first: StoredTensor
) -> StoredTensor | None:
    """The one other matrix of the input embedding's shape, outside of numbered blocks."""
    held = [
        x
        for x in tensors
        if x not in inputs
        and x.shape == first.shape
        and x.dtype in FLOATS
        and not POSITIONS.search(x.name)
        and not any(part.isdigit() for part in x.name.split("."))
    ]
    return held[0] if len(held) == 1 else None


def _has_sides(inputs: list[StoredTensor]) -> bool:
    """Whether an encoder and a decoder share an input embedding, or each has one."""
    sides = {side(x) for x in inputs}
    return "shared" in {x.name.split(".")[-2] for x in inputs} or sides >= {"encoder", "decoder"}


def _main_input(
    inputs: list[StoredTensor], stated: Stated, several: bool, composed: bool
) -> tuple[StoredTensor | None, list[StoredTensor]]:
    """The input embedding to which a head is tied, and the others."""
    order = ("decoder", "shared", "encoder") if composed else ("shared", "decoder", "encoder")

    def rank(tensor: StoredTensor) -> tuple[int, bool]:
        place = order.index(side(tensor)) if several else 0
        return place, stated.vocabulary not in (None, tensor.shape[0])

    held = sorted(inputs, key=rank)
    return (held[0] if held else None), held[1:]


def _refuse_quantized(tensors: list[StoredTensor]) -> None:
    names = (*INPUTS, *HEADS, *VAGUE_HEADS)
    for tensor in tensors:
        stem, count = QUANTIZED.subn("", tensor.name)
        packed = bool(count) and ends_with(f"{stem}.weight", names)
        whole = ends_with(tensor.name, (*INPUTS, *HEADS)) and tensor.dtype not in FLOATS
        if packed or whole:
            raise DataError(
                tensor.subject,
                found=f"a quantized matrix ({tensor.dtype})",
                expected=f"input embedding and head in {', '.join(FLOATS)}, without scales",
                mend="audit the checkpoint that it was quantized from",
            )


def _check_shape(tensor: StoredTensor) -> None:
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise DataError(
            tensor.subject,
            found=f"shape {list(tensor.shape)}",
            expected="two sizes above 0, vocabulary and width",
            mend="save the model again; a model split over processes is gathered first",
        )


def _nothing_found(checkpoint: Checkpoint) -> DataError:
    count = count_words(len(checkpoint.tensors), "tensor")
    adapter = any(".lora_" in name for name in checkpoint.tensors)
    return DataError(
        checkpoint.path,
        found="an adapter (LoRA) without its model"
        if adapter
        else f"neither input embedding nor head among {count}",
        expected=f"a name that ends in {', '.join(INPUTS[:5])} or {', '.join(HEADS[:6])}",
        mend="merge it into its model and save that"
        if adapter
        else "name the checkpoint of a language model; a matrix under another name is renamed "
        "before",
    )
