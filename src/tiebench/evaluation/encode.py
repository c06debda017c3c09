"""States of sentences in every layer: the mean of a sentence, and the means of spans in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from tiebench.corpus.tokenizer import (
    OWN_ENDS,
    PAD,
    Ends,
    encode,
    id_count,
    load_tokenizer,
    special_ends,
)
from tiebench.errors import DataError
from tiebench.model.lm import LanguageModel, load_model
from tiebench.progress import progress

TOKENS_PER_BATCH = 4096
"""Bounds memory; changes nothing but speed."""


class Pieces(NamedTuple):
    """A sentence as a tokenizer cuts it."""

    ids: np.ndarray
    """`[pieces]`, without special tokens."""
    starts: np.ndarray
    """`[pieces]`, offset in the text of the first character that a piece has a byte of."""
    ends: np.ndarray
    """`[pieces]`, end-exclusive. The ranges leave no character of the text out."""


class Framed(NamedTuple):
    """Sentences between their special tokens, padded to one length."""

    ids: Tensor
    """`[batch, seq]`."""
    attended: Tensor
    """`[batch, seq]` bool: all but padding."""
    content: Tensor
    """`[batch, seq]` bool: a sentence's own tokens."""

    def to(self, device: torch.device) -> Framed:
        """The same on a device."""
        return Framed(*(tensor.to(device) for tensor in self))


def frame(ids: Sequence[np.ndarray], ends: Ends) -> Framed:
    """Put special tokens around each sentence, and padding behind.

    A sentence without any token, own or special, attends to its first padding: attention over
    nothing is not a number.
    """
    before, lengths = len(ends.prefix), np.array([[len(part)] for part in ids])
    place = np.arange(max(1, int(lengths.max()) + ends.size))
    padded = np.full((len(ids), len(place)), PAD, dtype=np.int64)
    for row, part in enumerate(ids):
        padded[row, : len(part) + ends.size] = (*ends.prefix, *part, *ends.suffix)
    attended = place < np.maximum(1, lengths + ends.size)
    content = (place >= before) & (place < before + lengths)
    return Framed(*(torch.from_numpy(x) for x in (padded, attended, content)))


def read_run(folder: Path) -> tuple[LanguageModel, Tokenizer, Ends]:
    """The model of a run folder, its tokenizer, and what the latter puts around a sentence.

    Raises:
        DataError: missing or damaged, or a tokenizer with more entries than the tables have rows.
    """
    path = folder / "tokenizer.json"
    tokenizer, model = load_tokenizer(path), load_model(folder)
    if id_count(tokenizer) > model.vocabulary:
        raise DataError(
            path,
            found=f"ids up to {id_count(tokenizer) - 1}",
            expected=f"ids below {model.vocabulary}, the rows of the tables in the same folder",
            mend="restore the tokenizer that the model was made with",
        )
    return model, tokenizer, special_ends(tokenizer)


def sentence_ids(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[np.ndarray]:
    """Ids of each sentence, without special tokens."""
    return [np.asarray(ids, dtype=np.int64) for ids in encode(tokenizer, list(sentences))]


def sentence_pieces(tokenizer: Tokenizer, sentences: Sequence[str]) -> list[Pieces]:
    """The pieces of each sentence with their places in it.

    Offsets count the characters of the sentence as given, before normalization. A space belongs
    to the piece that begins with it, and each of several pieces of one character to that
    character. Characters that the normalizer joins with what stands before them (a combining
    accent) belong to the pieces of that.
    """
    found = []
    for text, item in zip(
        sentences, tokenizer.encode_batch(list(sentences), add_special_tokens=False), strict=True
    ):
        offsets = np.asarray(item.offsets, dtype=np.int64).reshape(-1, 2)
        starts = offsets[:, 0]
        starts[:1] = 0  # and what a normalizer drops at the beginning belongs to the first piece
        distinct = np.unique(starts)
        # the library gives a joined character the place of its first part only
        following = np.append(distinct, len(text))[np.searchsorted(distinct, starts, "right")]
        ids = np.asarray(item.ids, dtype=np.int64)
        found.append(Pieces(ids, starts, np.maximum(offsets[:, 1], following)))
    return found


def encode_sentences(
    model: LanguageModel,
    ids: Sequence[np.ndarray],
    device: torch.device,
    subject: str,
    ends: Ends = OWN_ENDS,
    chosen: Sequence[int] | None = None,
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """The states of each sentence, read once between its ends, in batches of like lengths.

    Args:
        ids: those of each sentence, without special tokens.
        subject: what the sentences are, for the error.
        ends: special tokens around a sentence; those of our tokenizers unless given.
        chosen: which to encode; None for all.

    Yields:
        Which sentences; their states `[layers + 1, batch, seq, hidden]`; and `[batch, seq]`, True
        at a sentence's own tokens. Token t of a sentence is at position t + len(ends.prefix).

    Raises:
        DataError: a sentence is longer than the body allows.
    """
    order = sorted(range(len(ids)) if chosen is None else chosen, key=lambda i: len(ids[i]))
    if not order:
        return
    limit = model.body.settings.maximum_length
    longest = min(i for i in order if len(ids[i]) == len(ids[order[-1]]))
    if len(ids[longest]) + ends.size > limit:
        raise DataError(
            f"{subject}, sentence {longest + 1}",
            found=f"{len(ids[longest])} tokens and {ends.size} special ones",
            expected=f"at most body.maximum_length = {limit}",
            mend="take a set with shorter sentences; or raise body.maximum_length and train anew; "
            "or, if the model is an imported one, delete it from imported.models in params.yaml",
        )
    start = 0
    with progress(total=len(order), desc="encode", unit="sentence") as bar:
        while start < len(order):
            end = start + 1
            while end < len(order):
                longer = len(ids[order[end]]) + ends.size
                if longer * (end + 1 - start) > TOKENS_PER_BATCH:
                    break
                end += 1
            part = order[start:end]
            batch = frame([ids[index] for index in part], ends).to(device)
            with torch.no_grad():
                states = torch.stack(model.states(batch.ids, batch.attended))
            yield part, states, batch.content
            bar.update(len(part))
            start = end


def sentence_vectors(
    model: LanguageModel,
    ids: Sequence[np.ndarray],
    device: torch.device,
    subject: str,
    ends: Ends = OWN_ENDS,
) -> np.ndarray:
    """The mean of each sentence's token states in each layer.

    The special tokens are left out of the mean (Chung et al. 2021, appendix A.9). An empty
    sentence has zero vectors.

    Args:
        ids, subject, ends: as for `encode_sentences`.

    Returns:
        `[layers + 1, sentences, hidden]` float64.

    Raises:
        DataError: as `encode_sentences`.
    """
    vectors: np.ndarray | None = None
    for part, states, content in encode_sentences(model, ids, device, subject, ends):
        states, weights = states.double(), content.double()
        means = (states * weights[..., None]).sum(2) / weights.sum(1).clamp(min=1)[:, None]
        if vectors is None:
            vectors = np.zeros((len(states), len(ids), states.shape[-1]))
        vectors[:, part] = means.cpu().numpy()
    assert vectors is not None, "a set has sentences"
    return vectors


def span_vectors(
    model: LanguageModel,
    sentences: Sequence[Pieces],
    spans: Sequence[np.ndarray],
    device: torch.device,
    subject: str,
    ends: Ends = OWN_ENDS,
) -> np.ndarray:
    """The mean of the states of each span's pieces in each layer.

    A piece counts in every span that it shares a character with, so that two spans inside one
    piece have the same vectors. Means commute with a scalar mix of layers, so that they can be
    taken once, before any probe is trained. Memory is bounded by the spans asked for, since the
    states of a batch are dropped when its spans are done; a sentence without any is not encoded.

    Args:
        sentences: from `sentence_pieces`.
        spans: `[spans, 2]` of each sentence, offsets of characters, end-exclusive.
        subject, ends: as for `encode_sentences`.

    Returns:
        `[layers + 1, spans of all sentences, hidden]` float32, in the order given.

    Raises:
        DataError: as `encode_sentences`, or a span holds no character of its sentence.
    """
    if len(sentences) != len(spans):
        raise ValueError("spans for every sentence")
    held = [covering_pieces(*pair, f"{subject}, sentence {i + 1}")
            for i, pair in enumerate(zip(sentences, spans, strict=True))]  # fmt: skip
    first, first_own = np.cumsum([0, *map(len, spans)]), len(ends.prefix)
    vectors: np.ndarray | None = None
    ids = [pieces.ids for pieces in sentences]
    wanted = [i for i, held_spans in enumerate(spans) if len(held_spans)]
    for part, states, _ in encode_sentences(model, ids, device, subject, ends, wanted):
        if vectors is None:
            vectors = np.empty((len(states), first[-1], states.shape[-1]), dtype=np.float32)
        rows = np.concatenate([np.arange(first[i], first[i + 1]) for i in part])
        length = states.shape[2]
        where = np.concatenate(
            [row * length + first_own + held[i][0] for row, i in enumerate(part)]
        )
        counts = np.concatenate([held[i][1] for i in part])
        chosen = states.flatten(1, 2)[:, torch.from_numpy(where).to(device)].cpu().numpy()
        sums = np.add.reduceat(chosen, np.cumsum(counts) - counts, axis=1)
        vectors[:, rows] = sums / counts[:, None].astype(np.float32)
    assert vectors is not None, "targets have spans"
    return vectors


def require_finite(vectors: Sequence[np.ndarray], run_folder: Path) -> None:
    """Refuse what no distance and no probe can be taken of.

    Args:
        vectors: states of the model in `run_folder`.

    Raises:
        DataError: one is not finite.
    """
    if not all(np.isfinite(part).all() for part in vectors):
        raise DataError(
            run_folder,
            found="states that are not finite",
            expected="a model with finite weights",
            mend="train the run anew with a lower learning rate, or leave an imported model out",
        )


def covering_pieces(
    pieces: Pieces, spans: np.ndarray, subject: str
) -> tuple[np.ndarray, np.ndarray]:
    """Which pieces share a character with each span.

    Args:
        spans: `[spans, 2]` offsets of characters, end-exclusive.
        subject: the sentence, for the error.

    Returns:
        The pieces of all spans one after another, and `[spans]`, how many each has.

    Raises:
        DataError: a span has none: it is empty, or lies past the end of the text.
    """
    starts, ends = spans[:, :1], spans[:, 1:]
    shared = np.minimum(ends, pieces.ends) > np.maximum(starts, pieces.starts)
    counts = shared.sum(1)
    if not counts.all():
        span = spans[int(np.argmin(counts))]
        raise DataError(
            f"{subject}, characters {span[0]} to {span[1]}",
            found="no piece of the tokenizer",
            expected="characters of the sentence",
            mend="run the `labels` stage again, which places words in their sentences",
        )
    return np.nonzero(shared)[1], counts
