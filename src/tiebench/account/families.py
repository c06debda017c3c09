"""The readers of config.json by model_type, and what each class does where no tie is stated."""

from __future__ import annotations

from collections.abc import Callable

from tiebench.account import decoders, encoders
from tiebench.account.reader import Reader
from tiebench.analysis.shapes import Shape
from tiebench.audit.families import FAMILIES

ENCODERS: dict[str, Callable[[Reader], Shape]] = {
    "bert": encoders.read_bert,
    "roberta": encoders.read_bert,
    "xlm-roberta": encoders.read_bert,
    "camembert": encoders.read_bert,
    "rembert": encoders.read_rembert,
    "albert": encoders.read_albert,
    "t5": encoders.read_t5,
    "mt5": encoders.read_t5,
}
"""Models with an encoder."""
READERS: dict[str, Callable[[Reader], Shape]] = {
    "gpt2": decoders.read_gpt2,
    "gpt_neox": decoders.read_gpt_neox,
    "opt": decoders.read_opt,
    "llama": decoders.read_llama,
    "mistral": decoders.read_mistral,
    "mixtral": decoders.read_mixtral,
    "qwen2": decoders.read_qwen2,
    "qwen3": decoders.read_qwen3,
    "gemma": decoders.read_gemma,
    "gemma2": decoders.read_gemma2,
    "gemma3_text": decoders.read_gemma3,
    "olmo": decoders.read_olmo,
    "olmo2": decoders.read_olmo2,
    "phi": decoders.read_phi,
    "phi3": decoders.read_phi3,
    "smollm3": decoders.read_smollm3,
    "deepseek_v3": decoders.read_deepseek,
    **ENCODERS,
}
"""By model_type."""
DECODERS = frozenset(READERS) - frozenset(ENCODERS)
"""Models without one."""
DEFAULTS = {name: FAMILIES[name].tied for name in READERS if name in FAMILIES} | {"mt5": True}
"""By model_type, whether its class ties where config.json states nothing."""
