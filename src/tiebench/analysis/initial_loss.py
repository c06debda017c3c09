"""The loss of a 2-gram model at initialization, by theory (no torch).

Su 2023 ("Revisiting shared output embeddings"): rows of the table `[n, d]` are independent with
standard deviation sigma, the last state is the normalized row of the input, w_i / sigma, and the
target is another token. The logit of the input itself is then about d sigma where the table is
shared, and the loss log(e^(d sigma) + n - 1). That takes all other logits as 0 and the own one as
fixed; the second order counts their variances, d sigma^2 and about d sigma^2 / 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiebench.analysis.permutations import channel_shuffle, fixed_points, half_swap, swapped
from tiebench.model.coupling_settings import CUT
from tiebench.model.settings import ChannelShuffle, CouplingSettings, HalfSwap, Linear

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
"""Gauss-Hermite quadrature of a unit normal; the weights sum to sqrt(2 pi)."""


@dataclass(frozen=True)
class Logits:
    """Moments of a token's logits: of the input token's own, and of every other's."""

    own_mean: float
    own_variance: float
    other_variance: float


def logits_of(
    coupling: CouplingSettings, vocabulary: int, width: int, epsilon: float = 0.0
) -> Logits | None:
    """Moments of the logits on a body that is the identity with a norm; None without a theory.

    Theory covers a head that is nothing, a permutation, or a linear map that starts as the
    identity or orthogonal; operations on tables start as the identity. The norm leaves a row
    sqrt(d) long, so that the product of a whole row with itself varies by its length alone, a
    quarter of what |w|^2 / sigma does.

    Args:
        epsilon: of the norm; it shrinks rows whose variance is not far above it.
    """
    if len(coupling.transform) > 1 or coupling.widths(width) != (width, width):
        return None
    sigma = coupling.table_std(vocabulary, width)
    scale = coupling.logit_factor(width, vocabulary)
    scale /= math.sqrt(1 + epsilon / (sigma * coupling.input_factor(width)) ** 2)
    shared = coupling.tied or coupling.shared_initialization
    head = coupling.transform[0] if coupling.transform else None
    kept, pairs = width, 0
    """Dimensions that meet themselves, and that meet in pairs: a product that counts twice."""
    if isinstance(head, HalfSwap | ChannelShuffle):
        source = (
            half_swap(width) if isinstance(head, HalfSwap) else channel_shuffle(width, head.groups)
        )
        kept, pairs = fixed_points(source), swapped(source)
    elif isinstance(head, Linear):
        if head.initialization == "normal":
            return None
        kept = width if head.initialization == "identity" else 0
    elif head is not None:
        return None
    other = width * sigma**2 * scale**2
    if not shared:
        return Logits(0.0, other, other)
    whole = kept * (1 - 3 / 4 * kept / width) * (fourth_moment(coupling.distribution) - 1)
    return Logits(scale * kept * sigma, (width - kept + pairs + whole) / width * other, other)


def first_order(logits: Logits, vocabulary: int) -> float:
    """log(e^m + n - 1) for the input's own mean logit m, in nats."""
    return float(np.logaddexp(logits.own_mean, math.log(vocabulary - 1)))


def second_order(logits: Logits, vocabulary: int) -> float:
    """The same with the variance of the logits, in nats: the mean over a normal own logit.

    The other terms sum to their mean, e^(variance / 2) each, up to the variance 2 ln(n - 1), from
    where on their largest decides (Derrida 1981, the random-energy model).
    """
    others, variance = math.log(vocabulary - 1), logits.other_variance
    rest = others + variance / 2 if variance <= 2 * others else math.sqrt(2 * others * variance)
    own = logits.own_mean + math.sqrt(logits.own_variance) * NODES
    return float(WEIGHTS @ np.logaddexp(own, rest) / WEIGHTS.sum())


def fourth_moment(distribution: str) -> float:
    """E w^4 / sigma^4 of the initial distributions with standard deviation sigma."""
    if distribution == "uniform":
        return 9 / 5
    if distribution == "truncated_normal":
        density = math.exp(-(CUT**2) / 2) / math.sqrt(2 * math.pi)
        inside = math.erf(CUT / math.sqrt(2))
        second = 1 - 2 * CUT * density / inside
        fourth = 3 * second - 2 * CUT**3 * density / inside
        return fourth / second**2
    return 3.0


def norm_moments(width: int, sigma: float, distribution: str) -> tuple[float, float]:
    """Mean d sigma^2 and variance d (E w^4 - sigma^4) of |w|^2 (Su 2023, equations 1 and 2)."""
    return width * sigma**2, width * (fourth_moment(distribution) - 1) * sigma**4


def product_moments(width: int, sigma: float) -> tuple[float, float]:
    """Mean 0 and variance d sigma^4 of w.v (Su 2023, equations 3 and 4): 1/d at sigma^2 = 1/d."""
    return 0.0, width * sigma**4
