"""What is minimized equals its formula, in value and in gradient, whatever the chunk."""

import pytest
import torch
import torch.nn.functional as F

from tiebench.errors import SettingsError
from tiebench.model import loss
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate
from tiebench.training import augmented
from tiebench.training.augmented import augmented_losses
from tiebench.training.objective import objective, penalty
from tiebench.training.settings import AugmentedSettings, TrainingSettings

BODY = BodySettings(option="t", kind="identity", width=6)
TRAINING = dict(
    objective="causal", steps=100, batch_size=2, sequence_length=8, sampling_exponent=0.5,
    learning_rate=0.1, warmup_steps=10, validate_every=10, validation_windows=4,
)  # fmt: skip
LINEAR = {"kind": "linear", "initialization": "orthogonal"}


def made(coupling, **training):
    """A model, settings, states and targets."""
    model = LanguageModel(CouplingSettings(option="t", **coupling), BODY, 20).initialize(0)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    states, targets = torch.randn(7, 6, requires_grad=True), torch.randint(20, (7,))
    settings = TrainingSettings(**TRAINING, **training)
    return model, settings, states, targets


def added(coupling, share=1.0, **training):
    """A model, and what is added to its loss for a share of the predictions."""
    model, settings, states, targets = made(coupling, **training)
    found = penalty(model.coupling, settings, share)
    loss, minimized = objective(model, settings, states, targets, round(7 / share), share)
    torch.testing.assert_close(loss, model.loss_of(states, targets) / round(7 / share))
    torch.testing.assert_close(minimized, loss if found is None else loss + found)
    return model, found


def test_nothing_is_added_by_default():
    assert added({"tied": True})[1] is None


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_distance_of_two_tables(share):
    model, found = added({"tied": False}, share, tie_penalty=0.3)
    first, second = model.coupling.input_table, model.coupling.output_table
    expected = share * 0.3 * torch.linalg.matrix_norm(first - second) ** 2
    torch.testing.assert_close(found, expected)
    gradients = torch.autograd.grad(found, (first, second))
    torch.testing.assert_close(gradients[0], share * 0.6 * (first - second))
    torch.testing.assert_close(gradients[1], -gradients[0])


def test_the_size_of_trained_maps_alone():
    frozen = {**LINEAR, "bias": False, "trained": False}
    coupling = {"tied": True, "transform": [LINEAR, {"kind": "gelu"}, frozen]}
    model, found = added(coupling, projection_penalty=0.5)
    first, _, last = model.coupling.transform
    torch.testing.assert_close(found, 0.5 * torch.linalg.matrix_norm(first.weight) ** 2)
    found.backward()
    torch.testing.assert_close(first.weight.grad, first.weight)
    assert first.bias.grad is None and last.weight.grad is None


@pytest.mark.parametrize("products", ["torch", "onednn"])
@pytest.mark.parametrize(("chunk", "part"), [(1, 1), (300, 10**6), (10**6, 60), (10**6, 10**6)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("plain", [0.0, 0.7])
def test_the_augmented_loss(monkeypatch, chunk, part, biased, products, plain):
    monkeypatch.setattr(loss, "CHUNK_ELEMENTS", chunk)
    monkeypatch.setattr(augmented, "PART_ELEMENTS", part)
    monkeypatch.setenv("TIEBENCH_PRODUCTS", products)
    torch.manual_seed(0)
    states = torch.randn(11, 5, requires_grad=True)
    table = torch.randn(20, 5, requires_grad=True)
    similar = torch.randn(20, 3)
    bias = torch.randn(20, requires_grad=True) if biased else None
    targets = torch.randint(6, (11,))  # some occur again
    leaves = [x for x in (states, table, bias) if x is not None]
    given = (states, table, bias, similar, targets, 2.5, plain, 3.0)
    ours, cross_entropy, divergence = augmented_losses(*given)
    logits = F.linear(states, table, bias)
    wanted = F.softmax(similar[targets] @ similar.T / 2.5, dim=1)
    apart = F.kl_div(F.log_softmax(logits / 2.5, dim=1), wanted, reduction="sum")
    hard = F.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(cross_entropy, hard.detach())
    torch.testing.assert_close(divergence, apart.detach())
    peer = plain * hard + 3.0 * apart
    torch.testing.assert_close(ours, peer)
    for mine, theirs in zip(
        torch.autograd.grad(2 * ours, leaves), torch.autograd.grad(2 * peer, leaves), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        assert all(map(torch.equal, augmented_losses(*given), (ours, cross_entropy, divergence)))


def test_no_predictions_have_no_gradient():
    states, table = torch.zeros(0, 3, requires_grad=True), torch.randn(400, 3, requires_grad=True)
    none = torch.zeros(0, dtype=torch.int64)
    weighted, *_ = augmented_losses(states, table, None, torch.randn(400, 3), none, 2.0)
    weighted.backward()
    assert float(weighted.detach()) == 0 and not table.grad.any()


@pytest.mark.parametrize("operations", [[], [{"kind": "low_rank_addition", "rank": 2}]])
def test_targets_are_those_of_the_input_side_and_constant(operations):
    coupling = {"tied": True, "input_operations": operations}
    soft = {"weight": 0.7, "temperature": 3.0}
    model, settings, states, targets = made(coupling, augmented=soft)
    plain, found = objective(model, settings, states, targets, 14, 0.5)
    similar = model.coupling.input_matrix().detach()
    table, bias = model.coupling.output_table, model.coupling.bias
    logits = F.linear(states, table, bias)
    predicted = F.log_softmax(logits / 3.0, dim=1)
    wanted = F.softmax(similar[targets] @ similar.T / 3.0, dim=1)
    hard = F.cross_entropy(logits, targets) / 2
    expected = hard + 0.7 * F.kl_div(predicted, wanted, reduction="batchmean") / 2
    torch.testing.assert_close(plain, hard.detach())
    torch.testing.assert_close(found, expected)
    leaves = (states, table, bias)
    for mine, theirs in zip(
        torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_the_augmented_loss_leaves_the_rest_to_the_cross_entropy(share):
    """(1 - beta) J + beta tau^2 |V| J_aug, with targets from rows of length 1."""
    coupling = {"tied": False, "bias": False, "input_operations": [{"kind": "unit_rows"}]}
    soft = {"share": share, "temperature": 3.0}
    model, settings, states, targets = made(coupling, augmented=soft)
    plain, ours = objective(model, settings, states, targets, 7, 1.0)
    rows = F.normalize(model.coupling.input_table.detach(), dim=1)
    logits = F.linear(states, model.coupling.output_table)
    wanted = F.softmax(rows[targets] @ rows.T / 3.0, dim=1)
    divergence = F.kl_div(F.log_softmax(logits / 3.0, dim=1), wanted, reduction="batchmean")
    peer = (1 - share) * F.cross_entropy(logits, targets) + share * 9.0 * 20 * divergence
    torch.testing.assert_close(ours, peer)
    leaves = (states, model.coupling.output_table)
    for mine, theirs in zip(
        torch.autograd.grad(ours, leaves), torch.autograd.grad(peer, leaves), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(model.loss_beside(states, targets), 7 * plain)


def test_at_high_temperature_a_share_is_the_squared_distance_of_centred_logits():
    """tau^2 |V| J_aug goes to half |Wh - L u|^2 over centred logits (Inan et al., section 3)."""
    coupling = {"tied": False, "bias": False, "input_operations": [{"kind": "unit_rows"}]}
    soft = {"share": 1.0, "temperature": 300.0}
    model, settings, states, targets = made(coupling, augmented=soft)
    _, found = objective(model, settings, states, targets, 7, 1.0)
    rows = F.normalize(model.coupling.input_table, dim=1)
    apart = F.linear(states, model.coupling.output_table) - rows[targets] @ rows.T
    apart = apart - apart.mean(dim=1, keepdim=True)
    assert float(found.detach()) == pytest.approx(
        float(0.5 * apart.detach().square().sum() / 7), rel=0.02
    )


@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "is refused;"), ({"weight": 1.0, "share": 0.5}, ": weight 1.0, share 0.5;")],
)
def test_either_a_weight_or_a_share(given, found):
    with pytest.raises(SettingsError, match=f"{found} expected either weight or share"):
        validate(AugmentedSettings, {"temperature": 2.0, **given}, "augmented")
