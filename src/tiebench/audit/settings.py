"""What config.json says of the embeddings of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench.audit.families import FAMILIES, Family, has_head
from tiebench.audit.headers import Checkpoint
from tiebench.errors import DataError

FLAG = "tie_word_embeddings"
NESTED = ("text_config", "llm_config", "language_config", "decoder")
"""Sections of a language model inside a larger one."""
WIDTHS = ("hidden_size", "n_embd", "d_model")
INPUT_WIDTHS = ("input_embedding_size", "embedding_size", "word_embed_proj_dim")


@dataclass(frozen=True)
class Stated:
    """What config.json states; None where it is silent.

    Attributes:
        flags: by key, every tie that is stated.
        width: of the body.
        input_width: of the input embedding.
        shared: whether encoder and decoder share one input embedding.
        operations: what a model of this project does to a table on its way, in words.
    """

    path: Path | None
    model_type: str | None
    architectures: list[str]
    flags: dict[str, bool]
    vocabulary: int | None
    width: int | None
    input_width: int | None
    shared: bool | None
    operations: tuple[str, ...] = ()

    @property
    def tied(self) -> bool | None:
        """The tie, by the key nearest the top."""
        return next(iter(self.flags.values()), None)

    @property
    def key(self) -> str:
        """The key that states it."""
        return next(iter(self.flags), FLAG)

    @property
    def head(self) -> bool | None:
        """Whether the class has a language-model head."""
        return has_head(self.architectures)

    @property
    def family(self) -> Family | None:
        """What is known of the model type."""
        return FAMILIES.get(self.model_type or "")


def read_stated(checkpoint: Checkpoint) -> Stated:
    """Read config.json of a checkpoint; without one, nothing is stated.

    Raises:
        DataError: a value of another type than its key has.
    """
    if checkpoint.config is None:
        return Stated(None, None, [], {}, None, None, None, None)
    reader = _Reader(checkpoint.config_path, checkpoint.config)
    config = checkpoint.config
    classes = config.get("architectures") or []
    if not isinstance(classes, list) or not all(_is(str, x) for x in classes):
        raise reader.error("architectures", classes, "a list of names")
    ours = config.get("model_type") == "tiebench"
    return Stated(
        path=checkpoint.config_path,
        model_type=reader.first(("model_type",), str, top=True),
        architectures=classes,
        flags=dict(reader.flags(("coupling",) if ours else NESTED, "tied" if ours else FLAG)),
        vocabulary=reader.first(("vocabulary",) if ours else ("vocab_size",), int),
        width=reader.width() if ours else reader.first(WIDTHS, int),
        input_width=reader.first(INPUT_WIDTHS, int),
        shared=reader.first(("share_encoder_decoder_embeddings",), bool, top=True),
        operations=tuple(_operations(config.get("coupling"))) if ours else (),
    )


def _operations(coupling: Any) -> Iterator[str]:
    """`low_rank_addition on the output side`, of a coupling of this project."""
    for side in ("input", "output"):
        held = coupling.get(f"{side}_operations") if isinstance(coupling, dict) else None
        for operation in held if isinstance(held, list) else []:
            kind = operation.get("kind") if isinstance(operation, dict) else None
            if _is(str, kind):
                yield f"{kind} on the {side} side"


def _is(kind: type, value: Any) -> bool:
    """Whether a value has a type; a whole number is also above 0, and a text one line."""
    if isinstance(value, str) and not value.isprintable():
        return False
    return type(value) is kind and not (type(value) is int and value < 1)


class _Reader:
    """Typed values of a config.json, of the language model's own section where it has one."""

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config

    def sections(self, top: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        for name in () if top else NESTED:
            if isinstance(self.config.get(name), dict):
                yield f"{name}.", self.config[name]
        yield "", self.config

    def first(self, keys: tuple[str, ...], kind: type, *, top: bool = False) -> Any:
        for prefix, section in self.sections(top):
            for key in keys:
                value = section.get(key)
                if value is None:
                    continue
                if not _is(kind, value):
                    words = {int: "a whole number above 0", str: "a name", bool: "true or false"}
                    raise self.error(f"{prefix}{key}", value, words[kind])
                return value
        return None

    def width(self) -> int | None:
        body = self.config.get("body")
        width = body.get("width") if isinstance(body, dict) else None
        return width if type(width) is int else None

    def flags(self, sections: tuple[str, ...], key: str) -> Iterator[tuple[str, bool]]:
        for name in ("", *sections):
            section = self.config.get(name) if name else self.config
            value = section.get(key) if isinstance(section, dict) else None
            where = f"{name}.{key}" if name else key
            if isinstance(value, bool):
                yield where, value
            elif value is not None:
                raise self.error(where, value, "true or false")

    def error(self, key: str, value: object, expected: str) -> DataError:
        """The error for a value that its key cannot have."""
        return DataError(
            f"{self.path}: {key}",
            found=f"{json.dumps(value):.60}",
            expected=expected,
            mend="correct it in config.json, or restore the file",
        )
