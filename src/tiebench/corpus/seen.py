"""Which texts a corpus trains or validates on, as digests, to find them in another set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tiebench.corpus.clean import normalize
from tiebench.errors import DataError
from tiebench.files import replacing


def digests(texts: Iterable[str]) -> np.ndarray:
    """A 64-bit digest of each normalized text, `[texts]` uint64."""
    found = (hashlib.sha256(normalize(text).encode()).digest()[:8] for text in texts)
    return np.array([int.from_bytes(part) for part in found], dtype=np.uint64)


def write_seen(path: Path, texts: Iterable[str]) -> None:
    """Write the sorted, distinct digests of `texts`."""
    import pyarrow as pa
    from pyarrow import parquet

    with replacing(path) as temporary:
        parquet.write_table(pa.table({"digest": np.unique(digests(texts))}), temporary)


def read_seen(path: Path) -> np.ndarray:
    """The digests that `write_seen` wrote, sorted.

    Raises:
        DataError: missing or damaged.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_table(path, columns=["digest"])["digest"].to_numpy()
    except (OSError, KeyError, pa.ArrowException) as error:
        raise DataError(
            path,
            found=str(error).splitlines()[0],
            expected="the digests of the training texts",
            mend="run `dvc repro` to prepare the corpus again",
        ) from None
