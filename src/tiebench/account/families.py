"""The parts of a model by its config.json, counted as the class of transformers builds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiebench.account.parts import Parts
from tiebench.account.reader import IN_WORDS, Reader
from tiebench.analysis.counting import affine
from tiebench.audit.words import count_words

T5_FORMS = {"t5": "relu", "mt5": "gated-gelu"}
"""By model_type, the feed-forward of its class: checkpoints of the first T5 do not name it."""


@dataclass(frozen=True)
class Layout:
    """What config.json says of a model's shape."""

    width: int
    layers: tuple[int, ...]
    widths: tuple[int, int]
    parts: Parts


def read_gpt2(reader: Reader) -> Layout:
    """Radford et al. 2019: learned positions, layer norms before each part, biases."""
    width = reader.size("n_embd", "hidden_size")
    layers = reader.size("n_layer", "num_hidden_layers")
    heads = reader.size("n_head", "num_attention_heads")
    reader.divided(width, heads, "n_head")
    reader.only("add_cross_attention", False)
    inner = reader.size("n_inner", default=4 * width)
    positions = reader.size("n_positions", "max_position_embeddings") * width
    return _plain(
        reader, width, layers,
        attention=layers * 4 * affine(width, width),
        feedforward=layers * _feedforward(width, inner),
        norms=(2 * layers + 1) * 2 * width,
        positions=positions,
    )  # fmt: skip


def read_gpt_neox(reader: Reader) -> Layout:
    """Black et al. 2022: rotary positions, biases."""
    width, layers, inner = _sizes(reader)
    bias = reader.flag("attention_bias", True)
    reader.divided(width, reader.size("num_attention_heads"), "num_attention_heads")
    return _plain(
        reader, width, layers,
        attention=layers * 4 * affine(width, width, bias=bias),
        feedforward=layers * _feedforward(width, inner),
        norms=(2 * layers + 1) * 2 * width,
    )  # fmt: skip


def read_opt(reader: Reader) -> Layout:
    """Zhang et al. 2022: positions from row 2 on, and a narrow embedding between two maps."""
    width, layers = reader.size("hidden_size"), reader.size("num_hidden_layers")
    inner, bias = reader.size("ffn_dim"), reader.flag("enable_bias", True)
    reader.divided(width, reader.size("num_attention_heads"), "num_attention_heads")
    narrow = reader.size("word_embed_proj_dim", default=width)
    norm = 2 * width if reader.flag("layer_norm_elementwise_affine", True) else 0
    final = reader.flag("do_layer_norm_before", True)
    if final and "_remove_final_layer_norm" in reader.values:
        final = not reader.flag("_remove_final_layer_norm", False)
    vocabulary = reader.size("vocab_size")
    parts = Parts(
        input_embedding=vocabulary * narrow,
        output_embedding=vocabulary * narrow,
        maps=2 * narrow * width if narrow != width else 0,
        positions=(reader.size("max_position_embeddings") + 2) * width,
        attention=layers * 4 * affine(width, width, bias=bias),
        feedforward=layers * _feedforward(width, inner, bias=bias),
        norms=(2 * layers + final) * norm,
        head=0,
    )
    return Layout(width, (layers,), (narrow, narrow), parts)


def read_llama(reader: Reader) -> Layout:
    """Touvron et al. 2023: RMS norms, three feed-forward maps, rotary positions."""
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.divided(width, heads, "num_attention_heads")
    bias = reader.flag("attention_bias", False)
    return _gated(
        reader, keys=reader.size("num_key_value_heads", default=heads),
        query_bias=bias, output_bias=bias, map_bias=reader.flag("mlp_bias", False),
    )  # fmt: skip


def read_mistral(reader: Reader) -> Layout:
    """Jiang et al. 2023: LLaMA's without biases."""
    return _gated(reader)


def read_qwen2(reader: Reader) -> Layout:
    """Yang et al. 2024: LLaMA's with biases on queries, keys and values."""
    return _gated(reader, query_bias=True)


def read_qwen3(reader: Reader) -> Layout:
    """Yang et al. 2025: LLaMA's with an RMS norm on each head's queries and keys."""
    bias = reader.flag("attention_bias", False)
    return _gated(
        reader, head=reader.size("head_dim"), query_bias=bias, output_bias=bias, head_norms=2
    )


def read_gemma(reader: Reader) -> Layout:
    """Gemma Team 2024: LLaMA's with heads of a width of their own."""
    bias = reader.flag("attention_bias", False)
    return _gated(reader, head=reader.size("head_dim"), query_bias=bias, output_bias=bias)


def read_gemma2(reader: Reader) -> Layout:
    """Gemma Team 2024: norms before and behind each part."""
    bias = reader.flag("attention_bias", False)
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.divided(width, heads, "num_attention_heads")
    return _gated(
        reader, head=reader.size("head_dim"), query_bias=bias, output_bias=bias, block_norms=4
    )


def read_bert(reader: Reader) -> Layout:
    """Devlin et al. 2019, without pooler; RoBERTa's tables have other rows and the same form."""
    width = reader.size("hidden_size")
    return _encoder(reader, width, width, maps=0, copies=reader.size("num_hidden_layers"))


def read_rembert(reader: Reader) -> Layout:
    """Chung et al. 2021, without pooler: a narrow input and a wide output embedding."""
    narrow, wide = reader.size("input_embedding_size"), reader.size("output_embedding_size")
    maps = affine(narrow, reader.size("hidden_size"))
    return _encoder(reader, narrow, wide, maps=maps, copies=reader.size("num_hidden_layers"))


def read_albert(reader: Reader) -> Layout:
    """Lan et al. 2020, without pooler: a narrow embedding, and blocks that layers share."""
    narrow, layers = reader.size("embedding_size"), reader.size("num_hidden_layers")
    copies = reader.size("num_hidden_groups", default=1) * reader.size("inner_group_num", default=1)
    maps = affine(narrow, reader.size("hidden_size"))
    shared = f"{layers:,} layers share the parameters of {count_words(copies, 'block')}"
    reader.notes.append(shared)
    return _encoder(reader, narrow, narrow, maps=maps, copies=copies)


def read_t5(reader: Reader) -> Layout:
    """Raffel et al. 2020: one input embedding for encoder and decoder, no biases."""
    reader.only("is_encoder_decoder", True)
    alone = [name for name in reader.names("architectures") if "Encoder" in name]
    if alone:
        expected = "encoder and decoder, which are counted together here"
        raise reader.error("architectures", alone[0], expected, IN_WORDS)
    width, layers = reader.size("d_model", "hidden_size"), reader.size("num_layers")
    decoder = reader.size("num_decoder_layers", default=layers)
    heads, inner = reader.size("num_heads", "num_attention_heads"), reader.size("d_ff")
    form = reader.text("feed_forward_proj", default=T5_FORMS[reader.text("model_type")])
    if not form.removeprefix("gated-") or "-" in form.removeprefix("gated-"):
        raise reader.error("feed_forward_proj", f'"{form}"', "an activation, or gated-ACTIVATION")
    maps = 3 if form.startswith("gated-") else 2
    attention = 4 * width * heads * reader.size("d_kv")
    buckets = reader.size("relative_attention_num_buckets", default=32)
    reader.notes.append("the input embedding is that of encoder and decoder, and counted once")
    return _plain(
        reader, width, (layers, decoder),
        attention=(layers + 2 * decoder) * attention,
        feedforward=(layers + decoder) * maps * width * inner,
        norms=(2 * layers + 3 * decoder + 2) * width,
        positions=2 * buckets * heads,
    )  # fmt: skip


def _sizes(reader: Reader) -> tuple[int, int, int]:
    keys = ("hidden_size", "num_hidden_layers", "intermediate_size")
    width, layers, inner = (reader.size(key) for key in keys)
    return width, layers, inner


def _feedforward(width: int, inner: int, *, bias: bool = True, gated: bool = False) -> int:
    up = affine(width, inner, bias=bias)
    return (2 if gated else 1) * up + affine(inner, width, bias=bias)


def _plain(
    reader: Reader, width: int, layers: int | tuple[int, ...], *, attention: int,
    feedforward: int, norms: int, positions: int = 0,
) -> Layout:  # fmt: skip
    """A model whose head is the output embedding alone, at the body's width."""
    matrix = reader.size("vocab_size") * width
    parts = Parts(matrix, matrix, 0, positions, attention, feedforward, norms, 0)
    stacks = (layers,) if isinstance(layers, int) else layers
    return Layout(width, stacks, (width, width), parts)


def _gated(
    reader: Reader, *, keys: int | None = None, head: int | None = None, query_bias: bool = False,
    output_bias: bool = False, map_bias: bool = False, block_norms: int = 2, head_norms: int = 0,
) -> Layout:  # fmt: skip
    """A decoder with RMS norms, grouped queries and three feed-forward maps."""
    width, layers, inner = _sizes(reader)
    heads = reader.size("num_attention_heads")
    if keys is None:
        given = "num_key_value_heads" in reader.values  # null: as many as heads
        keys = reader.size("num_key_value_heads", default=heads if given else None)
    if heads % keys:
        expected = f"a divisor of num_attention_heads, {heads:,}"
        raise reader.error("num_key_value_heads", f"{keys:,}", expected)
    if head is None:
        given = reader.values.get("head_dim") is not None
        head = (
            reader.size("head_dim")
            if given
            else reader.divided(width, heads, "num_attention_heads")
        )
    attention = (
        affine(width, heads * head, bias=query_bias)
        + 2 * affine(width, keys * head, bias=query_bias)
        + affine(heads * head, width, bias=output_bias)
    )
    return _plain(
        reader, width, layers,
        attention=layers * attention,
        feedforward=layers * _feedforward(width, inner, bias=map_bias, gated=True),
        norms=layers * (block_norms * width + head_norms * head) + width,
    )  # fmt: skip


def _encoder(reader: Reader, narrow: int, wide: int, *, maps: int, copies: int) -> Layout:
    """BERT's body and head between embeddings of any width."""
    width, layers, inner = _sizes(reader)
    reader.divided(width, reader.size("num_attention_heads"), "num_attention_heads")
    reader.only("position_embedding_type", "absolute")
    reader.only("add_cross_attention", False)
    reader.notes.append("a pooler, which takes no part in the logits, is not counted")
    vocabulary = reader.size("vocab_size")
    rows = reader.size("max_position_embeddings") + reader.size("type_vocab_size", default=2)
    parts = Parts(
        input_embedding=vocabulary * narrow,
        output_embedding=vocabulary * wide,
        maps=maps,
        positions=rows * narrow,
        attention=copies * 4 * affine(width, width),
        feedforward=copies * _feedforward(width, inner),
        norms=copies * 4 * width + 2 * narrow,
        head=affine(width, wide) + 2 * wide + vocabulary,
    )
    return Layout(width, (layers,), (narrow, wide), parts)


READERS: dict[str, Callable[[Reader], Layout]] = {
    "gpt2": read_gpt2,
    "gpt_neox": read_gpt_neox,
    "opt": read_opt,
    "llama": read_llama,
    "mistral": read_mistral,
    "qwen2": read_qwen2,
    "qwen3": read_qwen3,
    "gemma": read_gemma,
    "gemma2": read_gemma2,
    "bert": read_bert,
    "roberta": read_bert,
    "xlm-roberta": read_bert,
    "camembert": read_bert,
    "rembert": read_rembert,
    "albert": read_albert,
    "t5": read_t5,
    "mt5": read_t5,
}
"""By model_type."""
