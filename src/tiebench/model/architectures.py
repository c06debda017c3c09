"""Architectures of the transformers library that compute what a model of ours computes.

One entry of `ARCHITECTURES` is one class of that library: how its config.json reads and is
written, what its tensors are called, and which settings of ours it can hold. Nothing of the
library itself is needed here. Shapes: `width` is that of the residual stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from tiebench.errors import DataError, SettingsError
from tiebench.model.body import rotary
from tiebench.model.lm import ModelSettings
from tiebench.model.settings import BodySettings
from tiebench.schema import validate

T = TypeVar("T")

HEAD = [{"kind": "linear"}, {"kind": "gelu"}]
"""BERT's head transform; a layer norm with the source's epsilon follows."""
ANOTHER = "take a checkpoint of a known architecture; this one computes something else"


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
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            found = "nothing" if value is None else repr(value)
            expected = f"a value of type {kind.__name__}"
            raise self.error(
                key, found, expected, "restore config.json from the checkpoint's source"
            )
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.get(key, int, default)
        if value < 1:
            raise self.error(key, f"{value}", "a number above 0")
        return value

    def only(self, key: str, value: object) -> None:
        """Refuse any other value of `key`; where it is missing or null there is nothing to refuse.

        Raises:
            DataError: another value.
        """
        found = self.values.get(key)
        if found is not None and found != value:
            raise self.error(key, repr(found), f"{value!r}, the only one that our models have")

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


@dataclass(frozen=True)
class Architecture:
    """A class of transformers with a language-model head.

    `body` and `head` map our modules to theirs; where one of ours is several of theirs, those
    stand one under the other (dim 0). `{}` is the number of a block.
    """

    name: str
    model_type: str
    prefix: str
    """What the names of the body's tensors begin with; a class without head has none."""
    body: Mapping[str, tuple[str, ...]]
    head: Mapping[str, tuple[str, ...]]
    read: Callable[[Config], Reading]
    same_head: tuple[str, ...] = ()
    """Classes with this head and another beside it."""
    bare: str | None = None
    """The class without head."""
    table: str = "embeddings.word_embeddings.weight"
    positions: str | None = "embeddings.position_embeddings.weight"
    types: str | None = "embeddings.token_type_embeddings.weight"
    decoder: str = "cls.predictions.decoder.weight"
    biases: tuple[str, ...] = ()
    """Where the head's bias stands; the last of them is the one that an untied head adds."""
    ignored: str = r"(^|\.)pooler\.|\.position_ids$"
    """Tensors that take no part in states and logits, as a regular expression."""
    writes: Callable[[ModelSettings], dict[str, Any]] | None = None
    """Keys of config.json beside the common ones; None: read only."""
    needs: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """By the keys of `facts`: the values that the class can hold."""
    extra: Callable[[ModelSettings], dict[str, Tensor]] = lambda settings: {}
    """Tensors that the class has and ours do not: what is written, and must be found if read."""
    copies: str = "(?!)"
    """What is left out of a name, as a regular expression, to find it among those of `extra`."""

    @property
    def classes(self) -> list[str]:
        """Every class name that is read as this architecture."""
        return [self.name, *self.same_head, *([self.bare] if self.bare else [])]

    def theirs(self, parameter: str, prefix: str) -> tuple[str, ...]:
        """Names of the tensors that one of our parameters is made of."""
        direct = {
            "coupling.input_table": f"{prefix}{self.table}",
            "body.position_table": f"{prefix}{self.positions}",
            "coupling.untied_output_table": self.decoder,
        }
        if parameter in direct:
            return (direct[parameter],)
        if parameter == "coupling.bias":
            return self.biases[:1]
        module, _, leaf = parameter.rpartition(".")
        number = re.search(r"\d+", module) if module.startswith("body.") else None
        block = number.group() if number else ""
        key = re.sub(r"(?<=blocks\.)\d+", "{}", module)
        if key in self.head:
            return tuple(f"{name}.{leaf}" for name in self.head[key])
        return tuple(f"{prefix}{name.format(block)}.{leaf}" for name in self.body[key])


def row_counts(parameter: str, rows: int, parts: int, body: BodySettings) -> list[int]:
    """How many of a parameter's rows each of the source's tensors gives."""
    if ".query_key_value." in parameter:
        head = body.width // body.heads
        shared = head * (body.key_value_heads or body.heads)
        return [body.width, shared, shared]
    return [rows // parts] * parts


def facts(settings: ModelSettings) -> dict[str, object]:
    """What an architecture may or may not hold, by the key of the setting.

    Widths are told as "body.width" where they are, and `embedding_width` as "either" where no map
    stands between input table and body.
    """
    coupling, body = settings.coupling, settings.body
    widths = coupling.widths(body.width)
    told = ["body.width" if width == body.width else width for width in widths]
    operations = []
    for operation in coupling.transform:
        said: str = operation.kind
        if operation.kind == "linear":
            said += " without bias" if not operation.bias else ""
            said += f" to {operation.width}" if operation.width not in (None, widths[1]) else ""
        operations.append(said)
    keys = (
        "kind", "causal", "norm_placement", "norm", "embedding_norm", "positions", "feedforward",
        "bias",
    )  # fmt: skip
    scaling = None if body.rotary_scaling is None else "set"
    shared = body.key_value_heads
    return {
        **{f"body.{key}": getattr(body, key) for key in keys},
        "body.embedding_width": body.embedding_width if widths[0] != body.width else "either",
        "body.key_value_heads": None if shared in (None, body.heads) else shared,
        "body.rotary_scaling": scaling,
        "coupling.tied": coupling.tied,
        "coupling.input_width": told[0],
        "coupling.output_width": told[1],
        "coupling.transform": ", ".join(operations) or "none",
        "coupling.bias": coupling.bias,
    }


def obstacles(architecture: Architecture, settings: ModelSettings) -> list[str]:
    """The settings that an architecture cannot hold, each with what it would need."""
    found = facts(settings)
    return [
        f"{key} is {_plain(found[key])}, not {' or '.join(map(_plain, allowed))}"
        for key, allowed in architecture.needs.items()
        if not any(found[key] == value and type(found[key]) is type(value) for value in allowed)
    ]


def _plain(value: object) -> str:
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


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
        raise DataError(
            error.subject, found=error.found, expected=error.expected, mend=ANOTHER
        ) from None


def _read_post_norm(config: Config, first_position: int = 0, **settings: Any) -> Reading:
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


def _read_roberta(config: Config) -> Reading:
    """BERT's, with positions that start behind the padding token's id (Liu et al. 2019)."""
    return _read_post_norm(config, config.get("pad_token_id", int, 1) + 1)


def _read_rembert(config: Config) -> Reading:
    """BERT's body between a narrow input and a wide output table (Chung et al. 2021)."""
    narrow, width = config.size("input_embedding_size"), config.size("hidden_size")
    held = _read_post_norm(config, embedding_width="body" if narrow == width else "input")
    return Reading(
        body=held.body, vocabulary=held.vocabulary, transform=held.transform, std=held.std,
        input_width=narrow, output_width=config.size("output_embedding_size"),
    )  # fmt: skip


def _read_esm(config: Config) -> Reading:
    """Pre-norm with rotary positions (Lin et al. 2023)."""
    config.only("token_dropout", False)
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
        rotary_base=config.get("rope_theta", float, 10_000.0),
    )  # fmt: skip
    return Reading(
        body=body, vocabulary=config.size("vocab_size"), std=body.std,
        transform=[*HEAD, {"kind": "layer_norm", "epsilon": epsilon}],
    )  # fmt: skip


def _read_llama(config: Config) -> Reading:
    """Causal, RMS norm, SwiGLU, rotary positions (Touvron et al. 2023; Grattafiori et al. 2024)."""
    config.only("hidden_act", "silu")
    bias = config.get("attention_bias", bool, False)
    if config.get("mlp_bias", bool, False) != bias:
        raise config.error("mlp_bias", _plain(not bias), f"{_plain(bias)}, as attention_bias")
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
    bases = {float(x) for x in (held.get("rope_theta"), config.values.get("rope_theta")) if x}
    if at_odds or len(bases) > 1:
        name = at_odds[0] if at_odds else "rope_theta"
        raise config.error(f"{key}.{name}", "two values", "one, in either of the two places")
    part = Config(held, config.path)
    for place in (config, part):
        place.only("partial_rotary_factor", 1.0)
    kind = held.get("rope_type", held.get("type", "default"))
    base = bases.pop() if bases else 10_000.0
    if kind == "default":
        return base, None
    if kind != "llama3":
        raise config.error(f"{key}.rope_type", repr(kind), "'default' or 'llama3'")
    length = part.size("original_max_position_embeddings", config.size("max_position_embeddings"))
    return base, {
        "factor": part.get("factor", float),
        "low_frequency_factor": part.get("low_freq_factor", float),
        "high_frequency_factor": part.get("high_freq_factor", float),
        "original_length": length,
    }


def common_config(settings: ModelSettings, vocabulary: int) -> dict[str, Any]:
    """Keys of config.json that all these classes have."""
    body = settings.body
    return {
        "tie_word_embeddings": settings.coupling.tied,
        "vocab_size": vocabulary,
        "hidden_size": body.width,
        "num_hidden_layers": body.layers,
        "num_attention_heads": body.heads,
        "intermediate_size": body.feedforward_width,
        "max_position_embeddings": body.maximum_length,
        "initializer_range": body.std,
        "dtype": "float32",
        "torch_dtype": "float32",
    }


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TYPES = 2
"""Rows of the token types that an export holds, all zero."""


def _write_bert(settings: ModelSettings) -> dict[str, Any]:
    epsilon = settings.body.norm_epsilon
    return {
        "hidden_act": "gelu", "layer_norm_eps": epsilon, "type_vocab_size": TYPES, **NO_DROPOUT
    }  # fmt: skip


def _write_rembert(settings: ModelSettings) -> dict[str, Any]:
    widths = settings.coupling.widths(settings.body.width)
    return {
        **_write_bert(settings),
        "classifier_dropout_prob": 0.0,
        "input_embedding_size": widths[0],
        "output_embedding_size": widths[1],
    }


def _write_esm(settings: ModelSettings) -> dict[str, Any]:
    return {
        **NO_DROPOUT,
        "layer_norm_eps": settings.body.norm_epsilon,
        "position_embedding_type": "rotary",
        "rope_theta": settings.body.rotary_base,
        "emb_layer_norm_before": settings.body.embedding_norm,
        "token_dropout": False,
    }


def _write_llama(settings: ModelSettings) -> dict[str, Any]:
    body, scaling = settings.body, settings.body.rotary_scaling
    return {
        "hidden_act": "silu",
        "rms_norm_eps": body.norm_epsilon,
        "num_key_value_heads": body.key_value_heads or body.heads,
        "head_dim": body.width // body.heads,
        "attention_bias": body.bias,
        "mlp_bias": body.bias,
        "rope_theta": body.rotary_base,
        "rope_scaling": None
        if scaling is None
        else {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_frequency_factor,
            "high_freq_factor": scaling.high_frequency_factor,
            "original_max_position_embeddings": scaling.original_length,
        },
    }


def _bert_extra(settings: ModelSettings) -> dict[str, Tensor]:
    return {"bert.embeddings.token_type_embeddings.weight": torch.zeros(TYPES, settings.body.width)}


def _rembert_extra(settings: ModelSettings) -> dict[str, Tensor]:
    width = settings.body.width
    narrow = settings.coupling.widths(width)[0]
    types = {"rembert.embeddings.token_type_embeddings.weight": torch.zeros(TYPES, narrow)}
    if narrow != width:
        return types
    name = "rembert.encoder.embedding_hidden_mapping_in"
    return {**types, f"{name}.weight": torch.eye(width), f"{name}.bias": torch.zeros(width)}


def _esm_extra(settings: ModelSettings) -> dict[str, Tensor]:
    body = settings.body
    contacts = "esm.contact_head.regression"
    return {
        "esm.rotary_embeddings.inv_freq": rotary(2, body.width // body.heads, body.rotary_base)[1],
        f"{contacts}.weight": torch.zeros(1, body.layers * body.heads),
        f"{contacts}.bias": torch.zeros(1),
    }


LAYER = "encoder.layer.{}"
ATTENTION = tuple(f"{LAYER}.attention.self.{part}" for part in ("query", "key", "value"))
POST_NORM = {
    "body.embedding_norm": ("embeddings.LayerNorm",),
    "body.blocks.{}.attention.query_key_value": ATTENTION,
    "body.blocks.{}.attention.output": (f"{LAYER}.attention.output.dense",),
    "body.blocks.{}.attention_norm": (f"{LAYER}.attention.output.LayerNorm",),
    "body.blocks.{}.feedforward.up": (f"{LAYER}.intermediate.dense",),
    "body.blocks.{}.feedforward.down": (f"{LAYER}.output.dense",),
    "body.blocks.{}.feedforward_norm": (f"{LAYER}.output.LayerNorm",),
}
PRE_NORM = POST_NORM | {
    "body.embedding_norm": ("embeddings.layer_norm",),
    "body.blocks.{}.attention_norm": (f"{LAYER}.attention.LayerNorm",),
    "body.blocks.{}.feedforward_norm": (f"{LAYER}.LayerNorm",),
    "body.final_norm": ("encoder.emb_layer_norm_after",),
}
DECODER = {
    "body.blocks.{}.attention.query_key_value": tuple(
        f"layers.{{}}.self_attn.{part}_proj" for part in ("q", "k", "v")
    ),
    "body.blocks.{}.attention.output": ("layers.{}.self_attn.o_proj",),
    "body.blocks.{}.attention_norm": ("layers.{}.input_layernorm",),
    "body.blocks.{}.feedforward.up": ("layers.{}.mlp.gate_proj", "layers.{}.mlp.up_proj"),
    "body.blocks.{}.feedforward.down": ("layers.{}.mlp.down_proj",),
    "body.blocks.{}.feedforward_norm": ("layers.{}.post_attention_layernorm",),
    "body.final_norm": ("norm",),
}
LM_HEAD = {
    "coupling.transform.0": ("lm_head.dense",),
    "coupling.transform.2": ("lm_head.layer_norm",),
}
NEEDS_ENCODER: dict[str, tuple[object, ...]] = {
    "body.kind": ("transformer",),
    "body.causal": (False,),
    "body.norm": ("layer_norm",),
    "body.feedforward": ("gelu",),
    "body.bias": (True,),
    "body.key_value_heads": (None,),
    "coupling.transform": ("linear, gelu, layer_norm",),
    "coupling.bias": (True,),
}
NEEDS_ONE_WIDTH: dict[str, tuple[object, ...]] = {
    "coupling.input_width": ("body.width",),
    "coupling.output_width": ("body.width",),
}
NEEDS_POST_NORM: dict[str, tuple[object, ...]] = {
    "body.norm_placement": ("post",),
    "body.embedding_norm": (True,),
    "body.positions": ("learned",),
}

BERT = Architecture(
    name="BertForMaskedLM",
    model_type="bert",
    prefix="bert.",
    body=POST_NORM,
    head={
        "coupling.transform.0": ("cls.predictions.transform.dense",),
        "coupling.transform.2": ("cls.predictions.transform.LayerNorm",),
    },
    read=_read_post_norm,
    same_head=("BertForPreTraining",),
    bare="BertModel",
    biases=("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ignored=r"(^|\.)pooler\.|\.position_ids$|^cls\.seq_relationship\.",
    writes=_write_bert,
    needs=NEEDS_ENCODER | NEEDS_POST_NORM | NEEDS_ONE_WIDTH,
    extra=_bert_extra,
)
ROBERTAS = [
    Architecture(
        name=f"{name}ForMaskedLM",
        model_type=model_type,
        prefix="roberta.",
        body=POST_NORM,
        head=LM_HEAD,
        read=_read_roberta,
        bare=f"{name}Model",
        decoder="lm_head.decoder.weight",
        biases=("lm_head.bias", "lm_head.decoder.bias"),
    )
    for name, model_type in (
        ("Roberta", "roberta"), ("XLMRoberta", "xlm-roberta"), ("Camembert", "camembert")
    )
]  # fmt: skip
REMBERT = Architecture(
    name="RemBertForMaskedLM",
    model_type="rembert",
    prefix="rembert.",
    body=POST_NORM | {"coupling.input_map": ("encoder.embedding_hidden_mapping_in",)},
    head={
        "coupling.transform.0": ("cls.predictions.dense",),
        "coupling.transform.2": ("cls.predictions.LayerNorm",),
    },
    read=_read_rembert,
    biases=("cls.predictions.decoder.bias",),
    writes=_write_rembert,
    needs=NEEDS_ENCODER
    | NEEDS_POST_NORM
    | {"body.embedding_width": ("input", "either"), "coupling.tied": (False,)},
    extra=_rembert_extra,
)
ESM = Architecture(
    name="EsmForMaskedLM",
    model_type="esm",
    prefix="esm.",
    body=PRE_NORM,
    head=LM_HEAD,
    read=_read_esm,
    bare="EsmModel",
    positions=None,
    types=None,
    decoder="lm_head.decoder.weight",
    biases=("lm_head.bias",),
    ignored=r"(^|\.)pooler\.|\.position_ids$|(^|\.)contact_head\.|\.position_embeddings\.weight$",
    # older files have the rates in each block; transformers 5.24 writes "*" for its number
    copies=r"encoder\.layer\.(\d+|\*)\.attention\.self\.",
    writes=_write_esm,
    needs=NEEDS_ENCODER
    | {"body.norm_placement": ("pre",), "body.positions": ("rotary",)}
    | {"body.rotary_scaling": (None,)}
    | NEEDS_ONE_WIDTH,
    extra=_esm_extra,
)
LLAMA = Architecture(
    name="LlamaForCausalLM",
    model_type="llama",
    prefix="model.",
    body=DECODER,
    head={},
    read=_read_llama,
    bare="LlamaModel",
    table="embed_tokens.weight",
    positions=None,
    types=None,
    decoder="lm_head.weight",
    ignored=r"\.rotary_emb\.inv_freq$",
    writes=_write_llama,
    needs={
        "body.kind": ("transformer",),
        "body.causal": (True,),
        "body.norm_placement": ("pre",),
        "body.norm": ("rms_norm",),
        "body.embedding_norm": (False,),
        "body.positions": ("rotary",),
        "body.feedforward": ("swiglu",),
        "coupling.transform": ("none",),
        "coupling.bias": (False,),
    }
    | NEEDS_ONE_WIDTH,
)
ARCHITECTURES = [BERT, *ROBERTAS, REMBERT, ESM, LLAMA]
"""Every architecture that is read; those with `writes` are also written, the first that fits."""
