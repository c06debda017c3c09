"""Shapes of decoders by their config.json, as the classes of transformers build them."""

from __future__ import annotations

from typing import Any

from tiebench.account.reader import Reader
from tiebench.analysis.shapes import Experts, LatentAttention, Shape


def read_gpt2(reader: Reader) -> Shape:
    """Radford et al. 2019: learned positions, layer norms before each part, biases."""
    width = reader.size("n_embd", "hidden_size")
    layers = reader.size("n_layer", "num_hidden_layers")
    heads = reader.size("n_head", "num_attention_heads")
    reader.divided(width, heads, "n_head")
    reader.only("add_cross_attention", False)
    return Shape(
        vocabulary=reader.size("vocab_size"),
        width=width,
        layers=layers,
        heads=heads,
        feedforward_width=reader.size("n_inner", default=4 * width),
        positions=reader.size("n_positions", "max_position_embeddings"),
        final_norm=True,
    )


def read_gpt_neox(reader: Reader) -> Shape:
    """Black et al. 2022: rotary positions, biases."""
    bias = reader.flag("attention_bias", True)
    return Shape(**reader.sizes(), final_norm=True, query_bias=bias, attention_output_bias=bias)


def read_opt(reader: Reader) -> Shape:
    """Zhang et al. 2022: positions from row 2 on, and a narrow embedding between two maps."""
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    layers, inner = reader.size("num_hidden_layers"), reader.size("ffn_dim")
    bias = reader.flag("enable_bias", True)
    reader.divided(width, heads, "num_attention_heads")
    narrow = reader.size("word_embed_proj_dim", default=width)
    gained = reader.flag("layer_norm_elementwise_affine", True)
    final = reader.flag("do_layer_norm_before", True)
    if final and "_remove_final_layer_norm" in reader.values:
        final = not reader.flag("_remove_final_layer_norm", False)
    return Shape(
        vocabulary=reader.size("vocab_size"),
        width=width,
        input_width=narrow,
        output_width=narrow,
        output_map=narrow != width,
        map_bias=False,
        layers=layers,
        heads=heads,
        feedforward_width=inner,
        positions=reader.size("max_position_embeddings") + 2,
        norm="layer_norm" if gained else "fixed",
        final_norm=final,
        bias=bias,
    )


def read_llama(reader: Reader) -> Shape:
    """Touvron et al. 2023: RMS norms, three feed-forward maps, rotary positions."""
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.divided(width, heads, "num_attention_heads")
    return _gated(
        reader,
        key_value_heads=reader.size("num_key_value_heads", default=heads),
        **_attention_bias(reader),
        feedforward_bias=reader.flag("mlp_bias", False),
    )


def read_mistral(reader: Reader) -> Shape:
    """Jiang et al. 2023: LLaMA's without biases."""
    return _gated(reader)


def read_mixtral(reader: Reader) -> Shape:
    """Jiang et al. 2024: Mistral's with experts in place of one feed-forward."""
    experts = Experts(
        number=reader.size("num_local_experts"), width=reader.size("intermediate_size")
    )
    return _gated(reader, experts=experts)


def read_qwen2(reader: Reader) -> Shape:
    """Yang et al. 2024: LLaMA's with biases on queries, keys and values."""
    return _gated(reader, query_bias=True)


def read_qwen3(reader: Reader) -> Shape:
    """Yang et al. 2025: LLaMA's with an RMS norm on each head's queries and keys."""
    head = reader.size("head_dim")
    return _gated(reader, head_width=head, **_attention_bias(reader), query_norm="head")


def read_gemma(reader: Reader) -> Shape:
    """Gemma Team 2024: LLaMA's with heads of a width of their own."""
    return _gated(reader, head_width=reader.size("head_dim"), **_attention_bias(reader))


def read_gemma2(reader: Reader) -> Shape:
    """Gemma Team 2024: norms before and behind each part."""
    return _four_norms(reader)


def read_gemma3(reader: Reader) -> Shape:
    """Gemma Team 2025, the model of text: the second's with an RMS norm on queries and keys."""
    return _four_norms(reader, query_norm="head")


def read_olmo(reader: Reader) -> Shape:
    """Groeneveld et al. 2024: LLaMA's with norms that have no parameters."""
    return _gated(reader, **_grouped(reader), norm="fixed")


def read_olmo2(reader: Reader) -> Shape:
    """OLMo Team 2025: norms behind each part, and one on all queries and all keys."""
    return _gated(reader, **_grouped(reader), query_norm="full")


def read_phi(reader: Reader) -> Shape:
    """Li et al. 2023: attention and feed-forward side by side behind one norm, biases."""
    given = reader.values.get("head_dim") is not None
    sizes = reader.sizes(divided=not given)
    keys = _key_value_heads(reader, sizes["heads"], sizes["heads"])
    reader.only("qk_layernorm", False)
    head = reader.size("head_dim") if given else None
    return Shape(
        **sizes, head_width=head, key_value_heads=keys, block_norms=1, final_norm=True,
        output_bias=True,
    )  # fmt: skip


def read_phi3(reader: Reader) -> Shape:
    """Abdin et al. 2024: LLaMA's without biases."""
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.divided(width, heads, "num_attention_heads")
    return _gated(reader, key_value_heads=_key_value_heads(reader, heads, heads))


def read_smollm3(reader: Reader) -> Shape:
    """Bakouch et al. 2025: LLaMA's, some layers without positions."""
    mapped = reader.flag("mlp_bias", False)
    return _gated(reader, **_attention_bias(reader), feedforward_bias=mapped)


def read_deepseek(reader: Reader) -> Shape:
    """DeepSeek-AI 2024: latent attention, experts, the first blocks without; one token ahead."""
    latent = LatentAttention(
        query_rank=None
        if reader.is_null("q_lora_rank")
        else reader.size("q_lora_rank", default=1536),
        key_value_rank=reader.size("kv_lora_rank"),
        rotary_width=reader.size("qk_rope_head_dim"),
        plain_width=reader.size("qk_nope_head_dim"),
        value_width=reader.size("v_head_dim"),
    )
    experts = Experts(
        number=reader.size("n_routed_experts"),
        width=reader.size("moe_intermediate_size"),
        shared=reader.size("n_shared_experts", least=0),
        dense_layers=reader.size("first_k_dense_replace", least=0),
    )
    heads = reader.size("num_attention_heads")
    reader.notes.append("modules that predict further tokens are not counted")
    return _gated(
        reader,
        key_value_heads=reader.size("num_key_value_heads", default=heads),
        head_width=latent.plain_width + latent.rotary_width,
        **_attention_bias(reader),
        latent_attention=latent,
        experts=experts,
    )


def _attention_bias(reader: Reader) -> dict[str, bool]:
    bias = reader.flag("attention_bias", False)
    return {"query_bias": bias, "attention_output_bias": bias}


def _key_value_heads(reader: Reader, heads: int, default: int | None) -> int:
    keys = reader.size("num_key_value_heads", default=default)
    if heads % keys:
        expected = f"a divisor of num_attention_heads, {heads:,}"
        raise reader.error("num_key_value_heads", f"{keys:,}", expected)
    return keys


def _grouped(reader: Reader) -> dict[str, Any]:
    """Heads of keys where the class takes as many as of queries, and biases of attention."""
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.divided(width, heads, "num_attention_heads")
    return {"key_value_heads": _key_value_heads(reader, heads, heads), **_attention_bias(reader)}


def _gated(reader: Reader, **fields: Any) -> Shape:
    """A decoder with RMS norms, grouped queries and three feed-forward maps."""
    heads = reader.size("num_attention_heads")
    given = "num_key_value_heads" in reader.values  # null: as many as heads
    taken: dict[str, Any] = {
        "vocabulary": reader.size("vocab_size"),
        "width": reader.size("hidden_size"),
        "layers": reader.size("num_hidden_layers"),
        "heads": heads,
        "feedforward_width": reader.size("intermediate_size"),
        "norm": "rms_norm",
        "final_norm": True,
        "bias": False,
        "gated": True,
        **fields,
    }
    if "key_value_heads" not in fields:
        taken["key_value_heads"] = _key_value_heads(reader, heads, heads if given else None)
    if "head_width" not in fields:
        if reader.values.get("head_dim") is None:
            reader.divided(taken["width"], heads, "num_attention_heads")
        else:
            taken["head_width"] = reader.size("head_dim")
    return Shape(**taken)


def _four_norms(reader: Reader, **fields: Any) -> Shape:
    """The second and third Gemma."""
    width, heads = reader.size("hidden_size"), reader.size("num_attention_heads")
    reader.divided(width, heads, "num_attention_heads")
    return _gated(
        reader,
        head_width=reader.size("head_dim"),
        **_attention_bias(reader),
        block_norms=4,
        **fields,
    )
