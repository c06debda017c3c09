"""Permutations as index arrays, against the module and by hand."""

import numpy as np
import pytest
import torch

from tiebench.analysis.permutations import channel_shuffle, fixed_points, half_swap, swapped
from tiebench.model.coupling import Permuted

SIZES = [(4, 2), (6, 2), (6, 3), (16, 4), (24, 4), (64, 8)]


@pytest.mark.parametrize(("width", "groups"), SIZES)
def test_they_are_what_the_module_does(width: int, groups: int) -> None:
    states = torch.arange(2.0 * width).view(2, width)
    for module, source in (
        (Permuted(None), half_swap(width)),
        (Permuted(groups), channel_shuffle(width, groups)),
    ):
        assert torch.equal(module(states), states[:, source.tolist()])
        assert sorted(source) == list(range(width))


@pytest.mark.parametrize(("width", "groups"), SIZES)
def test_fixed_points_and_pairs(width: int, groups: int) -> None:
    """A shuffle keeps i where i (groups - 1) is a multiple of width - 1."""
    assert fixed_points(half_swap(width)) == 0 and swapped(half_swap(width)) == width
    assert fixed_points(channel_shuffle(width, groups)) == 1 + np.gcd(groups - 1, width - 1)
    assert np.array_equal(half_swap(width)[half_swap(width)], np.arange(width))


def test_a_square_shuffle_is_a_transposition() -> None:
    source = channel_shuffle(16, 4)
    assert fixed_points(source) == 4 and swapped(source) == 12
