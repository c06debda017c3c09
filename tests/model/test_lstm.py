"""The recurrent body: torch's LSTM, one bias, a carried state, what is dropped, published sizes."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from tests.conftest import ROOT
from tiebench.composition import compose, parse
from tiebench.errors import SettingsError
from tiebench.model.lm import LanguageModel, load_model, save_model
from tiebench.model.recurrent import Dropout, Recurrent
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.model.tensors import generator_of
from tiebench.schema import validate
from tiebench.settings import Params

BODY = {"option": "t", "kind": "lstm", "width": 6, "layers": 2, "causal": True}


def body(**replaced) -> BodySettings:
    return validate(BodySettings, {**BODY, **replaced}, "body")


def make(**coupling) -> LanguageModel:
    held = CouplingSettings(option="t", **{"tied": True, **coupling})
    model = LanguageModel(held, body(std=0.3), 11).initialize(0)
    with torch.no_grad():  # biases that do something
        for layer in model.body.layers:
            layer.bias.uniform_(-0.5, 0.5)
    return model


@functools.cache
def published(study: str) -> Params:
    values = parse(compose([f"study@recurrent={study}"], ROOT / "conf")[0])
    return validate(Params, values)


@pytest.mark.parametrize(
    ("study", "run", "printed"),
    [
        ("press_wolf_small", "baseline", "4.65M"), ("press_wolf_small", "wt", "2.65M"),
        ("press_wolf_small", "pr", "4.69M"), ("press_wolf_small", "wt_pr", "2.69M"),
        ("press_wolf_large", "baseline", "66M"), ("press_wolf_large", "wt", "51M"),
    ],
)  # fmt: skip
def test_parameters_are_the_published_ones(study, run, printed):
    group = published(study).recurrent
    with torch.device("meta"):
        model = LanguageModel(group.runs[run].coupling, group.body_of(run), 10_000)
    counted = model.parameter_counts()["pretraining"]
    digits = 2 if "." in printed else 0
    assert f"{counted / 1e6:.{digits}f}M" == printed
    exact = {"baseline": 4_651_600, "wt": 2_651_600, "pr": 4_691_600, "wt_pr": 2_691_600}
    if study == "press_wolf_small":
        assert counted == exact[run]


def reference(model: LanguageModel) -> torch.nn.LSTM:
    lstm = torch.nn.LSTM(6, 6, num_layers=2)
    with torch.no_grad():
        for index, layer in enumerate(model.body.layers):
            getattr(lstm, f"weight_ih_l{index}").copy_(layer.input_map)
            getattr(lstm, f"weight_hh_l{index}").copy_(layer.recurrent_map)
            getattr(lstm, f"bias_ih_l{index}").copy_(layer.bias)
            getattr(lstm, f"bias_hh_l{index}").zero_()
    return lstm


def test_is_torchs_lstm_with_one_bias():
    model = make()
    lstm = reference(model)
    values = torch.randn(5, 3, 6)
    state = (torch.randn(2, 3, 6), torch.randn(2, 3, 6))
    states, left = model.body.advance(values, state)
    expected, kept = lstm(values, state)
    torch.testing.assert_close(states[-1], expected)
    torch.testing.assert_close(left, kept)
    states[-1].square().sum().backward()
    expected.square().sum().backward()
    for index, layer in enumerate(model.body.layers):
        torch.testing.assert_close(layer.bias.grad, getattr(lstm, f"bias_ih_l{index}").grad)
        torch.testing.assert_close(layer.input_map.grad, getattr(lstm, f"weight_ih_l{index}").grad)
    names = [name for name, _ in model.named_parameters() if "bias" in name]
    assert names == ["coupling.bias", "body.layers.0.bias", "body.layers.1.bias"]


def test_the_state_is_carried():
    model = make(transform=[{"kind": "linear"}])
    ids = torch.randint(11, (9, 3))
    whole, left = model.advance(ids)
    parts, state = [], None
    for span in (ids[:4], ids[4:5], ids[5:]):
        part, state = model.advance(span, state)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts), whole)
    torch.testing.assert_close(state, left)
    fresh, _ = model.advance(ids[4:])
    assert not torch.allclose(fresh, whole[4 * 3 :], atol=1e-3)


def test_states_of_every_layer_batch_first():
    model = make(input_width=4, output_width=4, transform=[{"kind": "linear"}])
    ids = torch.randint(11, (3, 5))
    states = model.states(ids)
    assert [x.shape for x in states] == [(3, 5, 6)] * 3
    with torch.no_grad():
        last, _ = model.advance(ids.T)
        logits = model(ids)
    expected = model.coupling.output_matrix() @ last.view(5, 3, 4)[3, 2] + model.coupling.bias
    torch.testing.assert_close(logits[2, 3], expected)


def test_round_trip(tmp_path):
    model = make()
    save_model(model, tmp_path)
    again = load_model(tmp_path)
    ids = torch.randint(11, (2, 5))
    assert isinstance(again.body, Recurrent)
    assert torch.equal(again(ids), model(ids))


def test_initialized_in_one_range():
    group = published("press_wolf_small").recurrent
    for run in ("baseline", "wt_pr_bias"):
        model = LanguageModel(group.runs[run].coupling, group.body_of(run), 10_000).initialize(3)
        for name, parameter in model.named_parameters():
            if name.startswith("body.") and name.endswith("bias"):
                assert not parameter.any(), name
                continue
            parameter = parameter.detach()
            assert float(parameter.abs().max()) <= 0.1 + 1e-7, name
            # of the 200 values of the shortest, uniform ones reach this far but for 1e-9
            assert float(parameter.max()) > 0.08 > -0.08 > float(parameter.min()), name
            assert float(parameter.std()) == pytest.approx(0.1 / math.sqrt(3), rel=0.15)


def drop(kind: str = "step", seed: int = 0, **shares: float) -> Dropout:
    held = {"input": 0.0, "between": 0.0, "recurrent": 0.0, "output": 0.0, **shares}
    return Dropout(**held, repeated=kind == "sequence", generator=generator_of(seed))


@pytest.mark.parametrize("kind", ["step", "sequence"])
def test_what_is_dropped(kind):
    model, values = make(), torch.ones(50, 4, 6)
    states, _ = model.body.advance(values, None, drop(kind, input=0.5, output=0.25))
    kept = states[0]
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    same = (kept == kept[0]).all()
    assert bool(same) == (kind == "sequence")
    share = float((states[-1] == 0).float().mean())
    assert share == pytest.approx(0.25, abs=0.15 if kind == "sequence" else 0.03)
    again, _ = model.body.advance(values, None, drop(kind, input=0.5, output=0.25))
    other, _ = model.body.advance(values, None, drop(kind, seed=1, input=0.5, output=0.25))
    assert torch.equal(again[-1], states[-1]) and not torch.equal(other[-1], states[-1])
    plain, _ = model.body.advance(values)
    between, _ = model.body.advance(values, None, drop(kind, between=0.5))
    assert torch.equal(between[0], values)
    expected = torch.where(between[1] == 0, 0.0, 2 * plain[1])
    torch.testing.assert_close(between[1], expected)


def test_the_recurrent_mask_is_the_same_at_all_steps():
    """Step by step, with the hidden state masked on its way to the next step and nowhere else."""
    model, values = make(), torch.randn(4, 2, 6)
    states, left = model.body.advance(values, None, drop("sequence", recurrent=0.5))
    generator = generator_of(0)
    for layer, inputs, outputs in zip(model.body.layers, states, states[1:], strict=False):
        mask = (torch.rand(2, 6, generator=generator) >= 0.5) * 2.0
        hidden = cell = torch.zeros(2, 6)
        for step, expected in zip(inputs, outputs, strict=True):
            gates = step @ layer.input_map.T + (hidden * mask) @ layer.recurrent_map.T + layer.bias
            i, f, g, o = gates.chunk(4, 1)
            cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
            hidden = o.sigmoid() * cell.tanh()
            torch.testing.assert_close(hidden, expected)
    torch.testing.assert_close(left[0][-1], hidden)


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({"layers": 0}, "layers above 0 and causal true with kind lstm"),
        ({"causal": False}, "layers above 0 and causal true with kind lstm"),
        ({"heads": 2}, "no heads with kind lstm, where it would do nothing"),
        ({"norm": "rms_norm"}, "no norm with kind lstm"),
        ({"maximum_length": 64}, "no maximum_length with kind lstm"),
        ({"branch": "zero"}, "no branch with kind lstm"),
        ({"kind": "identity", "layers": 0, "distribution": "uniform"}, "no distribution with kind"),
    ],
)
def test_settings_that_do_nothing_are_refused(replaced, expected):
    with pytest.raises(SettingsError, match=expected):
        body(**replaced)


@pytest.mark.parametrize(
    ("coupling", "expected"),
    [
        ({"bias": False, "bias_initialization": "tables"}, "bias_initialization zero without a"),
        (
            {"bias_initialization": "tables", "std": "inverse_sqrt_width"},
            "a number for std where more than tables is drawn so",
        ),
        (
            {
                "transform": [{"kind": "linear", "initialization": "tables"}],
                "std": "inverse_sqrt_width",
            },
            "a number for std",
        ),
    ],
)
def test_drawn_as_tables(coupling, expected):
    with pytest.raises(SettingsError, match=expected):
        validate(CouplingSettings, {"option": "t", "tied": True, **coupling})
