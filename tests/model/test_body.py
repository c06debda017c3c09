"""The body: causality, padding, positions, initialization, and every setting's effect."""

import math

import pytest
import torch

from tiebench.errors import DataError, SettingsError
from tiebench.model.body import Body, rotary, rotate, sinusoids
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings, RotaryScaling
from tiebench.schema import validate

PLAIN = {
    "option": "t",
    "width": 8,
    "layers": 2,
    "heads": 2,
    "feedforward_width": 16,
    "maximum_length": 16,
}
COUPLING = CouplingSettings(option="t", tied=True)


def model_of(**changes):
    return LanguageModel(COUPLING, BodySettings(**{**PLAIN, **changes}), 30).initialize(0)


KINDS = [
    {},
    {"norm_placement": "post", "embedding_norm": True, "norm_epsilon": 1e-12},
    {"norm": "rms_norm", "positions": "rotary", "feedforward": "swiglu", "bias": False},
    {"positions": "sinusoidal"},
]


@pytest.mark.parametrize("kind", KINDS)
def test_causal_states_do_not_see_the_future(kind):
    model = model_of(causal=True, **kind)
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    other = torch.tensor([[5, 6, 7, 20, 21]])
    for a, b in zip(model.states(ids), model.states(other), strict=True):
        torch.testing.assert_close(a[:, :3], b[:, :3])
        assert not torch.allclose(a[:, 3:], b[:, 3:])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind, causal):
    model = model_of(causal=causal, **kind)
    ids = torch.tensor([[5, 6, 7, 0, 0, 0]])
    padded = model.states(ids, ids != 0)
    alone = model.states(ids[:, :3])
    for a, b in zip(padded, alone, strict=True):
        torch.testing.assert_close(a[:, :3], b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        {"layers": 1},
        {"heads": 4},
        {"feedforward_width": 12},
        {"causal": True},
        {"norm_placement": "post"},
        {"norm": "rms_norm"},
        {"norm_epsilon": 0.1},
        {"embedding_norm": True},
        {"positions": "sinusoidal"},
        {"positions": "rotary"},
        {"feedforward": "swiglu"},
        {"bias": False},
        {"std": 0.1},
        {"branch": "inverse_sqrt_depth"},
        {"branch": "zero"},
        {"branch": "deep_norm", "norm_placement": "post"},
        {"maximum_length": 20},
        {"key_value_heads": 1},
    ],
)
def test_every_setting_changes_the_model(change):
    def fingerprint(model):
        ids = torch.arange(4, 14)[None]
        return float(model(ids).detach().double().square().sum()), sum(
            p.numel() for p in model.parameters()
        )

    assert fingerprint(model_of(**change)) != fingerprint(model_of())


SCALING = {"factor": 8.0, "low_frequency_factor": 1.0, "high_frequency_factor": 4.0}


@pytest.mark.parametrize(
    "change",
    [{"rotary_base": 500.0}, {"rotary_scaling": {**SCALING, "original_length": 16}}],
)
def test_every_setting_of_rotary_positions_changes_the_states(change):
    ids = torch.arange(4, 14)[None]
    plain, changed = (model_of(positions="rotary", **x).states(ids)[-1] for x in ({}, change))
    assert not torch.allclose(plain, changed)


def test_scaled_rotation_slows_long_wavelengths_only():
    scaling = RotaryScaling(**SCALING, original_length=8192)
    plain, scaled = rotary(2, 64, 500_000.0)[1], rotary(2, 64, 500_000.0, scaling)[1]
    long, short = 2 * math.pi / plain > 8192, 2 * math.pi / plain < 8192 / 4
    torch.testing.assert_close(scaled[long], plain[long] / 8)
    torch.testing.assert_close(scaled[short], plain[short])
    between = ~long & ~short
    assert between.any() and (scaled[between] < plain[between]).all()
    assert (scaled[between] > plain[between] / 8).all()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_positions_and_norm_at_the_width_of_the_input_table(positions):
    narrow = CouplingSettings(option="t", tied=True, input_width=4, output_width=4,
                              transform=[{"kind": "linear"}])  # fmt: skip
    plain = {**PLAIN, "positions": positions, "embedding_norm": True}
    models = [
        LanguageModel(narrow, BodySettings(**plain, embedding_width=x), 30).initialize(0)
        for x in ("body", "input")
    ]
    assert [model.body.embedding_norm.weight.numel() for model in models] == [8, 4]
    if positions == "learned":
        assert [model.body.position_table.shape[1] for model in models] == [8, 4]
    ids = torch.arange(4, 14)[None]
    coupling, body = models[1].coupling, models[1].body
    embedded = coupling.lookup(ids)
    if positions == "learned":
        embedded = embedded + body.position_table[:10]
    elif positions == "sinusoidal":
        embedded = embedded + sinusoids(10, 4)
    wanted = coupling.input_map(body.embedding_norm(embedded))
    torch.testing.assert_close(models[1].states(ids)[0], wanted)
    assert not torch.allclose(models[0].states(ids)[0], wanted)


def test_positions_at_a_width_that_no_map_leads_from_are_refused():
    with pytest.raises(SettingsError, match="body.embedding_width: found 'input' beside"):
        model_of(embedding_width="input")


def test_shared_keys_are_those_of_a_model_that_repeats_them():
    shared, repeated = model_of(heads=4, key_value_heads=2), model_of(heads=4)
    repeated.load_state_dict({**repeated.state_dict(), **{
        name: x for name, x in shared.state_dict().items() if "query_key_value" not in name
    }})  # fmt: skip
    for one, other in zip(shared.body.blocks, repeated.body.blocks, strict=True):
        for leaf in ("weight", "bias"):
            query, key, value = getattr(one.attention.query_key_value, leaf).split((8, 4, 4))
            twice = [x.view(2, 1, 2, -1).repeat(1, 2, 1, 1).view(8, -1) for x in (key, value)]
            with torch.no_grad():
                held = getattr(other.attention.query_key_value, leaf)
                held.copy_(torch.cat([query.view(8, -1), *twice]).view_as(held))
    ids = torch.arange(4, 14)[None]
    torch.testing.assert_close(shared(ids), repeated(ids))


def test_zero_branches_make_an_identity():
    model = model_of(branch="zero")
    states = model.states(torch.arange(4, 9)[None])
    torch.testing.assert_close(states[1], states[0])


def test_inverse_sqrt_depth_scales_only_the_last_maps():
    plain, scaled = model_of().state_dict(), model_of(branch="inverse_sqrt_depth").state_dict()
    for name in plain:
        last = name.endswith(("attention.output.weight", "feedforward.down.weight"))
        torch.testing.assert_close(scaled[name], plain[name] / 2 if last else plain[name])


DEEP_NORM = {"branch": "deep_norm", "norm_placement": "post"}


@pytest.mark.parametrize("causal", [False, True])
def test_deep_norm_by_hand(causal):
    """norm(alpha x + branch(x)) with alpha = (2 layers)^(1/4) (Wang et al. 2022, figure 2)."""
    model = model_of(**DEEP_NORM, causal=causal, layers=3)
    block, mask = model.body.blocks[1], None
    states = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    alpha = 6**0.25
    inner = block.attention_norm(alpha * states + block.attention(states, mask, None))
    wanted = block.feedforward_norm(alpha * inner + block.feedforward(inner))
    torch.testing.assert_close(block(states, mask, None), wanted)


@pytest.mark.parametrize("feedforward", ["gelu", "swiglu"])
def test_deep_norm_starts_by_xaviers_rule(feedforward):
    """beta = (8 layers)^(-1/4) is the gain of all maps but those of queries and keys."""
    wide = {"width": 256, "heads": 4, "key_value_heads": 2, "feedforward_width": 512}
    model = model_of(**DEEP_NORM, **wide, feedforward=feedforward, std=0.5)
    beta, block = 16**-0.25, model.body.blocks[1]
    query, key, value = block.attention.query_key_value.weight.split((256, 128, 128))
    xavier = {n: math.sqrt(2 / (256 + n)) for n in (128, 256, 512)}
    wanted = [(query, xavier[256]), (key, xavier[128]), (value, beta * xavier[128])]
    wanted += [(block.attention.output.weight, beta * xavier[256])]
    wanted += [(x, beta * xavier[512]) for x in block.feedforward.up.weight.split(512)]
    wanted += [(block.feedforward.down.weight, beta * xavier[512])]
    for weight, std in wanted:
        assert float(weight.detach().std()) == pytest.approx(std, rel=0.02)
    assert float(model.body.position_table.detach().std()) == pytest.approx(0.5, rel=0.05)


def test_identity_body_is_the_norm_alone():
    body = Body(BodySettings(option="t", kind="identity", width=8, norm="rms_norm"))
    embedded = torch.randn(2, 3, 8)
    (state,) = body(embedded)
    torch.testing.assert_close(state.square().mean(-1), torch.ones(2, 3), atol=1e-3, rtol=0)
    assert [n for n, _ in body.named_parameters()] == ["final_norm.weight"]


@pytest.mark.parametrize(
    "name, value",
    [
        ("layers", 2),
        ("positions", "rotary"),
        ("branch", "zero"),
        ("norm_placement", "post"),
        ("key_value_heads", 1),
        ("rotary_base", 5.0),
    ],
)
def test_identity_refuses_what_would_do_nothing(name, value):
    settings = {"option": "t", "kind": "identity", "width": 8, name: value}
    with pytest.raises(SettingsError, match=f"no {name} with kind identity"):
        validate(BodySettings, settings, "encoders.body")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"heads": 3}, "heads that divide the width"),
        ({"width": 6, "positions": "rotary"}, "even width per head"),
        ({"layers": 0}, "layers, heads and feedforward_width"),
        ({"heads": 4, "key_value_heads": 3}, "key_value_heads that divide heads"),
        ({"heads": 4, "key_value_heads": 4}, r"and fewer \(4 / 4\)"),
        (
            {"width": 4, "heads": 2, "positions": "rotary", "rotary_base": 5.0},
            "no rotary_base with heads of width 2",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {**SCALING, "original_length": 10**6}},
            "no rotary_scaling where every wavelength stays",
        ),
        ({"rotary_base": 5.0}, "no rotary_base with learned positions"),
        ({"branch": "deep_norm"}, "norm_placement post with branch deep_norm"),
        ({**DEEP_NORM, "positions": "rotary", "std": 0.1}, "no std with branch deep_norm"),
        ({"positions": "rotary", "embedding_width": "input"}, "embedding_width body where"),
        (
            {
                "positions": "rotary",
                "rotary_scaling": {**SCALING, "low_frequency_factor": 4.0, "original_length": 16},
            },
            "high_frequency_factor above low_frequency_factor",
        ),
    ],
)
def test_impossible_shapes_are_refused(change, message):
    with pytest.raises(SettingsError, match=message):
        validate(BodySettings, {**PLAIN, **change}, "encoders.body")


def test_sinusoidal_positions_need_an_even_width_where_they_stand():
    odd = {**PLAIN, "positions": "sinusoidal", "width": 9, "heads": 3}
    with pytest.raises(SettingsError, match="an even width with sinusoidal positions"):
        validate(BodySettings, odd, "encoders.body")
    settings = {**PLAIN, "positions": "sinusoidal", "embedding_width": "input"}
    body, narrow = validate(BodySettings, settings), {"tied": False, "output_width": None}
    with pytest.raises(SettingsError, match=r"coupling.input_width: found 3, at which sinusoidal"):
        LanguageModel(CouplingSettings(option="t", input_width=3, **narrow), body, 30)
    body = validate(BodySettings, {**odd, "embedding_width": "input"})
    model = LanguageModel(CouplingSettings(option="t", input_width=4, **narrow), body, 30)
    assert model.initialize(0).states(torch.arange(5)[None])[-1].shape == (1, 5, 9)


def test_too_long_a_sequence_is_named():
    with pytest.raises(DataError, match="17 tokens.*maximum_length = 16"):
        model_of()(torch.zeros(1, 17, dtype=torch.long))


def test_rotary_products_depend_on_distance_alone():
    torch.manual_seed(0)
    query, key = torch.randn(8), torch.randn(8)
    angles = rotary(20, 8)
    turned_q = rotate(query.expand(1, 1, 20, 8), angles)[0, 0]
    turned_k = rotate(key.expand(1, 1, 20, 8), angles)[0, 0]
    torch.testing.assert_close(turned_q[3] @ turned_k[1], turned_q[15] @ turned_k[13])


def test_sinusoids_by_hand():
    table = sinusoids(5, 4)
    torch.testing.assert_close(
        table[3], torch.tensor([math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)])
    )


def test_a_parameter_is_drawn_from_seed_and_name():
    wide = LanguageModel(
        CouplingSettings(option="t", tied=False, input_width=4), BodySettings(**PLAIN), 30
    ).initialize(0)
    plain = model_of()
    for name, parameter in plain.body.named_parameters():
        assert torch.equal(parameter, wide.body.get_parameter(name))
    assert not torch.equal(model_of().body.position_table, plain.initialize(1).body.position_table)
