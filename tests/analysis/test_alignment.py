"""How alike two tables are, on tables whose relation is known."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from scipy.stats import spearmanr
from sklearn.metrics.pairwise import cosine_distances

from tiebench.analysis.alignment import (
    IDENTITY,
    LINEAR,
    MAPS,
    MEASURES,
    ORTHOGONAL,
    Table,
    chance,
    compare,
    inverse,
    linear_map,
    moved,
    nearest,
    orthogonal_map,
    residual,
    row_cosines,
    shape,
    subspace_distance,
    unit,
)
from tiebench.analysis.token_frame import make_frame

TOKENS, WIDTH = 400, 12
COUNTS = np.geomspace(10_000, 1, TOKENS).round().astype(int)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def frame():
    return make_frame(COUNTS, bins=8, permutations=3, sample=200, neighbours=10, subspace=4, seed=0)


def rotation(rng, width=WIDTH):
    return np.linalg.qr(rng.normal(size=(width, width)))[0]


def test_a_rotation_is_found(rng, frame):
    rows = rng.normal(size=(TOKENS, WIDTH))
    held = compare(Table(rows, frame), Table(3 * rows @ rotation(rng), frame))
    assert list(held) == list(MEASURES)
    values = {metric: value for metric, (value, _) in held.items()}
    for metric in (ORTHOGONAL, LINEAR, "neighbours", "distances"):
        assert values[metric] == pytest.approx(1)
    for metric in ("subspace", "residual"):
        assert values[metric] == pytest.approx(0, abs=1e-6)
    assert abs(values[IDENTITY]) < 0.15
    floors = {metric: floor for metric, (_, floor) in held.items()}
    for metric in (*MAPS, "distances"):
        assert abs(floors[metric]) < 0.1
    assert floors["neighbours"] == pytest.approx(10 / 199, abs=0.02)
    assert floors["residual"] == pytest.approx(np.sqrt(1 - WIDTH / TOKENS), abs=0.02)


def test_a_linear_map_is_more_than_a_rotation(rng, frame):
    rows = rng.normal(size=(TOKENS, WIDTH))
    stretched = rows @ np.diag(np.geomspace(1, 100, WIDTH)) @ rotation(rng)
    held = compare(Table(rows, frame), Table(stretched, frame))
    assert held[LINEAR][0] == pytest.approx(1)
    assert held[ORTHOGONAL][0] < 0.9
    assert held["residual"][0] == pytest.approx(0, abs=1e-6)


def test_independent_tables_have_nothing_in_common_on_other_tokens(rng, frame):
    tables = [Table(rng.normal(size=(TOKENS, WIDTH)), frame) for _ in range(2)]
    for metric in (*MAPS, "distances"):
        assert abs(compare(*tables)[metric][0]) < 0.1


def test_of_tables_of_different_widths_the_linear_map_alone_is_defined(rng, frame):
    rows = rng.normal(size=(TOKENS, WIDTH))
    held = compare(Table(rows, frame), Table(rows[:, :5], frame))
    assert not {IDENTITY, ORTHOGONAL} & set(held)
    assert held[LINEAR][0] == pytest.approx(1)
    assert held["residual"][0] == pytest.approx(0, abs=1e-6)


def test_what_frequency_alone_gives_is_in_the_floor(rng, frame):
    """Rows that are the mean of their bin and noise."""
    means = rng.normal(size=(8, WIDTH)), rng.normal(size=(8, WIDTH))
    tables = [
        Table(part[frame.bins] + 0.3 * rng.normal(size=(TOKENS, WIDTH)), frame) for part in means
    ]
    value, floor = compare(*tables)[LINEAR]
    assert value > 0.6
    assert value == pytest.approx(floor, abs=0.03)


@pytest.mark.parametrize(("tokens", "width"), [(5_000, 64), (2_000, 100)])
def test_a_fit_scored_on_its_own_tokens_finds_structure_in_noise(rng, tokens, width):
    first, second = rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width))
    maps = {
        IDENTITY: np.eye(width),
        ORTHOGONAL: orthogonal_map(first, second),
        LINEAR: linear_map(first, second),
    }
    for kind, found in maps.items():
        mean = row_cosines(first @ found, second).mean()
        assert mean == pytest.approx(chance(kind, tokens, width), rel=0.03, abs=0.005)


def test_frames_keep_the_frequencies(frame):
    assert np.all(np.diff(frame.bins) >= 0)
    assert np.bincount(frame.bins).tolist() == [50] * 8
    assert np.bincount(frame.bins[frame.half]).tolist() == [25] * 8
    assert np.bincount(frame.bins[frame.sample]).tolist() == [25] * 8
    for order in frame.permutations:
        assert sorted(order) == list(range(TOKENS))
        assert np.array_equal(frame.bins[order], frame.bins)
        assert not np.array_equal(order, np.arange(TOKENS))
    bins = frame.bins[frame.sample]
    assert all(np.array_equal(bins[x], bins) for x in frame.sample_permutations)


def test_a_frame_is_drawn_from_its_seed_alone(frame):
    values = {"bins": 8, "permutations": 3, "sample": 200, "neighbours": 10, "subspace": 4}
    again, other = (make_frame(COUNTS, seed=seed, **values) for seed in (0, 1))
    assert np.array_equal(frame.half, again.half)
    assert np.array_equal(frame.permutations[1], again.permutations[1])
    assert not np.array_equal(frame.half, other.half)
    assert not np.array_equal(frame.permutations[0], frame.permutations[1])


def test_distances_are_compared_as_spearman_does(rng, frame):
    rows = rng.normal(size=(2, TOKENS, WIDTH))
    rows[1] += rows[0]
    above = np.triu_indices(len(frame.sample), 1)
    ours = [cosine_distances(part[frame.sample])[above] for part in rows]
    held = compare(*(Table(part, frame) for part in rows))
    assert held["distances"][0] == pytest.approx(spearmanr(*ours).statistic)


def test_neighbours_of_moved_rows(rng):
    rows, order = unit(rng.normal(size=(30, 5))), rng.permutation(30)
    found = np.sort(moved(nearest(rows, 4), order))
    assert np.array_equal(found, np.sort(nearest(rows[order], 4)))
    assert np.array_equal(nearest(unit(np.array([[1, 0], [1, 0.1], [0, 1]])), 1)[:2, 0], [1, 0])
    assert nearest(rows[:3], 10).shape == (3, 2)


def test_subspaces_as_scipy_has_them(rng, frame):
    tables = [Table(rng.normal(size=(TOKENS, WIDTH)), frame) for _ in range(2)]
    bases = [table.directions for table in tables]
    for basis in bases:
        assert np.allclose(basis.T @ basis, np.eye(WIDTH), atol=1e-8)
    cosines = np.cos(subspace_angles(*bases))
    assert subspace_distance(*bases) == pytest.approx(np.sqrt(1 - (cosines**2).mean()))
    fitted = tables[0].rows @ np.linalg.lstsq(tables[0].rows, tables[1].rows, rcond=None)[0]
    outside = np.linalg.norm(tables[1].rows - fitted) / np.linalg.norm(tables[1].rows)
    assert residual(bases[0], tables[1].rows) == pytest.approx(outside)


def test_columns_that_repeat_each_other_count_once(rng, frame):
    rows = rng.normal(size=(TOKENS, 6))
    doubled = np.hstack([rows, rows])
    assert Table(doubled, frame).directions.shape == (TOKENS, 6)
    assert np.allclose(inverse(doubled), np.linalg.pinv(doubled), atol=1e-6)


def test_shape(rng):
    rows = rng.normal(size=(TOKENS, WIDTH)) * COUNTS[:, None] ** 0.3 + 0.5
    held = shape(rows, COUNTS)
    cosines = 1 - cosine_distances(rows)
    assert held["mean_cosine"] == pytest.approx(cosines[np.triu_indices(TOKENS, 1)].mean())
    assert held["norm"] == pytest.approx(np.linalg.norm(rows, axis=1).mean())
    assert held["norm_spearman"] > 0.9
    assert held["norm_slope"] == pytest.approx(0.3, abs=0.05)
    assert held["mean_norm"] == pytest.approx(np.linalg.norm(rows.mean(0)) / held["norm"])


def test_the_participation_ratio_counts_axes(rng):
    axes = np.zeros((TOKENS, WIDTH))
    axes[:, :3] = rng.normal(size=(TOKENS, 3))
    assert shape(axes, COUNTS)["participation"] == pytest.approx(3, abs=0.1)
    assert shape(axes, COUNTS)["width"] == WIDTH
