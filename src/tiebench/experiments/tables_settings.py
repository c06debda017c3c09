"""Settings of the comparison of saved vocabulary tables."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tiebench.experiments.word_similarity_settings import SimilaritySettings
from tiebench.schema import Settings

Positive = Annotated[int, Field(gt=0)]
RAW = {
    "alignment": (
        "family", "first", "second", "pair", "initialization", "seed", "metric", "value", "floor",
    ),
    "table_geometry": ("family", "run", "table", "seed", "bin", "metric", "value"),
    "logit_lens": ("family", "run", "seed", "layer", "metric", "value"),
}  # fmt: skip
"""Columns of the tables that the stage writes."""
BY_STEP = {
    "alignment_by_step": (
        "family", "first", "second", "pair", "initialization", "seed", "step", "words", "value",
        "floor",
    ),
}  # fmt: skip
"""Of the one more that it writes for a family whose training keeps rows of its tables."""
SUBSPACES = ("family", "run", "seed", "metric", "value")
"""Of the table subspaces, which it writes where a recurrent family has runs for it
(`tiebench.training.subspace_runs`)."""


class TablesSettings(Settings):
    """Vocabulary tables of the saved models: alignment, geometry, and the head at every layer.

    Compared are the tokens that occur in training, without special tokens: the effective matrices
    of both sides, after what a coupling does to the stored table.
    """

    option: str
    """Name of the file in conf/task/ that this came from."""
    seed: Annotated[int, Field(ge=0)]
    """Of the halves, the sample and the permutations."""
    bins: Annotated[int, Field(gt=1)]
    """Frequency bins, of equal numbers of tokens: halves and permutations keep them."""
    permutations: Positive
    """Permutations of the second table's rows within the bins; the floor is their mean."""
    sample: Annotated[int, Field(ge=20)]
    """Tokens, as many of each bin, whose distances and neighbours among each other are compared."""
    neighbours: Positive
    """Nearest neighbours of a token whose overlap is counted."""
    subspace: Positive
    """Leading directions of a table whose principal angles are taken."""
    windows: Positive
    """Validation windows a language that the head reads every layer on."""
    similarity: SimilaritySettings | None = None
    """Sets of word pairs that people scored; null for none."""

    def of_frame(self) -> dict[str, int]:
        """What `tiebench.analysis.token_frame.make_frame` draws by."""
        names = ("bins", "permutations", "sample", "neighbours", "subspace", "seed")
        return {name: getattr(self, name) for name in names}
