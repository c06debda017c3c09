"""Writing what a cell of an evaluation leaves: per-example outcomes and their summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tiebench.files import holding, replacing, replacing_folder
from tiebench.paths import SCRATCH


@contextmanager
def replacing_outcomes(folder: Path) -> Iterator[Path]:
    """Yield an empty folder that takes the place of a cell's outcomes when the block succeeds.

    So that a kill leaves no outcomes beside the summary of others.

    Raises:
        BusyError: another process writes the same cell.
        WriteError: no room, or no permission.
    """
    name = "-".join(folder.parts[1:])
    with holding(SCRATCH / f"{name}.lock", f"outcomes {folder}"), replacing_folder(folder) as new:
        yield new


def write_outcomes(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns `[examples]` as Parquet, whole or not at all; text as a dictionary."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    arrays = {
        name: pa.array(values, pa.string()).dictionary_encode()
        if values.dtype == object
        else values
        for name, values in columns.items()
    }
    with replacing(path) as temporary:
        parquet.write_table(pa.table(arrays), temporary, compression="zstd")
