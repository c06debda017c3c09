"""Sentence vectors of every layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer

from tiebench.corpus.tokenizer import CLS, PAD, SEP, encode
from tiebench.errors import DataError
from tiebench.model.lm import LanguageModel
from tiebench.progress import progress

TOKENS_PER_BATCH = 4096
"""Bounds memory; changes nothing but speed."""


def sentence_ids(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[np.ndarray]:
    """Ids of each sentence, without special tokens."""
    return [np.asarray(ids, dtype=np.int64) for ids in encode(tokenizer, list(sentences))]


@torch.no_grad()
def sentence_vectors(
    model: LanguageModel, ids: Sequence[np.ndarray], device: torch.device, subject: str
) -> np.ndarray:
    """The mean of each sentence's token states in each layer.

    A sentence is read as [CLS] tokens [SEP]; the two special tokens are left out of the mean
    (Chung et al. 2021, appendix A.9). An empty sentence has zero vectors.

    Args:
        ids: those of each sentence, without special tokens.
        subject: what the sentences are, for the error.

    Returns:
        `[layers + 1, sentences, hidden]` float64.

    Raises:
        DataError: a sentence is longer than the body allows.
    """
    limit = model.body.settings.maximum_length
    longest = max(range(len(ids)), key=lambda i: len(ids[i]))
    if len(ids[longest]) + 2 > limit:
        raise DataError(
            f"{subject}, sentence {longest + 1}",
            found=f"{len(ids[longest])} tokens and two special ones",
            expected=f"at most body.maximum_length = {limit}",
            mend="take a set with shorter sentences, or raise body.maximum_length (and train anew)",
        )
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    vectors: np.ndarray | None = None
    start = 0
    with progress(total=len(ids), desc="encode", unit="sentence") as bar:
        while start < len(order):
            length = len(ids[order[start]]) + 2
            end = start + 1
            while end < len(order):
                longer = len(ids[order[end]]) + 2
                if longer * (end + 1 - start) > TOKENS_PER_BATCH:
                    break
                end, length = end + 1, longer
            part = order[start:end]
            padded = np.full((len(part), length), PAD, dtype=np.int64)
            content = np.zeros((len(part), length), dtype=bool)
            for row, index in enumerate(part):
                size = len(ids[index])
                padded[row, : size + 2] = (CLS, *ids[index], SEP)
                content[row, 1 : size + 1] = True
            batch = torch.from_numpy(padded).to(device)
            states = torch.stack(model.states(batch, batch != PAD)).double()
            weights = torch.from_numpy(content).to(device).double()
            means = (states * weights[..., None]).sum(2) / weights.sum(1).clamp(min=1)[:, None]
            if vectors is None:
                vectors = np.zeros((len(states), len(ids), states.shape[-1]))
            vectors[:, part] = means.cpu().numpy()
            bar.update(len(part))
            start = end
    assert vectors is not None
    return vectors
