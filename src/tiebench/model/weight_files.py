"""Which files of a folder hold the weights of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from tiebench.errors import DataError
from tiebench.files import read_json

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
WHOLE = "download the checkpoint again"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
OTHERS = {
    ".gguf": "GGUF, whose matrices are packed for llama.cpp",
    ".ggml": "GGML, whose matrices are packed for llama.cpp",
    ".h5": "HDF5 of TensorFlow",
    ".msgpack": "MessagePack of Flax",
    ".onnx": "an ONNX graph",
    ".npz": "an archive of NumPy",
}
"""Formats that are not read, by the end of a file's name."""


def weight_files(folder: Path) -> list[str]:
    """Names of the safetensors files of a checkpoint: one, or all that its index names.

    Raises:
        DataError: none, or a damaged index.
    """
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    if (folder / INDEX).is_file():
        return sorted(set(weight_map(folder / INDEX).values()))
    names = sorted(path.name for path in folder.glob("*") if path.is_file())
    for name in names:
        if Path(name).suffix == ".bin" or is_foreign(name):
            raise foreign(folder, [x for x in names if Path(x).suffix == Path(name).suffix])
    besides = [name for name in names if name.endswith(".safetensors")]
    raise DataError(
        folder,
        found=f"no {WEIGHTS}" + (f", but {', '.join(besides[:3])}" if besides else ""),
        expected=f"{WEIGHTS} or {INDEX}",
        mend=f"name the file itself, or rename it to {WEIGHTS}" if besides else WHOLE,
    )


def weight_map(path: Path) -> dict[str, str]:
    """What an index says: the file of each tensor.

    Raises:
        DataError: a damaged index, or one that names files elsewhere.
    """
    held = read_json(path, mend=WHOLE).get("weight_map")
    index = {key: str(value) for key, value in held.items()} if isinstance(held, dict) else {}
    outside = [name for name in index.values() if Path(name).name != name]
    if not index or outside:
        raise DataError(
            f"{path}: weight_map",
            found=repr(outside[0]) if outside else "no file",
            expected="names of files beside it",
            mend=WHOLE,
        )
    return index


def is_foreign(name: str) -> bool:
    """Whether a file has, by its name, a format that is not read."""
    return Path(name).suffix.lower() in {*PICKLED, *OTHERS}


def foreign(subject: Path, names: list[str]) -> DataError:
    """The error for files of a format that is not read."""
    kind = Path(names[0]).suffix.lower()
    pickled = kind not in OTHERS
    why = "which can run code when loaded (pickle)" if pickled else f"which is {OTHERS[kind]}"
    return DataError(
        subject,
        found=f"{', '.join(names)}, {why}",
        expected=f"{WEIGHTS} or {INDEX}",
        mend="load the model with transformers where you trust its files, and write it again "
        "with save_pretrained, which makes safetensors"
        if pickled
        else "take the safetensors that it was made from",
    )
