"""Nearest-neighbour translation by layer (Pires et al. 2019, section 5; RemBERT, appendix A.9).

For each pair of languages, both ways: add a mean difference to the source's vector, or none, and
look for the nearest sentence of the other language. A bag of token counts is searched in the same
way, as the baseline that any model must beat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from tokenizers import Tokenizer

from tiebench import paths
from tiebench.corpus.seen import digests, read_seen
from tiebench.corpus.tokenizer import id_count
from tiebench.errors import DataError
from tiebench.evaluation.encode import (
    read_run,
    require_finite,
    sentence_ids,
    sentence_vectors,
)
from tiebench.evaluation.keys import outcome_key
from tiebench.evaluation.outcomes import replacing_outcomes
from tiebench.evaluation.retrieval_settings import RetrievalSettings
from tiebench.files import replacing, sha256_of, write_json
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.settings import Params, corpus_of

TIE = 1e-9
"""Distances nearer than this, relative to the largest norms, are equal."""

Vectors: TypeAlias = Any
"""A numpy array or scipy sparse array `[sentences, width]`, one row a sentence."""


def retrieve(params: Params, family: str, run: str, seed: int, name: str) -> Path:
    """Search the held-out sentences of corpus `name` with one pretrained model.

    Writes outcomes.parquet (one row per language pair, layer, distance, offset and sentence)
    and summary.json into evals/<name>/retrieval/<family>/<set>-<run>-s<seed>/.

    Raises:
        SettingsError: no such family or run.
        DataError: the model or the set is missing or damaged, a sentence is too long, or a state
            is not finite.
    """
    corpus = corpus_of(params, family, run)
    settings = params.retrieval
    sentences = read_sentences(
        paths.corpus_folder(name), params.corpora[name].languages, settings.pool
    )
    run_folder = paths.run_folder(params.name, family, run, seed)
    device = prepare_runtime()
    model, tokenizer, ends = read_run(run_folder)
    model = model.to(device)
    ids = {language: sentence_ids(tokenizer, texts) for language, texts in sentences.items()}
    states = {
        language: sentence_vectors(model, part, device, f"set {name}, language {language}", ends)
        for language, part in ids.items()
    }
    require_finite(list(states.values()), run_folder)
    layers: dict[str, dict[str, Vectors]] = {
        str(layer): {language: states[language][layer] for language in ids}
        for layer in range(len(next(iter(states.values()))))
    }
    layers["tokens"] = {
        language: token_counts(part, id_count(tokenizer)) for language, part in ids.items()
    }
    folder = paths.outcome_folder(params.name, "retrieval", family, run, seed, name)
    texts = None if corpus is None else paths.corpus_folder(corpus) / "seen.parquet"
    seen = seen_in_training(sentences, texts)
    worded = worded_tokens(tokenizer)
    equal, rows = 0, []
    pairs = list(language_pairs(list(sentences)))
    for source, target in progress(pairs, desc=f"retrieval {run} s{seed}", unit="pair"):
        gold = correct_answers(sentences[source], sentences[target])
        shares = shared_tokens(layers["tokens"][source], layers["tokens"][target], worded)
        equal = max(equal, int((gold.sum(1) > 1).sum()))
        for layer, vectors in layers.items():
            for part in search(vectors[source], vectors[target], gold, settings):
                rows.append(
                    {
                        "source": source,
                        "target": target,
                        "layer": layer,
                        "shares_token": shares,
                        "seen_in_training": seen[source] | seen[target],
                        **part,
                    }
                )
    searched = [vectors for by_language in layers.values() for vectors in by_language.values()]
    summary: dict[str, Any] = {
        "key": outcome_key(params, "retrieval", family, run, seed, name),
        "pool": settings.pool,
        "zero_vectors": sum(int((norms(vectors) == 0).sum()) for vectors in searched),
        "equal_sentences": equal,
    }
    if corpus is not None:
        summary["seen_in_training"] = int(np.logical_or.reduce(list(seen.values())).sum())
    with replacing_outcomes(folder) as new:
        _write_outcomes(new / "outcomes.parquet", name, rows)
        summary["outcomes"] = sha256_of(new / "outcomes.parquet")
        write_json(new / "summary.json", summary)
    return folder


def read_sentences(corpus: Path, languages: list[str], pool: int) -> dict[str, list[str]]:
    """The first `pool` held-out sentences by language, aligned by key.

    Raises:
        DataError: no such file, fewer sentences than the pool, or a key without a language.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = corpus / "heldout" / "sentences.parquet"
    expected = "held-out sentences, with text in columns key, lang and text"
    mend = f"run `dvc repro -f -s prepare@{corpus.name}`"
    try:
        table = parquet.read_table(path, columns=["key", "lang", "text"]).to_pydict()
    except FileNotFoundError:
        found, mend = "no such file", "set heldout in the corpus' settings and run `dvc repro`"
        raise DataError(path, found=found, expected=expected, mend=mend) from None
    except (OSError, pa.ArrowException) as error:
        found = f"a damaged file ({str(error).splitlines()[0]})"
        raise DataError(path, found=found, expected=expected, mend=mend) from None
    for column, values in table.items():
        row = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
        if row is not None:
            found = f"{values[row]!r} in column {column}, row {row + 1}"
            raise DataError(path, found=found, expected=expected, mend=mend)
    by_language: dict[str, dict[str, str]] = {language: {} for language in languages}
    for key, language, text in zip(table["key"], table["lang"], table["text"], strict=True):
        if language in by_language:
            by_language[language][key] = text
    keys = list(by_language[languages[0]])
    if len(keys) < pool:
        raise DataError(
            path,
            found=f"{len(keys)} sentences",
            expected=f"at least retrieval.pool = {pool}",
            mend="lower retrieval.pool, or raise heldout.sentences of the corpus",
        )
    for language, held in by_language.items():
        lacking = [key for key in keys[:pool] if key not in held]
        if lacking:
            raise DataError(
                path,
                found=f"no {language} for key {lacking[0]!r}",
                expected="every key in every language",
                mend=mend,
            )
    return {language: [held[key] for key in keys[:pool]] for language, held in by_language.items()}


def language_pairs(languages: list[str]) -> Iterator[tuple[str, str]]:
    """The pivot (first language) with each other, both ways."""
    for other in languages[1:]:
        yield languages[0], other
        yield other, languages[0]


def token_counts(ids: list[np.ndarray], vocabulary: int) -> sparse.csr_array:
    """Bags of tokens, `[sentences, vocabulary]`."""
    rows = np.repeat(np.arange(len(ids)), [len(x) for x in ids])
    columns = np.concatenate(ids) if len(rows) else rows
    counts = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(ids), vocabulary))
    return counts.tocsr()


def correct_answers(source: list[str], target: list[str]) -> np.ndarray:
    """`[M, M]` bool: target j answers source i when either side of pair j equals that of pair i."""
    left = np.unique(source, return_inverse=True)[1]
    right = np.unique(target, return_inverse=True)[1]
    return (left[:, None] == left) | (right[:, None] == right)


def shared_tokens(source: Vectors, target: Vectors, worded: np.ndarray) -> np.ndarray:
    """`[M]` bool: a sentence and its translation have a token in common that says something.

    Args:
        source, target: token counts, `[M, vocabulary]`.
        worded: `[vocabulary]` bool, from `worded_tokens`.
    """
    return np.asarray(source.minimum(target).multiply(worded).sum(axis=1)).reshape(-1) > 0


def worded_tokens(tokenizer: Tokenizer) -> np.ndarray:
    """`[ids]` bool: tokens with a letter or digit; punctuation is shared by nearly all."""
    texts = tokenizer.decode_batch([[index] for index in range(id_count(tokenizer))])
    return np.array([any(character.isalnum() for character in text) for text in texts])


def seen_in_training(sentences: dict[str, list[str]], path: Path | None) -> dict[str, np.ndarray]:
    """By language, `[M]` bool: the model's corpus trains or validates on the same text.

    None of the corpus' own held-out sentences is; those of another corpus may be. What an imported
    model was trained on is not known (`path` None): False, for nothing can be left out by it.
    """
    if path is None:
        return {language: np.zeros(len(texts), dtype=bool) for language, texts in sentences.items()}
    seen = read_seen(path)
    return {language: np.isin(digests(texts), seen) for language, texts in sentences.items()}


def norms(vectors: Vectors) -> np.ndarray:
    """Squared l2 norm of each row."""
    return np.asarray((vectors * vectors).sum(axis=1)).reshape(-1)


@dataclass(frozen=True)
class Products:
    """All inner products that any offset needs: the vectors are multiplied once a pair."""

    cross: torch.Tensor
    """`[M, M]` source by target."""
    source: np.ndarray
    """`[M]` squared norms."""
    target: np.ndarray

    def squared(self, with_source: np.ndarray, with_target: np.ndarray, own: float) -> torch.Tensor:
        """|s + v - t|^2, `[M, M]`, from v's products with sources and targets, and |v|^2."""
        rows = torch.from_numpy(self.source + own + 2 * with_source)[:, None]
        return rows + torch.from_numpy(self.target - 2 * with_target) - 2 * self.cross

    def cosine(self, with_source: np.ndarray, with_target: np.ndarray, own: float) -> torch.Tensor:
        """1 - cos(s + v, t), `[M, M]`; a zero vector is at distance 1 from everything."""
        lengths = np.sqrt(np.maximum(self.source + own + 2 * with_source, 0))
        scale = np.outer(lengths, np.sqrt(self.target))
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        return 1 - (self.cross + torch.from_numpy(with_target)) * torch.from_numpy(inverse)


def search(
    source: Vectors, target: Vectors, gold: np.ndarray, settings: RetrievalSettings
) -> Iterator[dict[str, Any]]:
    """Nearest targets of every source, for each distance and offset.

    Args:
        source, target: `[M, width]`, row i of one translates row i of the other.
        gold: `[M, M]` bool, the correct answers.

    Yields:
        `distance`, `offset`, and arrays `[M]`: `nearest`, `rank` of the best correct answer
        (ties counted against it), `credit` (the chance of a correct one among the nearest).
    """
    cross = source @ target.T
    dense = cross.toarray() if sparse.issparse(cross) else cross
    products = Products(torch.from_numpy(dense), norms(source), norms(target))
    answers = torch.from_numpy(gold)
    for offset, distance in product(settings.offsets, settings.distances):
        measure = products.squared if distance == "l2" else products.cosine
        parts = []
        for fitted, scored in folds(offset, len(gold)):
            shift = np.zeros(target.shape[1])
            if fitted is not None:
                shift = np.asarray(
                    target[fitted].mean(axis=0) - source[fitted].mean(axis=0)
                ).reshape(-1)
            found = measure(source @ shift, target @ shift, float(shift @ shift))
            scale = (
                float(products.source.max() + products.target.max()) if distance == "l2" else 1.0
            )
            parts.append((scored, neighbours(found[scored], answers[scored], TIE * scale)))
        outcome = {key: np.empty(len(gold), kind) for key, kind in COLUMNS.items()}
        for scored, values in parts:
            for key, value in values.items():
                outcome[key][scored] = value
        yield {"distance": distance, "offset": offset, **outcome}


COLUMNS = {"nearest": np.int32, "rank": np.int32, "credit": np.float32}


def folds(offset: str, pairs: int) -> list[tuple[np.ndarray | None, np.ndarray]]:
    """Which pairs an offset is fitted on and which it is scored on."""
    everything = np.arange(pairs)
    if offset == "none":
        return [(None, everything)]
    if offset == "scored_pairs":
        return [(everything, everything)]
    even, odd = everything[::2], everything[1::2]
    return [(even, odd), (odd, even)]


def neighbours(distances: torch.Tensor, gold: torch.Tensor, tie: float) -> dict[str, np.ndarray]:
    """Outcomes of `[n, M]` distances with `[n, M]` correct answers (see `search`)."""
    smallest, nearest = distances.min(dim=1, keepdim=True)
    tied = distances <= smallest + tie
    credit = (tied & gold).sum(1) / tied.sum(1)
    best = distances.masked_fill(~gold, torch.inf).min(dim=1, keepdim=True).values
    rank = 1 + ((distances <= best + tie) & ~gold).sum(1)
    values = {"nearest": nearest.squeeze(1), "rank": rank, "credit": credit}
    return {key: value.numpy() for key, value in values.items()}


def _write_outcomes(path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    size = len(rows[0]["rank"])
    columns: dict[str, Any] = {}
    for key in ("source", "target", "layer", "distance", "offset"):
        values = pa.array(row[key] for row in rows).dictionary_encode()
        columns[key] = pa.DictionaryArray.from_arrays(
            np.repeat(values.indices, size), values.dictionary
        )
    columns["index"] = np.tile(np.arange(size, dtype=np.int32), len(rows))
    for key in ("rank", "credit", "shares_token", "seen_in_training", "nearest"):
        columns[key] = np.concatenate([row[key] for row in rows])
    column = pa.DictionaryArray.from_arrays(np.zeros(size * len(rows), np.int8), [name])
    with replacing(path) as temporary:
        parquet.write_table(pa.table({"set": column, **columns}), temporary, compression="zstd")
