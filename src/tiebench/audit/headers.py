"""The headers of a checkpoint in safetensors, read and checked without its tensors.

A file starts with the length of its header (8 bytes, little-endian), then the header in JSON:
dtype, shape and place of each tensor. Nothing else is read here, so that size does not matter.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench.errors import DataError
from tiebench.files import read_json
from tiebench.model.folders import source_folder
from tiebench.model.weight_files import (
    INDEX,
    WEIGHTS,
    WHOLE,
    foreign,
    is_foreign,
    weight_files,
    weight_map,
)

LENGTH = 8
"""Bytes of the header's length."""
LONGEST = 100_000_000
"""Bytes of the longest header that the format allows."""
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "I16": 16, "U16": 16, "F16": 16,
    "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
"""Bits of a number, by dtype."""
BEGINNINGS = {
    b"GGUF": ("a GGUF file", "take the safetensors that it was made from"),
    b"PK\x03\x04": ("a zip archive, as torch.save writes it (pickle)", WHOLE),
    b"\x80\x02": ("a pickle", WHOLE),
    b"\x89HDF": ("an HDF5 file", WHOLE),
    b"version ": ("a Git LFS pointer in place of the file", "fetch it with `git lfs pull`"),
}
"""What files of other formats begin with, and the mend."""
SHARD = re.compile(r"(.+)-\d+-of-\d+\.safetensors")


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file.

    Attributes:
        start: its first byte in the file; `stop`: the byte behind its last.
    """

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.stop - self.start

    @property
    def subject(self) -> str:
        """File and name, for an error."""
        return f"{self.file}: {self.name}"


@dataclass(frozen=True)
class Checkpoint:
    """What the headers and config.json of a checkpoint say.

    Attributes:
        path: a folder or a file.
        config: None where there is no config.json.
    """

    path: Path
    files: list[Path]
    tensors: dict[str, StoredTensor]
    config: dict[str, Any] | None

    @property
    def config_path(self) -> Path:
        """Where config.json is, or would be."""
        return (self.path if self.path.is_dir() else self.path.parent) / "config.json"


def read_checkpoint(source: str) -> Checkpoint:
    """Read the headers of all files of a checkpoint, and its config.json.

    Args:
        source: a folder, a safetensors file, or the id of a repository in the local cache.

    Raises:
        DataError: no such checkpoint, another format, or a damaged one.
    """
    path = Path(source).expanduser()
    if os.path.isfile(path):  # noqa: PTH113 (a name that is too long is none)
        return _read_file(path)
    if not os.path.isdir(path) and (  # noqa: PTH112
        source.startswith((".", "/", "~")) or source.endswith(".safetensors") or is_foreign(source)
    ):
        raise DataError(
            source,
            found="no such file or folder",
            expected="a checkpoint in safetensors",
            mend="name a folder, a .safetensors file, or a repository in the local cache",
        )
    folder = source_folder(str(path), expected="a folder with config.json and safetensors")
    files = [folder / name for name in weight_files(folder)]
    shards = {file: read_header(file) for file in _present(files)}
    single = files == [folder / WEIGHTS]
    tensors = shards[files[0]] if single else _joined(folder / INDEX, shards)
    return Checkpoint(folder, files, tensors, _config(folder / "config.json"))


def _read_file(path: Path) -> Checkpoint:
    if is_foreign(path.name):
        raise foreign(path.parent, [path.name])
    index = path.parent / INDEX
    if SHARD.fullmatch(path.name) and index.is_file():
        raise DataError(
            path,
            found="one of several files",
            expected="the whole checkpoint",
            mend=f"name its folder, {path.parent}",
        )
    return Checkpoint(path, [path], read_header(path), _config(path.parent / "config.json"))


def _config(path: Path) -> dict[str, Any] | None:
    return read_json(path, mend=WHOLE) if path.exists() or path.is_symlink() else None


def _present(files: list[Path]) -> list[Path]:
    for file in files:
        if not file.is_file():
            raise DataError(
                file,
                found="no such file" if not file.is_symlink() else "a link that leads nowhere",
                expected=f"the shard that {INDEX} names",
                mend=WHOLE,
            )
    return files


def _joined(index: Path, shards: dict[Path, dict[str, StoredTensor]]) -> dict[str, StoredTensor]:
    """The tensors of all shards, which are those that the index names.

    Raises:
        DataError: index and shards do not agree.
    """
    where = weight_map(index)
    for other in sorted(index.parent.glob("*.safetensors")):
        stem = SHARD.fullmatch(other.name)
        named = {match[1] for file in shards if (match := SHARD.fullmatch(file.name))}
        if stem and stem[1] in named and other not in shards:
            raise DataError(
                other,
                found="a shard that is not in the index",
                expected=f"those that {index.name} names",
                mend="remove it if it is left from another save, or restore the index with it",
            )
    tensors: dict[str, StoredTensor] = {}
    for file, held in shards.items():
        for name, tensor in held.items():
            if name in tensors:
                found = f"a tensor that {tensors[name].file.name} holds too"
                raise DataError(tensor.subject, found=found, expected="one", mend=WHOLE)
            if name not in where:
                raise DataError(
                    tensor.subject,
                    found="a tensor that is not in the index",
                    expected=f"those that {index.name} names",
                    mend="restore index and shards from one save",
                )
            tensors[name] = tensor
        for name, told in where.items():
            if told == file.name and name not in held:
                raise DataError(
                    f"{index}: {name}",
                    found=f"{file.name}, which does not hold it",
                    expected="the shard that holds it",
                    mend="restore index and shards from one save",
                )
    return tensors


def read_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of one file, in the order of the header.

    Raises:
        DataError: a file that cannot be read, another format, or a header that is damaged or does
            not fit the file.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            beginning = file.read(LENGTH)
            length = _header_length(path, beginning, size)
            text = file.read(length)
    except OSError as error:
        found = error.strerror or str(error)
        raise DataError(path, found=found, expected="a readable file", mend=WHOLE) from None
    held = _parsed(path, text)
    data = LENGTH + length
    tensors = {
        name: _entry(path, name, value, data, size)
        for name, value in held.items()
        if name != "__metadata__"
    }
    _check_places(path, tensors, data, size)
    return tensors


def _header_length(path: Path, beginning: bytes, size: int) -> int:
    for start, (kind, mend) in BEGINNINGS.items():
        if beginning.startswith(start) and _number(beginning) > LONGEST:
            raise DataError(path, found=kind, expected="a safetensors file", mend=mend)
    if len(beginning) < LENGTH:
        raise _damaged(path, f"{size} bytes", f"at least {LENGTH}, the length of the header")
    length = _number(beginning)
    if length > LONGEST:
        raise _damaged(path, f"a header of {length:,} bytes", f"{LONGEST:,} bytes at most")
    if length > size - LENGTH:
        raise _damaged(
            path,
            f"a header of {length:,} bytes in a file of {size:,} bytes",
            "a header that ends within the file",
        )
    return length


def _number(beginning: bytes) -> int:
    return int.from_bytes(beginning, "little")


def _damaged(subject: object, found: str, expected: str) -> DataError:
    return DataError(subject, found=found, expected=expected, mend=WHOLE)


def _parsed(path: Path, text: bytes) -> dict[str, Any]:
    subject = f"{path}: header"

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        held = dict(pairs)
        if len(held) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise _damaged(subject, f"{twice!r} twice", "each name once")
        return held

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise _damaged(subject, f"broken JSON ({error})", "a JSON object") from None
    if not isinstance(value, dict):
        raise _damaged(subject, f"{json.dumps(value):.60}", "a JSON object")
    return value


def _entry(path: Path, name: str, value: Any, data: int, size: int) -> StoredTensor:
    """One tensor of a header, checked by itself."""
    if not name.isprintable():
        raise _damaged(path, f"a name that cannot be printed, {name!r:.60}", "a plain name")
    subject = f"{path}: {name}"
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
        raise _damaged(subject, f"{json.dumps(value):.60}", "dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _damaged(subject, f"dtype {json.dumps(dtype):.60}", f"one of {', '.join(BITS)}")
    if not _are_counts(shape):
        raise _damaged(subject, f"shape {json.dumps(shape):.60}", "a list of whole numbers from 0")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _damaged(
            subject, f"data_offsets {json.dumps(offsets):.60}", "a first byte and the one behind"
        )
    bits = math.prod(shape) * BITS[dtype]
    if bits != 8 * (offsets[1] - offsets[0]):
        raise _damaged(
            subject,
            f"{offsets[1] - offsets[0]:,} bytes",
            f"{bits / 8:,.10g} bytes for shape {shape} of {dtype}" if bits < 1 << 200
            else f"bytes for shape {shape!s:.60} of {dtype}",
        )  # fmt: skip
    if data + offsets[1] > size:
        raise _damaged(
            subject,
            f"bytes up to {data + offsets[1]:,} in a file of {size:,} bytes",
            "bytes within the file",
        )
    return StoredTensor(name, path, dtype, tuple(shape), data + offsets[0], data + offsets[1])


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) is int and 0 <= x < 1 << 63 for x in value)


def _check_places(path: Path, tensors: dict[str, StoredTensor], data: int, size: int) -> None:
    """The tensors fill the rest of the file, one behind the other."""
    end, before = data, "the header"
    for tensor in sorted(tensors.values(), key=lambda x: (x.start, x.stop)):
        if tensor.start != end:
            shared = tensor.start < end
            raise _damaged(
                tensor.subject,
                f"a first byte that {before} holds too"
                if shared
                else f"a gap of {tensor.start - end:,} bytes behind {before}",
                "tensors one behind the other",
            )
        end, before = tensor.stop, tensor.name
    if end != size:
        raise _damaged(path, f"{size - end:,} bytes behind the last tensor", "none")
