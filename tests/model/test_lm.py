"""Saving and loading: equal logits, the same tie, and errors that name the tensor."""

import functools
import json
import shutil

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from tests.conftest import ROOT
from tiebench.composition import compose, parse
from tiebench.errors import DataError, SettingsError, TiebenchError
from tiebench.model.lm import TABLES, LanguageModel, load_model, save_model
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate

BODY = BodySettings(option="t", width=8, layers=1, heads=2, feedforward_width=16, maximum_length=12)
HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
COUPLINGS = [
    CouplingSettings(option="tied", tied=True, transform=HEAD),
    CouplingSettings(option="untied", tied=False, transform=HEAD),
    CouplingSettings(option="wide", tied=False, input_width=4, output_width=24, transform=HEAD),
    CouplingSettings(option="narrow_tie", tied=True, input_width=4, output_width=4, transform=HEAD),
]
OPTIONS = sorted(path.stem for path in (ROOT / "conf" / "coupling").glob("*.yaml"))
"""Every coupling that there is, on the body of the micro size."""
VOCABULARY = 20
IDS = torch.tensor([[1, 5, 6, 7, 5, 2], [1, 9, 19, 3, 4, 2]])


@functools.cache
def composed(option: str) -> tuple[CouplingSettings, BodySettings]:
    choices = ["size=micro", f"+coupling@encoders.runs.new.coupling={option}"]
    values = parse(compose(choices, ROOT / "conf")[0])["encoders"]
    return (
        validate(CouplingSettings, values["runs"]["new"]["coupling"]),
        validate(BodySettings, values["body"]),
    )


def make(option: str) -> LanguageModel:
    return LanguageModel(*composed(option), VOCABULARY).initialize(0)


def unique_parameters(model: LanguageModel) -> int:
    """Counted by their memory."""
    return sum({p.data_ptr(): p.numel() for p in model.parameters()}.values())


@pytest.fixture
def saved(tmp_path):
    model = LanguageModel(COUPLINGS[0], BODY, 20).initialize(0)
    save_model(model, tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", OPTIONS)
def test_round_trip(option, tmp_path):
    model = make(option)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    assert torch.equal(model(IDS), again(IDS))
    assert again.settings == model.settings
    assert model.parameter_counts() == again.parameter_counts()
    assert unique_parameters(model) == unique_parameters(again)
    assert unique_parameters(model) == model.parameter_counts()["pretraining"]
    tied = model.settings.coupling.tied
    assert (again.coupling.output_table is again.coupling.input_table) == tied
    assert sum(p.numel() for p in model.parameters()) == unique_parameters(model)
    assert set(load_file(tmp_path / "model.safetensors")) == {
        n for n, _ in model.named_parameters()
    }
    assert json.loads((tmp_path / "config.json").read_text())["coupling"]["option"] == option


@pytest.mark.parametrize("option", OPTIONS)
def test_assigned_tensors_keep_the_tie(option):
    """What `load_state_dict(assign=True)` puts in place is one table where the coupling ties."""
    source = make(option)
    with torch.device("meta"):
        model = LanguageModel(*composed(option), VOCABULARY)
    held = {name: p.detach().clone() for name, p in source.named_parameters()}
    model.load_state_dict(held, assign=True)
    assert model.coupling.input_table.data_ptr() == held["coupling.input_table"].data_ptr()
    tables = [p for name, p in model.named_parameters() if name in TABLES]
    tied = model.settings.coupling.tied
    assert (model.coupling.output_table is model.coupling.input_table) == tied
    assert len(tables) == 2 - tied
    assert torch.equal(model(IDS), source(IDS))
    step(model, model)
    step(source, source)
    assert torch.equal(model(IDS), source(IDS))


def step(model, called) -> torch.optim.Optimizer:
    """One update, of losses that `called`, the model or what is compiled of it, gives."""
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.zero_grad()
    F.cross_entropy(called(IDS).flatten(0, 1), IDS.flatten()).backward()
    optimizer.step()
    return optimizer


def untwined(model: LanguageModel) -> LanguageModel:
    """The same model with two tables of equal content: each has the gradient of one use."""
    coupling, body = model.settings.coupling, model.settings.body
    loose = LanguageModel(coupling.model_copy(update={"tied": False}), body, model.vocabulary)
    held = model.state_dict()
    held["coupling.untied_output_table"] = held["coupling.input_table"].clone()
    loose.load_state_dict(held)
    return loose


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="Inductor writes C++, and g++ compiles it")
def test_compiled_to_machine_code_keeps_the_tie():
    check_compiled("tied", "inductor")


@pytest.mark.parametrize("option", OPTIONS)
def test_compiled_keeps_the_tie(option):
    check_compiled(option, "aot_eager")


def check_compiled(option, backend):
    """One table, one optimizer state, and for a tied one the gradient of both uses."""
    coupling, body = composed(option)
    small = BodySettings(option="t", kind="identity", width=body.width)  # as it compiles soonest
    if coupling.input_scale != 1:  # which a norm straight after the table would undo
        small = BodySettings(option="t", width=body.width, layers=1, heads=1, feedforward_width=8)
    model, plain = (LanguageModel(coupling, small, VOCABULARY).initialize(0) for _ in "ab")
    loose = untwined(plain) if coupling.tied else plain
    torch.compiler.reset()
    optimizer = step(model, torch.compile(model, backend=backend))
    step(loose, loose)
    torch.compiler.reset()
    table = model.coupling.input_table
    assert (model.coupling.output_table is table) == coupling.tied
    wanted = loose.coupling.input_table.grad
    if coupling.tied:
        wanted = wanted + loose.coupling.output_table.grad
        assert not torch.allclose(wanted, loose.coupling.input_table.grad)
    torch.testing.assert_close(table.grad, wanted)
    assert len(optimizer.state) == len([p for p in model.parameters() if p.requires_grad])
    assert optimizer.state[table]["exp_avg"].shape == table.shape


def test_same_seed_same_bytes(tmp_path):
    for folder in ("a", "b"):
        save_model(LanguageModel(COUPLINGS[1], BODY, 20).initialize(7), tmp_path / folder)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -8, -1])
def test_half_written_tensors_are_not_loaded(saved, kept):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match="model.safetensors.*whole safetensors file"):
        load_model(saved)


@pytest.mark.parametrize("kept", [0, 1, 40, -2])
def test_a_half_written_config_is_not_loaded(saved, kept):
    path = saved / "config.json"
    path.write_text(path.read_text()[:kept])
    with pytest.raises(DataError, match=r"config\.json: found broken JSON"):
        load_model(saved)


@pytest.mark.parametrize("number", [1, 2])
def test_a_full_disk_leaves_no_mixture(saved, full_disk, number):
    """The tensors are written first: with the old config beside them they are refused by name."""
    before = load_model(saved)(IDS)
    other = LanguageModel(COUPLINGS[1], BODY, 20).initialize(1)
    assert full_disk.refuse(lambda: save_model(other, saved), number)
    assert sorted(x.name for x in saved.iterdir()) == ["config.json", "model.safetensors"]
    if number == 1:
        assert torch.equal(load_model(saved)(IDS), before)
    else:
        with pytest.raises(DataError, match="untied_output_table: found shape .*no such tensor"):
            load_model(saved)


def test_missing_files(saved):
    (saved / "model.safetensors").unlink()
    with pytest.raises(DataError, match="model.safetensors"):
        load_model(saved)
    (saved / "config.json").unlink()
    with pytest.raises(DataError, match="config.json: found no such file"):
        load_model(saved)


@pytest.mark.parametrize("change", ["extra", "missing", "shape", "type"])
def test_tensors_must_be_the_configs(saved, change):
    tensors = load_file(saved / "model.safetensors")
    if change == "extra":
        tensors["coupling.untied_output_table"] = torch.zeros(20, 8)
    elif change == "missing":
        del tensors["coupling.input_table"]
    elif change == "shape":
        tensors["coupling.input_table"] = torch.zeros(21, 8)
    else:
        tensors["coupling.input_table"] = tensors["coupling.input_table"].half()
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(DataError, match="coupling..*table: found (shape|no such|type)"):
        load_model(saved)


@pytest.mark.parametrize(
    ("held", "changes", "expected"),
    [
        (0, {"coupling.tied": False}, "coupling.untied_output_table: found no such tensor"),
        (1, {"coupling.tied": True}, r"coupling.untied_output_table: found shape \[20, 8\]"),
        (2, {"coupling.input_width": 5}, r"coupling.input_map.weight: found .*\[8, 5\] as in conf"),
        (2, {"coupling.output_width": 23}, r"coupling.transform.0.bias: found shape \[24\]"),
        (2, {"coupling.input_width": None}, "coupling.input_map.bias: found .*no such tensor"),
        (0, {"coupling.transform": []}, "coupling.transform.0.bias: found .*no such tensor"),
        (0, {"coupling.bias": False}, "coupling.bias: found .*no such tensor"),
        (0, {"body.width": 16}, r"body.*: found shape .*16"),
        (0, {"body.layers": 2}, r"body.*\.1\..*: found no such tensor"),
        (0, {"body.feedforward_width": 12}, r"feedforward\S*: found shape .*16\].*12\] as in conf"),
        (0, {"body.maximum_length": 13}, r"body.position_table: found shape \[12, 8\]"),
        (0, {"vocabulary": 21}, r"coupling.bias: found shape \[20\]; expected shape \[21\] as in"),
        *((0, {"vocabulary": x}, "config.json: vocabulary: found") for x in (0, -1, "20", None, 2.5)),
    ],
)  # fmt: skip
def test_a_config_that_disagrees_with_the_tensors(tmp_path, held, changes, expected):
    save_model(LanguageModel(COUPLINGS[held], BODY, 20).initialize(0), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for key, value in changes.items():
        *path, leaf = key.split(".")
        functools.reduce(dict.__getitem__, path, config)[leaf] = value
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(TiebenchError, match=expected) as caught:
        load_model(tmp_path)
    assert caught.value.mend


def test_config_of_another_format(saved):
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, "format": 99}))
    with pytest.raises(DataError, match="format 99"):
        load_model(saved)
    (saved / "config.json").write_text(
        json.dumps({**config, "body": {**config["body"], "widht": 3}})
    )
    with pytest.raises(SettingsError, match="body.widht: found a key that no setting has"):
        load_model(saved)
