"""Texts published in parts: taken as they stand, counted, and refused when they are others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tiebench.composition import compose, parse
from tiebench.corpus.prepare import prepare
from tiebench.corpus.settings import CorpusSettings
from tiebench.corpus.tokenizer import load_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate

PTB = ROOT.parent / "shared" / "data" / "ptb"
TEXTS = {
    "train": " a b <unk>\n c\n\n a a\n",
    "valid": " a c \n",
    "test": "<unk>\nb b\n",
}
KEPT = {"train": 6, "valid": 3, "test": 4}
COUNTS = {"train": (4, 10), "valid": (1, 3), "test": (2, 5)}


def values(**replaced) -> dict:
    source = {"kind": "local", "folder": "t", "format": "text", "files": {"en": "t.{split}.txt"}}
    parts = {
        name: {"name": name, "lines": lines, "tokens": tokens}
        for name, (lines, tokens) in COUNTS.items()
    }
    held = {
        "option": "t", "source": source, "languages": ["en"], "published": parts,
        "tokenizer": {"kind": "types", "vocabulary": 5},
    }  # fmt: skip
    return {**held, **replaced}


def settings(**replaced) -> CorpusSettings:
    return validate(CorpusSettings, values(**replaced))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    external = Path("external/t")
    external.mkdir(parents=True)
    for name, text in TEXTS.items():
        (external / f"t.{name}.txt").write_text(text)
    return tmp_path / "data" / "t"


def test_parts_are_taken_as_they_stand(folder):
    prepare(settings(), folder)
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    # by frequency in training, then by name: the line end four times, a three times
    names = ["<eos>", "a", "<unk>", "b", "c"]
    assert [tokenizer.id_to_token(i) for i in range(5)] == names
    assert tokenizer.encode(" a  never c ").ids == [1, 2, 4]
    streams = {
        name: read_tokens(folder / f"{name}.safetensors", folder / "tokenizer.json", ["en"])["en"]
        for name in TEXTS
    }
    said = {name: " ".join(names[i] for i in ids) for name, ids in streams.items()}
    assert said == {
        "train": "a b <unk> <eos> c <eos> <eos> a a <eos>",
        "valid": "a c <eos>",
        "test": "<unk> <eos> b b <eos>",
    }
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["train"]["en"] == {
        "strings": 4, "words": 6, "tokens": 10, "types": 5, "unknown_share": 0.1
    }  # fmt: skip
    assert meta["source"]["valid"]["files"] == {"en": "t.valid.txt"}
    assert sorted(x.name for x in folder.iterdir()) == [
        "meta.json", "test.safetensors", "tokenizer.json", "train.safetensors",
        "valid.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        ("train", "a b\n", r"external/t/t\.train\.txt: lines: found 1; expected 4, as published"),
        ("train", "a b <unk>\nc\n\na\n", r"t\.train\.txt: tokens: found 9; expected 10"),
        ("train", "a b <unk>\nc\n\na d\n", r"t\.train\.txt: types: found 6; expected 5"),
        ("test", "d\nb b\n", r"external/t/t\.test\.txt: found the word 'd'; expected words of the"),
    ],
)
def test_another_variant_is_refused(folder, part, text, expected):
    Path(f"external/t/t.{part}.txt").write_text(text)
    with pytest.raises(DataError, match=expected):
        prepare(settings(), folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({"tokenizer": {"kind": "words", "vocabulary": 9}}, "published parts with tokenizer.kind"),
        ({"published": None, "valid_share": 0.1}, "published parts with tokenizer.kind types"),
        ({"valid_share": 0.1}, "no valid_share with published parts, where nothing is drawn"),
        ({"seed": 1}, "no seed with published parts"),
        ({"languages": ["en", "de"]}, "one language with published parts"),
        ({"languages": ["en", "de"], "kept": KEPT}, "kept only with words or types of one"),
        ({"kept": {**KEPT, "test": 6}}, "kept.test of at most 5, not 6: all of the part"),
        (
            {"source": {"kind": "local", "folder": "t", "format": "text", "files": {"en": "t"}}},
            r"\{split\} in the source with published parts, and none without",
        ),
    ],
)
def test_settings_that_do_nothing_are_refused(replaced, expected):
    with pytest.raises(SettingsError, match=expected):
        settings(**replaced)


def test_a_start_of_each_part_has_its_own_vocabulary(folder):
    types = {"kind": "types", "vocabulary": 5}
    prepare(settings(kept=KEPT, tokenizer=types), folder)
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    names = ["<eos>", "<unk>", "a", "b", "c"]  # twice, then once and in alphabetical order
    assert [tokenizer.id_to_token(i) for i in range(5)] == names
    said = {
        name: [
            names[i]
            for i in read_tokens(folder / f"{name}.safetensors", folder / "tokenizer.json", ["en"])[
                "en"
            ]
        ]
        for name in TEXTS
    }
    assert said["train"] == ["a", "b", "<unk>", "<eos>", "c", "<eos>"]
    assert said["test"] == ["<unk>", "<eos>", "b", "b"]


def test_words_past_the_start_of_training_are_unknown(folder):
    shorter = {"train": 4, "valid": 3, "test": 4}
    prepare(settings(kept=shorter, tokenizer={"kind": "types", "vocabulary": 4}), folder)
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["valid"]["en"]["unknown_share"] == 1 / 3  # c
    assert meta["train"]["en"]["tokens"] == 4 and meta["test"]["en"]["tokens"] == 4


def test_a_start_that_has_other_types_is_refused(folder):
    types = {"kind": "types", "vocabulary": 6}
    with pytest.raises(DataError, match=r"t\.train\.txt: types: found 5; expected 6"):
        prepare(settings(kept={**KEPT, "train": 7}, tokenizer=types), folder)


def test_a_start_of_a_text_that_is_split_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("external/t").mkdir(parents=True)
    said = [f"{chr(97 + i % 26)} and {chr(107 + i % 9)}, w{i}" for i in range(300)]
    Path("external/t/t.txt").write_text("".join(f"{x}\n" for x in said))
    source = {"kind": "local", "folder": "t", "format": "text", "files": {"en": "t.txt"}}
    given = {
        "source": source, "published": None, "valid_share": 0.1, "test_share": 0.1,
        "tokenizer": {"kind": "words", "vocabulary": 20},
    }  # fmt: skip
    prepare(settings(**given), Path("all"))
    prepare(settings(**given, kept={"train": 50, "valid": 20, "test": 31}), Path("start"))
    tokens, words = {}, {}
    for folder in ("all", "start"):
        tokenizer = load_tokenizer(Path(folder, "tokenizer.json"))
        for part in TEXTS:
            path = Path(folder, f"{part}.safetensors")
            ids = read_tokens(path, Path(folder, "tokenizer.json"), ["en"])["en"]
            tokens[folder, part] = len(ids)
            words[folder, part] = [tokenizer.id_to_token(int(i)) for i in ids]
    assert [tokens["start", part] for part in TEXTS] == [50, 20, 31]
    # the same strings in the same order, where both vocabularies have the word
    for part in TEXTS:
        both = zip(words["start", part], words["all", part], strict=False)
        assert all(a == b for a, b in both if "[UNK]" not in (a, b))
    meta = json.loads(Path("start/meta.json").read_text())
    assert meta["train"]["en"]["strings"] == 9 and meta["test"]["en"]["strings"] == 6
    with pytest.raises(DataError, match=r"corpus t: valid: found \d+ tokens; expected 9,000 or"):
        prepare(settings(**given, kept={"train": 50, "valid": 9000, "test": 31}), Path("start"))


def test_test_part_shares_no_text_with_the_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("external/t").mkdir(parents=True)
    said = [f"{chr(97 + i % 26)} and {chr(107 + i % 9)}" for i in range(300)]
    Path("external/t/t.txt").write_text("".join(f"{x}\n" for x in said))
    source = {"kind": "local", "folder": "t", "format": "text", "files": {"en": "t.txt"}}
    words = {"kind": "words", "vocabulary": 20}
    prepare(
        settings(source=source, published=None, tokenizer=words, valid_share=0.1, test_share=0.2),
        Path("data"),
    )
    lines = {}
    for name in TEXTS:
        ids = read_tokens(Path(f"data/{name}.safetensors"), Path("data/tokenizer.json"), ["en"])
        lines[name] = np.asarray(ids["en"])
    meta = json.loads(Path("data/meta.json").read_text())
    strings = {name: meta[name]["en"]["strings"] for name in TEXTS}
    assert sum(strings.values()) == len(set(said))
    assert strings["test"] == round(0.2 * len(set(said)))
    assert strings["valid"] == round(0.1 * len(set(said)))


@pytest.mark.skipif(not PTB.is_dir(), reason="Penn Treebank is brought by the user")
def test_penn_treebank_has_the_published_counts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("external").mkdir()
    Path("external/ptb").symlink_to(PTB)
    composed = parse(compose(["+corpus@corpora.ptb=ptb"], ROOT / "conf")[0])
    held = validate(CorpusSettings, composed["corpora"]["ptb"])
    prepare(held, Path("data/ptb"))
    meta = json.loads(Path("data/ptb/meta.json").read_text())
    assert [meta[x]["en"]["tokens"] for x in TEXTS] == [929_589, 73_760, 82_430]
