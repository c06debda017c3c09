"""What is known of families of models: how they name their matrices, and the default of the tie."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

INPUTS = (
    "embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight",
    "shared.weight", "tok_embeddings.weight", "word_embedding.weight", "token_embedding.weight",
    "coupling.input_table",
)  # fmt: skip
"""Ends of the names of input embeddings."""
HEADS = (
    "lm_head.decoder.weight", "predictions.decoder.weight", "generator_lm_head.weight",
    "lm_head.linear.weight", "lm_head.weight", "embed_out.weight", "vocab_projector.weight",
    "pred_layer.proj.weight", "lm_loss.weight", "coupling.untied_output_table",
)  # fmt: skip
"""Ends of the names of output heads."""
VAGUE_INPUTS = ("embeddings.weight", "embedding.weight", "embed.weight", "emb.weight")
VAGUE_HEADS = (
    "output.weight", "output_layer.weight", "decoder.weight", "head.weight", "ff_out.weight",
    "proj_out.weight",
)  # fmt: skip
"""Ends that other matrices have too: believed where the shape is that of a vocabulary."""
INPUT_MAPS = (
    "embedding_hidden_mapping_in.weight", "embeddings_project.weight", "project_in.weight",
    "embed_proj.weight", "embedding_transformation.weight", "coupling.input_map.weight",
)  # fmt: skip
"""Ends of the names of maps from the input embedding's width to that of the body."""
OUTPUT_MAPS = (
    "predictions.dense.weight", "generator_predictions.dense.weight", "project_out.weight",
    "predictions.transform.dense.weight", "lm_head.dense.weight",
)  # fmt: skip
"""Ends of the names of maps from the body's width to that of the head."""
QUANTIZED = re.compile(
    r"(\.weight)?[._:](qweight|qzeros|scales|biases|g_idx|weight_packed|weight_scale\w*|weight_shape"
    r"|weight_zero_point|absmax|nested_\w+|quant_map|quant_state\S*|SCB|weight_format|W_q|_data)$"
)
"""Ends that stand in place of `.weight`, or beside it, where a matrix is quantized."""
HEADED = re.compile(
    r"(ForCausalLM|ForMaskedLM|LMHeadModel|LMHead|WithLMHead|ForConditionalGeneration|MTModel"
    r"|ForPreTraining)$"
)
"""Ends of the names of classes with a language-model head."""
HEADLESS = ("ElectraForPreTraining",)
COMPOSED = ("encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder", "fsmt")
"""Model types whose encoder and decoder have vocabularies of their own."""


@dataclass(frozen=True)
class Family:
    """What a model type names its head, and whether its class ties where nothing is said."""

    heads: tuple[str, ...]
    tied: bool


def _families(heads: str, tied: bool, names: str) -> dict[str, Family]:
    return {name: Family(tuple(heads.split()), tied) for name in names.split()}


FAMILIES = (
    _families(
        "lm_head.weight",
        True,
        "gpt2 gpt_neo gpt_bigcode bloom falcon opt t5 bart mbart pegasus marian m2m_100 gemma "
        "gemma2 gemma3_text starcoder2 smollm3 mamba cohere",
    )
    | _families(
        "lm_head.weight",
        False,
        "llama mistral mixtral qwen2 qwen3 phi phi3 olmo olmo2 granite stablelm gptj deepseek_v3",
    )
    | _families("embed_out.weight lm_head.weight", False, "gpt_neox")
    | _families("predictions.decoder.weight", True, "bert albert deberta-v2")
    | _families("predictions.decoder.weight", False, "rembert")
    | _families("lm_head.decoder.weight", True, "roberta xlm-roberta camembert esm")
    | _families("generator_lm_head.weight", True, "electra")
    | _families("vocab_projector.weight", True, "distilbert")
    | _families("decoder.weight", True, "modernbert")
    | _families("proj_out.weight", True, "whisper")
    | _families("lm_loss.weight", True, "xlnet")
)
"""By model type, those whose default has stayed the same."""


def ends_with(name: str, ends: Iterable[str]) -> str | None:
    """The first of `ends` that a tensor's name has, outside of numbered blocks."""
    for end in ends:
        if name == end or name.endswith(f".{end}"):
            before = name.removesuffix(end).split(".")
            return None if any(part.isdigit() for part in before) else end
    return None


def has_head(architectures: list[str]) -> bool | None:
    """Whether the classes have a language-model head; None if none is named."""
    if not architectures:
        return None
    return any(HEADED.search(name) and name not in HEADLESS for name in architectures)
