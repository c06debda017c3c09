"""Our Adam against torch's."""

import pytest
import torch

from tiebench.evaluation.adam import Adam


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_equals_torch(decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=generator) for shape in ((3, 4), (5,))]
    ours = [x.clone() for x in start]
    theirs = [torch.nn.Parameter(x.clone()) for x in start]
    peer = torch.optim.AdamW(theirs, lr=1e-2, betas=(0.9, 0.98), eps=1e-6, weight_decay=decay)
    adam = Adam(ours, [decay] * 2, (0.9, 0.98), 1e-6)
    for step in range(20):
        gradients = [torch.randn(x.shape, generator=generator) for x in start]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient
        rate = 1e-2 * (1 - step / 20)
        peer.param_groups[0]["lr"] = rate
        peer.step()
        adam.update(gradients, [rate] * 2)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b.detach(), rtol=1e-5, atol=1e-6)
