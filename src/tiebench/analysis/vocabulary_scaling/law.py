"""Optimal vocabulary parameters by the three approaches of Tao et al. 2024.

N_nv are the parameters outside the vocabulary matrices, N_v = V d those of ONE matrix of V tokens
and width d, C the training FLOPs, H the training characters and D the training tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench.analysis.shapes import read_data
from tiebench.errors import DataError

PUBLISHED = Path(__file__).with_name("published.yaml")

MATRIX_RANGE = (1.0, 1e18)
"""Vocabulary parameters between which an optimum is looked for."""
HUBER = 0.001
"""Where the loss of the fit of gamma turns linear, as in the released code."""


@dataclass(frozen=True)
class Law:
    """The released fits: each method is one of their formulas, with its unit conventions."""

    tokens_per_character: Mapping[str, float]
    isoflops: Mapping[str, float]
    derivative: Mapping[str, float]
    loss_fit: Mapping[str, float]

    def tokens(self, vocabulary: float) -> float:
        """Tokens per character, f(V) = a ln² V + b ln V + c, constant above the cap."""
        fit = self.tokens_per_character
        log = math.log(min(vocabulary, fit["cap"]))
        return fit["square"] * log**2 + fit["linear"] * log + fit["constant"]

    def flops(
        self,
        non_vocabulary: float,
        vocabulary: float,
        width: float,
        characters: float,
        matrices: float = 1,
    ) -> float:
        """Training compute C = 6 (N_nv + m V d) H f(V), with `matrices` m = 1."""
        held = non_vocabulary + matrices * vocabulary * width
        return 6 * held * characters * self.tokens(vocabulary)

    def budget(self, non_vocabulary: float) -> float:
        """The FLOPs for which N_nv are optimal, from N_nv = k C^.5 (approach 1)."""
        return (non_vocabulary / math.exp(self.isoflops["log_non_vocabulary"])) ** 2

    def characters(self, flops: float) -> float:
        """Optimal training characters, H = k C^.5 (approach 1)."""
        return self.isoflops["characters"] * math.sqrt(flops)

    def by_isoflops(self, flops: float) -> float:
        """Approach 1: vocabulary parameters N_v = k C^exponent."""
        scale = math.exp(self.isoflops["log_vocabulary"])
        return scale * flops ** self.isoflops["vocabulary_exponent"]

    def by_derivative(self, non_vocabulary: float, gamma: float | None = None) -> float:
        """Approach 2: N_v grows from a measured anchor as N_nv^gamma; `gamma` None is as released.

        The budget does not enter: it goes with N_nv.
        """
        anchor = self.derivative
        power = anchor["gamma"] if gamma is None else gamma
        return (
            anchor["vocabulary_parameters"] * (non_vocabulary / anchor["non_vocabulary"]) ** power
        )

    def by_loss(
        self,
        non_vocabulary: float,
        flops: float,
        *,
        held: float = 1,
        used: float = 1,
        counted: float = 1,
    ) -> float:
        """Approach 3: the N_v that minimizes `loss` at a budget.

        Args:
            non_vocabulary: N_nv.
            flops: C, which leaves D = C / 6 (N_nv + used N_v) tokens.
            held, used, counted: as in `loss`.

        Raises:
            DataError: no minimum between MATRIX_RANGE.
        """
        fit = self.loss_fit

        def slope(log: float) -> float:
            # of the loss by ln N_v: both terms rise with N_v, so that the root is the one minimum
            matrix = math.exp(log)
            body = non_vocabulary + used * matrix
            table = fit["a2"] * (held / counted * matrix / 1e6) ** -fit["alpha"]
            data = fit["b"] * (flops / (6 * body) / 1e9) ** -fit["beta"]
            return fit["beta"] * data * used * matrix / body - fit["alpha"] * table

        return math.exp(_root(slope, *map(math.log, MATRIX_RANGE)))

    def loss(
        self,
        non_vocabulary: float,
        matrix: float,
        flops: float,
        *,
        held: float = 1,
        used: float = 1,
        counted: float = 1,
    ) -> float:
        """The fitted loss, nats below the unigram model's (approach 3).

        Args:
            non_vocabulary: N_nv.
            matrix: parameters of one vocabulary matrix, N_v.
            flops: C, spent on D = C / 6 (N_nv + used N_v) tokens.
            held: matrices that a model holds.
            used: matrices that a token is multiplied with; a look-up is none.
            counted: matrices that the fit's models held for each that it counted.
        """
        fit = self.loss_fit
        tokens = flops / (6 * (non_vocabulary + used * matrix))
        return (
            -fit["e"]
            + fit["a1"] * (non_vocabulary / 1e6) ** -fit["beta"]
            + fit["a2"] * (held / counted * matrix / 1e6) ** -fit["alpha"]
            + fit["b"] * (tokens / 1e9) ** -fit["beta"]
        )

    def least_compute(self, non_vocabulary: float, width: float, matrices: float = 1) -> float:
        """The vocabulary at which fixed characters cost least FLOPs, dC/dV = 0 (approach 2).

        At the cap of f(V) when compute still falls there: beyond it, it only rises.

        Raises:
            DataError: compute rises with every vocabulary of at least 2 tokens.
        """
        fit = self.tokens_per_character

        def slope(log: float) -> float:
            vocabulary = math.exp(log)
            rise = (2 * fit["square"] * log + fit["linear"]) / vocabulary
            body = non_vocabulary + matrices * vocabulary * width
            return matrices * width * self.tokens(vocabulary) + body * rise

        cap = math.log(fit["cap"])
        return fit["cap"] if slope(cap) < 0 else math.exp(_root(slope, math.log(2), cap))

    def fitted_gamma(self, models: Sequence[tuple[float, float]], matrices: float = 1) -> float:
        """The exponent of `least_compute` against size, which approach 2 takes for N_v.

        Args:
            models: (N_nv, width), the anchor first; powers are fitted through it with a Huber loss
                on logarithms, as in the released code.
            matrices: as in `flops`.
        """
        from scipy.optimize import minimize_scalar
        from scipy.special import huber

        first, *rest = [(n, d * self.least_compute(n, d, matrices)) for n, d in models]
        points = [(math.log(n / first[0]), math.log(v / first[1])) for n, v in rest]

        def misfit(gamma: float) -> float:
            return float(sum(huber(HUBER, gamma * x - y) for x, y in points))

        found = minimize_scalar(misfit, bounds=(0, 1), method="bounded", options={"xatol": 1e-10})
        return float(found.x)

    def vocabulary_parameters(
        self, approach: str, non_vocabulary: float, flops: float | None = None
    ) -> float:
        """N_v by an approach, at a budget; None is the one for which N_nv are optimal.

        Raises:
            DataError: an unknown approach.
        """
        budget = self.budget(non_vocabulary) if flops is None else flops
        if approach == "isoflops":
            return self.by_isoflops(budget)
        if approach == "derivative":
            return self.by_derivative(non_vocabulary)
        if approach == "loss_fit":
            return self.by_loss(non_vocabulary, budget)
        raise DataError(
            PUBLISHED.name,
            found=f"approach {approach!r}",
            expected="isoflops, derivative or loss_fit",
            mend="name one of these",
        )

    @property
    def limits(self) -> dict[str, float]:
        """By approach, the exponent of N_v against N_nv as N_nv grows without bound."""
        return {
            "isoflops": 2 * self.isoflops["vocabulary_exponent"],
            "derivative": self.derivative["gamma"],
            # both terms of the slope are powers once N_v is small beside N_nv, and C grows as N_nv²
            "loss_fit": (1 + self.loss_fit["beta"]) / (1 + self.loss_fit["alpha"]),
        }


def published() -> Any:
    """What is printed and released, as plain values."""
    return read_data(PUBLISHED)


def released_law() -> Law:
    """The law with the coefficients as released."""
    return Law(**published()["fits"])


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    try:
        return float(brentq(slope, low, high, xtol=1e-13))
    except ValueError:
        raise DataError(
            PUBLISHED.name,
            found=f"no minimum between {math.exp(low):g} and {math.exp(high):g}",
            expected="a law with one",
            mend="check the coefficients, the size and the budget",
        ) from None
