"""The contenders of each benchmark compute the same thing; no time is measured."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from dvc.repo import Repo
from torch import Tensor, nn

from tests.conftest import ROOT

FOLDER = ROOT / "benchmarks"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts import `support` from their own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))


def script(path: str) -> ModuleType:
    """A script of benchmarks/ as a module, under a name that no other module has."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{Path(path).stem}", FOLDER / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def test_training_contenders_have_equal_losses_and_gradients() -> None:
    training, models = script("training.py"), script("support/contenders.py")
    shape = models.Shape(layers=2, width=32, heads=2, vocabulary=120, batch=3, sequence=16)
    contenders = {name: make(shape) for name, make in models.CONTENDERS.items()}
    batch = next(models.batches(shape))
    training.check_equal_losses(contenders, batch)
    for contender in contenders.values():
        contender.loss(batch).backward()
    ours = gradients(contenders.pop("ours").model)
    types = "bert.embeddings.token_type_embeddings.weight"
    places = models.bert_places(shape.layers)
    for contender in contenders.values():
        theirs = gradients(contender.model)
        assert theirs.keys() == places.keys() - {
            "cls.predictions.decoder.weight",
            "cls.predictions.decoder.bias",
        } | {types}
        for peer, grad in theirs.items():
            if peer != types:
                name, third = places[peer]
                expected = ours[name] if third is None else ours[name].chunk(3)[third]
                torch.testing.assert_close(grad, expected, rtol=1e-4, atol=1e-7)


def test_training_refuses_contenders_with_other_losses() -> None:
    training, models = script("training.py"), script("support/contenders.py")
    shape = models.Shape(layers=1, width=16, heads=2, vocabulary=50, batch=2, sequence=16)
    contenders = {name: make(shape) for name, make in models.CONTENDERS.items()}
    with torch.no_grad():
        contenders["masked only"].model.cls.predictions.bias.add_(torch.arange(50.0))
    with pytest.raises(SystemExit, match="different losses on the same batch"):
        training.check_equal_losses(contenders, next(models.batches(shape)))


def test_training_counts_the_operations_of_an_update() -> None:
    training, models = script("training.py"), script("support/contenders.py")
    width, tokens, predicted = 256, 32 * 64, 307
    block = 4 * width**2 + 2 * 64 * width + 2 * 4 * width**2
    head = width**2 + 32_000 * width
    assert training.update_flops(models.Shape()) == pytest.approx(
        6 * (tokens * 4 * block + predicted * head)
    )


@pytest.mark.parametrize(
    ("operation", "sizes", "kind"),
    [
        ("aten::addmm", [[90], [7, 8], [8, 90]], "products with the output table"),
        ("aten::addmm_", [[90, 8], [90, 7], [7, 8]], "products with the output table"),
        ("aten::addmm", [[8], [7, 8], [8, 8]], "products in the body and the head's transform"),
        ("aten::exp_", [[7, 90]], "softmax and loss over the logits"),
        ("aten::fill_", [[90, 8], []], "sums and buffers of the table"),
        ("aten::gelu", [[2, 7, 32]], "GELU and layer norms"),
        ("aten::_fused_adamw_", [[]], "optimizer and the gradient's norm"),
        ("AddmmBackward0", [], "the rest (autograd and Python)"),
    ],
)
def test_training_kinds_of_operations(operation: str, sizes: list[list[int]], kind: str) -> None:
    assert script("training.py").kind_of(operation, sizes, vocabulary=90) == kind


def test_probing_contenders_encode_the_same() -> None:
    probing = script("probing.py")
    sentences, spans = probing.draw_sentences(4)
    model, device = probing.drawn_model(), torch.device("cpu")
    once = probing.span_vectors(model, sentences, spans, device, "once")
    single = probing.span_vectors(model, *probing.one_by_one(sentences, spans), device, "single")
    np.testing.assert_allclose(once, single, atol=1e-4)


def test_startup_imports_what_the_stages_and_the_peer_do() -> None:
    """In one process, which forgets our own modules before the second stage."""
    startup = script("startup.py")
    forget = "[sys.modules.pop(x) for x in list(sys.modules) if x.startswith('tiebench')]"
    code = [
        f"{startup.program(x)}; import sys; print(*sys.modules); {forget}" for x in startup.STAGES
    ]
    said = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=300,
    ).stdout.splitlines()  # fmt: skip
    needed = {"torch", "pyarrow.parquet", "tokenizers", "tiebench.model.lm", "tiebench.settings"}
    assert len(said) == 2 and all(needed <= set(x.split()) for x in said)


def test_pipeline_stands_in_for_all_that_stages_write_and_read(tmp_path: Path) -> None:
    pipeline = script("pipeline.py")
    pipeline.copy_project(tmp_path)
    pipeline.run(tmp_path, "python", "-m", "tiebench", "params")
    count = pipeline.stand_in(tmp_path)
    stages = Repo(str(tmp_path)).index.stages
    assert count == len(stages) > 4
    missing = [
        x.def_path
        for s in stages
        for x in (*s.outs, *s.deps)
        if not (tmp_path / x.def_path).exists()
    ]
    assert missing == []


def test_results_replace_their_name_and_say_whether_the_target_is_met(tmp_path: Path) -> None:
    results = script("support/results.py")
    path = tmp_path / "results.json"
    results.record("speed", 1234.5, 100.0, "tokens/s", "at least 20", path)
    results.record("memory", 100.0, 400.0, "MiB", "at most 0.5", path)
    results.record("other", 1.0, 2.0, "s", None, path)
    results.record("speed", 3000.0, 100.0, "tokens/s", "at least 20", path)
    held = json.loads(path.read_bytes())
    assert [x["name"] for x in held] == ["memory", "other", "speed"]
    assert held[-1] == {
        "name": "speed", "ours": 3000.0, "peer": 100.0, "unit": "tokens/s", "ratio": 30.0,
        "target": "at least 20",
    }  # fmt: skip
    assert [results.met(x) for x in held] == ["yes", "", "yes"]
    assert results.met({**held[-1], "ratio": 19.9}) == "no"
    assert results.met({**held[0], "ratio": 0.6}) == "no"
    assert all(x["name"] in results.table(held) for x in held)


@pytest.mark.parametrize(("tied", "augmented"), [(False, False), (True, False), (False, True)])
def test_recurrent_contenders_make_the_same_updates(tied: bool, augmented: bool) -> None:
    recurrent = script("recurrent.py")
    ours, plain = recurrent.make(tied, augmented, vocabulary=40, width=8, words=20 * 101)
    recurrent.check_equal_losses(ours, plain)
    weights = {
        "coupling.input_table": plain.embedding.weight,
        "coupling.bias": plain.decoder.bias,
        "body.layers.1.recurrent_map": plain.lstm.weight_hh_l1,
    }
    held = dict(ours.model.named_parameters())
    for name, weight in weights.items():
        torch.testing.assert_close(held[name], weight, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        plain.decoder.bias += 1.0 * torch.arange(40) / 40
    with pytest.raises(SystemExit, match="different losses in update 1"):
        ours.steps_done, ours.record["sum"] = 0, 0.0
        recurrent.check_equal_losses(ours, plain)
