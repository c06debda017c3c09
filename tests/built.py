"""Parameters of transformers' own classes, on the meta device."""

from __future__ import annotations

from typing import Any

from tiebench.account.sources import FORCED

POOLED = ("bert", "roberta", "xlm-roberta", "camembert", "rembert", "albert")
"""Model types of encoders."""


def built(
    kind: str, values: dict[str, Any], *, tied: bool | None = None, bare: bool = False
) -> int:
    """Parameters of transformers' own class, each tensor once.

    Args:
        tied: None leaves it to the class.
        bare: without language-model head, and without pooler.
    """
    import torch
    from transformers import CONFIG_MAPPING, MODEL_MAPPING
    from transformers.initialization import no_init_weights
    from transformers.models.auto import modeling_auto as auto

    config = CONFIG_MAPPING[kind](**values)
    shared = kind in FORCED  # whose encoder and decoder would be untied too
    if tied is not None and not shared:
        config.tie_word_embeddings = tied
    options = {"add_pooling_layer": False} if bare and kind in POOLED else {}
    headed = (
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
        if shared
        else auto.MODEL_FOR_MASKED_LM_MAPPING
        if kind in POOLED
        else auto.MODEL_FOR_CAUSAL_LM_MAPPING
    )
    with torch.device("meta"), no_init_weights():
        model = (MODEL_MAPPING if bare else headed)[type(config)](config, **options)
    model.tie_weights()  # as the class does where weights are drawn, which takes longer
    with torch.device("meta"):
        if shared and tied is False:
            model.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
    return sum(x.numel() for x in model.parameters())
