"""How close the forms of a lemma are in a table, against pairs of words that are as frequent."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tiebench.experiments.lemmas import Lexicon


@dataclass(frozen=True)
class Closeness:
    """Of one lemma, means over its pairs of forms.

    Attributes:
        pairs: pairs of forms that have controls.
        forms: cosine of the two forms.
        matched: mean cosine of the controls: all pairs of words of two lemmas, one word from the
            frequency bin of each form.
        auc: share of the controls whose cosine is lower than the forms'; half of the equal ones.
    """

    pairs: int
    forms: float
    matched: float
    auc: float


def frequency_bins(counts: np.ndarray, ratio: float) -> np.ndarray:
    """Number of each count's bin, `[words]`: bins start at powers of `ratio`."""
    return np.floor(np.log(counts) / np.log(ratio) + 1e-9).astype(np.int64)


def unit_rows(table: np.ndarray, *, centred: bool) -> np.ndarray:
    """`[words, width]` rows of length 1, less their mean first when `centred`; a zero row stays."""
    rows = table.astype(np.float64)
    if centred:
        rows = rows - rows.mean(axis=0)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def closeness(rows: np.ndarray, lexicon: Lexicon, bins: np.ndarray) -> dict[int, Closeness]:
    """By lemma. A pair of forms whose bins hold no two words of different lemmas has no controls
    and is left out, and a lemma without any pair left too.

    Args:
        rows: `[words, width]` of length 1, those of the lexicon's words.
        lexicon: words and their lemmas.
        bins: `[words]`, as `frequency_bins`.
    """
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for places in lexicon.inflected().values():
        for one, other in combinations(places, 2):
            low, high = sorted((int(one), int(other)), key=lambda place: (bins[place], place))
            pairs[int(bins[low]), int(bins[high])].append((low, high))
    found: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for (first, second), held in sorted(pairs.items()):
        controls = _controls(rows, lexicon.lemmas, bins == first, bins == second)
        if not len(controls):
            continue
        mean = float(controls.mean())
        for low, high in held:
            cosine = float(rows[low] @ rows[high])
            below, upto = (np.searchsorted(controls, cosine, x) for x in ("left", "right"))
            auc = (below + upto) / 2 / len(controls)
            found[int(lexicon.lemmas[low])].append((cosine, mean, float(auc)))
    return {
        lemma: Closeness(len(x), *map(float, np.mean(x, axis=0)))
        for lemma, x in sorted(found.items())
    }


def _controls(
    rows: np.ndarray, lemmas: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Sorted cosines of all pairs of words of different lemmas, one from each of two bins."""
    different = lemmas[first][:, None] != lemmas[second][None, :]
    if np.array_equal(first, second):
        different = np.triu(different, 1)
    return np.sort((rows[first] @ rows[second].T)[different])
