"""A shape in words: KEY=VALUE, one key a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tiebench.account.model import Model
from tiebench.account.reader import IN_WORDS, LARGEST
from tiebench.analysis.shapes import Shape
from tiebench.errors import SettingsError
from tiebench.model.coupling_settings import Linear

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
        vocabulary=sizes["vocab"],
        width=width,
        input_width=narrow,
        output_width=wide,
        layers=sizes["layers"],
        heads=heads,
        key_value_heads=sizes.get("kv_heads"),
        head_width=sizes.get("head_width"),
        feedforward_width=sizes.get("feedforward", 4 * width),
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
        name="shape in words",
        source=" ".join(words),
        shape=shape,
        tied=tied,
        statement=f"tied={values['tied']}" if "tied" in values else "not stated: no tied=...",
        notes=notes,
    )


def near_names(name: str, names: Iterable[str], most: int = 5) -> list[str]:
    """The names that one may have been meant for."""
    held = list(names)
    begun = [x for x in held if len(name) > 2 and x.lower().startswith(name.lower())]
    inside = [x for x in held if len(name) > 2 and name.lower() in x.lower()]
    close = difflib.get_close_matches(name.lower(), held, n=most, cutoff=0.6)
    return list(dict.fromkeys([*begun, *close, *inside]))[:most]


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
