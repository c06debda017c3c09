"""Saving and loading: equal logits, the same tie, and errors that name the tensor."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from tiebench.errors import DataError, SettingsError
from tiebench.model.lm import LanguageModel, load_model, save_model
from tiebench.model.settings import BodySettings, CouplingSettings

BODY = BodySettings(option="t", width=8, layers=1, heads=2, feedforward_width=16, maximum_length=12)
HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
COUPLINGS = [
    CouplingSettings(option="tied", tied=True, transform=HEAD),
    CouplingSettings(option="untied", tied=False, transform=HEAD),
    CouplingSettings(option="wide", tied=False, input_width=4, output_width=24, transform=HEAD),
    CouplingSettings(option="narrow_tie", tied=True, input_width=4, output_width=4, transform=HEAD),
]


@pytest.fixture
def saved(tmp_path):
    model = LanguageModel(COUPLINGS[0], BODY, 20).initialize(0)
    save_model(model, tmp_path)
    return tmp_path


@pytest.mark.parametrize("settings", COUPLINGS, ids=lambda s: s.option)
def test_round_trip(settings, tmp_path):
    model = LanguageModel(settings, BODY, 20).initialize(0)
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    ids = torch.arange(6)[None]
    assert torch.equal(model(ids), again(ids))
    assert model.parameter_counts() == again.parameter_counts()
    assert (again.coupling.output_table is again.coupling.input_table) == settings.tied
    assert len(load_file(tmp_path / "model.safetensors")) == len(list(model.parameters()))
    assert (
        json.loads((tmp_path / "config.json").read_text())["coupling"]["option"] == settings.option
    )


def test_same_seed_same_bytes(tmp_path):
    for folder in ("a", "b"):
        save_model(LanguageModel(COUPLINGS[1], BODY, 20).initialize(7), tmp_path / folder)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_truncated_tensors(saved):
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match="model.safetensors.*whole safetensors file"):
        load_model(saved)


def test_missing_files(saved):
    (saved / "model.safetensors").unlink()
    with pytest.raises(DataError, match="model.safetensors"):
        load_model(saved)
    (saved / "config.json").unlink()
    with pytest.raises(DataError, match="config.json: found no such file"):
        load_model(saved)


@pytest.mark.parametrize("change", ["extra", "missing", "shape"])
def test_tensors_must_be_the_configs(saved, change):
    tensors = load_file(saved / "model.safetensors")
    if change == "extra":
        tensors["coupling.untied_output_table"] = torch.zeros(20, 8)
    elif change == "missing":
        del tensors["coupling.input_table"]
    else:
        tensors["coupling.input_table"] = torch.zeros(21, 8)
    save_file(tensors, saved / "model.safetensors")
    with pytest.raises(DataError, match="coupling..*table: found (shape|no such)"):
        load_model(saved)


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
