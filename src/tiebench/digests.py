"""What a stage's result depends on beside its parameters and inputs: code, data files, libraries.

DVC sees the bytes of the files that a stage lists, and follows no import. So the `code` stage
writes one small file per stage, and the stage depends on that file. It has a line for

- each module of ours that the stage's script reaches through imports, also those inside functions,
  without comments, docstrings and what errors say is expected and how it is mended, so that
  explaining reruns nothing;
- each data file in the folder of a reached module, and in folders below it without Python code
  (a registry in YAML, a template);
- each third-party package imported on the way, as its line in requirements.lock.

Imports for type checking only (under `if TYPE_CHECKING:`) are not followed.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiebench.errors import DataError
from tiebench.files import write_text

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "tiebench"
AROUND = frozenset(f"tiebench.{x}" for x in ("digests", "lifeline", "mending", "progress", "stage"))
"""Modules that start a stage, end it, or say how far it is: none shapes a result."""
BOUNDARIES = AROUND | {"tiebench.settings"}
"""Modules that are not followed and contribute nothing. `tiebench.settings` names the settings of
all sections: following it would let a change for one task rerun every other. The values reach a
stage as DVC parameters, and what a section's settings do to them is in the section's own module
(`tiebench.training.settings`), which the stage's code imports itself."""
WITHOUT_EFFECT = frozenset({"omegaconf", "psutil", "pydantic", "tqdm"})
"""Libraries that read settings, watch processes or show progress: another version changes no
result."""
DISTRIBUTIONS = {"hydra": "hydra-core", "sklearn": "scikit-learn", "yaml": "pyyaml"}
"""Import names that differ from the name in requirements.lock."""
DATA = frozenset({".yaml", ".json", ".html", ".css", ".mplstyle"})
"""Endings of the package's data files; an editor's backup beside them is none."""
ADVICE = frozenset({"expected", "mend"})
"""Arguments of errors that are only read by people; what was found can become part of a table."""
NOT_DIGESTED = frozenset({"code"})
"""Stages without a digest: this one."""


def write_digests(folder: Path, root: Path = ROOT) -> None:
    """Write `<stage>.txt` for every script in stages/.

    Raises:
        DataError: a script or module that does not parse (with the line), or an import that is
            neither ours, nor Python's, nor in requirements.lock.
    """
    for script in sorted((root / "stages").glob("*.py")):
        if script.stem not in NOT_DIGESTED:
            write_text(folder / f"{script.stem}.txt", digest_text(script.stem, root))


def stage_digest(stage: str, root: Path = ROOT) -> str:
    """One sha256 for all that the digest file of a stage says."""
    return hashlib.sha256(digest_text(stage, root).encode()).hexdigest()


def digest_text(stage: str, root: Path = ROOT) -> str:
    """The content of a stage's digest file: sorted lines `digest  path` and `name==version`."""
    script = root / "stages" / f"{stage}.py"
    # The settings stage is about the whole schema; for the others it is a boundary.
    boundaries = AROUND if stage == "settings" else BOUNDARIES
    reached, libraries = _reach(script, root / "src", boundaries)
    lines = [f"{_digested(path)[0]}  {path.relative_to(root)}" for path in reached]
    folders = {path.parent for path in reached if path != script}
    for path in {file for folder in folders for file in _data_files(folder)}:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        lines.append(f"{digest}  {path.relative_to(root)}")
    locked = _locked(root / "requirements.lock")
    lines += [_lock_line(name, locked, script) for name in libraries]
    return "".join(f"{line}\n" for line in sorted(lines, key=lambda x: x.split("  ")[-1]))


def _reach(script: Path, source: Path, boundaries: frozenset[str]) -> tuple[list[Path], set[str]]:
    """Our files that `script` reaches, itself among them, and the other packages they import."""
    reached: dict[Path, None] = {}
    libraries: set[str] = set()
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path in reached:
            continue
        reached[path] = None
        for module in _imported(path, source):
            top = module.partition(".")[0]
            if top == PACKAGE:
                if not any(module == x or module.startswith(f"{x}.") for x in boundaries):
                    waiting += _module_files(module, source)
            elif top not in sys.stdlib_module_names and top not in WITHOUT_EFFECT:
                libraries.add(top)
    return sorted(reached), libraries


def _imported(path: Path, source: Path) -> Iterator[str]:
    """Every module that a file may import, `from a import b` as `a` and `a.b`."""
    for level, base, names in _digested(path)[1]:
        if level:
            package = path.relative_to(source).with_suffix("").parts[:-level]
            base = ".".join([*package, base] if base else package)
        yield base
        if base.partition(".")[0] == PACKAGE:
            yield from (f"{base}.{name}" for name in names)


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Level, module and names of every import, `import a` without names."""
    for node in _runtime_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", tuple(alias.name for alias in node.names)


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _runtime_nodes(other)
        else:
            yield from _runtime_nodes(child)


def _module_files(module: str, source: Path) -> list[Path]:
    """The files that importing a module runs: the packages above it and the module itself."""
    found, parts = [], module.split(".")
    for depth in range(1, len(parts) + 1):
        stem = source.joinpath(*parts[:depth])
        for path in (stem / "__init__.py", stem.with_suffix(".py")):
            if path.is_file():
                found.append(path)
                break
    return found


def _digested(path: Path) -> tuple[str, tuple[tuple[int, str, tuple[str, ...]], ...]]:
    """A digest of what a file does, and its imports."""
    try:
        return _digest_source(path.read_bytes())
    except (OSError, SyntaxError) as error:
        raise DataError(
            path, found=str(error), expected="a Python file", mend="correct the file"
        ) from None


@functools.cache  # stages share most of their files
def _digest_source(source: bytes) -> tuple[str, tuple[tuple[int, str, tuple[str, ...]], ...]]:
    """A digest of the syntax tree without what only explains, and layout; the imports."""
    tree = ast.parse(source)
    imports = tuple(_imports(tree))
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                setattr(node, field, [x for x in block if not _is_text(x)])
        if isinstance(node, ast.Call) and _called(node.func).endswith("Error"):
            node.keywords = [x for x in node.keywords if x.arg not in ADVICE]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16], imports


def _called(node: ast.expr) -> str:
    """The last part of a function's name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_text(node: ast.AST) -> bool:
    """A string that stands alone: the docstring of a module, class, function or field."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _data_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name.startswith((".", "__pycache__")):
            continue
        if path.is_file() and path.suffix in DATA:
            yield path
        elif path.is_dir() and not any(path.rglob("*.py")):
            yield from (x for x in path.rglob("*") if x.is_file())


def locked_versions(names: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """The version of each library in requirements.lock, without a local part (`+cpu`)."""
    locked = _locked(root / "requirements.lock")
    lines = {name: locked[_normal(name)] for name in names}
    return {name: line.partition("==")[2].partition("+")[0] for name, line in lines.items()}


def _locked(lock: Path) -> dict[str, str]:
    """The lines of requirements.lock by normalized name."""
    lines = [line.strip() for line in lock.read_text("utf-8").splitlines()]
    pins = [line for line in lines if re.match(r"^[A-Za-z0-9._-]+==\S+$", line)]
    return {_normal(line.partition("==")[0]): line for line in pins}


def _lock_line(module: str, locked: dict[str, str], script: Path) -> str:
    name = _normal(DISTRIBUTIONS.get(module, module))
    if name not in locked:
        raise DataError(
            script,
            found=f"an import of {module}, on the way, that requirements.lock does not pin",
            expected="a line for every imported package",
            mend=f"add {name}==VERSION to requirements.lock, or its name to "
            "tiebench.digests.DISTRIBUTIONS",
        )
    return locked[name]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
