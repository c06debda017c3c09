"""Validation at fixed masks: loss, accuracy, bits per byte, by language and token frequency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tiebench.corpus.tokenizer import SPECIALS
from tiebench.model.lm import LanguageModel
from tiebench.training.batches import Batch

BIN_EDGES = (0, 1, 10, 100, 1_000, 10_000)
"""Training counts at which a frequency bin starts."""


@torch.no_grad()
def outcomes(
    model: LanguageModel, batches: Mapping[str, list[Batch]], device: torch.device
) -> dict[str, dict[str, np.ndarray]]:
    """Per language: `loss` in nats, `correct` and `target`, one entry per prediction."""
    held = {}
    for language, parts in batches.items():
        losses, correct = [], []
        for part in parts:
            tensors = [torch.from_numpy(x).to(device) for x in (part.ids, part.where, part.targets)]
            loss, hit = model.outcomes(*tensors)
            losses.append(loss.double().cpu().numpy())
            correct.append(hit.cpu().numpy())
        target = np.concatenate([part.targets for part in parts])
        held[language] = {
            "loss": np.concatenate(losses), "correct": np.concatenate(correct), "target": target
        }  # fmt: skip
    return held


def unigram_counts(tokens: Mapping[str, np.ndarray], vocabulary: int, causal: bool) -> np.ndarray:
    """Training counts of each id, `[vocabulary]`; special tokens only where they are predicted."""
    counts = np.bincount(np.concatenate(list(tokens.values())), minlength=vocabulary)
    if not causal:
        counts[:SPECIALS] = 0
    return counts


def summarize(
    held: Mapping[str, Mapping[str, np.ndarray]],
    unigram: np.ndarray,
    byte_lengths: np.ndarray,
    causal: bool,
) -> dict[str, Any]:
    """The `validation` part of metrics.json.

    Args:
        held: from `outcomes`.
        unigram: `[vocabulary]` counts in the training part.
        byte_lengths: `[vocabulary]` bytes of each token.
        causal: bits per byte is defined (every token is predicted once).
    """
    everything = {
        k: np.concatenate([part[k] for part in held.values()])
        for k in ("loss", "correct", "target")
    }
    seen = unigram[everything["target"]]
    smoothed = np.log((unigram + 1) / (unigram + 1).sum())
    bins = []
    for low, high in zip(BIN_EDGES, (*BIN_EDGES[1:], None), strict=True):
        inside = (seen >= low) & (seen < high if high else True)
        if inside.any():
            bins.append({"bin": _bin_name(low, high), **_means(everything, inside)})
    bytes_predicted = int(byte_lengths[everything["target"]].sum())
    return {
        **_means(everything),
        "unigram_loss": float(-smoothed[everything["target"]].mean()),
        "bits_per_byte": float(everything["loss"].sum() / math.log(2) / bytes_predicted)
        if causal
        else None,
        "by_language": {language: _means(part) for language, part in held.items()},
        "by_frequency": bins,
    }


def _means(part: Mapping[str, np.ndarray], inside: Any = slice(None)) -> dict[str, Any]:
    loss, correct = part["loss"][inside], part["correct"][inside]
    return {
        "loss": float(loss.mean()), "accuracy": float(correct.mean()), "predicted_tokens": len(loss)
    }  # fmt: skip


def _bin_name(low: int, high: int | None) -> str:
    if high is None:
        return f"{low}+"
    return str(low) if high == low + 1 else f"{low}-{high - 1}"
