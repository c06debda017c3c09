"""The theory of the initial loss against arithmetic, simulation and the published derivations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.reporting.initial_loss_artefacts import coupling
from tiebench.analysis.initial_loss import (
    CUT,
    Logits,
    first_order,
    fourth_moment,
    logits_of,
    norm_moments,
    product_moments,
    second_order,
)
from tiebench.analysis.permutations import channel_shuffle, fixed_points, half_swap, swapped
from tiebench.model.coupling import Permuted
from tiebench.model.initialization import CUT as CUT_OF_THE_MODEL
from tiebench.model.initialization import draw

N = 32_000
SHUFFLE = [{"kind": "channel_shuffle", "groups": 4}]


def first(width: int, vocabulary: int = N, **changes: object) -> float:
    logits = logits_of(coupling(**changes), vocabulary, width)
    assert logits is not None
    return first_order(logits, vocabulary)


def second(width: int, vocabulary: int = N, epsilon: float = 0.0, **changes: object) -> float:
    logits = logits_of(coupling(**changes), vocabulary, width, epsilon)
    assert logits is not None
    return second_order(logits, vocabulary)


@pytest.mark.parametrize(
    ("width", "fixed", "by_width"),
    [
        (128, 10.374, 11.643), (256, 10.379, 16.004), (512, 11.002, 22.627), (768, 15.367, 27.71),
        (1024, 20.48, 32.0), (1536, 30.72, 39.19), (2048, 40.96, 45.25), (3072, 61.44, 55.43),
        (4096, 81.92, 64.0), (5120, 102.4, 71.55), (8192, 163.84, 90.51),
    ],
)  # fmt: skip
def test_first_order_is_what_follows_from_the_formula(
    width: int, fixed: float, by_width: float
) -> None:
    assert first(width, std=0.02) == pytest.approx(fixed, abs=0.006)
    assert first(width) == pytest.approx(by_width, abs=0.006)


@pytest.mark.parametrize("width", [128, 1024, 8192])
def test_rescaled_logits_start_at_ln_n_unless_the_std_is_1(width: int) -> None:
    assert 10.3734 < first(width, logit_scale="inverse_sqrt_width") < 10.3738
    scaled = first(width, std=1.0, logit_scale="inverse_sqrt_width")
    assert scaled == pytest.approx(first(width))
    assert scaled > 11.6


@pytest.mark.parametrize("vocabulary", [1024, N])
def test_log_vocabulary_starts_at_ln_of_2n_minus_1(vocabulary: int) -> None:
    loss = first(512, vocabulary, std="log_vocabulary_over_width")
    assert loss == pytest.approx(math.log(2 * vocabulary - 1), abs=1e-9)


@pytest.mark.parametrize(
    ("width", "std", "published"),
    [(512, "inverse_sqrt_width", 10.87), (1024, 0.02, 10.58), (4096, 0.02, 11.19)],
)
def test_two_tables_start_above_ln_n_by_half_the_variance(
    width: int, std: object, published: float
) -> None:
    assert second(width, std=std, tied=False) == pytest.approx(published, abs=0.005)
    assert first(width, std=std, tied=False) == pytest.approx(math.log(N))


def test_nothing_overflows_at_large_widths() -> None:
    assert second(65_536, std=1.0) == pytest.approx(65_536, rel=1e-6)


def test_the_loss_of_one_table_grows_with_width_and_std() -> None:
    by_width = [second(width) for width in range(64, 4096, 64)]
    by_std = [second(512, std=std / 100) for std in range(1, 30)]
    assert by_width == sorted(by_width)
    assert by_std == sorted(by_std)


def simulated(width: int, std: float, vocabulary: int, source: np.ndarray | None) -> float:
    """Mean loss over made-up tables, in numpy alone."""
    losses = []
    for seed in range(40):
        rng = np.random.default_rng([seed, width])
        table = rng.normal(0, std, (vocabulary, width))
        rows = table[:64]
        states = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True))
        if source is not None:
            states = states[:, source]
        losses.append(np.log(np.exp(states @ table.T).sum(axis=1)).mean())
    return float(np.mean(losses))


def test_second_order_is_near_a_simulation_where_both_terms_count() -> None:
    """At d sigma near ln n, where the spread of the own logit counts too."""
    found, width, std = simulated(64, 0.11, 1000, None), 64, 0.11
    assert second(width, 1000, std=std) == pytest.approx(found, rel=0.004)
    assert abs(first(width, 1000, std=std) / found - 1) > 0.02


@pytest.mark.parametrize(
    ("transform", "source"),
    [([{"kind": "half_swap"}], half_swap(64)), (SHUFFLE, channel_shuffle(64, 4))],
)
def test_second_order_counts_what_a_permutation_leaves(
    transform: list[dict[str, object]], source: np.ndarray
) -> None:
    found = simulated(64, 0.2, 1000, source)
    assert second(64, 1000, std=0.2, transform=transform) == pytest.approx(found, rel=0.01)


@pytest.mark.parametrize("width", [64, 96, 128])
@pytest.mark.parametrize("groups", [None, 2, 4, 8])
def test_permutations_are_those_of_the_model(width: int, groups: int | None) -> None:
    source = half_swap(width) if groups is None else channel_shuffle(width, groups)
    shown = Permuted(groups)(torch.arange(width))
    assert shown.tolist() == source.tolist()
    assert fixed_points(source) == sum(source == np.arange(width))
    if groups is None:
        assert (fixed_points(source), swapped(source)) == (0, width)
    else:
        assert {0, width - 1} <= set(np.flatnonzero(source == np.arange(width)))
        assert fixed_points(source) == math.gcd(groups - 1, width - 1) + 1


def test_the_diagonal_of_a_shuffle_is_its_fixed_points() -> None:
    logits = logits_of(coupling(std=0.02, transform=SHUFFLE), N, 128)
    assert logits is not None
    fixed = fixed_points(channel_shuffle(128, 4))
    assert logits.own_mean == pytest.approx(fixed / 128 * 128 * 0.02)
    assert logits.own_variance == pytest.approx(128 * 0.02**2, rel=0.1)


ORTHOGONAL = {"kind": "linear", "bias": False, "initialization": "orthogonal"}
IDENTITY = {"kind": "linear", "bias": False, "initialization": "identity"}


def test_what_stands_for_one_table_and_what_for_two() -> None:
    one, two = second(512), second(512, tied=False)
    assert second(512, transform=[IDENTITY]) == one
    assert second(512, tied=False, shared_initialization=True) == one
    assert second(512, transform=[ORTHOGONAL]) == pytest.approx(two)
    assert second(512, transform=[{**ORTHOGONAL, "trained": False}]) == pytest.approx(two)
    assert second(512, transform=[{"kind": "half_swap"}]) == pytest.approx(two, abs=0.001)


@pytest.mark.parametrize(
    "changes",
    [
        {"transform": [{"kind": "linear"}]},
        {"transform": [{"kind": "gelu"}]},
        {"transform": [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]},
        {"tied": False, "input_width": 32},
    ],
)
def test_no_theory_for_other_heads_and_widths(changes: dict[str, object]) -> None:
    assert logits_of(coupling(**changes), N, 64) is None


def test_the_epsilon_of_the_norm_shrinks_small_rows() -> None:
    assert second(4096, std=0.02, epsilon=4e-4) == pytest.approx(81.92 / math.sqrt(2), abs=0.01)
    small = second(4096, std="log_vocabulary_over_width", epsilon=1e-5)
    assert small < second(4096, std="log_vocabulary_over_width") - 0.3


def test_a_large_variance_is_decided_by_the_largest_logit() -> None:
    rng = np.random.default_rng(0)
    for variance, near in ((2.0, 0.001), (100.0, 0.12)):
        drawn = rng.normal(0, math.sqrt(variance), (100, 20_000))
        found = float(np.logaddexp.reduce(drawn, axis=1).mean())
        theory = second_order(Logits(0.0, variance, variance), 20_000)
        assert theory == pytest.approx(found, rel=near)
    assert theory < math.log(20_000) + 100 / 2 - 10


@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
def test_moments_are_those_of_what_the_model_draws(distribution: str) -> None:
    width, sigma = 8, 0.3
    shape = torch.Size((200_000, width))
    rows = draw(shape, sigma, distribution, torch.Generator().manual_seed(0)).double().numpy()
    assert (rows**4).mean() / sigma**4 == pytest.approx(fourth_moment(distribution), rel=0.01)
    norms = (rows**2).sum(axis=1)
    assert (norms.mean(), norms.var()) == pytest.approx(
        norm_moments(width, sigma, distribution), rel=0.02
    )
    products = (rows[::2] * rows[1::2]).sum(axis=1)
    mean, variance = product_moments(width, sigma)
    assert products.mean() == pytest.approx(mean, abs=0.005)
    assert products.var() == pytest.approx(variance, rel=0.02)
    assert CUT == CUT_OF_THE_MODEL


def test_the_inner_product_varies_by_1_over_d_not_its_cube() -> None:
    assert product_moments(100, 0.1) == (0.0, pytest.approx(1 / 100))
