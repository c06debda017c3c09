"""Rows of the vocabulary tables, kept while a recurrent model trains."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tiebench.errors import SettingsError
from tiebench.model.coupling import Coupling
from tiebench.model.tensors import save_tensors
from tiebench.training.recurrent_settings import TableSnapshotsSettings

FILE = "table_snapshots.safetensors"
"""Holds `words` `[n]`, `updates` `[m]` and, by name, the rows of a matrix, `[m, n, width]`."""
INPUT, OUTPUT = "input_matrix", "output_matrix"
"""Names of the effective matrices, as in Coupling; of a model with one there is the first alone."""


class TableSnapshots:
    """What is kept of one training.

    Args:
        words: `[n]` ids, rising.
        updates: after which the rows are kept, rising.

    Attributes:
        held: `[n, width]` float32, by matrix and update (`input_matrix/10`).
    """

    def __init__(self, words: Tensor, updates: Iterable[int]) -> None:
        self.words, self.updates = words, tuple(updates)
        self.held: dict[str, Tensor] = {}

    @classmethod
    def of(cls, settings: TableSnapshotsSettings, ids: np.ndarray, epoch: int) -> TableSnapshots:
        """Those that are set, of the text `ids` `[tokens]`, with `epoch` updates in an epoch.

        Raises:
            SettingsError: an update that is not before the end of the first epoch.
        """
        if settings.updates and settings.updates[-1] >= epoch:
            raise SettingsError(
                "recurrent.training.table_snapshots.updates",
                found=f"{settings.updates[-1]}",
                expected=f"updates before the end of the first epoch, which has {epoch}",
                mend="lower or remove them, and set epochs for later ones",
            )
        updates = (0, *settings.updates, *(epoch * x for x in settings.epochs))
        return cls(torch.from_numpy(spread_words(ids, settings.words)), updates)

    @property
    def names(self) -> list[str]:
        """What `held` may have at the end."""
        return [f"{name}/{update}" for name in (INPUT, OUTPUT) for update in self.updates]

    @torch.no_grad()
    def keep(self, coupling: Coupling, update: int) -> None:
        """Keep the rows as they are after an update, if it is one of `updates`."""
        if update not in self.updates:
            return
        matrices = {INPUT: coupling.input_matrix()}
        if not coupling.tied or coupling.input_operations or coupling.output_operations:
            matrices[OUTPUT] = coupling.output_matrix()
        for name, matrix in matrices.items():
            rows = matrix[self.words.to(matrix.device)]
            self.held[f"{name}/{update}"] = rows.float().cpu()

    def save(self, folder: Path) -> None:
        """Write FILE.

        Raises:
            WriteError: no room, or no permission.
        """
        tensors = {"words": self.words, "updates": torch.tensor(self.updates)}
        for name in (INPUT, OUTPUT):
            rows = [self.held[key] for x in self.updates if (key := f"{name}/{x}") in self.held]
            if rows:
                tensors[name] = torch.stack(rows)
        save_tensors(folder / FILE, tensors, {})


def spread_words(ids: np.ndarray, count: int) -> np.ndarray:
    """At most `count` of the types in `ids` `[tokens]`, evenly spread from the most frequent on.

    Returns:
        Their ids, rising, `[n]` int64.
    """
    counts = np.bincount(ids)
    ordered = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    places = np.arange(min(count, len(ordered))) * len(ordered) // min(count, len(ordered))
    return np.sort(ordered[places]).astype(np.int64)
