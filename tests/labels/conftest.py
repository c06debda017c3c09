"""A working folder of its own, and the options in conf/labels/ whose package is at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tiebench import paths

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def option() -> Callable[[str], dict[str, Any]]:
    """The settings of a file in conf/labels/; skips where its package is not in the cache."""

    def read(name: str) -> dict[str, Any]:
        with initialize_config_dir(str(ROOT / "conf"), version_base=None):
            composed: Any = OmegaConf.to_container(compose(f"labels/{name}").labels)
        if not list((paths.cache_folder() / composed["source"]["sha256"]).glob("*.whl")):
            pytest.skip("the package is not in the download cache; `make setup` fetches it")
        result: dict[str, Any] = composed
        return result

    return read
