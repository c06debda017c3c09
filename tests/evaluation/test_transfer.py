"""Fine-tuning on one language: what it learns, what may choose, and the same bytes each time."""

import json
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from tiebench.corpus.seen import write_seen
from tiebench.corpus.tokenizer import train_tokenizer
from tiebench.errors import DataError, TrainingError
from tiebench.evaluation import keys
from tiebench.evaluation import transfer as module
from tiebench.evaluation.transfer import (
    Examples,
    cut_long,
    draw_batches,
    fine_tune,
    rate_share,
    transfer,
)
from tiebench.evaluation.transfer_settings import TransferSettings
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.settings import BodySettings, CouplingSettings

WORDS = {"colour": ["red", "blue", "green"], "animal": ["dog", "cat", "bird"]}
CPU = torch.device("cpu")
CELL = ("encoders", "tied", 0)


def make_settings(**changed):
    values = dict(
        labels="words", learning_rates=[0.001, 0.02], batch_size=8, epochs=3, warmup_share=0.1
    )
    return TransferSettings(**{**values, **changed})


def make_params(**changed):
    """The parts of the settings that this stage reads."""
    group = SimpleNamespace(corpus="t", all_runs={"tied": None})
    return SimpleNamespace(name="t", encoders=group, transfer=make_settings(**changed))


def rows():
    """`key, lang, part, text, label`; the words of the second language are the same, in capitals."""
    rng, made = np.random.default_rng(0), []
    for index in range(120):
        label = ("colour", "animal")[index % 2]
        text = " ".join(rng.choice(WORDS[label], 1 + index % 5))
        part = "train" if index < 80 else "development" if index < 100 else "test"
        made.append((f"k{index}", "en", part, text, label))
        if part == "test":
            made.append((f"k{index}", "xx", part, text.upper(), label))
    return made


def write_labels(folder, made, labels=("animal", "colour")):
    folder.mkdir(parents=True, exist_ok=True)
    columns = [list(x) for x in zip(*made, strict=True)]
    names = ("key", "lang", "part", "text", "label")
    parquet.write_table(
        pa.table(dict(zip(names, columns, strict=True))), folder / "examples.parquet"
    )
    counts = {
        part: {
            lang: {
                label: sum(r[1:3] == (lang, part) and r[4] == label for r in made)
                for label in {r[4] for r in made}
            }
            for lang in ("en", "xx")
        }
        for part in ("train", "development", "test")
    }
    meta = {
        "option": "words", "kind": "purposes", "source": {}, "languages": ["en", "xx"],
        "labels": list(labels), "examples": counts, "dropped": [],
    }  # fmt: skip
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A model, a label set and the digests of a training text, in the working folder."""
    monkeypatch.chdir(tmp_path)
    for place in (module, keys):
        monkeypatch.setattr(place, "corpus_of", lambda params, family, run: params.encoders.corpus)
    made = rows()
    write_labels(tmp_path / "labels/words", made)
    write_seen(tmp_path / "data/t/seen.parquet", [r[3] for r in made if r[1:3] == ("en", "train")])
    run = tmp_path / "runs/t/encoders/tied-s0"
    tokenizer = train_tokenizer([r[3] for r in made] * 2, 290, "t")
    run.mkdir(parents=True)
    tokenizer.save(str(run / "tokenizer.json"))
    save_model(make_model(290), run)
    return tmp_path


def make_model(vocabulary, maximum=64):
    body = BodySettings(
        option="t", width=16, layers=1, heads=2, feedforward_width=32, maximum_length=maximum
    )
    coupling = CouplingSettings(option="t", tied=True)
    return LanguageModel(coupling, body, vocabulary).initialize(0)


def outcomes(folder):
    return parquet.read_table(folder / "outcomes.parquet").to_pandas()


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_separable_task_is_learned(workspace):
    folder = transfer(make_params(), *CELL)
    assert folder.as_posix() == "evals/t/transfer/encoders/words-tied-s0"
    found, said = outcomes(folder), summary(folder)
    english = found[found["lang"] == "en"]
    right = english["reference"].astype(str) == english["prediction"].astype(str)
    assert right.mean() >= 0.9, right.mean()
    assert said["development_accuracy"] == 1
    assert len(said["grid"]) == 6 and said["cut"] == 0
    assert said["parameters"] == said["encoder_parameters"] + 2 * 16 + 2
    assert set(said) == {
        "key", "outcomes", "learning_rate", "epoch", "development_accuracy", "grid", "parameters",
        "encoder_parameters", "cut",
    }  # fmt: skip


def test_there_is_a_row_for_every_test_example(workspace):
    found, made = outcomes(transfer(make_params(epochs=1), *CELL)), rows()
    wanted = [index for index, row in enumerate(made) if row[2] == "test"]
    assert found["example"].tolist() == wanted and found["example"].dtype == np.int32
    assert found["lang"].tolist() == [made[index][1] for index in wanted]
    assert found["reference"].tolist() == [made[index][4] for index in wanted]
    trained = {row[3] for row in made if row[1:3] == ("en", "train")}
    assert found["seen"].tolist() == [made[index][3].lower() in trained for index in wanted]
    assert 0 < found["seen"].sum() < len(found)


def test_the_same_bytes_whatever_the_global_generators(workspace):
    torch.manual_seed(1)
    np.random.seed(1)
    first = files(transfer(make_params(), *CELL))
    torch.manual_seed(2)
    np.random.seed(2)
    assert files(transfer(make_params(), *CELL)) == first


@pytest.mark.parametrize("lang", ["en", "xx"])
def test_test_strings_change_no_weights(workspace, monkeypatch, lang):
    held = []
    plain = module.fine_tune

    def keeping(*args, **kwargs):
        held.append(plain(*args, **kwargs))
        return held[-1]

    monkeypatch.setattr(module, "fine_tune", keeping)
    before = outcomes(transfer(make_params(), *CELL))
    changed = [
        (k, x, p, t[::-1] + " dog" if (x, p) == (lang, "test") else t, label)
        for k, x, p, t, label in rows()
    ]
    write_labels(workspace / "labels/words", changed)
    after = outcomes(transfer(make_params(), *CELL))
    first, second = (x.classifier.state_dict() for x in held)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert held[0].grid == held[1].grid
    others = before["lang"] != lang
    assert before[others]["prediction"].tolist() == after[others]["prediction"].tolist()


def test_development_examples_choose_and_the_first_of_equals_counts(monkeypatch):
    examples = Examples([np.array([5, 6])] * 8, np.array([0, 1] * 4))
    scores, states = iter([0.5, 0.7, 0.7, 0.6, 0.7, 0.7]), []

    def accuracy(classifier, *_):
        states.append({k: x.clone() for k, x in classifier.state_dict().items()})
        return next(scores)

    monkeypatch.setattr(module, "_accuracy", accuracy)
    tuned = fine_tune(
        make_model(20), examples, examples, labels=2, seed=0, device=CPU, subject="t",
        settings=make_settings(learning_rates=[0.1, 0.01], epochs=3),
    )  # fmt: skip
    assert tuned.best == {"learning_rate": 0.1, "epoch": 2, "development_accuracy": 0.7}
    assert [x["development_accuracy"] for x in tuned.grid] == [0.5, 0.7, 0.7, 0.6, 0.7, 0.7]
    kept = tuned.classifier.state_dict()
    same = [all(torch.equal(kept[k], x) for k, x in state.items()) for state in states]
    assert same == [False, True, False, False, False, False]


def test_a_learning_rate_that_breaks_is_marked_and_the_others_go_on(workspace):
    said = summary(transfer(make_params(learning_rates=[1e30, 0.02]), *CELL))
    assert said["grid"][0] == {"learning_rate": 1e30, "epoch": 1, "development_accuracy": None}
    assert [x["learning_rate"] for x in said["grid"]] == [1e30, 0.02, 0.02, 0.02]
    assert said["learning_rate"] == 0.02
    alone = summary(transfer(make_params(learning_rates=[0.02]), *CELL))
    assert alone["grid"] == said["grid"][1:]  # each starts from the same weights and batches


def test_a_learning_rate_that_learns_nothing_is_survived(workspace):
    said = summary(transfer(make_params(learning_rates=[1e9, 0.02]), *CELL))
    assert said["learning_rate"] == 0.02 and said["development_accuracy"] == 1


def test_without_a_finite_loss_the_cell_fails(workspace):
    with pytest.raises(
        TrainingError, match="encoders tied-s0: .* step [0-9]+ in epoch 1 .*1e\\+30"
    ):
        transfer(make_params(learning_rates=[1e30]), *CELL)
    assert not (workspace / "evals").exists()


def test_long_strings_are_cut_and_counted(workspace):
    made = [("long", "en", "test", "red " * 500, "colour"), *rows()]
    write_labels(workspace / "labels/words", made)
    assert summary(transfer(make_params(epochs=1), *CELL))["cut"] == 1
    ids, cut = cut_long([np.arange(5), np.arange(3), np.arange(0)], 3)
    assert [len(part) for part in ids] == [3, 3, 0] and cut.tolist() == [True, False, False]


def test_a_label_set_that_does_not_fit_is_refused(workspace):
    write_labels(workspace / "labels/words", rows(), labels=("animal", "plant"))
    with pytest.raises(DataError, match="found label 'colour'; .* animal, plant.*labels@words"):
        transfer(make_params(), *CELL)
    for lang, part in (("en", "train"), ("en", "development"), ("xx", "test")):
        write_labels(workspace / "labels/words", [r for r in rows() if r[1:3] != (lang, part)])
        with pytest.raises(DataError, match=f"no {part} example in {lang}"):
            transfer(make_params(), *CELL)
    seldom = [r for r in rows() if (*r[1:3], r[4]) != ("en", "train", "animal")]
    write_labels(workspace / "labels/words", seldom)
    with pytest.raises(
        DataError, match="no training example of label 'animal' in en.*labels@words"
    ):
        transfer(make_params(), *CELL)


def test_batches_hold_every_example_once_an_epoch_and_alike_lengths():
    lengths = np.random.default_rng(0).integers(0, 50, 70).tolist()
    first, again, other = (draw_batches(lengths, make_settings(), seed) for seed in (0, 0, 1))
    assert len(first) == 3
    for epoch in first:
        assert sorted(np.concatenate(epoch)) == list(range(70))
        assert max(len(part) for part in epoch) == 8 and len(epoch) == 9
        spans = sorted((min(lengths[i] for i in x), max(lengths[i] for i in x)) for x in epoch)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    flat = [[np.concatenate(epoch).tolist() for epoch in x] for x in (first, again, other)]
    assert flat[0] == flat[1] != flat[2] and flat[0][0] != flat[0][1]


def test_the_learning_rate_rises_and_falls_linearly():
    shares = [rate_share(step, 20, 0.1) for step in range(20)]
    assert shares[:3] == [0.5, 1.0, 1.0] and shares[-1] == pytest.approx(1 / 18)
    assert all(a > b for a, b in pairwise(shares[2:]))
    assert rate_share(0, 20, 0.0) == 1
