"""Counts by arithmetic against real models: ours, and transformers' classes on the meta device."""

import pytest

from tests.built import built
from tests.couplings import COUPLINGS as COUPLING_FILES
from tests.couplings import composed_coupling
from tiebench.account.registry import as_model, published_models
from tiebench.analysis.counting import count, coupled_counts, matching_feedforward_width
from tiebench.analysis.rembert_parameters import printed_counts
from tiebench.analysis.shapes import Shape, read_data
from tiebench.errors import SettingsError
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.published.figures import PUBLISHED_PARAMETERS
from tiebench.schema import validate

VOCABULARY = 331
HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
COUPLINGS = {
    "tied": {"tied": True, "transform": HEAD},
    "tied_bare": {"tied": True, "bias": False},
    "tied_narrow": {"tied": True, "input_width": 8, "output_width": 8, "transform": HEAD},
    "untied": {"tied": False, "transform": HEAD},
    "narrow_narrow": {"tied": False, "input_width": 8, "output_width": 8, "transform": HEAD},
    "narrow_body": {"tied": False, "input_width": 8, "transform": HEAD},
    "narrow_wide": {"tied": False, "input_width": 8, "output_width": 48, "transform": HEAD},
    "body_narrow_linear": {
        "tied": False,
        "output_width": 8,
        "transform": [{"kind": "linear", "bias": False}],
    },
    "two_maps": {
        "tied": False,
        "output_width": 48,
        "transform": [
            {"kind": "linear", "width": 12},
            {"kind": "rms_norm"},
            {"kind": "tanh"},
            {"kind": "linear"},
        ],
    },
}
BLOCKS = {"layers": 2, "heads": 2, "feedforward_width": 40}
BODIES = {
    "learned": BLOCKS,
    "bert": {**BLOCKS, "norm_placement": "post", "embedding_norm": True},
    "llama": {
        **BLOCKS,
        "norm": "rms_norm",
        "positions": "rotary",
        "feedforward": "swiglu",
        "bias": False,
        "causal": True,
    },
    "sinusoidal": {**BLOCKS, "positions": "sinusoidal"},
    "identity": {"kind": "identity"},
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_arithmetic_equals_the_model(coupling: str, body: str) -> None:
    import torch

    from tiebench.model.lm import LanguageModel

    ends = CouplingSettings(option=coupling, **COUPLINGS[coupling])
    middle = BodySettings(option=body, width=16, maximum_length=24, **BODIES[body])
    with torch.device("meta"):
        model = LanguageModel(ends, middle, VOCABULARY)
    counted = coupled_counts(ends, middle, VOCABULARY)
    assert counted.as_dict() == model.parameter_counts()
    assert counted.pretraining == sum(p.numel() for p in {*model.parameters()})


@pytest.mark.parametrize("path", COUPLING_FILES, ids=lambda path: path.stem)
def test_arithmetic_equals_the_model_for_every_coupling_of_conf(path) -> None:
    import torch

    from tiebench.model.lm import LanguageModel

    ends = composed_coupling(path)
    middle = BodySettings(option="t", width=16, maximum_length=24, **BODIES["learned"])
    with torch.device("meta"):
        model = LanguageModel(ends, middle, VOCABULARY)
    counted = coupled_counts(ends, middle, VOCABULARY)
    assert counted.as_dict() == model.parameter_counts()
    assert counted.pretraining == sum(p.numel() for p in {*model.parameters()})


def test_operations_on_tables_are_counted_with_their_side() -> None:
    body = BodySettings(option="t", kind="identity", width=16)
    counts = {}
    for side in ("input", "output"):
        made = {f"{side}_operations": [{"kind": "low_rank_addition", "rank": 3},
                                       {"kind": "low_rank_multiplication", "rank": 2}]}  # fmt: skip
        ends = CouplingSettings(option="t", tied=True, bias=False, **made)
        counts[side] = coupled_counts(ends, body, VOCABULARY)
    more = 3 * (VOCABULARY + 16) + 2 * 2 * 16
    assert (counts["input"].maps, counts["input"].head) == (more, 0)
    assert (counts["output"].maps, counts["output"].head) == (0, more)
    assert counts["input"].fine_tuning - counts["output"].fine_tuning == more


# transformers' RemBert always maps the input; tied with all widths equal, the ablation is a BERT
# (whose untied class holds the bias on the logits twice)
EXPRESSIBLE = {
    row.row: row
    for row in printed_counts(read_data(PUBLISHED_PARAMETERS)["rembert"], published_models())
    if row.tied or row.shape.widths[0] != row.shape.width
}


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_ablation_shapes_equal_transformers(name: str) -> None:
    row = EXPRESSIBLE[name]
    shape, parts = row.shape, count(row.shape)
    values = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.feedforward_width,
        "max_position_embeddings": shape.positions,
    }
    if not row.tied:
        values |= {"input_embedding_size": shape.widths[0]}
        values |= {"output_embedding_size": shape.widths[1]}
    held = parts.fine_tuning + parts.head + (0 if row.tied else parts.output_embedding)
    assert held == built("bert" if row.tied else "rembert", values, tied=row.tied)


def test_every_row_that_transformers_has_is_compared() -> None:
    assert len(EXPRESSIBLE) == 9 and any(row.tied for row in EXPRESSIBLE.values())


def test_published_totals() -> None:
    totals = {key: as_model(model).shipped_total for key, model in published_models().items()}
    assert totals["gpt2_small"] == 124_439_808
    assert totals["gpt2_xl"] == 1_557_611_200
    assert totals["llama_7b"] == 6_738_415_616
    assert totals["llama2_70b"] == 68_976_648_192
    assert round(totals["rembert"] / 1e6, 2) == 993.26


def test_fine_tuning_drops_output_table_and_head() -> None:
    rembert = as_model(published_models()["rembert"])
    dropped = 250_300 * 1_664 + rembert.parts.head
    assert rembert.parts.fine_tuning == rembert.shipped_total - dropped
    tied = as_model(published_models()["bert_base"])
    assert tied.parts.fine_tuning == tied.shipped_total - tied.parts.head
    assert tied.parts.input_embedding == 30_522 * 768


def test_tied_and_untied_differ_by_one_matrix() -> None:
    model = as_model(published_models()["llama_7b"])
    assert model.untied_total - model.tied_total == 32_000 * 4_096
    t5 = as_model(published_models()["t5_small"])
    assert t5.by_use_total - t5.tied_total == 2 * 32_128 * 512
    assert as_model(published_models()["rembert"]).tied_total is None


def test_impossible_shapes_are_refused() -> None:
    for values, message in (
        ({"heads": 3}, "heads that divide the width"),
        ({"output_width": 2}, "a transform that ends at the output width 2"),
        ({"depth": 2}, "a known key"),
    ):
        with pytest.raises(SettingsError, match=message):
            validate(Shape, {"vocabulary": 9, "width": 4, "layers": 1} | values, "shape")


@pytest.mark.parametrize("body", [name for name in BODIES if name != "identity"])
def test_the_matching_feedforward_width_gives_the_count(body: str) -> None:
    settings = BodySettings(option=body, width=16, maximum_length=24, **BODIES[body])
    tied, untied = (
        CouplingSettings(option="x", **COUPLINGS[name]) for name in ("tied_bare", "untied")
    )
    wanted = coupled_counts(untied, settings, VOCABULARY).pretraining
    lacking = wanted - coupled_counts(tied, settings, VOCABULARY).pretraining
    width = matching_feedforward_width(settings, lacking)
    wider = BodySettings.model_validate({**settings.model_dump(), "feedforward_width": width})
    assert coupled_counts(tied, wider, VOCABULARY).pretraining == pytest.approx(wanted, rel=0.005)
    assert matching_feedforward_width(settings, 0) == settings.feedforward_width
