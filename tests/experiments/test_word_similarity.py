"""Word similarity of tables: how words become rows, what is left out, and the numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from tiebench.analysis.alignment import unit
from tiebench.corpus.published import _tokenizer
from tiebench.corpus.tokenizer import UNKNOWN, train_tokenizer, word_tokenizer
from tiebench.errors import DataError
from tiebench.experiments.word_similarity import Vocabulary, WordSimilarity
from tiebench.experiments.word_similarity_settings import SimilaritySettings
from tiebench.schema import validate

TEXTS = ["The red lamp and the blue lamp", "the red door of the blue house"] * 5
PAIRS = "red\tblue\t8\nlamp\tdoor\t5\nlamp\thouse\t4\nLamp\tred\t1\nlamp\ttruck\t3\n"


def settings(minimum: int = 3, language: str = "en") -> SimilaritySettings:
    source = {"kind": "local", "folder": "w", "format": "pairs", "files": {language: "p.txt"}}
    sets = {"mine": {"language": language, "source": source}}
    return validate(SimilaritySettings, {"option": "t", "minimum": minimum, "sets": sets})


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("external/w").mkdir(parents=True)
    Path("external/w/p.txt").write_text(PAIRS)


def words() -> Vocabulary:
    tokenizer = word_tokenizer(TEXTS, 13, "punctuation", "t")
    return Vocabulary(tokenizer, np.arange(UNKNOWN, 13))


def test_words_are_looked_up_as_the_corpus_writes_them():
    held = words()
    (place,) = held.places("lamp")
    assert held.tokenizer.id_to_token(int(held.tokens[place])) == "lamp"
    assert held.places("LAMP") == [place]  # the corpus is in lower case
    assert held.places("truck") is None  # the unknown word is none
    lamp = int(held.tokens[place])
    rest = Vocabulary(held.tokenizer, held.tokens[held.tokens != lamp])
    assert rest.places("lamp") is None  # not in training
    assert rest.places("red") is not None


def test_types_of_a_text_are_known_as_written_or_in_lower_case():
    tokenizer = _tokenizer({"<unk>": 0, "lamp": 1, "Turkey": 2, "turkey": 3, "<eos>": 4})
    held = Vocabulary(tokenizer, np.arange(5))
    assert (held.places("Lamp"), held.places("Turkey"), held.places("turkey")) == ([1], [2], [3])
    assert held.places("truck") is None and held.places("<unk>") is None
    without = Vocabulary(_tokenizer({"lamp": 0, "red": 1}), np.arange(2))
    assert without.places("red") == [1] and without.places("truck") is None


def test_pieces_are_those_of_running_text():
    tokenizer = train_tokenizer(TEXTS, 289, "t")
    held = Vocabulary(tokenizer, np.arange(tokenizer.get_vocab_size()))
    lamp = tokenizer.encode("a lamp", add_special_tokens=False).ids[1:]
    assert held.places("lamp") == lamp
    assert len(lamp) == 1 and tokenizer.id_to_token(lamp[0]) == "\u0120lamp"
    pieces = held.places("lamplight")
    assert (
        pieces == tokenizer.encode(" lamplight", add_special_tokens=False).ids and len(pieces) > 1
    )
    without = Vocabulary(tokenizer, np.setdiff1d(held.tokens, pieces[-1:]))
    assert without.places("lamplight") is None


def similarity(**given) -> WordSimilarity:
    return WordSimilarity(settings(**given), words(), ["en"])


def test_coverage_is_of_pairs_with_both_words():
    (row,) = similarity().described
    assert (row["pairs"], row["used"], row["words"], row["known_words"]) == (5, 4, 7, 6)
    assert (row["pieces"], row["repeated"], row["reason"]) == (1, 0, "")
    assert row["file"] == "external/w/p.txt"


def test_correlations_are_those_of_the_rows():
    held, vocabulary = similarity(), words()
    matrix = np.random.default_rng(1).normal(size=(len(vocabulary.tokens), 6))
    found = {row["similarity"]: row for row in held.rows("untied", 0, "input", matrix)}
    pairs = [("red", "blue"), ("lamp", "door"), ("lamp", "house"), ("lamp", "red")]
    for kind, rows in (("cosine", unit(matrix)), ("dot", matrix)):
        at = [[vocabulary.places(word)[0] for word in pair] for pair in pairs]
        expected = spearmanr([8, 5, 4, 1], [rows[a] @ rows[b] for a, b in at]).statistic
        assert found[kind]["value"] == pytest.approx(expected, abs=1e-12)
        assert found[kind]["low"] <= found[kind]["value"] <= found[kind]["high"]


def test_rows_of_pieces_are_averaged():
    Path("external/w/p.txt").write_text("lamplight red 8\nlamp red 5\nlamplight lamp 1\n")
    tokenizer = train_tokenizer(TEXTS, 289, "t")
    vocabulary = Vocabulary(tokenizer, np.arange(289))
    held = WordSimilarity(settings(), vocabulary, ["en"])
    matrix = np.random.default_rng(1).normal(size=(289, 6))
    (found,) = (x for x in held.rows("a", 0, "tied", matrix) if x["similarity"] == "dot")
    a, b, c = (matrix[vocabulary.places(x)].mean(axis=0) for x in ("lamplight", "red", "lamp"))
    assert found["value"] == pytest.approx(spearmanr([8, 5, 1], [a @ b, c @ b, a @ c]).statistic)
    sizes = [len(vocabulary.places(x)) for x in ("lamplight", "red", "lamp")]
    assert held.described[0]["pieces"] == sum(sizes) / 3 > 1


def test_seeds_are_averaged_and_the_input_is_taken_from_the_output():
    held, size = similarity(), len(words().tokens)
    values = {}
    for seed in (0, 1):
        for table in ("input", "output"):
            matrix = np.random.default_rng([seed, table == "input"]).normal(size=(size, 4))
            for row in held.rows("untied", seed, table, matrix):
                values[seed, table, row["similarity"]] = row["value"]
    found = {(x["table"], x["similarity"]): x for x in held.pair_rows()}
    assert {x[0] for x in found} == {"input", "output", "output-input"}
    mean = {t: (values[0, t, "dot"] + values[1, t, "dot"]) / 2 for t in ("input", "output")}
    assert found["output", "dot"]["value"] == pytest.approx(mean["output"])
    difference = found["output-input", "dot"]
    assert difference["value"] == pytest.approx(mean["output"] - mean["input"])
    assert difference["low"] <= difference["value"] <= difference["high"]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"minimum": 5}, "fewer than 5 pairs of known words"),
        ({"language": "fr"}, "the corpus has no text in fr (en)"),
    ],
)
def test_a_set_is_left_out_with_a_reason(given, reason):
    held = similarity(**given)
    assert [row["reason"] for row in held.described] == [reason]
    matrix = np.ones((len(words().tokens), 2))
    assert list(held.rows("tied", 0, "tied", matrix)) == list(held.pair_rows()) == []


def test_known_pairs_of_one_score_are_left_out():
    Path("external/w/p.txt").write_text("red blue 5\nlamp door 5\nlamp red 5\nlamp truck 3\n")
    assert similarity().described[0]["reason"] == "pairs of known words have one score"


def test_no_sets_measure_nothing():
    held = WordSimilarity(None, words(), ["en"])
    assert held.described == [] and list(held.pair_rows()) == []


def test_a_table_of_equal_rows_is_an_error():
    with pytest.raises(DataError, match="one cosine similarity for all pairs of mine"):
        list(similarity().rows("tied", 3, "tied", np.ones((len(words().tokens), 2))))
