"""Where a model's shape comes from: config.json, the registry of published models, or words."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tiebench.account.families import READERS
from tiebench.account.parts import Model, Parts
from tiebench.account.reader import IN_WORDS, LARGEST, RESTORE, Reader
from tiebench.analysis.counting import affine, block, count
from tiebench.analysis.shapes import PUBLISHED_MODELS, Shape, own_shape, published_models
from tiebench.audit.families import FAMILIES, has_head
from tiebench.audit.settings import FLAG, NESTED
from tiebench.errors import DataError, SettingsError
from tiebench.files import read_json
from tiebench.model.coupling_settings import Linear
from tiebench.model.folders import source_folder
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate

DEFAULTS = {name: FAMILIES[name].tied for name in READERS if name in FAMILIES} | {"mt5": True}
"""By model_type, whether its class ties where config.json states nothing."""
FORCED = ("t5", "mt5")
"""Model types whose class in transformers 5 ties whatever config.json states."""
REQUIRED = ("vocab", "width", "layers")
SIZES = (
    *REQUIRED, "heads", "kv_heads", "head_width", "feedforward", "input_width", "output_width",
    "positions",
)  # fmt: skip
CHOICES = {
    "feedforward_kind": ("gelu", "swiglu"),
    "norm": ("layer_norm", "rms_norm"),
    "bias": ("true", "false"),
    "tied": ("true", "false"),
}


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
    for key, shape in models.items():
        if source.lower() in (key, shape.name.lower()):
            return published(key, shape)
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


def near_names(name: str, names: Iterable[str], most: int = 5) -> list[str]:
    """The names that one may have been meant for."""
    held = list(names)
    begun = [x for x in held if len(name) > 2 and x.lower().startswith(name.lower())]
    inside = [x for x in held if len(name) > 2 and name.lower() in x.lower()]
    close = difflib.get_close_matches(name.lower(), held, n=most, cutoff=0.6)
    return list(dict.fromkeys([*begun, *close, *inside]))[:most]


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
    layout = READERS[kind](reader)
    tied, statement = _tie(reader, kind)
    narrow, wide = layout.widths
    if tied and narrow != wide:
        reader.notes.append(
            f"{FLAG} is true, which embeddings of widths {narrow:,} and {wide:,} cannot be: "
            "counted as two"
        )
        tied = False
    if tied is False and layout.parts.head and kind != "rembert":
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
        vocabulary=reader.size("vocab_size"),
        width=layout.width,
        layers=layout.layers,
        widths=layout.widths,
        parts=layout.parts,
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


def published(key: str, shape: Shape) -> Model:
    """A model of the registry."""
    said = f"{'one matrix' if shape.tied else 'two matrices'}: {shape.source}"
    return _of_shape(shape, f"{PUBLISHED_MODELS.name}: {key}", said)


def _read_run(values: dict[str, Any], path: Path) -> Model:
    """A run of this package, whose config.json holds its settings."""
    for name in ("coupling", "body"):
        if not isinstance(values.get(name), dict):
            found = "nothing" if values.get(name) is None else f"{values[name]!r:.60}"
            raise DataError(f"{path}: {name}", found=found, expected="settings", mend=RESTORE)
    coupling = validate(CouplingSettings, values["coupling"], f"{path}: coupling")
    body = validate(BodySettings, values["body"], f"{path}: body")
    coupling.widths(body.width)
    shape = own_shape(coupling, body, Reader(values, path).size("vocabulary"))
    flag = "true" if shape.tied else "false"
    return _of_shape(shape, str(path), f"coupling.tied is {flag}")


def _of_shape(shape: Shape, source: str, statement: str) -> Model:
    return Model(
        name=shape.name,
        source=source,
        vocabulary=shape.vocabulary,
        width=shape.width,
        layers=(shape.layers,),
        widths=shape.widths,
        parts=parts_of(shape),
        tied=shape.tied,
        statement=statement,
    )


def parts_of(shape: Shape) -> Parts:
    """The parts of a shape, with two matrices."""
    counts = count(shape.with_tables(tied=False))
    up = affine(shape.width, shape.feedforward_width, bias=shape.bias)
    down = affine(shape.feedforward_width, shape.width, bias=shape.bias)
    feedforward = shape.layers * (up * (2 if shape.gated else 1) + down)
    blocks = shape.layers * block(shape)
    return Parts(
        input_embedding=counts.input_table,
        output_embedding=counts.output_table,
        maps=counts.maps,
        positions=counts.positions,
        attention=blocks - feedforward,
        feedforward=feedforward,
        norms=counts.body - blocks,
        head=counts.head,
    )


def shape_in_words(words: Sequence[str]) -> Model:
    """A model of a shape that is given as KEY=VALUE: pre-norm blocks and a last norm.

    Raises:
        SettingsError: a key that is unknown, given twice or missing, or an impossible value.
    """
    values = _split(words)
    sizes = {key: _size(key, values[key]) for key in SIZES if key in values}
    for key, allowed in CHOICES.items():
        if key in values and values[key] not in allowed:
            raise _wrong(key, values[key], " or ".join(allowed))
    gated = values.get("feedforward_kind") == "swiglu"
    norm = values.get("norm", "rms_norm" if gated else "layer_norm")
    bias = values.get("bias", "false" if gated else "true") == "true"
    width, heads = sizes["width"], sizes.get("heads", 1)
    notes = []
    if "feedforward" not in sizes:
        notes.append(f"feedforward={4 * width:,} was taken: four times the width")
    taken = {"feedforward_kind": "gelu", "norm": norm, "bias": "true" if bias else "false"}
    missing = [f"{key}={value}" for key, value in taken.items() if key not in values]
    if missing:
        notes.append(f"{' '.join(missing)} {'was' if len(missing) == 1 else 'were'} taken")
    if "head_width" not in sizes and width % heads:
        raise _wrong("heads", f"{heads:,}", f"a divisor of the width, {width:,}")
    if "kv_heads" in sizes and "heads" not in sizes:
        raise _wrong("kv_heads", "no heads beside it", "heads=..., which it divides")
    if heads % sizes.get("kv_heads", 1):
        raise _wrong("kv_heads", f"{sizes['kv_heads']:,}", f"a divisor of heads, {heads:,}")
    narrow, wide = sizes.get("input_width", width), sizes.get("output_width", width)
    tied = {"true": True, "false": False, None: None}[values.get("tied")]
    if tied and narrow != wide:
        raise _wrong(
            "tied",
            f"true with an input of width {narrow:,} and an output of width {wide:,}",
            "equal widths: matrices of unequal width cannot be one",
        )
    shape = Shape(
        name="shape in words",
        source="the command",
        architecture="words",
        vocabulary=sizes["vocab"],
        width=width,
        input_width=narrow,
        output_width=wide,
        layers=sizes["layers"],
        heads=heads,
        key_value_heads=sizes.get("kv_heads"),
        head_width=sizes.get("head_width"),
        feedforward_width=sizes.get("feedforward", 4 * width),
        tied=False,
        positions=sizes.get("positions", 0),
        norm="rms_norm" if norm == "rms_norm" else "layer_norm",
        final_norm=True,
        bias=bias,
        gated=gated,
        transform=[] if wide == width else [Linear(kind="linear")],
    )
    if wide != width:
        notes.append("an affine map stands between the body and the output embedding")
    return Model(
        name=shape.name,
        source=" ".join(words),
        vocabulary=shape.vocabulary,
        width=width,
        layers=(shape.layers,),
        widths=shape.widths,
        parts=parts_of(shape),
        tied=tied,
        statement=f"tied={values['tied']}" if "tied" in values else "not stated: no tied=...",
        notes=notes,
    )


def _split(words: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    known = (*SIZES, *CHOICES)
    for word in words:
        key, _, value = word.partition("=")
        if key not in known:
            near = near_names(key, known) or known
            raise SettingsError(
                key,
                found="an unknown key",
                expected=f"one of {', '.join(known)}",
                mend=f"write {' or '.join(near[:2])}" if len(near) < 6 else IN_WORDS,
            )
        if key in values:
            raise _wrong(key, "the key twice", "one value")
        values[key] = value
    lacking = [key for key in REQUIRED if key not in values]
    if lacking:
        raise SettingsError(
            " ".join(words),
            found=f"no {', '.join(lacking)}",
            expected=f"at least {', '.join(REQUIRED)}",
            mend=f"add {' '.join(f'{key}=...' for key in lacking)}",
        )
    return values


def _size(key: str, value: str) -> int:
    plain = value.replace(",", "").replace("_", "")
    least = 0 if key == "positions" else 1
    if not (plain.isascii() and plain.isdecimal() and len(plain) < 20):
        raise _wrong(key, repr(value), f"a whole number from {least} to {LARGEST:,}")
    if not least <= int(plain) <= LARGEST:
        raise _wrong(key, repr(value), f"a whole number from {least} to {LARGEST:,}")
    return int(plain)


def _wrong(key: str, found: str, expected: str) -> SettingsError:
    return SettingsError(key, found=found, expected=expected, mend=f"give another {key}=...")
