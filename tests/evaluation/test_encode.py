"""Pieces aligned with spans by hand, and states that depend on the sentence alone."""

import numpy as np
import pytest
import torch

from tiebench.corpus.tokenizer import OWN_ENDS, Ends, train_tokenizer
from tiebench.errors import DataError
from tiebench.evaluation import encode
from tiebench.evaluation.encode import (
    Pieces,
    covering_pieces,
    frame,
    read_run,
    sentence_pieces,
    sentence_vectors,
    span_vectors,
)
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.settings import BodySettings, CouplingSettings

CPU = torch.device("cpu")
BYTES = 260
"""Vocabulary of a tokenizer that joins nothing: special tokens and bytes."""


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(["evde", "evde", " geldi", " geldi"] * 3, 268, "t")


def make_model(vocabulary=BYTES, maximum_length=64, positions="rotary"):
    body = BodySettings(
        option="t",
        width=8,
        layers=2,
        heads=2,
        feedforward_width=8,
        maximum_length=maximum_length,
        positions=positions,
        std=0.5,
    )
    coupling = CouplingSettings(option="t", tied=True, std=1.0)
    return LanguageModel(coupling, body, vocabulary).initialize(0)


def aligned(tokenizer, text, words):
    """The numbers of the pieces of each word; words are found one after another."""
    spans, at = [], 0
    for word in words:
        start = text.index(word, at)
        spans.append((start, at := start + len(word)))
    pieces = sentence_pieces(tokenizer, [text])[0]
    where, counts = covering_pieces(pieces, np.array(spans), "t")
    return [part.tolist() for part in np.split(where, np.cumsum(counts)[:-1])]


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("a b.", ["a", "b", "."], [[0], [2], [3]]),  # a, space, b, point: the space is no word's
        ("İı x", ["İı", "x"], [[0, 1, 2, 3], [5]]),  # two bytes each
        ("İı", ["İ", "ı"], [[0, 1], [2, 3]]),
        ("I\u0307x a", ["I\u0307x", "a"], [[0, 1, 2], [4]]),  # NFC joins the first two: İ
        ("ae\u0301 b", ["ae\u0301", "b"], [[0, 1, 2], [4]]),
        ("e\u0301", ["e", "\u0301"], [[0, 1], [0, 1]]),  # a word that NFC joins with the last
        ("q\u0323\u0307w", ["q\u0323\u0307", "w"], [[0, 1, 2, 3, 4], [5]]),  # nothing to join
        ("a 😀 b", ["a", "😀", "b"], [[0], [2, 3, 4, 5], [7]]),
        ("[MASK]", ["[", "MASK", "]"], [[0], [1, 2, 3, 4], [5]]),
    ],
)
def test_alignment_by_hand_with_single_bytes(text, words, expected):
    tokenizer = train_tokenizer(["x"], BYTES, "t")
    assert aligned(tokenizer, text, words) == expected


def test_alignment_with_longer_pieces(tokenizer):
    assert tokenizer.encode("evde geldi.", add_special_tokens=False).tokens == ["evde", "Ġgeldi", "."]  # fmt: skip
    # A space belongs to the piece of the word behind it, and two groups in one piece share it.
    assert aligned(tokenizer, "evde geldi.", ["evde", "geldi", "."]) == [[0], [1], [2]]
    assert aligned(tokenizer, "evde geldi.", ["ev", "de", "gel", "di"]) == [[0], [0], [1], [1]]


def test_pieces_leave_no_character_out(tokenizer):
    texts = [
        "I\u0307 e\u0301\u0301a",
        " geldi  evde ",
        "\u1100\u1161\u11a8 ş",
        "a\u0307\u0323 😀",
        "",
    ]
    for text, pieces in zip(texts, sentence_pieces(tokenizer, texts), strict=True):
        covered = np.zeros(len(text), dtype=bool)
        for start, end in zip(pieces.starts, pieces.ends, strict=True):
            covered[start:end] = True
        assert covered.all(), text


def test_an_empty_span_is_named(tokenizer):
    pieces = sentence_pieces(tokenizer, ["evde", "evde geldi"])
    spans = [np.array([[0, 4]]), np.array([[0, 4], [5, 5]])]
    with pytest.raises(DataError, match="set t, sentence 2, characters 5 to 5: found no piece"):
        span_vectors(make_model(268), pieces, spans, CPU, "set t")


def test_vectors_are_means_of_states(tokenizer):
    model = make_model(268)
    pieces = sentence_pieces(tokenizer, ["evde geldi.", "de"])
    spans = [np.array([[0, 10], [10, 11], [2, 4]]), np.array([[0, 2]])]
    vectors = span_vectors(model, pieces, spans, CPU, "t")
    assert vectors.shape == (3, 4, 8) and vectors.dtype == np.float32
    with torch.no_grad():
        states = torch.cat(model.states(torch.tensor([[1, *pieces[0].ids, 2]]))).numpy()
        other = torch.cat(model.states(torch.tensor([[1, *pieces[1].ids, 2]]))).numpy()
    for row, expected in enumerate(
        [states[:, 1:3].mean(1), states[:, 3], states[:, 1], other[:, 1]]
    ):
        np.testing.assert_allclose(vectors[:, row], expected, atol=1e-6)


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_spans_do_not_depend_on_batch_padding_or_order(monkeypatch, positions):
    model, rng = make_model(positions=positions), np.random.default_rng(0)
    sentences, spans = [], []
    for size in (3, 1, 40, 7, 7, 12):
        starts = np.arange(size)
        sentences.append(Pieces(rng.integers(4, BYTES, size), starts, starts + 1))
        spans.append(np.array([[0, size], [size - 1, size]]))
    together = span_vectors(model, sentences, spans, CPU, "t")
    monkeypatch.setattr(encode, "TOKENS_PER_BATCH", 1)
    alone = span_vectors(model, sentences[::-1], spans[::-1], CPU, "t")
    back = alone.reshape(3, 6, 2, 8)[:, ::-1].reshape(together.shape)
    np.testing.assert_allclose(together, back, atol=1e-5)


def test_sentences_without_spans_are_not_encoded():
    one, long = (Pieces(np.full(n, 9), np.arange(n), np.arange(n) + 1) for n in (2, 100))
    none, span = np.empty((0, 2), dtype=np.int64), np.array([[0, 1]])
    vectors = span_vectors(make_model(), [long, one, long], [none, span, none], CPU, "t")
    np.testing.assert_array_equal(vectors, span_vectors(make_model(), [one], [span], CPU, "t"))
    with pytest.raises(DataError, match="t, sentence 3: found 100 tokens and 2 special ones"):
        span_vectors(make_model(), [long, one, long], [none, span, span], CPU, "t")


def test_the_first_of_the_longest_is_named():
    ids = [np.full(n, 9) for n in (3, 70, 80, 80)]
    with pytest.raises(DataError, match="t, sentence 3: found 80 tokens"):
        sentence_vectors(make_model(), ids, CPU, "t")


@pytest.mark.parametrize(
    ("ends", "ids", "attended", "content"),
    [
        (OWN_ENDS, [[1, 7, 8, 2], [1, 2, 0, 0]], [4, 2], [[0, 1, 1, 0], [0, 0, 0, 0]]),
        (Ends((9,), ()), [[9, 7, 8], [9, 0, 0]], [3, 1], [[0, 1, 1], [0, 0, 0]]),
        (Ends((), ()), [[7, 8], [0, 0]], [2, 1], [[1, 1], [0, 0]]),
    ],
)
def test_frame_by_hand(ends, ids, attended, content):
    framed = frame([np.array([7, 8]), np.array([], dtype=np.int64)], ends)
    assert framed.ids.tolist() == ids
    assert framed.attended.sum(1).tolist() == attended
    assert framed.content.int().tolist() == content


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("ends", [Ends((9,), ()), Ends((), ()), Ends((4, 5), (6,))])
def test_states_between_foreign_ends(causal, ends):
    body = make_model().settings.body.model_copy(update={"causal": causal})
    coupling = CouplingSettings(option="t", tied=True, std=1.0)
    model = LanguageModel(coupling, body, BYTES).initialize(0)
    ids = [np.arange(10, 14), np.array([], dtype=np.int64), np.arange(20, 31)]
    found = sentence_vectors(model, ids, CPU, "t", ends)
    for row, part in enumerate(ids):
        whole = torch.tensor([[*ends.prefix, *part, *ends.suffix]], dtype=torch.long)
        if not len(part):
            assert not found[:, row].any()
            continue
        first = len(ends.prefix)
        for layer, states in enumerate(model.states(whole)):
            wanted = states[0, first : first + len(part)].double().mean(0).detach().numpy()
            np.testing.assert_allclose(found[layer, row], wanted, atol=1e-5)


def test_a_run_whose_tokenizer_has_more_entries_than_the_table(tokenizer, tmp_path):
    save_model(make_model(tokenizer.get_vocab_size()), tmp_path)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    model, again, ends = read_run(tmp_path)
    assert again.get_vocab_size() == model.vocabulary and ends == OWN_ENDS
    save_model(make_model(tokenizer.get_vocab_size() - 1), tmp_path)
    with pytest.raises(
        DataError, match="tokenizer.json: found ids up to 267; expected ids below 267"
    ):
        read_run(tmp_path)
