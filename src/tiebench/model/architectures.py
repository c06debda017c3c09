"""Architectures of the transformers library that compute what a model of ours computes.

One entry of `ARCHITECTURES` is one class of that library: how its config.json reads and is
written, what its tensors are called, and which settings of ours it can hold. Nothing of the
library itself is needed here. Shapes: `width` is that of the residual stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tiebench.model.body import rotary
from tiebench.model.lm import ModelSettings
from tiebench.model.native_configs import (
    Config,
    Reading,
    read_esm,
    read_llama,
    read_post_norm,
    read_rembert,
    read_roberta,
)
from tiebench.model.settings import BodySettings, TableOperation


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
    unread: str | None = None
    """The class without head, where it lacks a table of another width."""
    table: str = "embeddings.word_embeddings.weight"
    positions: str | None = "embeddings.position_embeddings.weight"
    types: str | None = "embeddings.token_type_embeddings.weight"
    decoder: str = "cls.predictions.decoder.weight"
    biases: tuple[str, ...] = ()
    """Where the head's bias stands; the last of them is the one that an untied head adds."""
    ignored: str = r"(^|\.)pooler\.|\.(position|token_type)_ids$"
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
    stands between input table and body. What only decides initial values, or what is trained, is
    no fact: weights are the same whatever they came from.
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
        "body.branch": "deep_norm" if body.branch == "deep_norm" else "standard",
        "coupling.tied": coupling.tied,
        "coupling.input_width": told[0],
        "coupling.output_width": told[1],
        "coupling.input_operations": _kinds(coupling.input_operations),
        "coupling.output_operations": _kinds(coupling.output_operations),
        "coupling.input_scale": coupling.input_scale,
        "coupling.logit_scale": coupling.logit_scale,
        "coupling.transform": ", ".join(operations) or "none",
        "coupling.bias": coupling.bias,
    }


def _kinds(operations: Sequence[TableOperation]) -> str:
    return ", ".join(operation.kind for operation in operations) or "none"


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
NEEDS_PLAIN: dict[str, tuple[object, ...]] = {
    "body.kind": ("transformer",),
    "body.branch": ("standard",),
    "coupling.input_operations": ("none",),
    "coupling.output_operations": ("none",),
    "coupling.input_scale": (1.0,),
    "coupling.logit_scale": (1.0,),
}
NEEDS_ENCODER = NEEDS_PLAIN | {
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
    read=read_post_norm,
    same_head=("BertForPreTraining",),
    bare="BertModel",
    biases=("cls.predictions.bias", "cls.predictions.decoder.bias"),
    ignored=r"(^|\.)pooler\.|\.(position|token_type)_ids$|^cls\.seq_relationship\.",
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
        read=read_roberta,
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
    read=read_rembert,
    unread="RemBertModel",
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
    read=read_esm,
    bare="EsmModel",
    positions=None,
    types=None,
    decoder="lm_head.decoder.weight",
    biases=("lm_head.bias",),
    ignored=r"(^|\.)pooler\.|\.(position|token_type)_ids$|(^|\.)contact_head\.|\.position_embeddings\.weight$",
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
    read=read_llama,
    bare="LlamaModel",
    table="embed_tokens.weight",
    positions=None,
    types=None,
    decoder="lm_head.weight",
    ignored=r"\.rotary_emb\.inv_freq$",
    writes=_write_llama,
    needs=NEEDS_PLAIN
    | {
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
