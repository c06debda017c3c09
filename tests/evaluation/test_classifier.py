"""What is fine-tuned, and that a string's logits are its own."""

import numpy as np
import pytest
import torch

from tests.couplings import COUPLINGS, composed_coupling
from tiebench.corpus.tokenizer import OWN_ENDS
from tiebench.evaluation import classifier as module
from tiebench.evaluation.classifier import Classifier, score_labels
from tiebench.evaluation.encode import frame
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.training.optimizer import group_parameters

CPU = torch.device("cpu")


def body(**changed):
    values = dict(
        option="t", width=16, layers=2, heads=2, feedforward_width=32, maximum_length=20
    )  # fmt: skip
    return BodySettings(**{**values, **changed})


@pytest.mark.parametrize("path", COUPLINGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_what_is_fine_tuned_is_what_the_model_counts(path, positions):
    model = LanguageModel(composed_coupling(path), body(positions=positions), 30).initialize(0)
    classifier = Classifier(model, 3, 0)
    counts = classifier.parameter_counts()
    assert counts["encoder"] == model.parameter_counts()["fine_tuning"]
    assert counts["total"] == counts["encoder"] + 3 * 16 + 3
    assert counts["total"] == sum(p.numel() for p in classifier.parameters())
    classifier(frame([np.array([5, 6]), np.array([7])], OWN_ENDS)).sum().backward()
    assert all(p.grad is not None for p in classifier.parameters())  # each of them takes part


def make_classifier(seed=0, **changed):
    coupling = CouplingSettings(option="t", tied=False, input_width=8)
    return Classifier(LanguageModel(coupling, body(**changed), 30).initialize(1), 4, seed)


def test_only_matrices_decay_as_in_pretraining():
    classifier = make_classifier(positions="learned")
    names = {id(p): name for name, p in classifier.named_parameters()}
    groups = {k: {names[id(p)] for p in held} for k, held in group_parameters(classifier).items()}
    assert groups["tables"] == {"coupling.input_table"}
    assert {"classifier.weight", "coupling.input_map.weight"} <= groups["matrices"]
    assert {"body.position_table", "classifier.bias"} <= groups["rest"]


def test_the_model_is_copied_and_the_layer_is_drawn_from_seed_and_name():
    model = LanguageModel(CouplingSettings(option="t", tied=True), body(), 30).initialize(0)
    before = model.coupling.input_table.clone()
    torch.manual_seed(1)
    first = Classifier(model, 4, 7)
    torch.manual_seed(2)
    second, other = Classifier(model, 4, 7), Classifier(model, 4, 8)
    assert torch.equal(first.classifier.weight, second.classifier.weight)
    assert not torch.equal(first.classifier.weight, other.classifier.weight)
    with torch.no_grad():
        first.coupling.input_table.zero_()
    assert torch.equal(model.coupling.input_table, before)
    assert torch.equal(second.coupling.input_table, before)


@pytest.mark.parametrize("changed", [{}, {"causal": True}, {"positions": "rotary"}])
def test_logits_do_not_depend_on_batch_padding_or_order(changed, monkeypatch):
    classifier = make_classifier(**changed)
    rng = np.random.default_rng(0)
    ids = [rng.integers(4, 30, size) for size in (3, 0, 18, 1, 7, 7, 0, 12)]
    together = score_labels(classifier, ids, CPU)
    with torch.no_grad():
        padded = classifier(frame(ids, OWN_ENDS)).numpy()
    monkeypatch.setattr(module, "TOKENS_PER_BATCH", 1)
    alone = score_labels(classifier, ids[::-1], CPU)[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(together, padded, atol=1e-5)
    margin = np.diff(np.sort(together, axis=1)[:, -2:], axis=1)[:, 0]
    clear = margin > 1e-4
    assert clear.any()
    assert (together.argmax(1) == alone.argmax(1))[clear].all()


def test_a_string_is_the_mean_of_its_tokens_without_the_special_ones():
    classifier = make_classifier()
    ids = np.array([5, 9, 12])
    coupling = classifier.coupling
    looked_up = coupling.lookup(torch.tensor([[1, *ids, 2]]))
    last = classifier.body(looked_up, input_map=coupling.input_map)[-1]
    wanted = classifier.classifier(last[0, 1:-1].mean(0))
    torch.testing.assert_close(classifier(frame([ids], OWN_ENDS))[0], wanted)
    empty = classifier(frame([np.array([], dtype=np.int64)], OWN_ENDS))[0]
    torch.testing.assert_close(empty, classifier.classifier.bias)
