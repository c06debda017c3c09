from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tiebench.corpus.tokens import read_tokens, write_tokens
from tiebench.errors import DataError
from tiebench.files import sha256_of

IDS = {"en": np.array([5, 6, 2, 7, 2]), "de": np.array([9, 2])}


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    return path


def write(path: Path, tokenizer: Path, ids: dict[str, np.ndarray], vocabulary: int = 10) -> Path:
    write_tokens(path, ids, sha256_of(tokenizer), vocabulary)
    return path


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65536, np.uint16), (65537, np.uint32)])
def test_round_trip(tmp_path: Path, tokenizer: Path, vocabulary: int, dtype: type) -> None:
    path = write(tmp_path / "train.safetensors", tokenizer, IDS, vocabulary)
    found = read_tokens(path, tokenizer, ["de", "en"])
    assert list(found) == ["de", "en"]
    for lang, ids in IDS.items():
        assert isinstance(found[lang], np.memmap)
        assert found[lang].dtype == dtype
        assert found[lang].tolist() == ids.tolist()
        with pytest.raises(ValueError, match="read-only"):
            found[lang][0] = 1


def test_the_library_reads_it(tmp_path: Path, tokenizer: Path) -> None:
    from safetensors import safe_open

    path = write(tmp_path / "train.safetensors", tokenizer, IDS)
    assert load_file(path)["ids.en"].tolist() == IDS["en"].tolist()
    with safe_open(path, "np") as file:
        assert file.metadata() == {"tokenizer": sha256_of(tokenizer), "vocabulary": "10"}


def test_missing(tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(DataError, match=r"train\.safetensors: found no such file.*dvc repro"):
        read_tokens(tmp_path / "train.safetensors", tokenizer, ["en"])


@pytest.mark.parametrize("cut", [-1, 100, 4, 0])
def test_truncated(tmp_path: Path, tokenizer: Path, cut: int) -> None:
    path = write(tmp_path / "train.safetensors", tokenizer, IDS)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"bytes; expected|damaged header"):
        read_tokens(path, tokenizer, ["en"])


@pytest.mark.parametrize(
    "content", [b"\xff" * 64, b"\x02\0\0\0\0\0\0\0[]", b"\x04\0\0\0\0\0\0\0{}}}"]
)
def test_not_a_token_file(tmp_path: Path, tokenizer: Path, content: bytes) -> None:
    path = tmp_path / "train.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged header"):
        read_tokens(path, tokenizer, ["en"])


def test_tensors_of_another_type(tmp_path: Path, tokenizer: Path) -> None:
    from safetensors.numpy import save_file

    path = tmp_path / "train.safetensors"
    save_file({"ids.en": np.zeros(3, np.float32)}, path)
    with pytest.raises(DataError, match="other types"):
        read_tokens(path, tokenizer, ["en"])


def test_another_tokenizer(tmp_path: Path, tokenizer: Path) -> None:
    path = write(tmp_path / "train.safetensors", tokenizer, IDS)
    tokenizer.write_text("{ }")
    with pytest.raises(
        DataError, match=r"ids of the tokenizer with sha256 44136f.*expected those of"
    ):
        read_tokens(path, tokenizer, ["en"])


def test_missing_and_empty_language(tmp_path: Path, tokenizer: Path) -> None:
    path = write(tmp_path / "a.safetensors", tokenizer, IDS | {"tr": np.array([], int)})
    with pytest.raises(DataError, match="found languages en, de, tr; expected es"):
        read_tokens(path, tokenizer, ["en", "es"])
    with pytest.raises(DataError, match="no token of tr"):
        read_tokens(path, tokenizer, ["tr"])


def test_id_beyond_the_vocabulary(tmp_path: Path, tokenizer: Path) -> None:
    path = write(tmp_path / "a.safetensors", tokenizer, IDS, vocabulary=9)
    assert read_tokens(path, tokenizer, ["en"])
    with pytest.raises(DataError, match="found id 9 in de; expected ids below 9"):
        read_tokens(path, tokenizer, ["de"])
