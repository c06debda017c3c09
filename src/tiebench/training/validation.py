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


def unigram_counts(
    tokens: Mapping[str, np.ndarray], vocabulary: int, causal: bool
) -> dict[str, np.ndarray]:
    """Training counts of each id by language, `[vocabulary]`.

    Special tokens count only where they are predicted.
    """
    counts = {x: np.bincount(ids, minlength=vocabulary) for x, ids in tokens.items()}
    if not causal:
        for part in counts.values():
            part[:SPECIALS] = 0
    return counts


def summarize(
    held: Mapping[str, Mapping[str, np.ndarray]],
    unigram: Mapping[str, np.ndarray],
    byte_lengths: np.ndarray | None,
    causal: bool,
) -> dict[str, Any]:
    """The `validation` part of metrics.json.

    The unigram loss knows the language, as a model does that has seen a window: a token has its
    share of the language's training text (one added to every count).

    Args:
        held: from `outcomes`.
        unigram: from `unigram_counts`.
        byte_lengths: `[vocabulary]` bytes of each token; None where these are not known.
        causal: bits per byte is defined (every token is predicted once), if `byte_lengths` are.
    """
    everything = {
        k: np.concatenate([part[k] for part in held.values()])
        for k in ("loss", "correct", "target")
    }
    seen = np.sum(list(unigram.values()), axis=0)[everything["target"]]
    unigram_losses = [
        -np.log((unigram[language] + 1) / (unigram[language] + 1).sum())[part["target"]]
        for language, part in held.items()
    ]
    bins = []
    for low, high in zip(BIN_EDGES, (*BIN_EDGES[1:], None), strict=True):
        inside = (seen >= low) & (seen < high if high else True)
        if inside.any():
            bins.append({"bin": bin_name(low, high), **_means(everything, inside)})
    bits_per_byte = None
    if causal and byte_lengths is not None:
        bytes_predicted = int(byte_lengths[everything["target"]].sum())
        bits_per_byte = float(everything["loss"].sum() / math.log(2) / bytes_predicted)
    return {
        **_means(everything),
        "unigram_loss": float(np.concatenate(unigram_losses).mean()),
        "bits_per_byte": bits_per_byte,
        "by_language": {language: _means(part) for language, part in held.items()},
        "by_frequency": bins,
    }


def _means(part: Mapping[str, np.ndarray], inside: Any = slice(None)) -> dict[str, Any]:
    loss, correct = part["loss"][inside], part["correct"][inside]
    return {
        "loss": float(loss.mean()), "accuracy": float(correct.mean()), "predicted_tokens": len(loss)
    }  # fmt: skip


def bin_name(low: int, high: int | None) -> str:
    """The name of the bin of training counts from `low` to below `high`."""
    if high is None:
        return f"{low}+"
    return str(low) if high == low + 1 else f"{low}-{high - 1}"
