"""Probes learn what is there and nothing else, each on its own."""

import dataclasses

import numpy as np
import pytest
import torch

from tiebench.errors import TrainingError
from tiebench.evaluation import probes
from tiebench.evaluation.probes import (
    Examples,
    Probes,
    allowed_layers,
    gather,
    root_mean_squares,
    train_probes,
)
from tiebench.evaluation.probing_settings import ProbingSettings

SETTINGS = ProbingSettings(
    labels="t", tasks=["t"], hidden=16, learning_rate=0.01, batch_size=32, epochs=6
)
CLASSES, WIDTH = 3, 6


def make_parts(informative, sizes=(600, 90, 90), layers=3, pairs=False):
    """Vectors whose one layer says the label: first span's class, plus the second's in pairs."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(layers, sum(sizes) * 2, WIDTH)).astype(np.float32)
    kinds = rng.integers(0, CLASSES, vectors.shape[1])
    vectors[informative, np.arange(len(kinds)), kinds] += 8
    numbers = np.arange(len(kinds)).reshape(-1, 2)
    labels = kinds[numbers[:, 0]]
    if pairs:
        labels = (labels + kinds[numbers[:, 1]]) % CLASSES
    control = rng.integers(0, CLASSES, len(labels))
    spans = numbers if pairs else numbers[:, :1]
    parts, start = {}, 0
    for name, size in zip(("train", "development", "test"), sizes, strict=True):
        rows = slice(start, start + size)
        parts[name] = Examples(*(torch.from_numpy(x[rows]) for x in (spans, labels, control)))
        start += size
    return torch.from_numpy(vectors), parts


def accuracies(parts, outcomes):
    answers = parts["test"].answers(list(outcomes)).numpy()
    return {
        name: (outcome.predictions == row).mean()
        for (name, outcome), row in zip(outcomes.items(), answers, strict=True)
    }


def test_names_and_layers():
    assert allowed_layers(4) == {
        "layer_0": [0], "layer_1": [1], "layer_2": [2], "layer_3": [3],
        "mix_upto_1": [0, 1], "mix_upto_2": [0, 1, 2],
        "mix": [0, 1, 2, 3], "control": [0, 1, 2, 3],
    }  # fmt: skip
    assert list(allowed_layers(1)) == ["layer_0", "mix", "control"]


@pytest.mark.parametrize("pairs", [False, True])
def test_what_is_there_is_learnt_and_the_mix_finds_its_layer(pairs):
    vectors, parts = make_parts(1, pairs=pairs)
    settings = SETTINGS.model_copy(update={"epochs": 20})
    outcomes = train_probes(vectors, parts, CLASSES, settings, 0, "t")
    found = accuracies(parts, outcomes)
    assert found["layer_1"] == 1 and found["mix_upto_1"] > 0.97 and found["mix"] > 0.97
    assert found["layer_0"] < 0.5 and found["layer_2"] < 0.5 and found["control"] < 0.5
    assert outcomes["mix"].weights[1] > 0.7
    assert outcomes["mix"].weights.sum() == pytest.approx(1)
    assert outcomes["layer_2"].weights.tolist() == [0, 0, 1]
    assert outcomes["mix_upto_1"].weights[2] == 0


def test_the_logits_by_hand():
    vectors, parts = make_parts(0, pairs=True)
    rows = parts["test"].spans[:5]
    sizes = root_mean_squares(vectors, parts["train"].spans)
    model = Probes({"mix_upto_1": [0, 1], "layer_2": [2]}, sizes, 2 * WIDTH, 4, CLASSES)
    model.initialize(0, "t")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.rand(parameter.shape, generator=torch.Generator().manual_seed(1)))
        logits = model(gather(vectors, rows))
        odds = model.mix[0, :2].exp()
        first, second = odds / odds.sum()
        mixed = first * vectors[0] / sizes[0] + second * vectors[1] / sizes[1]
        for probe, states in enumerate((mixed, vectors[2] / sizes[2])):
            for row, (left, right) in enumerate(rows.tolist()):
                pair = torch.cat([states[left], states[right]]) * model.scale[probe, 0, 0]
                inner = torch.relu(pair @ model.first[probe] + model.first_bias[probe, 0])
                by_hand = inner @ model.second[probe] + model.second_bias[probe, 0]
                torch.testing.assert_close(logits[probe, row], by_hand, rtol=1e-4, atol=1e-4)


def test_sizes_of_layers():
    vectors = torch.tensor([[[3.0, 4.0], [9.0, 9.0]], [[0.0, 0.0], [9.0, 9.0]]])
    sizes = root_mean_squares(vectors, torch.tensor([[0], [0]]))
    torch.testing.assert_close(sizes, torch.tensor([12.5**0.5, 1.0]))


def test_the_size_of_a_layer_does_not_matter():
    vectors, parts = make_parts(0)
    scaled = vectors * torch.tensor([2.0**-10, 1.0, 2.0**10])[:, None, None]
    found = train_probes(vectors, parts, CLASSES, SETTINGS, 0, "t")
    again = train_probes(scaled, parts, CLASSES, SETTINGS, 0, "t")
    for name in found:
        np.testing.assert_array_equal(found[name].predictions, again[name].predictions)


def test_a_probe_does_not_depend_on_the_others(monkeypatch):
    # 5 labels and 7 units: no multiple of what a processor adds at once
    vectors, parts = make_parts(1, layers=4)
    settings = SETTINGS.model_copy(update={"hidden": 7})
    together = train_probes(vectors, parts, 5, settings, 3, "t")
    for names in (["layer_1", "mix"], ["layer_3", "layer_0", "control", "mix_upto_2"]):
        monkeypatch.setattr(
            probes,
            "allowed_layers",
            lambda layers, n=names: {k: allowed_layers(layers)[k] for k in n},
        )
        fewer = train_probes(vectors, parts, 5, settings, 3, "t")
        assert list(fewer) == names
        for name in names:
            assert_same(fewer[name], together[name])


def assert_same(found, expected):
    for field in dataclasses.fields(found):
        np.testing.assert_array_equal(getattr(found, field.name), getattr(expected, field.name))


def test_global_generators_do_not_matter_but_seed_and_task_do():
    vectors, parts = make_parts(1)
    torch.manual_seed(1)
    found = train_probes(vectors, parts, CLASSES, SETTINGS, 0, "t")
    torch.manual_seed(2)
    torch.rand(3)
    np.random.seed(5)
    again = train_probes(vectors, parts, CLASSES, SETTINGS, 0, "t")
    for name in found:
        assert_same(again[name], found[name])
    for seed, task in ((1, "t"), (0, "u")):
        other = train_probes(vectors, parts, CLASSES, SETTINGS, seed, task)
        assert (other["mix"].weights != found["mix"].weights).any()


def test_the_first_of_the_best_epochs_counts():
    vectors, parts = make_parts(1)
    short = train_probes(vectors, parts, CLASSES, SETTINGS, 0, "t")["layer_1"]
    assert short.development_accuracy == 1 and short.epoch < SETTINGS.epochs


def test_of_equal_epochs_the_first_counts_with_its_exact_accuracy(monkeypatch):
    vectors, parts = make_parts(1)
    answers = parts["development"].labels
    said = (
        answers + (torch.arange(len(answers)) % 10 >= 7)
    ) % CLASSES  # 7 of 10 right, every epoch

    def predict(model, vectors, spans):
        size = len(spans)
        held = said if size == len(said) else torch.zeros(size, dtype=torch.int64)
        return held.expand(len(model.names), size)

    monkeypatch.setattr(probes, "predict", predict)
    found = train_probes(vectors, {**parts, "test": parts["train"]}, CLASSES, SETTINGS, 0, "t")
    assert (found["mix"].epoch, found["mix"].development_accuracy) == (1, 0.7)


def test_a_body_without_layers_has_one_layer_to_probe():
    vectors, parts = make_parts(0, layers=1)
    found = train_probes(vectors, parts, CLASSES, SETTINGS, 0, "t")
    assert list(found) == ["layer_0", "mix", "control"]
    assert found["mix"].weights.tolist() == [1.0]
    assert accuracies(parts, found)["mix"] > 0.97


def test_weights_that_are_not_finite_are_named():
    vectors, parts = make_parts(1)
    settings = SETTINGS.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(TrainingError, match=r"probes of t: found weights .* in epoch 1"):
        train_probes(vectors, parts, CLASSES, settings, 0, "t")


def test_predictions_do_not_depend_on_how_many_are_made_at_once(monkeypatch):
    vectors, parts = make_parts(1)
    sizes = root_mean_squares(vectors, parts["train"].spans)
    model = Probes(allowed_layers(3), sizes, WIDTH, 16, CLASSES).initialize(0, "t")
    spans = parts["test"].spans
    with torch.no_grad():
        best = model(gather(vectors, spans)).topk(2).values
    clear = best[..., 0] - best[..., 1] > 1e-4
    expected = probes.predict(model, vectors, spans)
    monkeypatch.setattr(probes, "ROWS_PER_BATCH", 7)
    shifted = vectors + 1e-6  # as much as other batches of sentences change
    assert clear.float().mean() > 0.99
    assert (probes.predict(model, shifted, spans) == expected)[clear].all()
