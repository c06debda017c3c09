"""What holds for the whole package: every module imports alone, every file of conf/ composes, and
no test reaches a network."""

from __future__ import annotations

import functools
import socket
import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT
from tiebench.checks import check
from tiebench.composition import compose, parse
from tiebench.errors import SettingsError
from tiebench.schema import validate
from tiebench.settings import Params

SOURCE, CONF = ROOT / "src", ROOT / "conf"
HEAVY = ("torch", "pandas", "transformers", "datasets", "pyarrow", "scipy", "matplotlib")
LIBRARIES = (*HEAVY, "pyarrow.parquet", "scipy.stats", "matplotlib.pyplot", "evaluate", "pydantic.fields", "omegaconf", "hydra")  # fmt: skip
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "tiebench").rglob("*.py")
    if path.name != "__main__.py"
)
EACH_ALONE = """
import importlib, os, sys, traceback
for name in {libraries}:  # once, so that the children have ours to import and little else
    importlib.import_module(name)
assert not any(name.startswith("tiebench") for name in sys.modules)
for name in sys.stdin.read().split():
    child = os.fork()
    if not child:
        try:
            importlib.import_module(name)
        except BaseException:
            print(name, traceback.format_exc(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print("all")
"""


def python(code: str, **given: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, **given
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_imports_alone() -> None:
    assert len(MODULES) > 80
    assert python(EACH_ALONE.format(libraries=LIBRARIES), input="\n".join(MODULES)) == "all\n"


HELP = "from tiebench.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"


@pytest.mark.parametrize("code", ["import tiebench", HELP])
def test_the_command_line_starts_without_libraries(code: str) -> None:
    loaded = python(f"import sys\n{code}\nprint(*{{x.partition('.')[0] for x in sys.modules}})")
    assert not {*HEAVY, "hydra", "omegaconf", "numpy"} & set(loaded.split("\n")[-2].split())


STUDIES = {
    "word_forms": "word_decoders", "remedies": "decoders", "remedies_micro": "decoders",
    **dict.fromkeys(
        (x.stem for x in (CONF / "study").glob("*.yaml") if x.stem.startswith(("press_wolf", "inan"))),
        "recurrent",
    ),
}  # fmt: skip
"""By study, its family, where it is no study of the encoders."""


def overrides(group: str, option: str) -> list[str]:
    """How a file of conf/ is chosen; a new group needs its line here.

    A task's section is the longest one that its name begins with. Beside a body go the objective
    that its direction needs, and no matched runs: their feed-forward widths were found for the
    default one.
    """
    begun = (section for section in Params.model_fields if option.startswith(section))
    places = {
        "body": "body@encoders.body",
        "corpus": "+corpus@corpora.new",
        "labels": "+labels@labels.new",
        "similarity": "similarity@tables.similarity",
        "size": "size",
        "statistics": "statistics",
        "study": f"study@{STUDIES.get(option, 'encoders')}",
        "sweep": f"sweep@sweeps.{option}",
        "task": f"task@{max(begun, key=len, default='')}",
    }
    if group == "coupling":  # all at once, each as a run
        names = sorted(path.stem for path in (CONF / group).glob("*.yaml"))
        return [f"+coupling@encoders.runs.new_{name}.coupling={name}" for name in names]
    assert group in places, f"conf/{group}: no rule to compose it"
    chosen = [f"{places[group]}={option}"]
    if option == "remedies_micro":  # the sweeps of other sizes name runs that it has not
        chosen.append("size=micro")
    if group == "body" and option == "lstm":  # which reads a stream, as one family does
        return ["body@recurrent.body=lstm"]
    if group == "body":
        encoders = parse(composed(tuple(chosen)))["encoders"]
        chosen += [f"~encoders.matched.{run}" for run in encoders["matched"]]
        chosen += ["encoders.matched_seeds=[]"]
        if encoders["body"]["kind"] == "identity":  # which has none of what the size sets
            chosen += [f"encoders.body.{x}=0" for x in ("layers", "heads", "feedforward_width")]
        if encoders["body"]["causal"]:
            chosen += ["encoders.training.objective=causal", "encoders.training.masking=null"]
    return chosen


@functools.cache
def composed(chosen: tuple[str, ...]) -> str:
    return compose(chosen, CONF)[0]


FILES = sorted(str(path.relative_to(CONF).with_suffix("")) for path in CONF.glob("*/*.yaml"))


def test_conf_has_no_other_files() -> None:
    held = {str(path.relative_to(CONF)) for path in CONF.rglob("*") if path.is_file()}
    bodies = {x for x in held if x.startswith("body/published/") and x.endswith(".yaml")}
    assert bodies  # runs of test_composition
    assert held == {"config.yaml", *(f"{name}.yaml" for name in FILES), *bodies}


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_conf_composes_and_validates(file: str) -> None:
    group, option = file.split("/")
    values = parse(composed(tuple(overrides(group, option))))
    check(validate(Params, values))
    recorded = "study" if group == "study" else "size" if group == "size" else "option"
    assert f"'{recorded}': '{option}'" in str(values)


def test_a_wrong_value_in_a_file_of_conf_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"encoders\.body\.heads|heads that divide the width"):
        check(validate(Params, parse(compose(["encoders.body.heads=3"], CONF)[0])))


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
