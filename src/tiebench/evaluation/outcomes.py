"""Writing per-example outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tiebench.files import replacing


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
