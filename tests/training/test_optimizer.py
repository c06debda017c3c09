"""Groups, multipliers, and the shape of the learning rate."""

import pytest
import torch

from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.training.optimizer import learning_rate, make_optimizer
from tiebench.training.settings import TrainingSettings

BODY = BodySettings(option="t", width=8, layers=1, heads=2, feedforward_width=16, maximum_length=12)
TRAINING = dict(
    objective="causal", steps=100, batch_size=2, sequence_length=8, sampling_exponent=0.5,
    learning_rate=0.1, warmup_steps=10, validate_every=10, validation_windows=4,
)  # fmt: skip


@pytest.mark.parametrize("tied, tables", [(True, 1), (False, 2)])
def test_groups(tied, tables):
    coupling = CouplingSettings(
        option="t", tied=tied, input_width=4, output_width=4, transform=[{"kind": "linear"}]
    )
    model = LanguageModel(coupling, BODY, 20)
    training = TrainingSettings(**TRAINING, table_learning_rate=3.0, weight_decay=0.5)
    groups = {g["scale"]: [] for g in make_optimizer(model, training).param_groups}
    names = {p: n for n, p in model.named_parameters()}
    decayed, scaled = set(), set()
    for group in make_optimizer(model, training).param_groups:
        members = {names[p] for p in group["params"]}
        assert group["weight_decay"] in (0.0, 0.5)
        decayed |= members if group["weight_decay"] else set()
        scaled |= members if group["scale"] == 3.0 else set()
    assert set(groups) == {1.0, 3.0}
    assert len(scaled) == tables and all("table" in n for n in scaled)
    assert all(n.endswith("weight") and "norm" not in n for n in decayed)
    assert "coupling.input_map.weight" in decayed and not any("table" in n for n in decayed)


def test_every_parameter_is_in_one_group():
    model = LanguageModel(CouplingSettings(option="t", tied=False), BODY, 20)
    groups = make_optimizer(model, TrainingSettings(**TRAINING)).param_groups
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


@pytest.mark.parametrize(
    "decay, middle, last",
    [("linear", 0.05, 0.1 / 90), ("cosine", 0.05, 3.0458e-5), ("constant", 0.1, 0.1)],
)
def test_learning_rate(decay, middle, last):
    training = TrainingSettings(**TRAINING, decay=decay)
    assert learning_rate(training, 0) == pytest.approx(0.01)
    assert learning_rate(training, 9) == learning_rate(training, 10) == pytest.approx(0.1)
    assert learning_rate(training, 55) == pytest.approx(middle)
    assert learning_rate(training, 99) == pytest.approx(last, rel=1e-3)


def test_a_row_that_is_in_no_batch_does_not_move_when_untied():
    coupling = CouplingSettings(option="t", tied=False)
    model = LanguageModel(coupling, BODY, 20).initialize(0)
    optimizer = make_optimizer(model, TrainingSettings(**TRAINING, weight_decay=0.5))
    before = [t.detach().clone() for t in (model.coupling.input_table, model.coupling.output_table)]
    ids = torch.tensor([[5, 6, 7]])
    model.summed_loss(ids, torch.tensor([0, 1]), torch.tensor([6, 7])).backward()
    optimizer.step()
    moved = [
        (t != b).any(1)
        for t, b in zip(
            (model.coupling.input_table, model.coupling.output_table), before, strict=True
        )
    ]
    assert moved[0].nonzero().flatten().tolist() == [5, 6, 7]
    assert moved[1].all()
