"""Permutations of dimensions as index arrays (no torch)."""

from __future__ import annotations

import numpy as np


def half_swap(width: int) -> np.ndarray:
    """`[width]`: where each dimension of the result comes from, halves swapped."""
    return np.roll(np.arange(width), width // 2)


def channel_shuffle(width: int, groups: int) -> np.ndarray:
    """`[width]`: as above, for dimensions read as `[groups, width / groups]` and transposed."""
    return np.arange(width).reshape(groups, -1).T.reshape(-1)


def fixed_points(source: np.ndarray) -> int:
    """Dimensions that stay in place."""
    return int(np.sum(source == np.arange(len(source))))


def swapped(source: np.ndarray) -> int:
    """Dimensions that change places in pairs."""
    back = source[source] == np.arange(len(source))
    return int(np.sum(back)) - fixed_points(source)
