"""Probing of one model on a small treebank, from files to files."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from tiebench import paths
from tiebench.corpus.tokenizer import train_tokenizer
from tiebench.errors import DataError, SettingsError
from tiebench.evaluation.keys import outcome_key
from tiebench.evaluation.probing import choose_targets, distinct_spans, probe
from tiebench.evaluation.probing_settings import ProbingSettings
from tiebench.files import write_json
from tiebench.labels.read import read_treebank
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.settings import BodySettings
from tiebench.settings import load_params

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("train", "development", "test")
FORMS = {"ev": "NOUN", "geldi": "VERB", ".": "PUNCT", "İyi": "ADJ"}


def write_treebank(folder, sentences=60):
    """`upos` says the word's own label; `pair` whether two words are the same."""
    rng = np.random.default_rng(0)
    texts, starts, ends, parts, targets = [], [], [], [], []
    for number in range(sentences):
        forms = [str(form) for form in rng.choice(list(FORMS), 4)]
        lengths = np.cumsum([0, *(len(form) + 1 for form in forms)])
        starts.append([int(x) for x in lengths[:-1]])
        ends.append([int(x) - 1 for x in lengths[1:]])
        texts.append(" ".join(forms))
        parts.append(PARTS[max(0, number % 5 - 2)])
        for at, form in enumerate(forms):
            control = str(rng.choice(list(FORMS.values())))
            targets.append(("upos", number, at, at + 1, -1, -1, FORMS[form], control))
        same = str(forms[0] == forms[2])
        targets.append(("pair", number, 0, 1, 2, 3, same, "True"))
    folder.mkdir(parents=True)
    keys = [f"k{number}" for number in range(sentences)]
    lists = {"starts": starts, "ends": ends}
    table = {"key": keys, "lang": ["tr"] * sentences, "part": parts, "text": texts}
    arrays = {name: pa.array(x, pa.list_(pa.int32())) for name, x in lists.items()}
    parquet.write_table(pa.table({**table, **arrays}), folder / "sentences.parquet")
    names = ("task", "sentence", "first_start", "first_end", "second_start", "second_end", "label", "control")  # fmt: skip
    columns = dict(zip(names, map(list, zip(*targets, strict=True)), strict=True))
    arrays = {name: pa.array(x, pa.int32()) for name, x in columns.items() if isinstance(x[0], int)}
    parquet.write_table(pa.table({**columns, **arrays}), folder / "targets.parquet")
    meta = {
        "option": "tiny",
        "kind": "treebank",
        "languages": ["tr"],
        "dropped": [],
        "labels": {"pair": ["False", "True"], "upos": sorted(FORMS.values())},
        "spans": {"pair": 2, "upos": 1},
        "sentences": {part: parts.count(part) for part in PARTS},
        "targets": {
            task: {
                part: sum(t[0] == task and parts[t[1]] == part for t in targets) for part in PARTS
            }
            for task in ("pair", "upos")
        },
    }
    write_json(folder / "meta.json", meta)


@pytest.fixture
def params(tmp_path, monkeypatch):
    """Settings, a treebank and an untrained model in the working folder."""
    monkeypatch.chdir(tmp_path)
    write_treebank(paths.labels_folder("tiny"))
    params = load_params(ROOT / "params.yaml")
    probing = ProbingSettings(
        labels="tiny",
        tasks=["upos", "pair"],
        hidden=32,
        learning_rate=0.01,
        batch_size=16,
        epochs=8,
    )
    write_model(params)
    return params.model_copy(update={"probing": probing})


def write_model(params, maximum_length=32):
    run = paths.run_folder(params.name, "encoders", "tied", 0)
    run.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([" ".join(FORMS)] * 3, 262, "t")
    tokenizer.save(str(run / "tokenizer.json"))
    body = BodySettings(
        option="t", width=16, layers=2, heads=2, feedforward_width=16, maximum_length=maximum_length
    )
    coupling = params.encoders.runs["tied"].coupling
    save_model(LanguageModel(coupling, body, 262).initialize(0), run)
    return run


def test_outcomes_and_summary(params):
    folder = probe(params, "encoders", "tied", 0)
    assert folder == paths.outcome_folder(params.name, "probing", "encoders", "tied", 0, "tiny")
    table = parquet.read_table(folder / "outcomes.parquet")
    assert table.column_names == ["task", "probe", "target", "sentence", "reference", "prediction"]
    assert [str(table.schema.field(x).type) for x in ("target", "sentence")] == ["int32", "int32"]
    assert pa.types.is_dictionary(table.schema.field("prediction").type)
    treebank = read_treebank(paths.labels_folder("tiny"))
    rows = table.to_pylist()
    targets = treebank.targets
    names = ["layer_0", "layer_1", "layer_2", "mix_upto_1", "mix", "control"]
    for task in ("upos", "pair"):
        tested = choose_targets(treebank, task, "test", params.probing)
        for name in names:
            held = [row for row in rows if (row["task"], row["probe"]) == (task, name)]
            assert [row["target"] for row in held] == tested.tolist()
            answers = targets.control if name == "control" else targets.label
            assert [row["reference"] for row in held] == answers[tested].tolist()
            assert [row["sentence"] for row in held] == targets.sentence[tested].tolist()
    right = {
        (task, name): np.mean([r["reference"] == r["prediction"] for r in rows if (r["task"], r["probe"]) == (task, name)])
        for task in ("upos", "pair") for name in names
    }  # fmt: skip
    assert right["upos", "layer_0"] == 1 and right["upos", "mix"] > 0.9
    assert right["upos", "control"] < 0.6
    summary = json.loads((folder / "summary.json").read_text())
    assert set(summary) == {"key", "outcomes", "layers", "tasks"} and summary["layers"] == 3
    assert summary["key"] == outcome_key(params, "probing", "encoders", "tied", 0, "tiny")
    held = summary["tasks"]["upos"]
    assert sum(held["weights"]) == pytest.approx(1) and len(held["weights"]) == 3
    assert held["training_targets"] == 144 and list(held["probes"]) == names
    assert held["probes"]["layer_0"]["development_accuracy"] == 1


def test_the_same_bytes_whatever_else_is_drawn_or_probed(params):
    def contents():
        folder = probe(params, "encoders", "tied", 0)
        return [(folder / name).read_bytes() for name in ("outcomes.parquet", "summary.json")]

    torch.manual_seed(1)
    np.random.seed(1)
    first = contents()
    torch.manual_seed(2)
    np.random.seed(2)
    assert contents() == first
    tasks = json.loads(first[1])["tasks"]
    alone = params.probing.model_copy(update={"tasks": ["pair"]})
    folder = probe(params.model_copy(update={"probing": alone}), "encoders", "tied", 0)
    assert json.loads((folder / "summary.json").read_text())["tasks"]["pair"] == tasks["pair"]


def test_an_unknown_task_is_named(params):
    wrong = params.probing.model_copy(update={"tasks": ["upos", "ner"]})
    with pytest.raises(SettingsError, match="probing.tasks: found 'ner'.*tiny: pair, upos"):
        probe(params.model_copy(update={"probing": wrong}), "encoders", "tied", 0)


def test_a_sentence_that_is_too_long_is_named(params):
    write_model(params, maximum_length=8)
    with pytest.raises(
        DataError, match=r"label set tiny, sentence \d+: found .*body.maximum_length = 8"
    ):
        probe(params, "encoders", "tied", 0)


def test_no_label_set(params):
    missing = params.probing.model_copy(update={"labels": "none"})
    with pytest.raises(DataError, match="dvc repro labels@none"):
        probe(params.model_copy(update={"probing": missing}), "encoders", "tied", 0)


def test_spans_are_taken_once(params):
    treebank = read_treebank(paths.labels_folder("tiny"))
    rows = np.array([0, 4, 9])  # the first word of the first sentence, and two pairs
    numbers, spans = distinct_spans(treebank, rows)
    assert numbers.tolist() == [[0, -1], [0, 1], [2, 3]]
    assert [len(x) for x in spans[:3]] == [2, 2, 0] and len(spans) == 60
    starts, ends = treebank.sentences.starts[1], treebank.sentences.ends[1]
    assert spans[1].tolist() == [[starts[0], ends[0]], [starts[2], ends[2]]]


def test_a_label_without_training_targets_is_named(params):
    treebank = read_treebank(paths.labels_folder("tiny"))
    trained = treebank.sentences.part[treebank.targets.sentence] == "train"
    treebank.targets.label[trained & (treebank.targets.label == "ADJ")] = "NOUN"
    with pytest.raises(
        DataError, match="tiny, task upos: found no training target with label 'ADJ'"
    ):
        choose_targets(treebank, "upos", "train", params.probing)


def test_a_part_without_targets_is_named(params):
    treebank = read_treebank(paths.labels_folder("tiny"))
    treebank.sentences.part[:] = "train"
    with pytest.raises(DataError, match="label set tiny, task upos: found no targets in part test"):
        choose_targets(treebank, "upos", "test", params.probing)
