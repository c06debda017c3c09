"""Tables, maps and transforms: one parameter when tied, refusals, counts."""

import pytest
import torch
from torch import nn

from tiebench.errors import SettingsError
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate

BODY = BodySettings(option="t", width=8, layers=2, heads=2, feedforward_width=16, maximum_length=12)
HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]


def coupling(**changes):
    return CouplingSettings(option="t", **{"tied": True, "transform": HEAD, **changes})


def test_tied_is_one_parameter():
    model = LanguageModel(coupling(), BODY, 20)
    assert model.coupling.output_table is model.coupling.input_table
    assert [n for n, p in model.named_parameters() if p.shape == (20, 8)] == [
        "coupling.input_table"
    ]
    assert set(model.state_dict()) == {n for n, _ in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.arange(6)[None]).sum().backward()
    optimizer.step()
    assert model.coupling.input_table in optimizer.state
    assert len(optimizer.state) == len(list(model.parameters()))


def test_tied_gradient_is_the_sum_of_both_uses():
    tied, untied = (
        LanguageModel(coupling(), BODY, 20),
        LanguageModel(coupling(tied=False), BODY, 20),
    )
    tied.initialize(3)
    weights = tied.state_dict()
    weights["coupling.untied_output_table"] = weights["coupling.input_table"].clone()
    untied.load_state_dict(weights)
    ids, where, targets = torch.tensor([[1, 5, 6, 7]]), torch.tensor([1, 3]), torch.tensor([9, 4])
    for model in (tied, untied):
        model.summed_loss(ids, where, targets).backward()
    both = untied.coupling.input_table.grad + untied.coupling.output_table.grad
    torch.testing.assert_close(tied.coupling.input_table.grad, both)


def test_widths_and_maps():
    model = LanguageModel(coupling(tied=False, input_width=3, output_width=24), BODY, 20)
    assert model.coupling.input_table.shape == (20, 3)
    assert model.coupling.output_table.shape == (20, 24)
    assert model.coupling.input_map.weight.shape == (8, 3)
    assert model(torch.arange(6)[None]).shape == (1, 6, 20)
    assert isinstance(LanguageModel(coupling(), BODY, 20).coupling.input_map, nn.Identity)


def test_narrow_tie_keeps_one_narrow_table():
    model = LanguageModel(coupling(input_width=3, output_width=3), BODY, 20)
    assert model.coupling.output_table is model.coupling.input_table
    assert model.coupling.input_table.shape == (20, 3)


@pytest.mark.parametrize(
    "widths", [{"input_width": 4}, {"output_width": 4}, {"input_width": 4, "output_width": 5}]
)
def test_unequal_widths_are_never_silently_untied(widths):
    with pytest.raises(SettingsError, match="equal widths when tied"):
        LanguageModel(coupling(**widths), BODY, 20)


def test_a_width_equal_to_the_bodys_ties():
    model = LanguageModel(coupling(output_width=8), BODY, 20)
    assert model.coupling.output_table is model.coupling.input_table


@pytest.mark.parametrize("transform", [[], [{"kind": "gelu"}], [{"kind": "linear", "width": 8}]])
def test_output_width_needs_a_linear_that_reaches_it(transform):
    with pytest.raises(SettingsError, match="width 8 to 8; expected .* output table's width, 24"):
        coupling(tied=False, output_width=24, transform=transform).widths(8)


def test_same_operation_twice_is_refused():
    settings = {"option": "t", "tied": True, "transform": [{"kind": "gelu"}, {"kind": "tanh"}]}
    with pytest.raises(SettingsError, match="another kind of operation between gelu, tanh"):
        validate(CouplingSettings, settings, "runs.a.coupling")


def test_every_field_changes_the_computation():
    ids = torch.arange(6)[None]
    plain = {"tied": False, "transform": HEAD, "bias": True, "std": 0.02}
    variants = [
        {"tied": True},
        {"input_width": 4},
        {"output_width": 4},
        {"bias": False},
        {"std": 0.5},
        {"transform": []},
        {"transform": [{"kind": "linear", "bias": False}, *HEAD[1:]]},
        {"transform": [{"kind": "linear"}, {"kind": "tanh"}, {"kind": "layer_norm"}]},
        {"transform": [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "rms_norm"}]},
        {
            "transform": [
                {"kind": "linear"},
                {"kind": "gelu"},
                {"kind": "layer_norm", "epsilon": 1.0},
            ]
        },
        {"transform": [{"kind": "linear", "width": 5}, {"kind": "relu"}, {"kind": "linear"}]},
    ]

    def fingerprint(settings):
        model = LanguageModel(CouplingSettings(option="t", **settings), BODY, 20).initialize(0)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):  # zero at the start: give them an effect
                    parameter.fill_(0.1)
        return float(model(ids).detach().double().square().sum()), sum(
            p.numel() for p in model.parameters()
        )

    seen = [fingerprint(plain)] + [fingerprint({**plain, **change}) for change in variants]
    assert len(set(seen)) == len(seen)


def test_parameter_counts_by_hand():
    counts = LanguageModel(
        coupling(tied=False, input_width=3, output_width=5), BODY, 20
    ).parameter_counts()
    block = (8 * 24 + 24) + (8 * 8 + 8) + (8 * 16 + 16) + (16 * 8 + 8) + 4 * 8
    assert counts == {
        "input_table": 60,
        "output_table": 100,
        "maps": 3 * 8 + 8,
        "head": (8 * 5 + 5) + 2 * 5 + 20,
        "positions": 12 * 8,
        "body": 2 * block + 2 * 8,
        "pretraining": 60 + 100 + 32 + 75 + 96 + 2 * block + 16,
        "fine_tuning": 60 + 32 + 96 + 2 * block + 16,
    }
