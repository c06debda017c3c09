import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from pyarrow import parquet

from tests.conftest import FullDisk, offline_path
from tiebench import paths
from tiebench.corpus import tokenizer as tok
from tiebench.corpus.clean import normalize
from tiebench.corpus.prepare import _repeats, prepare
from tiebench.corpus.seen import digests, read_seen
from tiebench.corpus.settings import CorpusSettings
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import DataError, WriteError
from tiebench.schema import validate

ROOT = Path(__file__).parents[2]
WORDS = [
    "lamp",
    "door",
    "window",
    "garden",
    "sensor",
    "battery",
    "power",
    "level",
    "house",
    "light",
]
VERBS = [("open", "öffne"), ("close", "schließe"), ("start", "starte"), ("stop", "stoppe")]


def lines(lang: int) -> str:
    """1,600 pairs of one sentence per line."""
    return "\n".join(
        f"{verb[lang]} {('the', 'das')[lang]} {one} {('of', 'von')[lang]} {two} {three}"
        for verb in VERBS
        for one in WORDS
        for two in WORDS
        for three in WORDS[:4]
    )


def corpus(**changes: Any) -> CorpusSettings:
    base = {
        "option": "test",
        "source": {
            "kind": "local",
            "folder": "mine",
            "format": "lines",
            "files": {"en": "en.txt", "de": "de.txt"},
        },
        "languages": ["en", "de"],
        "seed": 0,
        "valid_share": 0.1,
        "heldout": {"sentences": 20, "minimum_words": 3},
        "tokenizer": {"vocabulary": 320},
    }
    return validate(CorpusSettings, base | changes, "corpora.test")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "external/mine").mkdir(parents=True)
    (tmp_path / "external/mine/en.txt").write_text(lines(0))
    (tmp_path / "external/mine/de.txt").write_text(lines(1))
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_folder(here: Path) -> None:
    prepare(corpus(), Path("data/test"))
    folder = here / "data/test"
    assert list(contents(folder)) == [
        "heldout/sentences.parquet",
        "meta.json",
        "seen.parquet",
        "tokenizer.json",
        "train.safetensors",
        "valid.safetensors",
    ]
    meta = json.loads((folder / "meta.json").read_text())
    assert meta["read"] == {"en": 1600, "de": 1600}
    assert meta["heldout"] == {"sentences": 20}
    assert meta["train"]["en"]["strings"] == 1422
    assert meta["valid"]["en"]["strings"] == 158
    assert meta["dropped"] == []
    assert meta["source"]["sha256"].keys() == {"en.txt", "de.txt"}

    table = parquet.read_table(folder / "heldout/sentences.parquet")
    assert table.column_names == ["key", "lang", "text"]
    assert table["lang"].to_pylist() == ["en", "de"] * 20
    keys = table["key"].to_pylist()
    assert keys[::2] == keys[1::2]
    assert keys != sorted(keys)


def test_token_files_hold_the_strings(here: Path) -> None:
    prepare(corpus(), Path("data/test"))
    folder = Path("data/test")
    meta = json.loads((folder / "meta.json").read_text())
    tokenizer = tok.load_tokenizer(folder / "tokenizer.json")
    read, order = {}, {}
    for part in ("train", "valid"):
        ids = read_tokens(folder / f"{part}.safetensors", folder / "tokenizer.json", ["en", "de"])
        for lang, values in ids.items():
            assert values[-1] == tok.SEP
            assert len(values) == meta[part][lang]["tokens"]
            size = tok.byte_lengths(tokenizer)[values].sum()
            assert size == meta[part][lang]["bytes"]
            assert meta[part][lang]["bytes_per_token"] == size / len(values)
            strings = np.split(values, np.flatnonzero(values == tok.SEP) + 1)[:-1]
            texts = tokenizer.decode_batch([list(string[:-1]) for string in strings])
            assert len(texts) == meta[part][lang]["strings"]
            assert sum(len(text.split()) for text in texts) == meta[part][lang]["words"]
            read[part, lang], order[part, lang] = set(texts), texts
    heldout = parquet.read_table(folder / "heldout/sentences.parquet").to_pylist()
    for index, lang in enumerate(("en", "de")):
        every = [*read["train", lang], *read["valid", lang]]
        every += [row["text"] for row in heldout if row["lang"] == lang]
        assert sorted(every) == sorted(lines(index).split("\n"))
        assert order["train", lang] != sorted(order["train", lang])
    seen = read_seen(folder / "seen.parquet")
    trained = [text for texts in read.values() for text in texts]
    assert seen.tolist() == np.unique(digests(trained)).tolist()
    assert np.isin(digests([trained[0].upper()]), seen).all()
    assert not np.isin(digests(row["text"] for row in heldout), seen).any()
    (folder / "seen.parquet").write_bytes(b"cut")
    with pytest.raises(DataError, match=r"seen\.parquet"):
        read_seen(folder / "seen.parquet")


def test_words_and_their_share_of_unknown_ones(here: Path) -> None:
    settings = corpus(tokenizer={"kind": "words", "vocabulary": 20}, heldout=None)
    prepare(settings, Path("data/test"))
    folder = Path("data/test")
    meta = json.loads((folder / "meta.json").read_text())
    tokenizer = tok.load_corpus_tokenizer(folder / "tokenizer.json")
    assert tokenizer.get_vocab_size() == meta["vocabulary"] == 20
    known = set(tokenizer.get_vocab())
    texts = {"en": lines(0).lower(), "de": lines(1).lower()}
    for lang, text in texts.items():
        found = {}
        for part in ("train", "valid"):
            ids = read_tokens(folder / f"{part}.safetensors", folder / "tokenizer.json", [lang])
            found[part] = ids[lang]
            share = float(np.mean(ids[lang] == tok.UNKNOWN))
            assert meta[part][lang]["unknown_share"] == share > 0
        words = text.split()
        unknown = sum(word not in known for word in words)
        assert sum(int(np.sum(x == tok.UNKNOWN)) for x in found.values()) == unknown
        assert sum(len(x) for x in found.values()) == len(words) + 1600


def test_twice_the_same_bytes(here: Path) -> None:
    settings = corpus(parallel=False)
    prepare(settings, Path("data/test"))
    code = (
        "import sys; from pathlib import Path; from tiebench.corpus.prepare import prepare;"
        "from tiebench.corpus.settings import CorpusSettings;"
        "prepare(CorpusSettings.model_validate_json(sys.argv[1]), Path('data/other'))"
    )
    subprocess.run(
        [sys.executable, "-c", code, settings.model_dump_json()],
        check=True,
        env={"PYTHONHASHSEED": "11", "PYTHONPATH": offline_path(*sys.path), "HOME": str(here)},
    )
    assert contents(here / "data/test") == contents(here / "data/other")


def test_evaluation_only(here: Path) -> None:
    heldout = {"sentences": 1600, "minimum_words": 1, "as_published": True}
    prepare(corpus(heldout=heldout, tokenizer=None, valid_share=0.0), Path("data/test"))
    assert list(contents(here / "data/test")) == ["heldout/sentences.parquet", "meta.json"]


def test_whole_or_not_at_all(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = here / "data/test"
    prepare(corpus(), folder)
    before = contents(folder)
    with pytest.raises(DataError, match="vocabulary"):
        prepare(corpus(tokenizer={"vocabulary": 9000}), folder)
    assert contents(folder) == before
    assert [path.name for path in (here / "data").iterdir()] == ["test"]

    (here / "data/.test.partial").mkdir()  # left by a kill
    (here / "data/.test.partial/stray").touch()
    prepare(corpus(heldout=None), folder)
    assert list(contents(folder)) == [name for name in before if "heldout" not in name]
    assert [path.name for path in (here / "data").iterdir()] == ["test"]


def test_a_full_disk_keeps_what_was_there(here: Path, full_disk: FullDisk) -> None:
    folder = here / "data/test"
    prepare(corpus(), folder)
    before = contents(here / "data")
    other = corpus(seed=1)
    for number in range(1, len(before) + 1):
        assert full_disk.refuse(lambda: prepare(other, folder), number)
        assert contents(here / "data") == before
    assert not full_disk.refuse(lambda: prepare(other, folder), len(before) + 1)
    assert contents(here / "data") != before


@pytest.mark.parametrize("place", ["data", ".scratch"])
def test_a_folder_that_cannot_be_written_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    mkdir = Path.mkdir

    def refuse(self: Path, *arguments: Any, **named: Any) -> None:
        if place in self.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        mkdir(self, *arguments, **named)

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(WriteError, match=rf"{place}.*Permission denied.*make the folder writable"):
        prepare(corpus(), Path("data/test"))


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("", {}, r"corpus test: found 0 distinct sentences of 3 words.*expected 20"),
        ("\n \n\u3000\n", {}, "found 0 distinct sentences"),
        ("", {"heldout": None}, "corpus test, language en: found no string in the training part"),
        ("", {"heldout": None, "parallel": False}, "found no string in the training part"),
        ("one two three\n", {"heldout": None}, "language en: found no string in the validation"),
        ("", {"tokenizer": None, "valid_share": 0.0}, "found 0 distinct sentences"),
        (None, {"tokenizer": {"vocabulary": 9000}}, "test: found text for .*tokenizer.vocabulary"),
        (None, {"languages": ["en", "xx"]}, "external/mine: language xx: found files for de, en"),
    ],
)
def test_too_little_text(
    here: Path, text: str | None, changes: dict[str, Any], expected: str
) -> None:
    if text is not None:
        for lang in ("en", "de"):
            (here / f"external/mine/{lang}.txt").write_text(text.replace("one", lang), "utf-8")
    with pytest.raises(DataError, match=expected) as caught:
        prepare(corpus(**changes), Path("data/test"))
    assert caught.value.mend
    assert not list((here / "data").iterdir())


def test_repeated_tokens_are_counted_inside_strings() -> None:
    sep = tok.SEP
    assert _repeats(np.array([5, 5, 6, sep, 6, 6, 6, sep, 7, sep])) == (3, 4)
    assert _repeats(np.array([5, sep])) == (0, 0)


def test_real_text_does_not_leak(here: Path) -> None:
    """Part of the default corpus: no held-out or validation text is trained on, in any language."""
    plain = OmegaConf.load(ROOT / "conf/corpus/home.yaml")
    if not list((paths.cache_folder() / plain.source.sha256).glob("*.whl")):
        pytest.skip("the package is not in the download cache; `make setup` fetches it")
    plain.source.files = "homeassistant/components/[mn]*/translations/{language}.json"
    plain.heldout.sentences, plain.tokenizer.vocabulary = 200, 1024
    settings = validate(CorpusSettings, OmegaConf.to_container(plain), "corpora.home")
    folder = Path("data/home")
    prepare(settings, folder)
    tokenizer = tok.load_tokenizer(folder / "tokenizer.json")
    said: dict[str, set[str]] = {}
    for part in ("train", "valid"):
        path = folder / f"{part}.safetensors"
        ids = read_tokens(path, folder / "tokenizer.json", settings.languages)
        strings = []
        for values in ids.values():
            ends = np.flatnonzero(values == tok.SEP)
            own = [list(s) for s in np.split(values, ends)]
            texts = tokenizer.decode_batch([[i for i in s if i != tok.SEP] for s in own[:-1]])
            assert len(set(texts)) == len(texts)
            strings += texts
        said[part] = set(map(normalize, strings))
    heldout = parquet.read_table(folder / "heldout/sentences.parquet")["text"].to_pylist()
    said["heldout"] = set(map(normalize, heldout))
    assert len(heldout) == len(said["heldout"]) == 200 * len(settings.languages)
    assert said["train"].isdisjoint(said["heldout"])
    assert said["valid"].isdisjoint(said["heldout"])
    assert said["train"].isdisjoint(said["valid"])
    meta = json.loads((folder / "meta.json").read_text())
    for lang in settings.languages:
        kept = meta["train"][lang]["strings"] + meta["valid"][lang]["strings"] + 200
        dropped = sum(row["strings"] for row in meta["dropped"] if row["lang"] == lang)
        assert meta["read"][lang] == kept + dropped
