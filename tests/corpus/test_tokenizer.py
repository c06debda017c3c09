import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import offline_path
from tiebench.corpus import tokenizer as tok
from tiebench.corpus.settings import TokenizerSettings
from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate

TEXTS = [
    f"{verb} the {noun} {name} für Gerät ışık {number}"
    for verb in ("open", "close", "switch", "start")
    for noun in ("lamp", "window", "garden door", "ventilator")
    for name in ("Anna", "Çağrı", "Señor")
    for number in range(4)
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tok.train_tokenizer(TEXTS, 320, "test").save(str(path))
    return path


def test_layout(path: Path) -> None:
    tokenizer = tok.load_tokenizer(path)
    assert tokenizer.get_vocab_size() == 320
    assert [tokenizer.token_to_id(name) for name in tok.NAMES] == [
        tok.PAD,
        tok.CLS,
        tok.SEP,
        tok.MASK,
    ]
    assert tokenizer.token_to_id("[UNK]") is None


@pytest.mark.parametrize("text", ["Çağrı açtı", "日本語 🦊", "a  b\tc", " x", "[MASK] and [SEP]"])
def test_every_text_returns(path: Path, text: str) -> None:
    tokenizer = tok.load_tokenizer(path)
    (ids,) = tok.encode(tokenizer, [text])
    assert min(ids) >= tok.SPECIALS
    assert tokenizer.decode(ids) == text
    assert sum(tok.byte_lengths(tokenizer)[ids]) == len(text.encode())


def test_composed_and_decomposed_letters_are_one(path: Path) -> None:
    one, other = tok.encode(tok.load_tokenizer(path), ["Gerät", "Gera\u0308t"])
    assert one == other


def test_byte_lengths(path: Path) -> None:
    lengths = tok.byte_lengths(tok.load_tokenizer(path))
    assert lengths.shape == (320,)
    assert lengths[: tok.SPECIALS].tolist() == [0, 0, 1, 0]
    assert np.all(lengths[tok.SPECIALS :] >= 1)
    assert np.sum(lengths[tok.SPECIALS :] == 1) == 256


def test_same_bytes_in_another_process(path: Path) -> None:
    code = (
        "import json, sys; from tiebench.corpus import tokenizer as tok;"
        "tok.train_tokenizer(json.load(sys.stdin), 320, 'test').save(sys.argv[1])"
    )
    import json

    other = path.with_name("other.json")
    subprocess.run(
        [sys.executable, "-c", code, str(other)],
        input=json.dumps(TEXTS),
        text=True,
        check=True,
        env={
            "PYTHONHASHSEED": "7",
            "PYTHONPATH": offline_path(*sys.path),
            "RAYON_NUM_THREADS": "1",
        },
    )
    assert other.read_bytes() == path.read_bytes()


def test_vocabulary_beyond_the_text() -> None:
    with pytest.raises(DataError, match=r"test: found text for 3\d\d vocabulary .*expected 5000"):
        tok.train_tokenizer(TEXTS, 5000, "test")


def test_missing_damaged_and_foreign_files(path: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        tok.load_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "cut.json").write_text(path.read_text()[:500])
    with pytest.raises(DataError, match="damaged file"):
        tok.load_tokenizer(tmp_path / "cut.json")
    text = path.read_text().replace("[CLS]", "<s>")
    (tmp_path / "foreign.json").write_text(text)
    with pytest.raises(DataError, match=r"first entries .*<s>"):
        tok.load_corpus_tokenizer(tmp_path / "foreign.json")


def test_ends_of_ours_and_of_a_foreign_tokenizer(path: Path) -> None:
    from tokenizers.processors import TemplateProcessing

    tokenizer = tok.load_tokenizer(path)
    assert tok.special_ends(tokenizer) == tok.OWN_ENDS == ((1,), (2,))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    foreign = path.with_name("foreign.json")
    found = []
    for template in ("<s> $A </s>", "<s> $A", "$A"):
        special = [(x, tokenizer.token_to_id(x)) for x in ("<s>", "</s>")]
        tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=special)
        tokenizer.enable_padding()
        tokenizer.enable_truncation(3)
        foreign.write_text(tokenizer.to_str().replace("[CLS]", "[BOS]"))
        again = tok.load_tokenizer(foreign)
        assert len(again.encode("one two three four five six").ids) > 3
        found.append([[again.id_to_token(x) for x in end] for end in tok.special_ends(again)])
    assert found == [[["<s>"], ["</s>"]], [["<s>"], []], [[], []]]


def test_ends_of_a_tokenizer_that_knows_no_common_letter() -> None:
    from tokenizers import Tokenizer, models
    from tokenizers.processors import TemplateProcessing

    vocabulary = {"<s>": 0, "</s>": 1, "L": 2, "B": 3}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    special = [("<s>", 0), ("</s>", 1)]
    tokenizer.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=special)
    assert tok.special_ends(tokenizer) == ((0,), (1,))


WORDS = ["Die Lampe: an!", "die Lampen an", "LAMPE {name} 1", "can't [UNK] [MASK]", "ä a\u0308"]


def words(vocabulary: int = 12, split: str = "punctuation", texts: list[str] = WORDS):  # type: ignore[no-untyped-def]
    settings = TokenizerSettings(kind="words", vocabulary=vocabulary, split=split)  # type: ignore[arg-type]
    return tok.make_tokenizer(texts, settings, "test")


def test_words_are_the_most_frequent_ones_in_lower_case(tmp_path: Path) -> None:
    tokenizer = words()
    names = [tokenizer.id_to_token(index) for index in range(12)]
    assert names[:5] == [*tok.NAMES, "[UNK]"] and tok.UNKNOWN == 4
    # twice each, in the order of their characters; then the first of those that occur once
    assert names[5:] == ["[", "]", "an", "die", "lampe", "ä", "!"]
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = tok.load_corpus_tokenizer(tmp_path / "tokenizer.json")
    (ids,) = tok.encode(again, ["Die  LAMPE\tan! Ofen"])
    assert [again.id_to_token(x) for x in ids] == ["die", "lampe", "an", "!", "[UNK]"]
    assert tok.special_ends(again) == tok.OWN_ENDS and tok.id_count(again) == 12
    assert tok.byte_lengths(again) is None and tok.is_of_words(again)
    assert not tok.is_of_words(tok.train_tokenizer(TEXTS, 320, "test"))


def test_every_known_word_returns() -> None:
    tokenizer = words(23)
    (ids,) = tok.encode(tokenizer, ["die lampen an 1 ä can ' t { name }"])
    assert tok.UNKNOWN not in ids and min(ids) > tok.UNKNOWN
    assert [tokenizer.id_to_token(x) for x in ids] == [
        "die",
        "lampen",
        "an",
        "1",
        "ä",
        "can",
        "'",
        "t",
        "{",
        "name",
        "}",
    ]


@pytest.mark.parametrize("text", ["[UNK]", "[MASK]", "[unk]"])
@pytest.mark.parametrize("split", ["punctuation", "whitespace"])
def test_text_that_spells_a_special_token_is_text(text: str, split: str) -> None:
    (ids,) = tok.encode(words(9, split), [text])
    assert min(ids) >= tok.UNKNOWN


def test_white_space_alone_leaves_punctuation_in_the_word() -> None:
    tokenizer = words(9, "whitespace", ["do n't <unk> do n't <unk> u.s."])
    assert [tokenizer.id_to_token(x) for x in range(5, 9)] == ["<unk>", "do", "n't", "u.s."]


def test_too_few_words() -> None:
    with pytest.raises(DataError, match=r"test: found text for 23 vocabulary .*expected 30"):
        words(30)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"vocabulary": 299}, "vocabulary of 300 or more with kind bpe"),
        ({"kind": "words", "vocabulary": 5}, "vocabulary of 6 or more with kind words"),
        ({"vocabulary": 400, "split": "whitespace"}, "split whitespace only with kind words"),
        ({"kind": "letters", "vocabulary": 400}, "'bpe', 'words' or 'types'"),
    ],
)
def test_wrong_settings_are_refused(settings: dict, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        validate(TokenizerSettings, settings)
