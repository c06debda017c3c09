"""The choice of forms against a computation position by position."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tiebench.experiments.form_choice import (
    by_lemma,
    choice,
    choices,
    forms_of,
    unigram_choices,
)
from tiebench.experiments.lemmas import Lexicon
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.training.batches import Batch

WORDS = np.array([5, 6, 7, 9, 10, 11])
LEXICON = Lexicon(WORDS, np.full(6, 9), np.array([0, 0, 0, 1, 2, 2]), ("a", "b", "c"), {})
FORMS = {5: [5, 6, 7], 6: [5, 6, 7], 7: [5, 6, 7], 10: [10, 11], 11: [10, 11]}
VOCABULARY = 14


def test_forms_by_hand() -> None:
    forms = forms_of(LEXICON, VOCABULARY)
    assert forms.lemma.tolist() == [-1] * 5 + [0, 0, 0, -1, -1, 2, 2, -1, -1]
    assert forms.members.tolist() == [[5, 6, 7], [-1, -1, -1], [10, 11, -1]]


def naive(log_p: np.ndarray, target: int) -> tuple[float, float, float, float]:
    p = {x: math.exp(log_p[x]) for x in FORMS[target]}
    others = sum(v for x, v in p.items() if x != target)
    best = max(v for x, v in p.items() if x != target)
    everything = others + p[target]
    return (
        math.log(p[target] / others),
        float(p[target] > best),
        -math.log(p[target] / everything),
        -math.log(everything),
    )


def test_against_position_by_position() -> None:
    rng = np.random.default_rng(0)
    targets = rng.choice(list(FORMS), size=50)
    log_p = torch.from_numpy(rng.normal(size=(50, VOCABULARY))).log_softmax(-1).numpy()
    lemma, values = choice(log_p, targets, forms_of(LEXICON, VOCABULARY))
    assert lemma.tolist() == [0 if x < 8 else 2 for x in targets]
    for i, target in enumerate(targets):
        found = [float(x[i]) for x in values.values()]
        assert found == pytest.approx(naive(log_p[i], int(target)), abs=1e-9)
    assert values["form_loss"] + values["lemma_loss"] == pytest.approx(
        -log_p[np.arange(50), targets]
    )


def test_equal_probabilities_are_no_right_choice() -> None:
    log_p = np.full((1, VOCABULARY), -math.log(VOCABULARY))
    _, values = choice(log_p, np.array([10]), forms_of(LEXICON, VOCABULARY))
    assert values["accuracy"].tolist() == [0.0] and values["log_odds"][0] == pytest.approx(0)


def batch(seed: int) -> Batch:
    ids = np.random.default_rng(seed).integers(4, VOCABULARY, size=(2, 8))
    where = np.arange(16).reshape(2, 8)[:, :-1].reshape(-1)
    return Batch(ids, where, ids[:, 1:].reshape(-1))


def test_of_a_model_at_every_position_whose_next_word_is_a_form() -> None:
    body = BodySettings(
        option="llama", width=8, layers=1, heads=2, feedforward_width=8, maximum_length=8,
        causal=True,
    )  # fmt: skip
    model = LanguageModel(CouplingSettings(option="untied", tied=False, std=0.5), body, VOCABULARY)
    model.initialize(0)
    forms, batches = forms_of(LEXICON, VOCABULARY), [batch(0), batch(1)]
    lemma, values = choices(model, batches, forms, torch.device("cpu"))
    expected = []
    for part in batches:
        with torch.no_grad():
            log_p = model(torch.from_numpy(part.ids)).double().log_softmax(-1).numpy()
        for row in range(2):
            for at in range(7):
                target = int(part.ids[row, at + 1])
                if target in FORMS:
                    expected.append(naive(log_p[row, at], target))
    assert len(lemma) == len(expected) > 5
    found = np.array(list(values.values())).T
    assert found == pytest.approx(np.array(expected), abs=1e-5)


def test_frequencies_alone() -> None:
    counts = np.zeros(VOCABULARY)
    counts[[5, 6, 10]] = 3, 1, 7
    forms, batches = forms_of(LEXICON, VOCABULARY), [batch(2)]
    lemma, values = unigram_choices(counts, batches, forms)
    targets = [x for x in batches[0].targets if x in FORMS]
    p = (counts + 1) / (counts + 1).sum()
    assert len(lemma) == len(targets)
    for i, target in enumerate(targets):
        found = [float(x[i]) for x in values.values()]
        assert found == pytest.approx(naive(np.log(p), int(target)))


def test_means_by_lemma() -> None:
    values = {"accuracy": np.array([1.0, 0.0, 1.0]), "log_odds": np.array([1.0, 3.0, 5.0])}
    assert by_lemma(np.array([4, 4, 2]), values) == {
        2: {"positions": 1, "accuracy": 1.0, "log_odds": 5.0},
        4: {"positions": 2, "accuracy": 0.5, "log_odds": 2.0},
    }


def test_text_without_forms_has_no_choices() -> None:
    part = Batch(np.full((1, 3), 4), np.array([0, 1]), np.array([4, 4]))
    lemma, values = choices(
        LanguageModel(
            CouplingSettings(option="t", tied=True),
            BodySettings(option="b", width=8, layers=1, heads=2, feedforward_width=8,
                         maximum_length=8, causal=True),
            VOCABULARY,
        ).initialize(0),
        [part], forms_of(LEXICON, VOCABULARY), torch.device("cpu"),
    )  # fmt: skip
    assert len(lemma) == 0 and set(values) == {"log_odds", "accuracy", "form_loss", "lemma_loss"}
