"""Counts by arithmetic against real models: ours, and transformers' classes on the meta device."""

import pytest

from tests.couplings import COUPLINGS as COUPLING_FILES
from tests.couplings import composed_coupling
from tiebench.analysis.counting import count, coupled_counts, matching_feedforward_width
from tiebench.analysis.shapes import Shape, published_models
from tiebench.errors import SettingsError
from tiebench.model.settings import BodySettings, CouplingSettings

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


def _transformers_model(key: str, shape: Shape):
    import torch
    import transformers

    common = {
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.width,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.feedforward_width,
        "tie_word_embeddings": shape.tied,
    }
    if shape.architecture == "gpt2":
        kind = transformers.GPT2LMHeadModel
        config = transformers.GPT2Config(
            vocab_size=shape.vocabulary,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            n_positions=shape.positions,
            tie_word_embeddings=shape.tied,
        )
    elif shape.architecture == "llama":
        kind = transformers.LlamaForCausalLM
        config = transformers.LlamaConfig(
            **common, num_key_value_heads=shape.key_value_heads or shape.heads
        )
    elif shape.architecture == "bert" or shape.widths == (shape.width, shape.width):
        kind = transformers.BertForMaskedLM
        config = transformers.BertConfig(**common, max_position_embeddings=shape.positions)
    else:
        kind = transformers.RemBertForMaskedLM
        config = transformers.RemBertConfig(
            **common,
            input_embedding_size=shape.widths[0],
            output_embedding_size=shape.widths[1],
            max_position_embeddings=shape.positions,
        )
    with torch.device("meta"):
        return kind(config)


# transformers' RemBert always maps the input; tied with all widths equal, the ablation is a BERT
# (whose untied class holds the bias on the logits twice)
EXPRESSIBLE = [
    key
    for key, shape in published_models().items()
    if shape.architecture != "rembert" or shape.tied or shape.widths[0] != shape.width
]


@pytest.mark.parametrize("key", EXPRESSIBLE)
def test_published_shapes_equal_transformers(key: str) -> None:
    pytest.importorskip("transformers")
    shape = published_models()[key]
    model = _transformers_model(key, shape)
    assert count(shape).pretraining == sum(p.numel() for p in {*model.parameters()})


def test_published_totals() -> None:
    totals = {key: count(shape).pretraining for key, shape in published_models().items()}
    assert totals["gpt2_small"] == 124_439_808
    assert totals["gpt2_xl"] == 1_557_611_200
    assert totals["llama_7b"] == 6_738_415_616
    assert totals["llama2_70b"] == 68_976_648_192
    assert round(totals["rembert"] / 1e6, 2) == 993.26


def test_fine_tuning_drops_output_table_and_head() -> None:
    rembert = count(published_models()["rembert"])
    assert rembert.fine_tuning == rembert.pretraining - 250_300 * 1_664 - rembert.head
    tied = count(published_models()["bert_base"])
    assert tied.fine_tuning == tied.pretraining - tied.head
    assert tied.input_table == 30_522 * 768


def test_tied_and_untied_differ_by_one_matrix() -> None:
    shape = published_models()["llama_7b"]
    tied, untied = count(shape.with_tables(tied=True)), count(shape)
    assert untied.pretraining - tied.pretraining == 32_000 * 4_096


def test_tables_of_unequal_width_are_never_tied() -> None:
    with pytest.raises(SettingsError, match="equal width when tied"):
        published_models()["rembert"].with_tables(tied=True)


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
