"""Reading config.json of the classes of transformers into settings of ours."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tiebench.errors import DataError, SettingsError
from tiebench.model.settings import BodySettings
from tiebench.schema import validate

T = TypeVar("T")

BASE = 10_000.0
"""Of rotary positions, where config.json has none."""
HEAD = [{"kind": "linear"}, {"kind": "gelu"}]
"""BERT's head transform; a layer norm with the source's epsilon follows."""
ANOTHER = "take a checkpoint of a known architecture; this one computes something else"
RESTORE = "restore config.json from the checkpoint's source"
NO_TOKEN_DROPOUT = (
    "take a checkpoint that was trained without it; with it, transformers scales the embeddings of "
    "each sentence by 0.88 over the share of its tokens that are no mask, also after training, so "
    "that setting it to false would read another model"
)


class Config:
    """config.json of a checkpoint: each value by its key, of the type that is asked for."""

    def __init__(self, values: Mapping[str, Any], path: Path) -> None:
        self.values, self.path = values, path

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """The value of `key`; where it is missing or null, `default`.

        Raises:
            DataError: of another type, or missing without a default.
        """
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            with suppress(OverflowError):
                value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            found = "nothing" if value is None else repr(value)
            raise self.error(key, found, f"a value of type {kind.__name__}", RESTORE)
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.get(key, int, default)
        if value < 1:
            raise self.error(key, f"{value}", "a number above 0")
        return value

    def base(self, default: float | None = None) -> float:
        """The base of rotary positions, `rope_theta`."""
        value = self.get("rope_theta", float, default)
        if not 1.0 < value < math.inf:
            raise self.error("rope_theta", f"{value:g}", "a finite number above 1", RESTORE)
        return value

    def only(self, key: str, value: object, mend: str | None = None) -> None:
        """Refuse any other value of `key`; where it is missing or null there is nothing to refuse.

        Raises:
            DataError: another value.
        """
        found = self.values.get(key)
        if found is not None and found != value:
            expected = f"{value!r}, the only one that our models have"
            raise self.error(key, repr(found), expected, mend or ANOTHER)

    def error(self, key: str, found: str, expected: str, mend: str = ANOTHER) -> DataError:
        """An error about one key."""
        return DataError(f"{self.path}: {key}", found=found, expected=expected, mend=mend)


@dataclass(frozen=True)
class Reading:
    """What config.json says of a model; whether it is tied, the tensors decide too."""

    body: BodySettings
    vocabulary: int
    transform: list[dict[str, Any]]
    input_width: int | None = None
    output_width: int | None = None
    bias: bool = True
    std: float = 0.02
    first_position: int = 0
    """Row of the source's position table at which a sentence starts."""


def _body(config: Config, **settings: Any) -> BodySettings:
    """The shape, which every one of these classes names in the same way."""
    width, heads = config.size("hidden_size"), config.size("num_attention_heads")
    if width % heads:
        raise config.error("num_attention_heads", f"{heads}", f"a divisor of hidden_size, {width}")
    values = {
        "option": config.get("model_type", str).replace("-", "_"),
        "width": width,
        "heads": heads,
        "layers": config.size("num_hidden_layers"),
        "feedforward_width": config.size("intermediate_size"),
        "maximum_length": config.size("max_position_embeddings"),
        "std": config.get("initializer_range", float, 0.02),
        **settings,
    }
    try:
        return validate(BodySettings, values, str(config.path))
    except SettingsError as error:  # of settings of ours, made from this file
        ours = error.subject.removeprefix(f"{config.path}.")
        found = f"values of which a body of ours would have {ours} {error.found}"
        raise DataError(config.path, found=found, expected=error.expected, mend=ANOTHER) from None


def read_post_norm(config: Config, first_position: int = 0, **settings: Any) -> Reading:
    """BERT's body and head (Devlin et al. 2019)."""
    config.only("hidden_act", "gelu")
    config.only("position_embedding_type", "absolute")
    config.only("is_decoder", False)
    config.only("add_cross_attention", False)
    epsilon = config.get("layer_norm_eps", float, 1e-12)
    rows = config.size("max_position_embeddings")
    if rows <= first_position:
        expected = f"more than {first_position}, the row at which positions start"
        raise config.error("max_position_embeddings", f"{rows}", expected)
    body = _body(
        config, norm_placement="post", norm_epsilon=epsilon, embedding_norm=True,
        maximum_length=rows - first_position, **settings,
    )  # fmt: skip
    return Reading(
        body=body, vocabulary=config.size("vocab_size"), std=body.std,
        transform=[*HEAD, {"kind": "layer_norm", "epsilon": epsilon}],
        first_position=first_position,
    )  # fmt: skip


def read_roberta(config: Config) -> Reading:
    """BERT's, with positions that start behind the padding token's id (Liu et al. 2019)."""
    pad = config.get("pad_token_id", int, 1)
    if pad < 0:
        raise config.error("pad_token_id", f"{pad}", "an id: 0 or a number above it", RESTORE)
    return read_post_norm(config, pad + 1)


def read_rembert(config: Config) -> Reading:
    """BERT's body between a narrow input and a wide output table (Chung et al. 2021)."""
    narrow, width = config.size("input_embedding_size"), config.size("hidden_size")
    held = read_post_norm(config, embedding_width="body" if narrow == width else "input")
    return Reading(
        body=held.body, vocabulary=held.vocabulary, transform=held.transform, std=held.std,
        input_width=narrow, output_width=config.size("output_embedding_size"),
    )  # fmt: skip


def read_esm(config: Config) -> Reading:
    """Pre-norm with rotary positions (Lin et al. 2023)."""
    config.only("token_dropout", False, NO_TOKEN_DROPOUT)
    config.only("is_decoder", False)
    config.only("add_cross_attention", False)
    config.only("is_folding_model", False)
    if config.get("position_embedding_type", str, "absolute") != "rotary":
        expected = "'rotary', the only one of this class that our models have"
        raise config.error("position_embedding_type", "another kind of positions", expected)
    epsilon = config.get("layer_norm_eps", float, 1e-12)
    body = _body(
        config, norm_epsilon=epsilon, positions="rotary",
        embedding_norm=config.get("emb_layer_norm_before", bool, False),
        rotary_base=config.base(BASE),
    )  # fmt: skip
    return Reading(
        body=body, vocabulary=config.size("vocab_size"), std=body.std,
        transform=[*HEAD, {"kind": "layer_norm", "epsilon": epsilon}],
    )  # fmt: skip


def read_llama(config: Config) -> Reading:
    """Causal, RMS norm, SwiGLU, rotary positions (Touvron et al. 2023; Grattafiori et al. 2024)."""
    config.only("hidden_act", "silu")
    bias = config.get("attention_bias", bool, False)
    if config.get("mlp_bias", bool, False) != bias:
        told = json.dumps(not bias), f"{json.dumps(bias)}, as attention_bias"
        raise config.error("mlp_bias", *told)
    heads = config.size("num_attention_heads")
    shared = config.size("num_key_value_heads", heads)
    if heads % shared:
        expected = f"a divisor of num_attention_heads, {heads}"
        raise config.error("num_key_value_heads", f"{shared}", expected)
    config.only("head_dim", config.size("hidden_size") // heads)
    base, scaling = _rotary(config)
    body = _body(
        config, causal=True, norm="rms_norm", norm_epsilon=config.get("rms_norm_eps", float, 1e-6),
        positions="rotary", rotary_base=base, rotary_scaling=scaling, feedforward="swiglu",
        bias=bias, key_value_heads=None if shared == heads else shared,
    )  # fmt: skip
    return Reading(
        body=body, vocabulary=config.size("vocab_size"), transform=[], bias=False, std=body.std
    )


def _rotary(config: Config) -> tuple[float, dict[str, Any] | None]:
    """Base and scaling, from `rope_parameters` (transformers 5) or the two older keys."""
    new, old = config.get("rope_parameters", dict, {}), config.get("rope_scaling", dict, {})
    key = "rope_parameters" if new else "rope_scaling"
    held = {**old, **new}
    at_odds = [name for name in old if name in new and old[name] != new[name]]
    part, places = Config(held, config.path), (config.values, held)
    bases = {Config(x, config.path).base() for x in places if x.get("rope_theta") is not None}
    if at_odds or len(bases) > 1:
        name = at_odds[0] if at_odds else "rope_theta"
        raise config.error(f"{key}.{name}", "two values", "one, in either of the two places")
    for place in (config, part):
        place.only("partial_rotary_factor", 1.0)
    kind = held.get("rope_type", held.get("type", "default"))
    base = bases.pop() if bases else BASE
    if kind == "default":
        return base, None
    if kind != "llama3":
        raise config.error(f"{key}.rope_type", repr(kind), "'default' or 'llama3'")
    if part.get("factor", float) == 1.0:  # which scales nothing
        return base, None
    length = part.size("original_max_position_embeddings", config.size("max_position_embeddings"))
    return base, {
        "factor": part.get("factor", float),
        "low_frequency_factor": part.get("low_freq_factor", float),
        "high_frequency_factor": part.get("high_freq_factor", float),
        "original_length": length,
    }
