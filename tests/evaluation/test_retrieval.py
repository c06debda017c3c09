"""Nearest-neighbour search against a plain reference, with ties, equal sentences, zero vectors."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from scipy import sparse

from tiebench.corpus.seen import write_seen
from tiebench.corpus.tokenizer import train_tokenizer
from tiebench.errors import DataError
from tiebench.evaluation import encode
from tiebench.evaluation.encode import sentence_vectors
from tiebench.evaluation.retrieval import (
    correct_answers,
    folds,
    read_sentences,
    search,
    seen_in_training,
    shared_tokens,
    token_counts,
    worded_tokens,
)
from tiebench.evaluation.retrieval_settings import RetrievalSettings
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings

SETTINGS = RetrievalSettings(
    sets=["t"], pool=12, distances=["l2", "cosine"], offsets=["none", "scored_pairs", "other_half"]
)


def reference(source, target, gold, distance, offset):
    """One sentence at a time, by the definition."""
    ranks, credits = [], []
    for i in range(len(source)):
        if offset == "none":
            shift = np.zeros(source.shape[1])
        else:
            fitted = slice(None) if offset == "scored_pairs" else slice(1 - i % 2, None, 2)
            shift = (target[fitted] - source[fitted]).mean(0)
        vector = source[i] + shift
        if distance == "l2":
            found = np.linalg.norm(target - vector, axis=1)
        else:
            lengths = np.linalg.norm(target, axis=1) * np.linalg.norm(vector)
            similarity = np.divide(
                target @ vector, lengths, out=np.zeros(len(target)), where=lengths > 0
            )
            found = 1 - similarity
        best = found[gold[i]].min()
        ranks.append(1 + int(((found <= best + 1e-7) & ~gold[i]).sum()))
        nearest = found <= found.min() + 1e-7
        credits.append((nearest & gold[i]).sum() / nearest.sum())
    return ranks, credits


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_equals_a_plain_reference(form):
    rng = np.random.default_rng(0)
    source = rng.integers(-2, 3, (12, 3)).astype(float)  # few values: ties and zero vectors occur
    target = source + rng.integers(-1, 2, (12, 3))
    source[4] = 0
    target[7] = target[2]
    gold = np.eye(12, dtype=bool)
    gold[0, 1] = True
    seen = 0
    for outcome in search(form(source), form(target), gold, SETTINGS):
        ranks, credits = reference(source, target, gold, outcome["distance"], outcome["offset"])
        assert outcome["rank"].tolist() == ranks
        assert outcome["credit"] == pytest.approx(credits)
        seen += 1
    assert seen == 6


def test_perfect_copies_are_found_and_a_constant_shift_is_removed_by_the_offset():
    source = np.random.default_rng(1).normal(size=(12, 4))
    target = source + 100.0
    found = {
        (o["distance"], o["offset"]): o["credit"].mean()
        for o in search(source, target, np.eye(12, dtype=bool), SETTINGS)
    }
    assert found["l2", "scored_pairs"] == found["l2", "other_half"] == 1
    assert found["l2", "none"] < 0.5


def test_all_equal_vectors_give_chance():
    for outcome in search(np.ones((12, 2)), np.ones((12, 2)), np.eye(12, dtype=bool), SETTINGS):
        assert outcome["credit"] == pytest.approx(np.full(12, 1 / 12))
        assert (outcome["rank"] == 12).all()


def test_zero_vectors_are_finite():
    for outcome in search(np.zeros((12, 2)), np.eye(12, 2), np.eye(12, dtype=bool), SETTINGS):
        assert np.isfinite(outcome["credit"]).all()


def test_halves_are_disjoint_and_cover_all():
    for fitted, scored in folds("other_half", 7):
        assert not set(fitted) & set(scored)
    assert sorted(np.concatenate([scored for _, scored in folds("other_half", 7)])) == list(
        range(7)
    )


def test_equal_sentences_on_either_side_are_all_correct():
    gold = correct_answers(["a", "b", "a"], ["x", "y", "y"])
    assert gold.tolist() == [[True, False, True], [False, True, True], [True, True, True]]


def test_shared_tokens():
    source = token_counts([np.array([5, 6]), np.array([7]), np.array([], int), np.array([9])], 10)
    target = token_counts([np.array([6]), np.array([8]), np.array([5]), np.array([9])], 10)
    worded = np.arange(10) < 9
    assert shared_tokens(source, target, worded).tolist() == [True, False, False, False]


def test_worded_tokens():
    tokenizer = train_tokenizer(["the theme, 7 ü"] * 3, 265, "t")
    worded = worded_tokens(tokenizer)
    said = {tokenizer.id_to_token(i) for i in np.flatnonzero(worded)}
    assert {"t", "7"} <= said
    assert not {",", "Ġ", "Ã", "[SEP]"} & said  # Ã is the first byte of ü and many others


def write_set(folder, rows):
    (folder / "heldout").mkdir(parents=True)
    columns = dict(zip(("key", "lang", "text"), map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(pa.table(columns), folder / "heldout" / "sentences.parquet")


def test_reading_a_set(tmp_path):
    write_set(
        tmp_path,
        [("k1", "en", "one"), ("k1", "de", "eins"), ("k2", "en", "two"), ("k2", "de", "zwei")],
    )
    assert read_sentences(tmp_path, ["de", "en"], 1) == {"de": ["eins"], "en": ["one"]}
    with pytest.raises(DataError, match="2 sentences; expected at least retrieval.pool = 3"):
        read_sentences(tmp_path, ["en", "de"], 3)
    with pytest.raises(DataError, match="no fr for key 'k1'"):
        read_sentences(tmp_path, ["en", "fr"], 2)
    with pytest.raises(DataError, match="no such file"):
        read_sentences(tmp_path / "nowhere", ["en"], 2)


def test_texts_of_the_training_part_are_marked(tmp_path):
    write_seen(tmp_path / "seen.parquet", ["Set up {name}", "Nothing else"])
    sentences = {"en": ["Set up", "A new one"], "de": ["Einrichten", "Nothing, else!"]}
    seen = seen_in_training(sentences, tmp_path / "seen.parquet")
    assert {lang: marks.tolist() for lang, marks in seen.items()} == {
        "en": [True, False],
        "de": [False, True],
    }


def test_a_sentence_that_is_too_long_is_named():
    body = BodySettings(
        option="t", width=4, layers=1, heads=1, feedforward_width=4, maximum_length=6
    )
    model = LanguageModel(CouplingSettings(option="t", tied=True), body, 9).initialize(0)
    ids = [np.array([5]), np.array([5, 6, 7, 8, 5])]
    with pytest.raises(DataError, match="set home, language de, sentence 2: found 5 tokens"):
        sentence_vectors(model, ids, torch.device("cpu"), "set home, language de")


def test_vectors_do_not_depend_on_the_batch_or_the_order(monkeypatch):
    body = BodySettings(
        option="t", width=8, layers=2, heads=2, feedforward_width=8, maximum_length=16
    )
    model = LanguageModel(CouplingSettings(option="t", tied=True), body, 20).initialize(0)
    rng = np.random.default_rng(0)
    ids = [rng.integers(4, 20, size) for size in (3, 0, 12, 1, 7)]
    device = torch.device("cpu")
    together = sentence_vectors(model, ids, device, "t")
    assert together.shape == (3, 5, 8) and not together[:, 1].any()
    monkeypatch.setattr(encode, "TOKENS_PER_BATCH", 1)
    alone = sentence_vectors(model, ids[::-1], device, "t")[:, ::-1]
    np.testing.assert_allclose(together, alone, atol=1e-6)
    states = model.states(torch.tensor([[1, *ids[0], 2]]))
    np.testing.assert_allclose(together[2, 0], states[2][0, 1:-1].mean(0).detach(), atol=1e-6)


def test_a_damaged_set_is_named(tmp_path):
    write_set(tmp_path, [("k1", "en", "one")])
    whole = {"key": ["k"], "lang": ["en"], "text": ["one"]}
    for column, value in (("text", None), ("text", 3), ("lang", None)):
        table = pa.table({**whole, column: [value]})
        parquet.write_table(table, tmp_path / "heldout" / "sentences.parquet")
        with pytest.raises(DataError, match=f"found {value} in column {column}, row 1.*prepare@"):
            read_sentences(tmp_path, ["en"], 1)
    parquet.write_table(pa.table({"key": ["k"]}), tmp_path / "heldout" / "sentences.parquet")
    with pytest.raises(DataError, match=r"found a damaged file \(No match for [^\n]*expected"):
        read_sentences(tmp_path, ["en"], 1)
    (tmp_path / "heldout" / "sentences.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="sentences.parquet: found a damaged file"):
        read_sentences(tmp_path, ["en"], 1)
