"""Text of many scripts, from the source to the outcomes of every task: nothing is lost or moved."""

import json
import unicodedata
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from tests.conftest import ROOT
from tiebench import paths
from tiebench.corpus.prepare import prepare as prepare_corpus
from tiebench.corpus.settings import CorpusSettings
from tiebench.corpus.tokenizer import SEP, load_corpus_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import DataError
from tiebench.evaluation import encode
from tiebench.evaluation.encode import covering_pieces, sentence_pieces
from tiebench.evaluation.probing import probe
from tiebench.evaluation.retrieval import retrieve
from tiebench.evaluation.transfer import transfer
from tiebench.labels.prepare import prepare as prepare_labels
from tiebench.labels.read import read_purposes, read_treebank
from tiebench.labels.settings import PurposeSettings, TreebankSettings
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.settings import BodySettings
from tiebench.schema import validate
from tiebench.settings import Params, load_params

WORDS = {
    "日本語の": "NOUN",
    "e\u0301te\u0301": "NOUN",  # combining accents that NFC joins
    "q\u0323\u0307": "ADJ",  # and some that it cannot
    "👩‍👩‍👧‍👦": "X",  # joined by U+200D
    "🇹🇷": "X",
    "שָׁלוֹם": "NOUN",
    "مَرْحَبًا": "ADJ",
    "नमस्ते": "NOUN",
    "\u1112\u1161\u11ab": "ADJ",  # Hangul, decomposed
    "ΐİı": "ADJ",
}
"""Part of speech by word."""
CELL = ("encoders", "tied", 0)


def sentence(number: int) -> list[str]:
    words = list(WORDS)
    return [words[number % 10], words[number // 10 % 10], words[(number * 7 + 3) % 10]]


def write_sources(folder: Path) -> None:
    folder.mkdir(parents=True)
    with (folder / "strings.jsonl").open("w", encoding="utf-8") as file:
        for kind, number in product(("names", "help"), range(100)):
            latin = f"{kind} number {number} {chr(97 + number % 26)}{chr(97 + number // 26)}"
            other = " ".join([*sentence(number), "»" if kind == "help" else "الاسم", f"{number}"])
            strings = {
                "key": f"k.{kind}.{number}",
                "en": latin,
                "xx": f"{other} {chr(0x4E00 + number)}",
            }
            file.write(json.dumps(strings, ensure_ascii=number % 2 == 0) + "\n")
    lines = []
    for number in range(100):
        lines.append(f"# sent_id = {number}")
        for index, word in enumerate(sentence(number), 1):
            relation = ("root", "nsubj", "obj")[index - 1]
            misc = "SpaceAfter=No" if number % 3 else "_"
            lines.append(
                f"{index}\t{word}\t_\t{WORDS[word]}\t_\t_\t{index - 1}\t{relation}\t_\t{misc}"
            )
        lines.append("")
    (folder / "words.conllu").write_text("\n".join(lines), "utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Params]:
    """A working folder with sources, corpus, both label sets and an untrained model."""
    folder = tmp_path_factory.mktemp("scripts")
    split = {"seed": 0, "development_share": 0.2, "test_share": 0.3, "minimum": 2}
    strings = {"kind": "local", "folder": "s", "format": "jsonl", "files": "*.jsonl", "identifier": "key"}  # fmt: skip
    treebank = {"kind": "local", "folder": "s", "format": "conllu", "files": {"xx": "*.conllu"}}
    corpus = validate(CorpusSettings, {
        "option": "t", "source": strings, "languages": ["en", "xx"], "seed": 0, "valid_share": 0.1,
        "heldout": {"sentences": 20, "minimum_words": 3}, "tokenizer": {"vocabulary": 300},
    })  # fmt: skip
    labels = {
        "words": validate(TreebankSettings, {
            "option": "words", "kind": "treebank", "source": treebank, "languages": ["xx"],
            "maximum_bytes": 120, **split,
        }),
        "kinds": validate(PurposeSettings, {
            "option": "kinds", "kind": "purposes", "source": strings, "languages": ["xx", "en"],
            "classes": {"name": ["names.*"], "help": ["help.*"]}, **split,
        }),
    }  # fmt: skip
    params = load_params(ROOT / "params.yaml")
    retrieval = {"sets": ["home"], "pool": 20}
    probing = {"labels": "words", "tasks": ["upos", "deprel"], "epochs": 1, "hidden": 8}
    transfer = {"labels": "kinds", "learning_rates": [1e-3], "epochs": 1}
    params = params.model_copy(update={
        "corpora": {"home": corpus}, "labels": labels,
        "retrieval": params.retrieval.model_copy(update=retrieval),
        "probing": params.probing.model_copy(update=probing),
        "transfer": params.transfer.model_copy(update=transfer),
    })  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_sources(Path("external/s"))
        prepare_corpus(corpus, paths.corpus_folder("home"))
        for name, settings in labels.items():
            prepare_labels(settings, paths.labels_folder(name))
        run = paths.run_folder(params.name, *CELL)
        body = BodySettings(option="t", width=8, layers=1, heads=2, feedforward_width=8, maximum_length=160)  # fmt: skip
        coupling = params.encoders.runs["tied"].coupling
        save_model(LanguageModel(coupling, body, 300).initialize(0), run)
        tokenizer = paths.corpus_folder("home") / "tokenizer.json"
        (run / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    return folder, params


@pytest.fixture
def params(made: tuple[Path, Params], monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(made[0])
    return made[1]


def source_texts(lang: str) -> set[str]:
    lines = Path("external/s/strings.jsonl").read_text("utf-8").splitlines()
    return {unicodedata.normalize("NFC", json.loads(line)[lang]) for line in lines}


def test_the_corpus_holds_every_string(params: Params) -> None:
    folder = paths.corpus_folder("home")
    tokenizer = load_corpus_tokenizer(folder / "tokenizer.json")
    heldout = parquet.read_table(folder / "heldout" / "sentences.parquet").to_pylist()
    for lang in ("en", "xx"):
        texts = [row["text"] for row in heldout if row["lang"] == lang]
        for part in ("train", "valid"):
            path = folder / f"{part}.safetensors"
            ids = read_tokens(path, folder / "tokenizer.json", ["en", "xx"])[lang]
            strings = np.split(ids, np.flatnonzero(ids == SEP) + 1)[:-1]
            texts += tokenizer.decode_batch([list(string[:-1]) for string in strings])
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        dropped = sum(x["strings"] for x in meta["dropped"] if x["lang"] == lang)
        assert len(texts) + dropped == len(source_texts(lang))
        assert set(texts) <= source_texts(lang)


def test_words_stand_where_the_labels_say(params: Params) -> None:
    treebank = read_treebank(paths.labels_folder("words"))
    tokenizer = load_corpus_tokenizer(paths.corpus_folder("home") / "tokenizer.json")
    known = {unicodedata.normalize("NFC", word) for word in WORDS}
    pieces = sentence_pieces(tokenizer, treebank.sentences.text)
    found = set()
    for text, starts, ends, held in zip(
        treebank.sentences.text, treebank.sentences.starts, treebank.sentences.ends, pieces, strict=True
    ):  # fmt: skip
        spans = np.stack([starts, ends], 1)
        words = [text[start:end] for start, end in spans]
        found |= set(words)
        which, counts = covering_pieces(held, spans, "t")
        for word, own in zip(words, np.split(which, np.cumsum(counts)[:-1]), strict=True):
            assert word in tokenizer.decode([held.ids[i] for i in own])
    assert found == known
    label = {unicodedata.normalize("NFC", word): label for word, label in WORDS.items()}
    for task, sentence, start, right in zip(
        treebank.targets.task, treebank.targets.sentence, treebank.targets.first_start,
        treebank.targets.label, strict=True,
    ):  # fmt: skip
        span = slice(treebank.sentences.starts[sentence][start], treebank.sentences.ends[sentence][start])  # fmt: skip
        assert task != "upos" or label[treebank.sentences.text[sentence][span]] == right


def test_every_task_reads_every_script(params: Params) -> None:
    held = {task.__name__: task(params, *CELL) for task in (probe, transfer)}
    held["retrieve"] = retrieve(params, *CELL, "home")
    rows = {name: parquet.read_table(folder / "outcomes.parquet") for name, folder in held.items()}
    assert np.isfinite(rows["retrieve"]["credit"].to_numpy()).all()
    assert set(rows["retrieve"]["index"].to_pylist()) == set(range(20))
    assert set(rows["probe"]["task"].to_pylist()) == {"upos", "deprel"}
    tested = read_purposes(paths.labels_folder("kinds"))
    assert len(rows["transfer"]) == sum(tested.part == "test")
    assert set(tested.text) <= source_texts("en") | source_texts("xx")
    assert json.loads((held["transfer"] / "summary.json").read_text())["cut"] == 0


@pytest.mark.parametrize("task", [probe, transfer, lambda *cell: retrieve(*cell, "home")])
def test_a_full_disk_keeps_the_outcomes_that_were_there(params: Params, full_disk, task) -> None:
    folder = task(params, *CELL)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for number in (1, 2):
        assert full_disk.refuse(lambda: task(params, *CELL), number)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
        assert not list(folder.parent.glob(".*"))


@pytest.mark.parametrize("task", [probe, lambda *cell: retrieve(*cell, "home")])
def test_states_that_are_not_finite_are_named(params: Params, monkeypatch, task) -> None:
    load = encode.load_model

    def broken(folder: Path) -> LanguageModel:
        model = load(folder)
        with torch.no_grad():
            model.coupling.input_table.fill_(torch.nan)
        return model

    monkeypatch.setattr(encode, "load_model", broken)
    with pytest.raises(DataError, match="tied-s0: found states that are not finite"):
        task(params, *CELL)


def test_more_neighbours_than_sentences_are_refused(params: Params) -> None:
    more = params.retrieval.model_copy(update={"pool": 21})
    with pytest.raises(DataError, match="20 sentences; expected at least retrieval.pool = 21"):
        retrieve(params.model_copy(update={"retrieval": more}), *CELL, "home")


def test_a_tokenizer_of_another_model_is_refused(params: Params) -> None:
    run = paths.run_folder(params.name, *CELL)
    kept = (run / "model.safetensors").read_bytes(), (run / "config.json").read_bytes()
    body = BodySettings(option="t", width=8, layers=1, heads=2, feedforward_width=8, maximum_length=160)  # fmt: skip
    coupling = params.encoders.runs["tied"].coupling
    save_model(LanguageModel(coupling, body, 299).initialize(0), run)
    for task in (probe, transfer, lambda *cell: retrieve(*cell, "home")):
        with pytest.raises(
            DataError, match=r"tokenizer\.json: found ids up to 299; expected ids below 299"
        ):
            task(params, *CELL)
    for name, content in zip(("model.safetensors", "config.json"), kept, strict=True):
        (run / name).write_bytes(content)
