"""Small models of each shape that has a native class in transformers, with every tensor drawn."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from tiebench.corpus.tokenizer import train_tokenizer
from tiebench.files import write_json
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.settings import BodySettings, CouplingSettings

VOCABULARY = 280
HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
BERT: dict[str, Any] = {
    "tied": True, "transform": HEAD, "norm_placement": "post", "norm_epsilon": 1e-12,
    "embedding_norm": True, "positions": "learned",
}  # fmt: skip
ESM: dict[str, Any] = {"tied": True, "transform": HEAD, "positions": "rotary"}
LLAMA: dict[str, Any] = {
    "tied": True, "transform": [], "bias": False, "causal": True, "norm": "rms_norm",
    "norm_epsilon": 1e-5, "positions": "rotary", "feedforward": "swiglu",
}  # fmt: skip
UNTIED = {"tied": False}
SCALING = {"factor": 8.0, "low_frequency_factor": 1.0, "high_frequency_factor": 4.0, "original_length": 16}  # fmt: skip
GROUPED = {"key_value_heads": 2, "rotary_base": 5e5, "rotary_scaling": SCALING}
SHAPES: dict[str, dict[str, Any]] = {
    "bert": BERT,
    "bert_untied": BERT | UNTIED,
    "rembert": BERT | UNTIED | {"input_width": 16, "output_width": 96, "embedding_width": "input"},
    "rembert_wide": BERT | UNTIED | {"output_width": 96},
    "esm": ESM,
    "esm_untied": ESM | UNTIED | {"embedding_norm": True},
    "llama": LLAMA,
    "llama_untied": LLAMA | UNTIED,
    "llama_grouped": LLAMA | GROUPED,
}


def make_model(shape: str, **changes: Any) -> LanguageModel:
    """A model of one of SHAPES, with changed settings of body or coupling."""
    settings = {
        "width": 32, "layers": 2, "heads": 4, "feedforward_width": 64, "maximum_length": 48,
        **SHAPES[shape], **changes,
    }  # fmt: skip
    coupling = {k: v for k, v in settings.items() if k in CouplingSettings.model_fields}
    own = BodySettings.model_fields.keys() - {"distribution"}  # the tables'
    body = {k: v for k, v in settings.items() if k in own}
    model = LanguageModel(
        CouplingSettings(option="t", **coupling), BodySettings(option="t", **body), VOCABULARY
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.initialize(0).named_parameters():
            noise = 0.1 * torch.randn(parameter.shape, generator=generator)
            parameter.add_(noise)
            assert parameter.any(), name
    return model


@cache
def train_small_tokenizer() -> Tokenizer:
    """A tokenizer of VOCABULARY entries."""
    text = "the quick brown fox jumps over the lazy dog and the cat sat on the mat"
    return train_tokenizer([text] * 20, VOCABULARY, "text")


def make_run(folder: Path, shape: str, **changes: Any) -> Path:
    """Save such a model as a run."""
    save_model(make_model(shape, **changes), folder)
    train_small_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def edit_config(folder: Path, **values: Any) -> None:
    """Set keys of config.json; None removes one."""
    config = json.loads((folder / "config.json").read_text()) | values
    write_json(folder / "config.json", {k: v for k, v in config.items() if v is not None})
