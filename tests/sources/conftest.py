"""A cache with a small wheel in it, and an `external/` folder, both in a temporary directory."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tiebench.sources.settings import WheelSource

STRINGS = {
    "lamp": {
        "en": {"title": "Lamp", "state": {"on": "On", "off": "Off"}},
        "de": {"title": "Lampe", "state": {"on": "An", "off": "Aus"}},
    },
    "fan": {"en": {"title": "Fan of {name}"}, "de": {"title": "Ventilator von {name}"}},
}
METADATA = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
FILES: dict[str, str | bytes] = {
    f"tiny/components/{component}/translations/{lang}.json": json.dumps(tree)
    for component, languages in STRINGS.items()
    for lang, tree in languages.items()
} | {
    "tiny-1.0.dist-info/METADATA": METADATA,
    "tiny-1.0.dist-info/WHEEL": WHEEL,
    "tiny-1.0.dist-info/RECORD": "",
}


def write_wheel(folder: Path, files: dict[str, str | bytes]) -> tuple[Path, str]:
    """A wheel, and its sha256."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def wheel_source(sha256: str, **changes: str) -> WheelSource:
    """Settings of the small wheel."""
    settings = {
        "kind": "wheel",
        "package": "tiny",
        "version": "1.0",
        "sha256": sha256,
        "files": "tiny/components/*/translations/{language}.json",
        "format": "translations",
    }
    return WheelSource.model_validate(settings | changes)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty download cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TIEBENCH_CACHE", str(folder))
    return folder


Cached = Callable[..., WheelSource]


@pytest.fixture
def cached(cache: Path, tmp_path: Path) -> Cached:
    """Puts a wheel into the cache and returns its source: `cached(extra_files, **settings)`."""

    def put(extra: dict[str, str | bytes] | None = None, **changes: str) -> WheelSource:
        path, sha256 = write_wheel(tmp_path / "built", FILES | (extra or {}))
        (cache / sha256).mkdir(parents=True)
        path.rename(cache / sha256 / path.name)
        return wheel_source(sha256, **changes)

    return put


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, WheelSource]:
    """A folder that pip can install from, and the source of the wheel in it."""
    path, sha256 = write_wheel(tmp_path / "index", FILES)
    return path.parent, wheel_source(sha256)


@pytest.fixture
def external(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str | bytes]], Path]:
    """Writes files into external/mine: `external({"name": content})`."""
    monkeypatch.chdir(tmp_path)

    def write(files: dict[str, str | bytes]) -> Path:
        folder = tmp_path / "external" / "mine"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write


@pytest.fixture
def shared_data(request: pytest.FixtureRequest) -> Path:
    """Real treebanks and parallel text, where they are present."""
    import os

    root = request.config.rootpath
    folder = Path(os.environ.get("TIEBENCH_SHARED_DATA", root.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no shared data ({folder}); set TIEBENCH_SHARED_DATA to test on it")
    return folder
