"""Forms against matched pairs, on tables by hand and against a plain computation."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tiebench.experiments.form_geometry import closeness, frequency_bins, unit_rows
from tiebench.experiments.lemmas import Lexicon


def make(lemmas: list[int], counts: list[int]) -> Lexicon:
    names = tuple(f"l{x}" for x in range(max(lemmas) + 1))
    size = len(lemmas)
    return Lexicon(np.arange(size), np.array(counts), np.array(lemmas), names, {})


def test_bins_start_at_powers_of_the_ratio() -> None:
    assert frequency_bins(np.array([1, 2, 3, 4, 7, 8]), 2.0).tolist() == [0, 1, 1, 2, 2, 3]
    assert frequency_bins(np.array([9, 10, 99, 100, 1000]), 10.0).tolist() == [0, 1, 1, 2, 3]


def test_rows_have_length_one() -> None:
    table = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    assert unit_rows(table, centred=False).tolist() == [[0.6, 0.8], [0, 0], [1, 0]]
    centred = table - table.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    assert unit_rows(table, centred=True) == pytest.approx(expected, abs=1e-6)


def test_by_hand() -> None:
    """Two forms that are equal, beside two other words of the same bin."""
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    found = closeness(rows, make([0, 0, 1, 2], [4, 5, 6, 7]), np.full(4, 2))
    # controls: 0-2 0, 0-3 -1, 1-2 0, 1-3 -1, 2-3 0
    assert list(found) == [0]
    assert (found[0].pairs, found[0].forms) == (1, 1.0)
    assert found[0].matched == pytest.approx(-0.4) and found[0].auc == 1.0


def test_ties_count_half() -> None:
    rows = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    found = closeness(rows, make([0, 0, 1], [4, 5, 6]), np.full(3, 2))
    assert (found[0].auc, found[0].matched) == (0.5, 1.0)


def test_a_pair_without_controls_is_left_out() -> None:
    rows = unit_rows(np.random.default_rng(0).normal(size=(5, 3)), centred=False)
    bins = np.array([0, 0, 5, 9, 0])
    # no bin, or pair of bins, of two forms holds words of two lemmas
    assert closeness(rows[:4], make([0, 0, 1, 1], [1] * 4), bins[:4]) == {}
    # a word of another lemma in bin 0 is a control of the forms there
    found = closeness(rows, make([0, 0, 1, 1, 2], [1] * 5), bins)
    assert list(found) == [0] and found[0].pairs == 1


@pytest.mark.parametrize("seed", range(3))
def test_against_a_plain_computation(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lemmas = np.unique(rng.integers(0, 12, size=40), return_inverse=True)[1].tolist()
    bins = rng.integers(0, 4, size=40)
    rows = unit_rows(rng.normal(size=(40, 5)), centred=True)
    found = closeness(rows, make(lemmas, [1] * 40), bins)
    plain: dict[int, list[tuple[float, float, float]]] = {}
    for a, b in combinations(range(40), 2):
        if lemmas[a] != lemmas[b]:
            continue
        wanted = sorted((bins[a], bins[b]))
        controls = [
            float(rows[x] @ rows[y])
            for x, y in combinations(range(40), 2)
            if lemmas[x] != lemmas[y] and sorted((bins[x], bins[y])) == wanted
        ]
        cosine = float(rows[a] @ rows[b])
        auc = np.mean([(x < cosine) + 0.5 * (x == cosine) for x in controls])
        plain.setdefault(lemmas[a], []).append((cosine, float(np.mean(controls)), float(auc)))
    assert set(found) == set(plain)
    for lemma, values in plain.items():
        held = found[lemma]
        assert held.pairs == len(values)
        means = np.mean(values, axis=0)
        assert (held.forms, held.matched, held.auc) == pytest.approx(means, abs=1e-9)
