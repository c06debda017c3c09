"""Files inside a pinned PyPI package. The only module that downloads packages.

A wheel lies in the cache as `<sha256>/<file name>` and is verified at every use; while it is
there, no network is touched.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebench import paths
from tiebench.errors import DataError
from tiebench.files import sha256_of
from tiebench.progress import progress
from tiebench.schema import validate
from tiebench.sources.records import Text, unlabelled, without_text
from tiebench.sources.settings import WheelSource

if TYPE_CHECKING:
    from tiebench.settings import Params

PYTHON_VERSION = "3.14"  # of the package asked for: it may need a newer Python than runs here


def download_wheel(source: WheelSource) -> Path:
    """The verified wheel in the cache; downloaded by `pip` when it is not there.

    Raises:
        DataError: no network and an empty cache, no such release, or another sha256.
    """
    folder = paths.cache_folder() / source.sha256
    for path in sorted(x for x in folder.glob("*.whl") if x.is_file()):
        found = sha256_of(path)
        if found != source.sha256:
            raise DataError(
                path,
                found=f"sha256 {found}",
                expected=f"sha256 {source.sha256}",
                mend=f"delete {folder} and run `make setup`",
            )
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".download-") as name:
        fetched = _pip_download(source, Path(name))
        target = folder / fetched.name
        fetched.replace(target)
    return target


def _pip_download(source: WheelSource, folder: Path) -> Path:
    requirement = f"{source.package}=={source.version}"
    (folder / "requirements.txt").write_text(f"{requirement} --hash=sha256:{source.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--python-version", PYTHON_VERSION, "--quiet"]
    command += ["--disable-pip-version-check", "--no-input", "--retries", "1"]
    command += ["--dest", str(folder), "--requirement", str(folder / "requirements.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and wheels and sha256_of(wheels[0]) == source.sha256:
        return wheels[0]
    message = " ".join(done.stderr.split())
    wrong = re.search(r"Got\s+([0-9a-f]{64})", message)
    if wrong:
        raise DataError(
            requirement,
            found=f"a release with sha256 {wrong[1]}",
            expected=f"sha256 {source.sha256}",
            mend="correct source.sha256 (`pip hash FILE` prints it) or source.version",
        )
    raise DataError(
        requirement,
        found=f"nothing in the cache ({paths.cache_folder()}), and from pip: {message[-400:]}",
        expected="a wheel in the cache, or one that can be downloaded",
        mend="run `make setup` with a network, or copy the cache from another machine "
        "and name it in TIEBENCH_CACHE",
    )


def fetch_all(params: Params | None = None, conf: Path = Path("conf")) -> list[Path]:
    """Download every wheel that `conf/` names, and those of the texts in `params`.

    Raises:
        DataError: as `download_wheel`.
    """
    from omegaconf import OmegaConf

    found: dict[str, WheelSource] = {}
    for path in sorted(conf.rglob("*.yaml")):
        for mapping in _wheels(OmegaConf.to_container(OmegaConf.load(path))):
            source = validate(WheelSource, mapping, str(path))
            found.setdefault(source.sha256, source)
    held = [*params.corpora.values(), *params.labels.values()] if params else []
    texts = [item.source for item in held]
    if params and params.domains:
        texts.append(params.domains.source)
    if params and params.tables and params.tables.similarity:
        texts += (held.source for held in params.tables.similarity.sets.values())
    wheels = [x for x in texts if isinstance(x, WheelSource)]
    for wheel in wheels:
        found.setdefault(wheel.sha256, wheel)
    return [download_wheel(x) for x in progress(found.values(), desc="packages", unit="wheel")]


def _wheels(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("kind") == "wheel" and "sha256" in value:
            yield value
        for item in value.values():
            yield from _wheels(item)
    elif isinstance(value, list):
        for item in value:
            yield from _wheels(item)


def read(source: WheelSource, languages: list[str], *, labelled: bool) -> Iterator[Any]:
    """`Text` or `Labelled` records of a wheel.

    Raises:
        DataError: as `download_wheel`, `read_translations`, `read_conllu`; labels asked of text.
    """
    if source.format == "conllu":
        return read_conllu(source, languages, labelled=labelled)
    if labelled:
        raise unlabelled(f"{source.package}=={source.version}", source.format)
    if source.format == "pairs":
        raise without_text(f"{source.package}=={source.version}", source.format)
    return read_translations(source, languages)


def read_translations(source: WheelSource, languages: list[str]) -> Iterator[Text]:
    """Strings of nested JSON files, one file per language and component.

    The key is what the glob's wildcards match, then the path inside the JSON, joined by dots.

    Raises:
        DataError: a language without a file, a damaged wheel, or broken JSON.
    """
    wheel = download_wheel(source)
    with _open(wheel) as archive:
        for lang, members in _members(archive, wheel, source, languages).items():
            for component, member in progress(members, desc=f"read {lang}", unit="file"):
                where = f"{wheel.name}/{member}"
                tree = _json(_read(archive, wheel, member), where)
                for key, text in _strings(tree, component, where):
                    yield Text(key, lang, text)


def read_conllu(source: WheelSource, languages: list[str], *, labelled: bool) -> Iterator[Any]:
    """Sentences of CoNLL-U files: `Labelled` records, or `Text` from the `# text` comments.

    Raises:
        DataError: as `read_translations`, or a malformed sentence (file and line).
    """
    from tiebench.sources.conllu import sentences

    if "{language}" not in source.files and len(languages) > 1:
        raise DataError(
            f"{source.package} {source.files}",
            found=f"languages {', '.join(languages)} for files that are not told apart by language",
            expected="one language, or {language} in source.files",
            mend="name one language",
        )
    wheel = download_wheel(source)
    with _open(wheel) as archive:
        for lang, members in _members(archive, wheel, source, languages).items():
            for _, member in members:
                where = f"{wheel.name}/{member}"
                text = _utf8(_read(archive, wheel, member), where)
                yield from sentences(text.split("\n"), lang, where, labelled=labelled)


def read_text(source: WheelSource, languages: list[str]) -> Iterator[tuple[str, str]]:
    """Name and text of every file of a wheel that is read for these languages.

    Raises:
        DataError: as `download_wheel`; a language without a file, a damaged wheel, no UTF-8.
    """
    wheel = download_wheel(source)
    with _open(wheel) as archive:
        for members in _members(archive, wheel, source, languages).values():
            for _, member in members:
                where = f"{wheel.name}/{member}"
                yield where, _utf8(_read(archive, wheel, member), where)


def _open(wheel: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(wheel)
    except zipfile.BadZipFile as error:
        raise _damaged(wheel, error) from None


def _read(archive: zipfile.ZipFile, wheel: Path, member: str) -> bytes:
    try:
        return archive.read(member)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise _damaged(wheel, error) from None


def _damaged(wheel: Path, error: Exception) -> DataError:
    return DataError(
        wheel,
        found=f"a damaged archive ({error})",
        expected="a wheel",
        mend=f"delete {wheel.parent} and run `make setup`; if it stays, name another release",
    )


def _pattern(files: str) -> re.Pattern[str]:
    """The glob as an expression. A folder or file name with a wildcard is a group (it becomes
    part of the key); of a name with `{language}`, only what the wildcards match is."""

    def translate(name: str) -> str:
        parts = re.split(r"(\*|\?|\[[^\]]+\]|\{language\})", name)
        kinds = {"*": "[^/]*", "?": "[^/]", "{language}": "(?P<language>[^/]+)"}
        whole = "{language}" not in parts
        for index in range(1, len(parts), 2):
            inner = kinds.get(parts[index]) or parts[index].replace("[!", "[^", 1)
            parts[index] = inner if whole or parts[index] == "{language}" else f"({inner})"
        parts[::2] = map(re.escape, parts[::2])
        return f"({''.join(parts)})" if whole and len(parts) > 1 else "".join(parts)

    return re.compile("/".join(map(translate, files.split("/"))))


def _members(
    archive: zipfile.ZipFile, wheel: Path, source: WheelSource, languages: list[str]
) -> dict[str, list[tuple[str, str]]]:
    """Per language, (what the wildcards match, member name), sorted by name."""
    names = sorted(archive.namelist())
    matches = [m for m in map(_pattern(source.files).fullmatch, names) if m]
    if not matches:
        raise DataError(
            f"{wheel.name}: {source.files}",
            found="no file that matches",
            expected="at least one",
            mend="correct source.files (`unzip -l` lists the wheel)",
        )
    if "{language}" not in source.files:
        return {languages[0]: [("/".join(m.groups()), m[0]) for m in matches]}
    result: dict[str, list[tuple[str, str]]] = {lang: [] for lang in languages}
    for match in matches:
        lang = match["language"]
        if lang in result:
            rest = [
                g for i, g in enumerate(match.groups(), 1) if i != match.re.groupindex["language"]
            ]
            result[lang].append(("/".join(rest), match[0]))
    for lang, members in result.items():
        if not members:
            raise DataError(
                f"{wheel.name}: language {lang}",
                found="no file of that language",
                expected=f"one of {', '.join(sorted({m['language'] for m in matches}))}",
                mend="correct `languages`",
            )
    return result


def _utf8(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}:{data[: error.start].count(10) + 1}",
            found=f"bytes that are not UTF-8 ({error.reason})",
            expected="UTF-8",
            mend="name another release in source.version",
        ) from None


def _json(data: bytes, where: str) -> Any:
    try:
        tree = json.loads(_utf8(data, where))
        json.dumps(tree, ensure_ascii=False).encode()  # a lone surrogate is no text
        return tree
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise DataError(
            f"{where}:{line}" if line else where,
            found=f"broken JSON ({getattr(error, 'msg', error)})",
            expected="a JSON object of strings",
            mend="name another release in source.version",
        ) from None


def _strings(tree: Any, key: str, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(tree, str):
        yield key, tree
    elif isinstance(tree, dict):
        for name, item in tree.items():
            yield from _strings(item, f"{key}.{name}" if key else name, where)
    else:
        raise DataError(
            f"{where}: {key}",
            found=repr(tree)[:80],
            expected="a string or an object of strings",
            mend="name other files in source.files",
        )
