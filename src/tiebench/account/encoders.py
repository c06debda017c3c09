"""Shapes of encoders and encoder-decoders by their config.json, as transformers builds them."""

from __future__ import annotations

from typing import Any

from tiebench.account.reader import IN_WORDS, Reader
from tiebench.analysis.shapes import Shape
from tiebench.audit.words import count_words
from tiebench.model.coupling_settings import Activation, Linear, Norm

T5_FORMS = {"t5": "relu", "mt5": "gated-gelu"}
"""By model_type, the feed-forward of its class: checkpoints of the first T5 do not name it."""


def read_bert(reader: Reader) -> Shape:
    """Devlin et al. 2019, without pooler; RoBERTa's tables have other rows and the same form."""
    return _encoder(reader)


def read_rembert(reader: Reader) -> Shape:
    """Chung et al. 2021, without pooler: a narrow input and a wide output embedding."""
    return _encoder(
        reader,
        input_width=reader.size("input_embedding_size"),
        output_width=reader.size("output_embedding_size"),
        input_map=True,
    )


def read_albert(reader: Reader) -> Shape:
    """Lan et al. 2020, without pooler: a narrow embedding, and blocks that layers share."""
    narrow, layers = reader.size("embedding_size"), reader.size("num_hidden_layers")
    copies = reader.size("num_hidden_groups", default=1) * reader.size("inner_group_num", default=1)
    shared = f"{layers:,} layers share the parameters of {count_words(copies, 'block')}"
    reader.notes.append(shared)
    return _encoder(
        reader, input_width=narrow, output_width=narrow, input_map=True, shared_blocks=copies
    )


def read_t5(reader: Reader) -> Shape:
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
    reader.notes.append("the input embedding is that of encoder and decoder, and counted once")
    return Shape(
        vocabulary=reader.size("vocab_size"),
        width=width,
        layers=layers,
        decoder_layers=decoder,
        heads=heads,
        head_width=reader.size("d_kv"),
        feedforward_width=inner,
        relative_positions=reader.size("relative_attention_num_buckets", default=32),
        norm="rms_norm",
        final_norm=True,
        bias=False,
        gated=form.startswith("gated-"),
    )


def _encoder(reader: Reader, **fields: Any) -> Shape:
    """BERT's body and head between embeddings of any width."""
    sizes = reader.sizes()
    reader.only("position_embedding_type", "absolute")
    reader.only("add_cross_attention", False)
    reader.notes.append("a pooler, which takes no part in the logits, is not counted")
    return Shape(
        **sizes,
        **fields,
        positions=reader.size("max_position_embeddings"),
        token_types=reader.size("type_vocab_size", default=2),
        positions_at="input",
        embedding_norm="input",
        transform=[Linear(kind="linear"), Activation(kind="gelu"), Norm(kind="layer_norm")],
        output_bias=True,
    )
