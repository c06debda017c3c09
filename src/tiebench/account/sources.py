"""Where a model's shape comes from: config.json, the registry of published models, or words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiebench.account.families import DEFAULTS, READERS
from tiebench.account.model import Model
from tiebench.account.reader import IN_WORDS, RESTORE, Reader
from tiebench.account.registry import as_model, published_models
from tiebench.account.words import REQUIRED, near_names, shape_in_words
from tiebench.analysis.shapes import own_shape
from tiebench.audit.families import has_head
from tiebench.audit.settings import FLAG, NESTED
from tiebench.errors import DataError, SettingsError
from tiebench.files import read_json
from tiebench.model.folders import source_folder
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate

FORCED = ("t5", "mt5")
"""Model types whose class in transformers 5 ties whatever config.json states."""
SECOND_BIAS = ("bert", "roberta", "xlm-roberta", "camembert", "albert")
"""Model types whose untied head holds a bias that its logits do not use."""


def read_model(words: Sequence[str]) -> Model:
    """The model that the words of a command name.

    Args:
        words: one config.json, folder, published model or id of a repository in the local cache;
            or a shape as KEY=VALUE, one key a word.

    Raises:
        DataError: no such model, or a config.json that is damaged or of another kind.
        SettingsError: a key or value that a shape cannot have.
    """
    if len(words) == 1 and ("=" not in words[0] or os.path.exists(words[0])):  # noqa: PTH110
        return _named(words[0])
    for word in words:
        if "=" not in word:
            raise SettingsError(
                word,
                found="a name beside other words",
                expected="one name, or a shape as KEY=VALUE",
                mend=f"name one model, or {IN_WORDS}",
            )
    return shape_in_words(words)


def _named(source: str) -> Model:
    path = Path(source).expanduser()
    if os.path.isfile(path):  # noqa: PTH113 (a name that is too long is none)
        return read_config(path)
    if source and os.path.isdir(path):  # noqa: PTH112
        return read_config(path / "config.json")
    models = published_models()
    for key, model in models.items():
        if source.lower() in (key, model.name.lower()):
            return as_model(model)
    if not source or source.startswith((".", "/", "~")) or source.endswith(".json"):
        raise DataError(
            source or "''",
            found="no such file or folder",
            expected="a config.json, or a folder that holds one",
            mend=f"correct the path, or {IN_WORDS}",
        )
    near = ", ".join(near_names(source, models)) or "see `tiebench list models`"
    expected = f"a config.json, a folder, a repository's id or a published model ({near})"
    return read_config(source_folder(source, expected) / "config.json")


def read_config(path: Path) -> Model:
    """The model that a config.json describes.

    Raises:
        DataError: a file that is missing or damaged, a model type that is not known, or a value
            that its key cannot have.
    """
    values = read_json(path, mend=f"name another, or {IN_WORDS}")
    reader = Reader(values, path)
    kind = reader.text("model_type")
    if kind == "tiebench":
        return _read_run(values, path)
    if kind not in READERS:
        raise reader.error(
            "model_type",
            f"'{kind}', whose parameters are not counted here",
            f"one of {', '.join(READERS)}",
            f"give the shape in words: `{_in_words(values)}`",
        )
    shape = READERS[kind](reader)
    tied, statement = _tie(reader, kind)
    narrow, wide = shape.widths
    if tied and narrow != wide:
        reader.notes.append(
            f"{FLAG} is true, which embeddings of widths {narrow:,} and {wide:,} cannot be: "
            "counted as two"
        )
        tied = False
    if tied and kind == "rembert":
        reader.notes.append(f"{FLAG} is true, which the class of RemBERT never follows: two")
        tied = False
    if tied is False and kind in SECOND_BIAS:
        reader.notes.append(
            "an untied head of this class holds a second bias of the logits, which takes no part "
            "in them; it is not counted"
        )
    classes = reader.names("architectures")
    headless = has_head(classes) is False
    if headless:
        reader.notes.append(
            f"architectures names {', '.join(classes)}, without language-model head: it ships as "
            "at fine-tuning, and what it may have in place of that head is not counted"
        )
    return Model(
        name=kind,
        source=str(path),
        shape=shape,
        tied=tied,
        statement=statement,
        default=DEFAULTS[kind],
        headless=headless,
        notes=reader.notes,
    )


def _tie(reader: Reader, kind: str) -> tuple[bool | None, str]:
    """Whether config.json says that the model is tied, and what it says."""
    value, default = reader.values.get(FLAG), DEFAULTS[kind]
    if value is None:
        does = "ties" if default else "does not tie"
        return None, f"not stated: {FLAG} is absent; the class of {kind} {does} by default"
    tied = reader.flag(FLAG, default)
    if not tied and kind in FORCED:
        reader.notes.append(
            f"{FLAG} is false, which the class in transformers 5 sets to true whatever is stated; "
            "`tiebench audit` says what a checkpoint holds"
        )
    return tied, f"{FLAG} is {'true' if tied else 'false'}"


def _in_words(values: dict[str, Any]) -> str:
    """The command for a model of a type that is not known, with what its config.json has."""
    names = {
        "vocab": ("vocab_size",),
        "width": ("hidden_size", "n_embd", "d_model"),
        "layers": ("num_hidden_layers", "n_layer", "num_layers"),
        "heads": ("num_attention_heads", "n_head", "num_heads"),
        "kv_heads": ("num_key_value_heads",),
        "head_width": ("head_dim",),
        "feedforward": ("intermediate_size", "d_ff"),
    }
    for section in NESTED:  # a language model inside a larger one
        if isinstance(values.get(section), dict):
            values = {**values, **values[section]}
    said = []
    for word, keys in names.items():
        found = [values[key] for key in keys if type(values.get(key)) is int]
        if found or word in REQUIRED:
            said.append(f"{word}={found[0] if found else '...'}")
    flag = values.get(FLAG)
    if isinstance(flag, bool):
        said.append(f"tied={'true' if flag else 'false'}")
    return f"tiebench account {' '.join(said)}"


def _read_run(values: dict[str, Any], path: Path) -> Model:
    """A run of this package, whose config.json holds its settings."""
    for name in ("coupling", "body"):
        if not isinstance(values.get(name), dict):
            found = "nothing" if values.get(name) is None else f"{values[name]!r:.60}"
            raise DataError(f"{path}: {name}", found=found, expected="settings", mend=RESTORE)
    coupling = validate(CouplingSettings, values["coupling"], f"{path}: coupling")
    body = validate(BodySettings, values["body"], f"{path}: body")
    coupling.widths(body.width)
    return Model(
        name=coupling.option,
        source=str(path),
        shape=own_shape(coupling, body, Reader(values, path).size("vocabulary")),
        tied=coupling.tied,
        statement=f"coupling.tied is {'true' if coupling.tied else 'false'}",
    )
