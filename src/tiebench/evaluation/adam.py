"""Adam for the many short trainings of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


class Adam:
    """Adam (Kingma and Ba 2015), with decoupled weight decay (Loshchilov and Hutter 2019).

    Number by number and in plain operations. Torch's own imports the compiler, a second or two in
    each of many short processes, and its fused kernel rounds the last few numbers of a tensor in
    another way, so that parameters set side by side would not be independent of one another.

    Args:
        parameters: what is trained.
        decays: weight decay of each; None for none.
        epsilon: added to the root of the second moment.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        decays: Sequence[float] | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self.parameters, self.betas, self.epsilon = list(parameters), betas, epsilon
        self.decays = list(decays or [0.0] * len(self.parameters))
        self.step = 0
        self.means = [torch.zeros_like(p) for p in self.parameters]
        self.squares = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor], rates: Sequence[float]) -> None:
        """One step, with a learning rate for each parameter."""
        self.step += 1
        first, second = self.betas
        shrunk, spread = 1 - first**self.step, math.sqrt(1 - second**self.step)
        for parameter, gradient, mean, square, decay, rate in zip(
            self.parameters, gradients, self.means, self.squares, self.decays, rates, strict=True
        ):
            mean.lerp_(gradient, 1 - first)
            square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
            if decay:
                parameter.mul_(1 - rate * decay)
            scale = square.sqrt().div_(spread).add_(self.epsilon)
            parameter.addcdiv_(mean, scale, value=-rate / shrunk)
