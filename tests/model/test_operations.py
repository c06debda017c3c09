"""Operations on tables, permutations, initial values, gradients by side, untying: by hand."""

import hashlib
import math

import pytest
import torch

from tiebench.errors import SettingsError
from tiebench.model.coupling import Permuted
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.model.words import table_words
from tiebench.schema import validate

VOCABULARY, WIDTH = 40, 8
IDENTITY = BodySettings(option="t", kind="identity", width=WIDTH)
DEEP = BodySettings(option="t", width=WIDTH, layers=1, heads=2, feedforward_width=6)
IDS = torch.tensor([[1, 5, 6, 39, 5, 0]])
ADDED, MULTIPLIED = ({"kind": f"low_rank_{x}", "rank": 3} for x in ("addition", "multiplication"))
SHIFT = {"kind": "shift"}
UNIT = {"kind": "unit_rows"}


def model_of(body=IDENTITY, vocabulary=VOCABULARY, **coupling):
    given = {"option": "t", "tied": True, "bias": False, **coupling}
    return LanguageModel(CouplingSettings(**given), body, vocabulary).initialize(0)


def moved(model):
    """The model with noise on every parameter, so that no operation is the identity."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator))
    return model


def by_hand(table, operations):
    """E + A B, E (I + P Q), E + shift, in double precision."""
    table = table.detach().double()
    for operation in operations:
        held = {name: p.detach().double() for name, p in operation.named_parameters()}
        if "row_table" in held:
            table = table + held["row_table"] @ held["basis"]
        elif "down" in held:
            table = table @ (torch.eye(table.shape[1]).double() + held["down"] @ held["up"])
        elif not held:
            table = table / table.norm(dim=1, keepdim=True)
        else:
            table = table + held["shift"]
    return table


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "operations",
    [
        [ADDED],
        [MULTIPLIED],
        [SHIFT],
        [ADDED, MULTIPLIED, SHIFT],
        [MULTIPLIED, SHIFT, ADDED],
        [UNIT],
        [ADDED, UNIT],
        [UNIT, SHIFT],
    ],
)
def test_operations_against_explicit_matrices(operations, tied):
    outside = [x for x in operations if x != SHIFT]
    model = moved(model_of(tied=tied, input_operations=operations, output_operations=outside))
    coupling = model.coupling
    wanted = by_hand(coupling.input_table, coupling.input_operations)
    torch.testing.assert_close(coupling.input_matrix().double(), wanted, rtol=1e-5, atol=1e-5)
    looked_up = coupling.lookup(IDS).double()
    torch.testing.assert_close(looked_up, wanted[IDS], rtol=1e-5, atol=1e-5)
    wanted = by_hand(coupling.output_table, coupling.output_operations)
    states = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(2))
    logits = coupling.logits(states).double()
    torch.testing.assert_close(logits, states.double() @ wanted.T, rtol=1e-4, atol=1e-4)


def test_rows_of_length_one_keep_it_and_have_no_parameters():
    model, plain = model_of(input_operations=[UNIT]), model_of()
    assert model.parameter_counts() == plain.parameter_counts()
    for _ in range(3):
        rows = model.coupling.lookup(IDS)
        torch.testing.assert_close(rows.norm(dim=-1), torch.ones(1, 6))
        rows.square().mul(torch.arange(8.0)).sum().backward()
        with torch.no_grad():
            model.coupling.input_table -= model.coupling.input_table.grad
    assert table_words(model.settings.coupling, WIDTH, VOCABULARY).endswith("input side unit rows")


def test_the_output_table_can_start_smaller():
    given = {"tied": False, "std": 0.5, "distribution": "uniform"}
    plain, small = model_of(**given), model_of(**given, output_std=0.01)
    assert torch.equal(plain.coupling.input_table, small.coupling.input_table)
    expected = plain.coupling.output_table / 50
    torch.testing.assert_close(small.coupling.output_table, expected)
    assert "output_std" not in plain.settings.coupling.model_dump()
    assert small.settings.coupling.model_dump()["output_std"] == 0.01
    assert "std 0.01 and 0.5" in table_words(small.settings.coupling, WIDTH, VOCABULARY)


@pytest.mark.parametrize("operation", [ADDED, MULTIPLIED, SHIFT])
def test_operations_start_as_the_identity_and_are_trained(operation):
    plain = model_of(DEEP)
    sides = ("input",) if operation == SHIFT else ("input", "output")
    for side in sides:
        model = model_of(DEEP, **{f"{side}_operations": [operation]})
        assert torch.equal(model(IDS), plain(IDS))
        model.summed_loss(IDS, torch.arange(6), IDS[0].roll(1)).backward()
        held = getattr(model.coupling, f"{side}_operations")[0]
        moving = [p for p in held.parameters() if p.grad is not None and p.grad.any()]
        assert len(moving) == 1  # the factor that is zero; the other one follows it


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output_operations": [SHIFT]}, "no shift among output_operations"),
        ({"input_operations": [ADDED, ADDED]}, "input_operations of different kinds"),
        ({"input_operations": [{**ADDED, "rank": 8}]}, r"input_operations\[0\].rank: found 8"),
        ({"output_operations": [{**MULTIPLIED, "rank": 9}]}, r"output_operations\[0\].rank"),
        ({"shared_initialization": True}, "shared_initialization false with tied"),
        ({"output_std": 0.1}, "no output_std with one table"),
        (
            {"shared_initialization": True, "tied": False, "input_width": 4},
            "found 8 beside an input table of width 4; expected equal widths when shared_init",
        ),
        ({"transform": [{"kind": "channel_shuffle", "groups": 3}]}, "groups: found 3 at width 8"),
        ({"transform": [{"kind": "channel_shuffle", "groups": 8}]}, "groups: found 8 at width 8"),
        ({"transform": [{"kind": "channel_shuffle", "groups": 1}]}, "groups"),
        ({"transform": [{"kind": "linear", "trained": False}]}, "no bias, .* with trained false"),
        (
            {"transform": [{"kind": "linear", "width": 4, "initialization": "identity"}]},
            "transform",
        ),
    ],
)
def test_what_does_nothing_or_is_impossible_is_refused(changes, message):
    with pytest.raises(SettingsError, match=message) as caught:
        given = {"option": "t", "tied": True, **changes}
        LanguageModel(validate(CouplingSettings, given), IDENTITY, VOCABULARY)
    assert caught.value.mend


SWAP, SHUFFLE = {"kind": "half_swap"}, {"kind": "channel_shuffle", "groups": 2}
BACK = {"kind": "channel_shuffle", "groups": 4}


@pytest.mark.parametrize(
    ("transform", "refused"),
    [
        ([SWAP], False),
        ([SWAP, {"kind": "gelu"}, SWAP], True),
        ([SHUFFLE, {"kind": "rms_norm"}, BACK], True),
        ([SHUFFLE, {"kind": "rms_norm"}, SHUFFLE], False),
        ([SWAP, {"kind": "linear"}, SWAP], False),
        ([{"kind": "linear"}, SWAP, {"kind": "tanh"}, SWAP, {"kind": "linear"}], True),
    ],
)
def test_permutations_that_cancel_are_refused(transform, refused):
    settings = CouplingSettings(option="t", tied=True, transform=transform)
    if refused:
        with pytest.raises(SettingsError, match="put every dimension back"):
            settings.widths(WIDTH)
    else:
        settings.widths(WIDTH)


def test_permutations_by_hand():
    states = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(0))
    swap = Permuted(None)
    assert torch.equal(swap(states), torch.cat((states[:, 4:], states[:, :4]), dim=1))
    assert torch.equal(swap(swap(states)), states)
    shuffled = Permuted(2)(states)
    assert torch.equal(shuffled, states[:, [0, 4, 1, 5, 2, 6, 3, 7]])
    assert torch.equal(Permuted(4)(shuffled), states)


@pytest.mark.parametrize("initialization", ["orthogonal", "identity"])
@pytest.mark.parametrize("trained", [True, False])
def test_square_maps_start_orthogonal_or_as_the_identity(initialization, trained):
    if initialization == "identity" and not trained:
        return  # refused: it would be nothing
    linear = {"kind": "linear", "bias": False, "initialization": initialization, "trained": trained}
    model = model_of(transform=[linear])
    weight = model.coupling.transform[0].weight
    assert weight.requires_grad == trained
    torch.testing.assert_close(weight @ weight.T, torch.eye(WIDTH), atol=1e-5, rtol=0)
    assert torch.equal(weight, torch.eye(WIDTH)) == (initialization == "identity")
    model.summed_loss(IDS, torch.arange(6), IDS[0].roll(1)).backward()
    assert (weight.grad is not None) == trained


@pytest.mark.parametrize("width", [4, 12])
def test_oblong_maps_have_orthonormal_rows_or_columns(width):
    linear = {"kind": "linear", "bias": False, "initialization": "orthogonal"}
    weight = (
        model_of(tied=False, output_width=width, transform=[linear]).coupling.transform[0].weight
    )
    product = weight @ weight.T if width < WIDTH else weight.T @ weight
    torch.testing.assert_close(product, torch.eye(min(width, WIDTH)), atol=1e-5, rtol=0)


STDS = {
    0.3: 0.3,
    "inverse_sqrt_width": 1 / math.sqrt(64),
    "log_vocabulary_over_width": math.log(4000) / 64,
}


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize(
    ("distribution", "largest", "kurtosis"),
    [("normal", (3.5, 8.0), 3.0), ("uniform", (1.7, 1.7321), 1.8), ("truncated_normal", (2.9, 3.05), 2.829)],
)  # fmt: skip
def test_tables_have_their_std_and_shape(std, distribution, largest, kurtosis):
    """256,000 values: the std is known to 0.2%, the kurtosis to 0.02 or so."""
    body = BodySettings(option="t", kind="identity", width=64)
    model = model_of(body, 4000, tied=False, std=std, distribution=distribution)
    for table in (model.coupling.input_table, model.coupling.output_table):
        values = table.detach().double().flatten() / STDS[std]
        assert float(values.std()) == pytest.approx(1, abs=0.008)
        assert float(values.mean()) == pytest.approx(0, abs=0.01)
        assert largest[0] < float(values.abs().max()) < largest[1]
        assert float(values.pow(4).mean()) == pytest.approx(kurtosis, abs=0.06)
    assert not torch.equal(model.coupling.input_table, model.coupling.output_table)


def test_shared_initialization_is_two_tables_of_equal_values():
    model = model_of(tied=False, shared_initialization=True)
    tables = model.coupling.input_table, model.coupling.output_table
    assert torch.equal(*tables) and tables[0] is not tables[1]
    assert torch.equal(tables[0], model_of().coupling.input_table)


def test_scales_multiply_rows_and_logits():
    plain, scaled = (
        model_of(DEEP, input_scale=x, logit_scale=y)
        for x, y in ((1.0, 1.0), ("sqrt_width", "inverse_sqrt_width"))
    )
    factor = math.sqrt(WIDTH)
    rows = plain.coupling.lookup(IDS) * factor
    torch.testing.assert_close(scaled.coupling.lookup(IDS), rows)
    states = torch.randn(5, WIDTH, generator=torch.Generator().manual_seed(2))
    logits = plain.coupling.logits(states) / factor
    torch.testing.assert_close(scaled.coupling.logits(states), logits)


@pytest.mark.parametrize(
    ("body", "coupling", "refused"),
    [
        ({"kind": "identity"}, {}, "before the last norm"),
        ({"kind": "identity"}, {"tied": False, "input_width": 4}, None),
        ({"kind": "identity", "embedding_norm": True}, {}, "before the embedding's norm"),
        ({"embedding_norm": True, "positions": "rotary"}, {}, "before the embedding's norm"),
        ({"embedding_norm": True, "positions": "rotary"}, {"tied": False, "input_width": 4}, None),
        (
            {"embedding_norm": True, "positions": "rotary", "embedding_width": "input"},
            {"tied": False, "input_width": 4},
            "before the embedding's norm",
        ),
        ({"embedding_norm": True, "positions": "learned"}, {}, None),
        ({"embedding_norm": True, "positions": "sinusoidal"}, {}, None),
        ({"positions": "rotary"}, {}, None),
        ({"positions": "rotary", "norm_placement": "post"}, {}, None),
    ],
)
def test_an_input_scale_that_a_norm_undoes_is_refused(body, coupling, refused):
    shape = {"layers": 1, "heads": 2, "feedforward_width": 6} if "kind" not in body else {}
    settings = BodySettings(option="t", width=WIDTH, **shape, **body)
    if refused:
        with pytest.raises(SettingsError, match=f"coupling.input_scale: found 2.0 .*{refused}"):
            model_of(settings, input_scale=2.0, **coupling)
        return
    one, other = (moved(model_of(settings, input_scale=x, **coupling)) for x in (1.0, 2.0))
    assert not torch.allclose(one(IDS), other(IDS), atol=1e-3)


@pytest.mark.parametrize("operations", [[], [ADDED, MULTIPLIED]])
@pytest.mark.parametrize("scales", [(0.0, 1.0), (1.0, 0.0), (5.0, 1.0), (0.5, 0.25)])
def test_gradient_scales_against_the_two_sides_by_hand(scales, operations):
    tied = moved(model_of(DEEP, input_operations=operations, output_operations=operations))
    loose = model_of(DEEP, tied=False, input_operations=operations, output_operations=operations)
    held = dict(tied.state_dict())
    held["coupling.untied_output_table"] = held["coupling.input_table"].clone()
    loose.load_state_dict(held)
    tied.coupling.gradient_scales = scales
    where, targets = torch.arange(6), IDS[0].roll(1)
    for model in (tied, loose):
        model.summed_loss(IDS, where, targets).backward()
    sides = loose.coupling.input_table.grad, loose.coupling.output_table.grad
    wanted = scales[0] * sides[0] + scales[1] * sides[1]
    torch.testing.assert_close(tied.coupling.input_table.grad, wanted)
    for name, parameter in tied.named_parameters():
        if name != "coupling.input_table":  # only the stored table's gradient is scaled
            torch.testing.assert_close(parameter.grad, loose.get_parameter(name).grad, msg=name)


@pytest.mark.parametrize("operations", [[], [ADDED, MULTIPLIED]])
def test_untying_keeps_the_outputs_and_gives_each_side_its_gradient(operations):
    model = moved(model_of(DEEP, input_operations=operations, output_operations=operations))
    model.coupling.gradient_scales = (5.0, 1.0)
    before = model(IDS)
    count = model.parameter_counts()["pretraining"]
    model.untie()
    assert torch.equal(model(IDS), before)
    assert not model.settings.coupling.tied
    assert model.parameter_counts()["pretraining"] == count + VOCABULARY * WIDTH
    tables = model.coupling.input_table, model.coupling.output_table
    assert torch.equal(*tables) and tables[0].data_ptr() != tables[1].data_ptr()
    model.summed_loss(IDS, torch.arange(6), IDS[0].roll(1)).backward()
    assert model.coupling.gradient_scales == (1.0, 1.0)
    assert not torch.allclose(tables[0].grad, tables[1].grad)
    assert {name for name, _ in model.named_parameters()} >= {"coupling.untied_output_table"}


DIGESTS = {
    "tied": "0450deec61dc92fca921a0eceee7c115aba7af18e397255c7c01f41398ca342b",
    "untied": "9527a1e0f2bd552450f113f5eed0893875906f76342d7bad45d75e06fa414f12",
}


@pytest.mark.parametrize("tied", [True, False])
def test_initial_weights_stay_the_same_bytes(tied):
    """A seed gives the weights that it has always given."""
    head = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
    found = hashlib.sha256()
    for name, parameter in model_of(DEEP, tied=tied, bias=True, transform=head).named_parameters():
        found.update(name.encode() + parameter.detach().numpy().tobytes())
    assert found.hexdigest() == DIGESTS["tied" if tied else "untied"]
