"""What holds for the whole package: every module imports alone, and no test reaches a network."""

from __future__ import annotations

import ast
import socket
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest
import yaml

from tests.conftest import ROOT

SOURCE = ROOT / "src"
HEAVY = ("torch", "pandas", "transformers", "datasets", "pyarrow", "scipy", "matplotlib")
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "tiebench").rglob("*.py")
    if path.name != "__main__.py"
)
ALL = "import importlib, sys\nfor name in sys.stdin.read().split(): importlib.import_module(name)"


def python(code: str, **given: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, **given
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """What an import of a module runs: not the inside of functions, nor what only types need."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_import(child)


def imported_first(name: str) -> set[str]:
    """The modules of ours that importing a module runs before it: parents, and top-level imports."""
    path = SOURCE.joinpath(*name.split("."))
    package = path.is_dir()
    tree = ast.parse(
        (path / "__init__.py" if package else path.with_suffix(".py")).read_text("utf-8")
    )
    found = {name.rpartition(".")[0]}
    for node in at_import(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = (
                name.split(".")[: len(name.split(".")) - node.level + package] if node.level else []
            )
            base = ".".join([*parts, *filter(None, [node.module])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return (found & set(MODULES)) - {name}


def test_every_module_imports_alone() -> None:
    """Since all import in one order, and no circle makes the order matter."""
    assert len(MODULES) > 80
    TopologicalSorter({name: imported_first(name) for name in MODULES}).prepare()
    python(ALL, input="\n".join(MODULES))


HELP = "from tiebench.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"


@pytest.mark.parametrize("code", ["import tiebench", HELP])
def test_the_command_line_starts_without_libraries(code: str) -> None:
    loaded = python(f"import sys\n{code}\nprint(*{{x.partition('.')[0] for x in sys.modules}})")
    assert not {*HEAVY, "hydra", "omegaconf", "numpy"} & set(loaded.split("\n")[-2].split())


OUTSIDE = ("192.0.2.1", 9)  # TEST-NET-1 (RFC 5737): nobody has it
CONNECT = f"import socket; socket.create_connection({OUTSIDE}, timeout=1)"


@pytest.mark.parametrize("name", ["connect", "connect_ex"])
def test_this_process_sees_no_network(name: str) -> None:
    with socket.socket() as connection:
        with pytest.raises(AssertionError, match=r"asked for '192\.0\.2\.1': tests use no network"):
            getattr(connection, name)(OUTSIDE)
    with socket.socket(type=socket.SOCK_DGRAM) as messages:
        with pytest.raises(AssertionError, match="no network"):
            messages.sendto(b"x", OUTSIDE)
    with pytest.raises(AssertionError, match=r"asked for 'example\.org'"):
        socket.getaddrinfo("example.org", 443)


def test_loopback_and_unix_sockets_stay(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(("localhost", server.getsockname()[1])):
            pass
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))


def test_processes_that_tests_start_see_no_network(tree) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECT], capture_output=True, text=True, check=False
    )
    said = tree.run("python", "-c", CONNECT, fails=True)
    for text in (done.stderr, said):
        assert "AssertionError: a test asked for '192.0.2.1': tests use no network" in text


def test_score_depends_on_every_section_of_the_settings() -> None:
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"]
    assert "params.yaml" in stages["score"]["deps"] and "params" not in stages["score"]
    scripts = {path.stem for path in (ROOT / "stages").glob("*.py")} - {
        "code",
        "settings",
        "report",
    }
    assert scripts == {x for x in scripts if f"code/{x}.txt" in stages["score"]["deps"]}
