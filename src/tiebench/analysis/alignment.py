"""How alike two tables of embeddings are, row by row and as a whole, and how one is shaped.

Rows of both are those of the same tokens. Maps between them are fitted on one half of the tokens
and scored on the other, so that a map cannot fit chance: in-sample, of two tables `[n, d]` of
independent normal rows, the orthogonal map gives a mean cosine of about (8 / 3 pi) sqrt(d / n) and
the linear one sqrt(d / n). What remains by frequency alone is the floor: the same with the rows of
the second table permuted among tokens of about the same frequency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tiebench.analysis.token_frame import Frame

IDENTITY, ORTHOGONAL, LINEAR = "identity", "orthogonal", "linear"
MAPS = (IDENTITY, ORTHOGONAL, LINEAR)
"""What is applied to the first table: nothing, the orthogonal Procrustes map, the least-squares
one. The first two need tables of equal width."""
RANK = 1e-6
"""Singular values below this share of the largest count as zero."""
MEASURES = (*MAPS, "neighbours", "distances", "subspace", "residual")


@dataclass(frozen=True, eq=False)
class Table:
    """One table on the tokens of a frame, with what every comparison of it needs.

    Attributes:
        rows: `[n, width]` float64.
    """

    rows: np.ndarray
    frame: Frame

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.rows.shape[1])

    @cached_property
    def inverses(self) -> tuple[np.ndarray, np.ndarray]:
        """Pseudo-inverses of both halves, `[width, n / 2]`: the linear maps' left factor."""
        half = self.frame.half
        return inverse(self.rows[half]), inverse(self.rows[~half])

    @cached_property
    def directions(self) -> np.ndarray:
        """Orthonormal left singular vectors `[n, rank]`, by falling singular value."""
        values, right = spectrum(self.rows)
        return np.asarray(self.rows @ (right / values))

    @cached_property
    def sampled(self) -> np.ndarray:
        """Unit rows of the sample, `[m, width]`."""
        return unit(self.rows[self.frame.sample])

    @cached_property
    def nearest(self) -> np.ndarray:
        """By sampled token, its nearest others by cosine, `[m, neighbours]` places."""
        return nearest(self.sampled, self.frame.neighbours)

    @cached_property
    def ranks(self) -> np.ndarray:
        """Standardized ranks of the cosine distances in the sample, `[m, m]`, 0 at the diagonal."""
        from scipy.stats import rankdata

        size = len(self.sampled)
        above = np.triu_indices(size, 1)
        ranked = rankdata(-(self.sampled @ self.sampled.T)[above])
        held = np.zeros((size, size))
        held[above] = (ranked - ranked.mean()) / ranked.std()
        return held + held.T


def compare(first: Table, second: Table) -> dict[str, tuple[float, float]]:
    """Each measure that is defined, with its floor (the mean over the frame's permutations).

    `identity`, `orthogonal` and `linear`: mean cosine of the mapped first table's rows with the
    second's, on the half that the map was not fitted on. `neighbours`: share of the nearest
    neighbours in common. `distances`: Spearman's correlation of the cosine distances. `subspace`:
    distance of the leading left singular directions, 0 where they are the same, 1 where orthogonal.
    `residual`: share of the second table, as a norm, outside the columns of the first.
    """
    frame, held = first.frame, {}
    for kind in MAPS:
        if kind == LINEAR or first.width == second.width:
            found = held_out(first, second.rows, kind)
            floors = [held_out(first, second.rows[order], kind) for order in frame.permutations]
            held[kind] = found, float(np.mean(floors))
    orders = frame.sample_permutations
    held["neighbours"] = (
        overlap(first.nearest, second.nearest),
        float(np.mean([overlap(first.nearest, moved(second.nearest, x)) for x in orders])),
    )
    held["distances"] = distances(first, second)
    top = min(frame.subspace, first.directions.shape[1], second.directions.shape[1])
    ours, theirs = first.directions[:, :top], second.directions[:, :top]
    held["subspace"] = (
        subspace_distance(ours, theirs),
        float(np.mean([subspace_distance(ours, theirs[x]) for x in frame.permutations])),
    )
    held["residual"] = (
        residual(first.directions, second.rows),
        float(np.mean([residual(first.directions, second.rows[x]) for x in frame.permutations])),
    )
    return held


def distances(first: Table, second: Table) -> tuple[float, float]:
    """Spearman's correlation of the cosine distances in the sample, with its floor (Press & Wolf
    2017, section 4)."""
    orders = first.frame.sample_permutations
    floors = [_correlation(first.ranks, second.ranks[np.ix_(x, x)]) for x in orders]
    return _correlation(first.ranks, second.ranks), float(np.mean(floors))


def held_out(first: Table, rows: np.ndarray, kind: str) -> float:
    """Mean cosine of mapped rows of the first table with `rows`, fitted on the other half."""
    half, cosines = first.frame.half, []
    for index, fit in enumerate((half, ~half)):
        mapped = first.rows[~fit]
        if kind == ORTHOGONAL:
            mapped = mapped @ orthogonal_map(first.rows[fit], rows[fit])
        elif kind == LINEAR:
            mapped = mapped @ (first.inverses[index] @ rows[fit])
        cosines.append(row_cosines(mapped, rows[~fit]))
    return float(np.concatenate(cosines).mean())


def orthogonal_map(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The orthogonal Q `[d, d]` with the least |source Q - target| (Schoenemann 1966)."""
    left, _, right = np.linalg.svd(source.T @ target)
    return np.asarray(left @ right)


def linear_map(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The least-squares X `[d, e]` with the least |source X - target|."""
    return np.asarray(inverse(source) @ target)


def inverse(rows: np.ndarray) -> np.ndarray:
    """The pseudo-inverse of `[n, width]`, n above the width: `[width, n]`."""
    values, right = spectrum(rows)
    return np.asarray((right / values**2) @ (rows @ right).T)


def spectrum(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Singular values `[rank]`, falling, and right singular vectors `[width, rank]`.

    From the Gram matrix, which for a tall table is many times faster and exact to half the digits:
    a value below RANK of the largest counts as zero.
    """
    squares, vectors = np.linalg.eigh(rows.T @ rows)
    kept = squares > RANK**2 * max(squares[-1], 0.0)
    return np.sqrt(squares[kept][::-1]), vectors[:, kept][:, ::-1]


def row_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Cosine of each row with the one at its place, `[n]`; 0 where a row is zero."""
    return np.asarray((unit(first) * unit(second)).sum(axis=1))


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1; a zero row stays."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0, norms, 1.0))


def chance(kind: str, tokens: int, width: int) -> float:
    """The mean cosine of an in-sample fit on tables of independent normal rows, to leading order.

    Args:
        kind: one of MAPS.
        tokens: rows that are fitted and scored, many more than the width.
        width: of both tables.
    """
    share = math.sqrt(width / tokens)
    return {IDENTITY: 0.0, ORTHOGONAL: 8 / (3 * math.pi) * share, LINEAR: share}[kind]


def nearest(rows: np.ndarray, count: int) -> np.ndarray:
    """By unit row, the places of the most similar others, `[m, count]`, fewer in a small sample."""
    similar = rows @ rows.T
    np.fill_diagonal(similar, -np.inf)
    count = min(count, len(rows) - 1)
    return np.asarray(np.argpartition(similar, -count, axis=1)[:, -count:])


def moved(neighbours: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The neighbours where row i is that of token `order[i]`."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return np.asarray(place[neighbours[order]])


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    """Mean share of neighbours in common, of two `[m, k]`."""
    common = (first[:, :, None] == second[:, None, :]).any(axis=2)
    return float(common.mean())


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    size = len(first)
    return float((first * second).sum() / (size * (size - 1)))


def subspace_distance(first: np.ndarray, second: np.ndarray) -> float:
    """sqrt(1 - mean squared cosine of the principal angles) of two orthonormal bases `[n, k]`."""
    cosines = np.linalg.svd(first.T @ second, compute_uv=False)
    return math.sqrt(max(0.0, 1.0 - float((cosines**2).mean())))


def residual(directions: np.ndarray, rows: np.ndarray) -> float:
    """|B - P B| / |B| for the projection P onto the columns of `directions` (Bjoerck & Golub 1973;
    the measure of Inan et al. 2017, section 6)."""
    inside = float((np.asarray(directions.T @ rows) ** 2).sum())
    return math.sqrt(max(0.0, 1.0 - inside / float((rows**2).sum())))


def shape(rows: np.ndarray, counts: np.ndarray) -> dict[str, float]:
    """How a table `[n, width]` is shaped, with tokens that occur `counts` `[n]` times (above 0).

    `norm`: mean length of a row. `norm_spearman`, `norm_slope`: of the length with frequency, as a
    rank correlation, and as the slope of the logarithms. `mean_cosine`: over all pairs of rows.
    `mean_norm`: length of the mean row over the mean length. `participation`: (sum of variances)^2
    over the sum of their squares, along the principal axes; between 1 and the width.
    """
    from scipy.stats import spearmanr

    norms = np.linalg.norm(rows, axis=1)
    logs = np.log(counts)
    total = np.linalg.norm(unit(rows).sum(axis=0))
    size = len(rows)
    centred = rows - rows.mean(axis=0)
    variances = np.linalg.eigvalsh(centred.T @ centred)
    return {
        "norm": float(norms.mean()),
        "norm_spearman": float(spearmanr(norms, logs).statistic),
        "norm_slope": float(np.polyfit(logs, np.log(norms), 1)[0]),
        "mean_cosine": float((total**2 - size) / (size * (size - 1))),
        "mean_norm": float(np.linalg.norm(rows.mean(axis=0)) / norms.mean()),
        "participation": float(variances.sum() ** 2 / (variances**2).sum()),
        "width": float(rows.shape[1]),
    }
