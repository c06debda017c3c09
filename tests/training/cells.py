"""A corpus of two made-up languages and the settings of a family on it: cells of a second.

And what tests do to their training.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.conftest import ROOT, communicate
from tiebench import paths
from tiebench.composition import compose, parse
from tiebench.corpus.tokenizer import train_tokenizer
from tiebench.corpus.tokens import write_tokens
from tiebench.files import sha256_of
from tiebench.settings import Params, load_params
from tiebench.training.pretrain import Loop, pretrain
from tiebench.training.workers import WORKER

DEFAULT = parse(compose(conf=ROOT / "conf")[0])
HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
OUTPUTS = [
    "README.md",
    "config.json",
    "history.csv",
    "metrics.json",
    "model.safetensors",
    "tokenizer.json",
]


def make_params(**training):
    source = {"kind": "local", "folder": "t", "format": "lines", "files": {"a": "a", "b": "b"}}
    corpus = {
        "option": "t", "source": source, "languages": ["a", "b"], "seed": 0, "valid_share": 0.1,
        "heldout": {"sentences": 5, "minimum_words": 1}, "tokenizer": {"vocabulary": 300},
    }  # fmt: skip
    runs = {
        "tied": {"coupling": {"option": "tied", "tied": True, "transform": HEAD}},
        "wide": {
            "coupling": {
                "option": "wide",
                "tied": False,
                "input_width": 4,
                "output_width": 24,
                "transform": HEAD,
            }
        },
        "untrained": {
            "coupling": {"option": "tied", "tied": True, "transform": HEAD},
            "trained": False,
        },
    }
    family = {
        "study": "t", "corpus": "t", "baseline": "tied", "runs": runs, "seeds": [0, 1],
        "body": {
            "option": "t", "width": 16, "layers": 2, "heads": 2, "feedforward_width": 32,
            "maximum_length": 16,
        },
        "training": {
            "objective": "masked", "masking": {"probability": 0.3}, "steps": 30, "batch_size": 4,
            "sequence_length": 16, "sampling_exponent": 0.5, "learning_rate": 1e-2,
            "warmup_steps": 3, "log_every": 4, "validate_every": 10, "validation_windows": 3, **training,
        },
    }  # fmt: skip
    unread = {name: DEFAULT[name] for name in ("labels", "probing", "transfer", "statistics")}
    retrieval = {"sets": ["t"], "pool": 5, "distances": ["l2"], "offsets": ["none"]}
    return Params.model_validate(
        {
            "size": "t",
            "name": "t",
            "corpora": {"t": corpus},
            "encoders": family,
            "retrieval": retrieval,
            **unread,
        }
    )


def write_params(**training) -> Params:
    """Settings that the stages take too, as params.yaml in the working folder."""
    values = make_params(**{"validate_every": 3, **training}).model_dump(mode="json")
    for name, section in DEFAULT.items():
        if not values.get(name):
            values[name] = section
    values["corpora"] = {**DEFAULT["corpora"], **values["corpora"]}
    values["labels"]["turkish_treebanks"]["maximum_bytes"] = 14
    Path("params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return load_params()


def write_corpus() -> Path:
    """The corpus, prepared, in the working folder."""
    folder = paths.corpus_folder("t")
    folder.mkdir(parents=True)
    text = "the cat sat on a mat and then it ran off again to see what there was when they had gone"
    tokenizer = train_tokenizer([text, "all of them home by then"] * 20, 300, "t")
    tokenizer.save(str(folder / "tokenizer.json"))
    rng = np.random.default_rng(0)
    for name, size in (("train", 3000), ("valid", 200)):
        ids = {x: np.clip(rng.geometric(0.05, size) + 3, 4, 299).astype(np.uint16) for x in "ab"}
        write_tokens(folder / f"{name}.safetensors", ids, sha256_of(folder / "tokenizer.json"), 300)
    return folder


def read(folder: Path) -> dict[str, bytes]:
    """The outputs of a cell."""
    return {name: (folder / name).read_bytes() for name in OUTPUTS}


def strays() -> list[str]:
    """What a kill could leave in the working folder, beside whole outputs and lock files."""
    held = [x for place in ("runs", "logs", ".scratch") for x in Path(place).rglob("*")]
    return sorted(
        str(x) for x in held
        if x.name.startswith(".") or (x.parts[0] == ".scratch" and x.suffix != ".lock")
    )  # fmt: skip


class Stop(Exception):
    pass


def stop_before(monkeypatch: pytest.MonkeyPatch, step: int, cell: str = "tied") -> None:
    """Train a cell with a checkpoint after every update, and stop it before an update."""
    update = Loop._update

    def stopping(self, batch, name):
        if self.steps_done == step:
            raise Stop
        update(self, batch, name)

    with monkeypatch.context() as patched:
        patched.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
        patched.setattr(Loop, "_update", stopping)
        with pytest.raises(Stop):
            pretrain(make_params(), "encoders", cell, 0)


def steps_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list to which every later update adds its step."""
    steps, update = [], Loop._update

    def noting(self, batch, cell):
        steps.append(self.steps_done)
        update(self, batch, cell)

    monkeypatch.setattr(Loop, "_update", noting)
    return steps


def as_worker(monkeypatch: pytest.MonkeyPatch, rank: int, size: int) -> None:
    """As one of several processes that a launcher has started."""
    for name, value in zip(WORKER, (rank, rank, size, size), strict=True):
        monkeypatch.setenv(name, str(value))


def wait_for_checkpoint(process: subprocess.Popen[str]) -> None:
    """Wait until a training that a process has started in the working folder has one."""
    end = time.monotonic() + 300
    while not list(paths.SCRATCH.glob("*/checkpoint.safetensors")):
        assert process.poll() is None and time.monotonic() < end, communicate(process, 0)
        time.sleep(0.02)
