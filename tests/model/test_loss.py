"""The chunked loss equals torch's, in value and in gradient, whatever the chunk."""

import pytest
import torch
import torch.nn.functional as F

from tiebench.model import loss
from tiebench.model import products as made
from tiebench.model.loss import cross_entropy_outcomes, summed_cross_entropy


@pytest.mark.parametrize("products", ["torch", "onednn"])
@pytest.mark.parametrize("elements", [1, 60, 10**6])
@pytest.mark.parametrize("biased", [False, True])
def test_equals_torch(monkeypatch, elements, biased, products):
    monkeypatch.setattr(loss, "CHUNK_ELEMENTS", elements)
    monkeypatch.setenv("TIEBENCH_PRODUCTS", products)
    called = []
    monkeypatch.setattr(
        made, "_onednn", lambda *args, held=made._onednn: called.append(0) or held(*args)
    )
    torch.manual_seed(0)
    states = torch.randn(11, 5, requires_grad=True)
    table = torch.randn(20, 5, requires_grad=True)
    bias = torch.randn(20, requires_grad=True) if biased else None
    targets = torch.randint(20, (11,))
    leaves = [x for x in (states, table, bias) if x is not None]
    ours = summed_cross_entropy(states, table, bias, targets)
    logits = F.linear(states, table, bias)
    peer = F.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(ours, peer)
    for mine, theirs in zip(
        torch.autograd.grad(3 * ours, leaves), torch.autograd.grad(3 * peer, leaves), strict=True
    ):
        torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
    each, correct = cross_entropy_outcomes(states, table, bias, targets)
    torch.testing.assert_close(each, F.cross_entropy(logits, targets, reduction="none").detach())
    assert torch.equal(correct, logits.argmax(1) == targets)
    assert bool(called) == (products == "onednn")


def test_large_logits_stay_finite():
    states, table = torch.tensor([[1e4]]), torch.tensor([[1.0], [-1.0]])
    each, _ = cross_entropy_outcomes(states, table, None, torch.tensor([1]))
    torch.testing.assert_close(each, torch.tensor([2e4]))


def test_onednn_takes_what_torch_takes(monkeypatch):
    """A bias that does not lie in one piece, and types that are torch's."""
    monkeypatch.setenv("TIEBENCH_PRODUCTS", "onednn")
    torch.manual_seed(0)
    x, table, bias = torch.randn(4, 3), torch.randn(6, 3), torch.randn(6, 2)[:, 0]
    torch.testing.assert_close(made.linear(x, table, bias), F.linear(x, table, bias))
    expected = F.linear(x.double(), table.double(), bias.double())
    assert torch.equal(made.linear(x.double(), table.double(), bias.double()), expected)
