"""The registry of published models: exact, honest about ties, and compared with what is printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.built import built
from tiebench.account import registry
from tiebench.account.registry import PUBLISHED_MODELS, as_model, published_models
from tiebench.account.sources import SECOND_BIAS
from tiebench.analysis.published_totals import (
    UNITS,
    disagreements,
    other_ties,
    published_models_rows,
    rounds_to,
)
from tiebench.errors import DataError, SettingsError

MODELS = published_models()
ROWS = dict(zip(MODELS, published_models_rows(MODELS), strict=True))
TOTALS = {
    "gpt2_small": 124_439_808, "gpt2_medium": 354_823_168, "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "gpt3_175b": 174_604_259_328,
    "opt_125m": 125_239_296, "opt_350m": 331_196_416, "opt_1_3b": 1_315_758_080,
    "opt_2_7b": 2_651_596_800, "opt_6_7b": 6_658_473_984, "opt_13b": 12_853_473_280,
    "opt_30b": 29_974_540_288, "opt_66b": 65_719_701_504, "opt_175b": 174_604_468_224,
    "bert_base": 109_514_298, "bert_large": 335_174_458, "mbert": 177_974_523,
    "roberta_base": 124_697_433, "roberta_large": 355_412_057,
    "xlm_r_base": 278_295_186, "xlm_r_large": 560_142_482,
    "albert_base": 11_221_680, "albert_large": 16_795_824, "albert_xlarge": 54_821_040,
    "albert_xxlarge": 206_368_944,
    "rembert": 993_263_548,
    "t5_small": 60_506_624, "t5_base": 222_903_552, "t5_large": 737_668_096,
    "t5_3b": 2_851_598_336, "t5_11b": 11_307_321_344,
    "t5_1_1_small": 76_961_152, "t5_1_1_base": 247_577_856, "t5_1_1_large": 783_150_080,
    "t5_1_1_xl": 2_849_757_184, "t5_1_1_xxl": 11_135_332_352,
    "mt5_small": 300_176_768, "mt5_base": 582_401_280, "mt5_large": 1_229_581_312,
    "mt5_xl": 3_742_619_648, "mt5_xxl": 12_921_057_280,
    "byt5_small": 299_637_760, "byt5_base": 581_653_248, "byt5_large": 1_228_183_552,
    "byt5_xl": 3_737_801_728, "byt5_xxl": 12_906_899_328,
    "llama_7b": 6_738_415_616, "llama_13b": 13_015_864_320, "llama_33b": 32_528_943_616,
    "llama_65b": 65_285_660_672, "llama2_70b": 68_976_648_192,
    "llama3_8b": 8_030_261_248, "llama3_70b": 70_553_706_496, "llama3_405b": 405_853_388_800,
    "llama3_2_1b": 1_235_814_400, "llama3_2_3b": 3_212_749_824,
    "tinyllama": 1_100_048_384,
    "mistral_7b": 7_241_732_096, "mistral_7b_v0_3": 7_248_023_552, "mixtral_8x7b": 46_702_792_704,
    "qwen2_5_0_5b": 494_032_768, "qwen2_5_1_5b": 1_543_714_304, "qwen2_5_3b": 3_085_938_688,
    "qwen2_5_7b": 7_615_616_512, "qwen2_5_14b": 14_770_033_664, "qwen2_5_32b": 32_763_876_352,
    "qwen2_5_72b": 72_706_203_648,
    "qwen3_0_6b": 596_049_920, "qwen3_1_7b": 1_720_574_976, "qwen3_4b": 4_022_468_096,
    "qwen3_8b": 8_190_735_360, "qwen3_14b": 14_768_307_200, "qwen3_32b": 32_762_123_264,
    "gemma_2b": 2_506_172_416, "gemma_7b": 8_537_680_896,
    "gemma2_2b": 2_614_341_888, "gemma2_9b": 9_241_705_984, "gemma2_27b": 27_227_128_320,
    "gemma3_270m": 268_098_176, "gemma3_1b": 999_885_952, "gemma3_4b": 3_880_099_328,
    "gemma3_12b": 11_765_788_416, "gemma3_27b": 27_009_002_240,
    "olmo_1b": 1_176_764_416, "olmo_7b": 6_888_095_744,
    "olmo2_1b": 1_484_916_736, "olmo2_7b": 7_298_617_344, "olmo2_13b": 13_716_198_400,
    "pythia_14m": 14_067_712, "pythia_31m": 30_494_720, "pythia_70m": 70_426_624,
    "pythia_160m": 162_322_944, "pythia_410m": 405_334_016, "pythia_1b": 1_011_781_632,
    "pythia_1_4b": 1_414_647_808, "pythia_2_8b": 2_775_208_960, "pythia_6_9b": 6_857_302_016,
    "pythia_12b": 11_846_072_320,
    "smollm_135m": 134_515_008, "smollm_360m": 361_821_120, "smollm_1_7b": 1_711_376_384,
    "smollm3_3b": 3_075_098_624,
    "mobilellm_125m": 124_635_456, "mobilellm_350m": 345_355_200, "mobilellm_600m": 603_188_352,
    "mobilellm_1b": 1_005_461_760, "mobilellm_1_5b": 1_511_188_800,
    "phi_1_5": 1_418_270_720, "phi_2": 2_779_683_840, "phi_3_mini": 3_821_079_552,
    "phi_4": 14_659_507_200, "phi_4_mini": 3_836_021_760,
    "deepseek_v3": 671_026_404_352,
}  # fmt: skip
"""As shipped, each tensor once: kept, so that a change of a configuration is seen."""
TIED_UNLIKE_THE_CLASS = [
    "Llama-3.2 1B", "Llama-3.2 3B", "Qwen2.5 0.5B", "Qwen2.5 1.5B", "Qwen2.5 3B", "Qwen3 0.6B",
    "Qwen3 1.7B", "Qwen3 4B", "OLMo-1 1B", "SmolLM/SmolLM2 135M", "SmolLM/SmolLM2 360M",
    "SmolLM/SmolLM2 1.7B", "MobileLLM 125M", "MobileLLM 350M", "MobileLLM 600M", "MobileLLM 1B",
    "MobileLLM 1.5B", "Phi-4-mini",
]  # fmt: skip
UNTIED_UNLIKE_THE_CLASS = [
    f"{family} {size}"
    for family in ("T5 1.1", "mT5", "ByT5")
    for size in ("small", "base", "large", "XL", "XXL")
]
DISAGREEING = [
    "GPT-2 XL", "OPT-350M", "mBERT", "XLM-R base", "XLM-R large", "RemBERT", "T5 large",
    "Llama-3.1 405B", "Qwen2.5 7B", "Qwen2.5 14B", "Qwen2.5 32B", "Qwen2.5 72B", "Qwen3 14B",
    "Qwen3 32B", "Gemma-1 2B", "Gemma-1 7B", "Gemma-2 2B", "OLMo-2 13B", "Pythia 31M", "Phi-4 14B",
]  # fmt: skip
FIRST = {model.model_type: key for key, model in reversed(MODELS.items())}
"""By model_type, the first model."""


def values(key: str) -> dict:
    return {name: x for name, x in MODELS[key].config.items() if name != "model_type"}


@pytest.mark.parametrize("key", MODELS)
def test_every_model_equals_its_class(key) -> None:
    model = MODELS[key]
    total = as_model(model).shipped_total
    assert total == built(model.model_type, values(key), tied=model.tied) == TOTALS[key]


@pytest.mark.parametrize("kind", FIRST)
def test_every_class_equals_the_other_tie_too(kind) -> None:
    key = FIRST[kind]
    model, tied = as_model(MODELS[key]), not MODELS[key].tied
    if tied and not model.shape.tieable:
        assert (kind, model.tied_total) == ("rembert", None)
        return
    # an untied class of an encoder holds the bias of the logits twice, and uses one
    second = model.shape.vocabulary if not tied and kind in SECOND_BIAS else 0
    total = model.tied_total if tied else model.untied_total
    assert total == built(kind, values(key), tied=tied) - second


def test_the_registry_is_whole() -> None:
    assert TOTALS.keys() == MODELS.keys() and len(MODELS) > 100
    names = [name for key, model in MODELS.items() for name in {key, model.name.lower()}]
    assert len(set(names)) == len(names)
    for model in MODELS.values():
        assert model.source and 2018 < model.year < 2026
        assert not any("as the class has it" in note for note in model.notes), model.key
    plain = yaml.safe_load(PUBLISHED_MODELS.read_text("utf-8"))
    for family in plain.values():
        assert "tied" not in family and "tie_word_embeddings" not in family.get("config", {})
        for entry in family["models"].values():
            assert "tied" in entry and "tie_word_embeddings" not in entry["config"]


def test_where_the_checkpoint_is_not_as_its_class() -> None:
    rows = other_ties(ROWS.values())
    assert sorted(row["model"] for row in rows if row["tied"]) == sorted(TIED_UNLIKE_THE_CLASS)
    assert [row["model"] for row in rows if not row["tied"]] == UNTIED_UNLIKE_THE_CLASS
    from transformers import CONFIG_MAPPING

    for model in MODELS.values():
        assert model.class_ties == CONFIG_MAPPING[model.model_type]().tie_word_embeddings
        noted = any("unlike the checkpoint" in note for note in as_model(model).notes)
        assert noted == (model.tied != model.class_ties)


@pytest.mark.parametrize(
    ("printed", "least", "most"),
    [
        ("125M", 124_500_000, 125_499_999),
        ("110M", 105_000_000, 114_999_999),
        ("1.5B", 1_450_000_000, 1_549_999_999),
        ("1.0B", 950_000_000, 1_049_999_999),
        ("70B", 65_000_000_000, 74_999_999_999),
        ("405B", 404_500_000_000, 405_499_999_999),
        ("600M", 550_000_000, 649_999_999),
        ("0.5B", 450_000_000, 549_999_999),
    ],
)
def test_printed_digits(printed, least, most) -> None:
    assert rounds_to(printed, least) and rounds_to(printed, most)
    assert not rounds_to(printed, least - 1) and not rounds_to(printed, most + 1)


def test_disagreements_have_a_reason_and_nothing_else_has() -> None:
    rows = disagreements(ROWS.values())
    assert [row["model"] for row in rows] == DISAGREEING
    for row in ROWS.values():
        assert bool(row["reason"]) == (row["agrees"] is False), row["model"]
        assert (row["agrees"] is None) == (row["printed"] == "")


def test_reasons_are_true() -> None:
    for row in disagreements(ROWS.values()):
        (unit,) = {UNITS[figure[-1]] for figure in row["printed"].split("; ")}
        total = row["shipped_total"]
        if row["reason"].startswith("truncated: "):
            digits = len(row["printed"].partition(".")[2][:-1])
            assert int(total / unit * 10**digits) / 10**digits == float(row["printed"][:-1])
            assert rounds_to(row["reason"].partition(": ")[2].partition(";")[0], total)
        if "without the vocabulary matrix" in row["reason"]:
            said = row["reason"].partition("; ")[2].partition(" ")[0]
            assert rounds_to(said, row["non_vocabulary"])
    opt, wide = ROWS["opt_350m"], 50_272 * 1024
    assert rounds_to("331M", opt["shipped_total"])
    without = opt["shipped_total"] - opt["matrix"] - opt["maps"]
    assert rounds_to("356M", without + wide) and not rounds_to("350M", without + wide)
    assert round(ROWS["mbert"]["vocabulary"] / ROWS["bert_base"]["vocabulary"]) == 4
    base, large = ROWS["xlm_r_base"], ROWS["xlm_r_large"]
    assert rounds_to("192.0M", base["matrix"])
    assert rounds_to("85.1M", base["attention"] + base["feedforward"] + base["norms"])
    assert rounds_to("277.5M", base["fine_tuning_total"]) and rounds_to(
        "278.3M", base["shipped_total"]
    )
    assert rounds_to("558.8M", large["fine_tuning_total"]) and rounds_to(
        "560.1M", large["shipped_total"]
    )
    assert rounds_to("995M", ROWS["rembert"]["shipped_total"] + 1152 * 1153)
    assert rounds_to("770M", ROWS["t5_large"]["untied_total"])
    assert rounds_to("771M", ROWS["t5_large"]["untied_total"])
    assert rounds_to("30.49M", ROWS["pythia_31m"]["shipped_total"])


def test_parts_and_totals_fit_together() -> None:
    for row in ROWS.values():
        parts = ("maps", "positions", "attention", "feedforward", "norms", "head")
        assert row["non_vocabulary"] == sum(row[part] for part in parts)
        matrices = row["input_embedding"] + row["output_embedding"]
        assert row["untied_total"] == row["non_vocabulary"] + matrices
        uses = 3 if "+" in row["layers"] else 2
        assert (
            row["counted_twice_total"] == row["untied_total"] + (uses - 2) * row["input_embedding"]
        )
        if row["matrix"] is None:
            assert row["tied_total"] is row["saving_percent"] is row["adam_bytes"] is None
            continue
        assert row["matrix"] == row["vocabulary"] * row["input_width"]
        assert row["tied_total"] == row["untied_total"] - row["matrix"]
        assert row["shipped_total"] == row["tied_total" if row["tied"] else "untied_total"]
        assert row["adam_bytes"] == 8 * row["matrix"]
        assert row["head_flops_per_token"] == 2 * row["vocabulary"] * row["output_width"]
        assert row["saving_percent"] == pytest.approx(100 * row["matrix"] / row["untied_total"])
    assert [key for key, row in ROWS.items() if row["matrix"] is None] == ["rembert"]
    assert ROWS["t5_small"]["layers"] == "6+6" and ROWS["gpt2_small"]["layers"] == "12"


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ("tied: false", "tied: true", SettingsError, r"rembert.tied: found true; expected false, with embeddings of widths 256 and 1664"),
        ("tied: false", "", SettingsError, r"published_models.yaml: RemBERT.models.rembert.tied: found nothing"),
        ("tied: false", "tied: false\n      depth: 2", SettingsError, "depth: found a key that no setting has"),
        ("995M", "995T", SettingsError, "figure: found '995T'"),
        ("hidden_size: 1152", "hidden_size: 1153", DataError, "rembert: num_attention_heads: found 18; expected a divisor of the width, 1,153"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named(tmp_path: Path, monkeypatch, old, new, error, message) -> None:
    family = PUBLISHED_MODELS.read_text("utf-8").partition("\nRemBERT:")[2].partition("\n\n")[0]
    assert family.count(old) == 1
    path = tmp_path / PUBLISHED_MODELS.name
    path.write_text(f"RemBERT:{family.replace(old, new)}\n", "utf-8")
    monkeypatch.setattr(registry, "PUBLISHED_MODELS", path)
    with pytest.raises(error, match=message):
        published_models()
