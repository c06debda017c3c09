"""Token files: the ids of each language in one safetensors file, read through a memory map."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tiebench.errors import DataError
from tiebench.files import replacing, sha256_of

_TYPES: dict[str, np.dtype[Any]] = {"U16": np.dtype("<u2"), "U32": np.dtype("<u4")}
_MEND = "run `dvc repro` to prepare the corpus again"


def write_tokens(
    path: Path, ids: dict[str, np.ndarray], tokenizer_sha256: str, vocabulary: int
) -> None:
    """Write one tensor `ids.<language>` per language, uint16 where the vocabulary allows.

    The header is written here: the library's order of metadata keys changes between runs.
    """
    name = "U16" if vocabulary <= 1 << 16 else "U32"
    header: dict[str, Any] = {
        "__metadata__": {"tokenizer": tokenizer_sha256, "vocabulary": str(vocabulary)}
    }
    end = 0
    for lang, values in ids.items():
        start, end = end, end + len(values) * _TYPES[name].itemsize
        header[f"ids.{lang}"] = {
            "dtype": name,
            "shape": [len(values)],
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in ids.values():
            file.write(np.ascontiguousarray(values, dtype=_TYPES[name]).tobytes())


def read_tokens(path: Path, tokenizer_path: Path, languages: list[str]) -> dict[str, np.ndarray]:
    """Memory-mapped ids of each language, `[tokens]`.

    Raises:
        DataError: missing, truncated or damaged, written for another tokenizer, without one of
            the languages, empty, or with an id beyond the vocabulary.
    """
    if not path.is_file():
        raise DataError(path, found="no such file", expected="a token file", mend=_MEND)
    header, start = _header(path)
    metadata = header.pop("__metadata__", {})
    found, expected = metadata.get("tokenizer"), sha256_of(tokenizer_path)
    if found != expected:
        raise DataError(
            path,
            found=f"ids of the tokenizer with sha256 {found}",
            expected=f"those of {tokenizer_path} ({expected})",
            mend=_MEND,
        )
    result: dict[str, np.ndarray] = {}
    for lang in languages:
        if f"ids.{lang}" not in header:
            have = ", ".join(name.removeprefix("ids.") for name in header)
            raise DataError(path, found=f"languages {have}", expected=lang, mend=_MEND)
        entry = header[f"ids.{lang}"]
        if entry["shape"] == [0]:
            raise DataError(path, found=f"no token of {lang}", expected="at least one", mend=_MEND)
        ids = np.memmap(
            path,
            _TYPES[entry["dtype"]],
            "r",
            start + entry["data_offsets"][0],
            tuple(entry["shape"]),
        )
        if ids.max() >= int(metadata["vocabulary"]):
            raise DataError(
                path,
                found=f"id {ids.max()} in {lang}",
                expected=f"ids below {metadata['vocabulary']}",
                mend=_MEND,
            )
        result[lang] = ids
    return result


def _header(path: Path) -> tuple[dict[str, Any], int]:
    """The header, and where the data starts."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        try:
            if start > size:
                raise ValueError("the header is cut off")
            header = json.loads(file.read(start - 8))
            ends = [e["data_offsets"][1] for name, e in header.items() if name != "__metadata__"]
            known = all(e["dtype"] in _TYPES for n, e in header.items() if n != "__metadata__")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                path, found=f"a damaged header ({error})", expected="safetensors", mend=_MEND
            ) from None
    if not known:
        raise DataError(path, found="tensors of other types", expected="U16 or U32", mend=_MEND)
    if start + max(ends, default=0) != size:
        raise DataError(
            path, found=f"{size} bytes", expected=f"{start + max(ends, default=0)}", mend=_MEND
        )
    return header, start
