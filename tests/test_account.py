"""Accounts of models: equal to transformers' classes, to the literature, and clear where refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.built import built
from tests.conftest import ROOT
from tests.model.native import SHAPES, make_run
from tiebench.account import sources
from tiebench.account.families import DEFAULTS, READERS
from tiebench.account.registry import as_model, published_models
from tiebench.account.report import as_json
from tiebench.account.sources import SECOND_BIAS, read_config, read_model
from tiebench.analysis.published_totals import published_models_rows
from tiebench.cli import main
from tiebench.errors import DataError, SettingsError
from tiebench.model.lm import load_model

V, D = 96, 16
POSITIONS = dict(max_position_embeddings=24)
PLAIN = dict(
    vocab_size=V, hidden_size=D, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40
)
GROUPED = PLAIN | dict(num_key_value_heads=2, bos_token_id=0, eos_token_id=1, pad_token_id=0)
ENCODER = PLAIN | POSITIONS | dict(pad_token_id=1)
GPT2 = dict(
    vocab_size=V, n_embd=D, n_layer=3, n_head=4, n_positions=24, bos_token_id=0, eos_token_id=0
)
OPT = dict(
    vocab_size=V, hidden_size=D, ffn_dim=40, num_hidden_layers=3, num_attention_heads=4, **POSITIONS
)
T5 = dict(vocab_size=V, d_model=D, d_kv=6, d_ff=40, num_layers=2, num_heads=4)
DEEPSEEK = PLAIN | dict(
    num_key_value_heads=4, moe_intermediate_size=6, n_routed_experts=8, n_shared_experts=1, n_group=2,
    topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1, q_lora_rank=10, kv_lora_rank=7,
    qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5, bos_token_id=0, eos_token_id=1,
)  # fmt: skip
NARROW = dict(input_embedding_size=8, output_embedding_size=24)
TINY = {
    "gpt2": ("gpt2", GPT2),
    "gpt2, inner": ("gpt2", GPT2 | {"n_inner": 20}),
    "gpt_neox": ("gpt_neox", PLAIN | POSITIONS),
    "gpt_neox without bias": ("gpt_neox", PLAIN | {"attention_bias": False}),
    "opt": ("opt", OPT),
    "opt, narrow and post-norm": ("opt", OPT | {"word_embed_proj_dim": 8, "do_layer_norm_before": False}),
    "opt, bare": ("opt", OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False, "_remove_final_layer_norm": True}),
    "llama": ("llama", PLAIN),
    "llama, grouped with biases": ("llama", GROUPED | {"attention_bias": True, "mlp_bias": True, "head_dim": 6}),
    "mistral": ("mistral", GROUPED),
    "mistral, head": ("mistral", GROUPED | {"head_dim": 6}),
    "qwen2": ("qwen2", GROUPED),
    "mixtral": ("mixtral", GROUPED | {"num_local_experts": 3}),
    "qwen3": ("qwen3", GROUPED | {"head_dim": 6}),
    "qwen3 with biases": ("qwen3", GROUPED | {"head_dim": 6, "attention_bias": True}),
    "gemma": ("gemma", GROUPED | {"head_dim": 6}),
    "gemma2": ("gemma2", GROUPED | {"head_dim": 6}),
    "gemma3": ("gemma3_text", GROUPED | {"head_dim": 6}),
    "olmo": ("olmo", GROUPED),
    "olmo with biases": ("olmo", GROUPED | {"attention_bias": True}),
    "olmo2": ("olmo2", GROUPED),
    "phi": ("phi", GROUPED),
    "phi3": ("phi3", GROUPED),
    "smollm3": ("smollm3", GROUPED | {"attention_bias": True, "mlp_bias": True}),
    "deepseek_v3": ("deepseek_v3", DEEPSEEK),
    "deepseek_v3, queries as usual": ("deepseek_v3", DEEPSEEK | {"q_lora_rank": None, "n_shared_experts": 2}),
    "deepseek_v3, experts throughout": ("deepseek_v3", DEEPSEEK | {"first_k_dense_replace": 0, "attention_bias": True}),
    "bert": ("bert", ENCODER),
    "roberta": ("roberta", ENCODER | {"type_vocab_size": 1}),
    "xlm-roberta": ("xlm-roberta", ENCODER | {"type_vocab_size": 1}),
    "camembert": ("camembert", ENCODER),
    "rembert": ("rembert", ENCODER | NARROW),
    "albert": ("albert", ENCODER | {"embedding_size": 8}),
    "albert, groups": ("albert", ENCODER | {"embedding_size": 8, "num_hidden_groups": 3, "inner_group_num": 2}),
    "t5": ("t5", T5),
    "t5, gated": ("t5", T5 | {"feed_forward_proj": "gated-gelu", "num_decoder_layers": 3}),
    "mt5": ("mt5", T5 | {"num_heads": 3}),
}  # fmt: skip
REAL = {
    "gpt2-xl": ("gpt2", dict(n_embd=1600, n_layer=48, n_head=25)),
    "pythia-70m": ("gpt_neox", dict(vocab_size=50304, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048)),
    "opt-350m": ("opt", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, ffn_dim=4096, word_embed_proj_dim=512, do_layer_norm_before=False)),
    "llama-2-7b": ("llama", {}),
    "mistral-7b": ("mistral", {}),
    "qwen2.5-0.5b": ("qwen2", dict(hidden_size=896, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864)),
    "qwen3-0.6b": ("qwen3", dict(hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128, intermediate_size=3072)),
    "gemma-7b": ("gemma", {}),
    "gemma-2-2b": ("gemma2", {}),
    "bert-base": ("bert", {}),
    "roberta-base": ("roberta", dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)),
    "xlm-roberta-base": ("xlm-roberta", dict(vocab_size=250002, max_position_embeddings=514, type_vocab_size=1)),
    "rembert": ("rembert", {}),
    "albert-xxlarge": ("albert", {}),
    "t5-small": ("t5", {}),
    "mt5-small": ("mt5", {}),
}  # fmt: skip
TOTALS = {
    "gpt2-xl": 1_557_611_200,
    "pythia-70m": 70_426_624,
    "opt-350m": 331_196_416,
    "llama-2-7b": 6_738_415_616,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-0.5b": 494_032_768,
    "qwen3-0.6b": 596_049_920,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "bert-base": 109_514_298,
    "roberta-base": 124_697_433,
    "xlm-roberta-base": 278_295_186,
    "t5-small": 60_506_624,
    "mt5-small": 300_176_768,
}
"""What the classes of transformers hold at these shapes, each tensor once, an encoder's without
pooler: kept, so that a change of both counts is seen."""
TIED = ("qwen2.5-0.5b", "qwen3-0.6b")
"""Whose checkpoints tie although their class does not by default; UNTIED: the other way round."""
UNTIED = ("mt5-small",)


def saved(folder: Path, kind: str, values: dict, **changes) -> Path:
    """A config.json as transformers writes it, with changes; None takes a key out."""
    from transformers import CONFIG_MAPPING

    CONFIG_MAPPING[kind](**values).save_pretrained(folder)
    return changed(folder, **changes)


def changed(folder: Path, **changes) -> Path:
    path = folder / "config.json"
    held = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: x for key, x in held.items() if x is not None}))
    return path


def test_every_family_is_built() -> None:
    assert set(READERS) == {kind for kind, _ in TINY.values()}
    real = {kind for kind, _ in REAL.values()}
    real |= {model.model_type for model in published_models().values()}
    assert set(READERS) - real == {"camembert"}


@pytest.mark.parametrize("case", TINY)
def test_tiny_models_are_counted_as_their_class_builds_them(tmp_path, case) -> None:
    kind, values = TINY[case]
    path = saved(tmp_path, kind, values)
    held = json.loads(path.read_text())  # the class leaves out null, which it then reads otherwise
    held |= {key: value for key, value in values.items() if value is None}
    both = []
    for tie in (True, False):
        path.write_text(json.dumps({**held, "tie_word_embeddings": tie}))
        both.append(read_config(path))
    tied, untied = both
    assert (tied.parts, untied.tied) == (untied.parts, False) and str(path) == tied.source
    second = V if kind in SECOND_BIAS else 0
    assert untied.shipped_total == built(kind, values, tied=False) - second
    if untied.shape.tieable:
        assert tied.shipped_total == built(kind, values, tied=True)
    assert untied.parts.fine_tuning == built(kind, values, bare=True)
    assert bool(second) == any("second bias" in note for note in untied.notes)


@pytest.mark.parametrize("name", REAL)
def test_real_models_are_counted_as_their_class_builds_them(tmp_path, name) -> None:
    kind, values = REAL[name]
    model = read_config(saved(tmp_path, kind, values, tie_word_embeddings=None))
    assert model.tied is None and model.default == DEFAULTS[kind]
    total = model.tied_total if DEFAULTS[kind] else model.untied_total
    assert total == built(kind, values)
    if name in TOTALS:
        tied = name in TIED or (DEFAULTS[kind] and name not in UNTIED)
        assert TOTALS[name] == (model.tied_total if tied else model.untied_total)


def test_class_defaults_are_those_of_transformers() -> None:
    from transformers import CONFIG_MAPPING

    assert {kind: CONFIG_MAPPING[kind]().tie_word_embeddings for kind in READERS} == DEFAULTS
    for kind in READERS:
        forced = CONFIG_MAPPING[kind](tie_word_embeddings=False).tie_word_embeddings
        assert forced == (kind in sources.FORCED)


def test_published_models_have_the_totals_of_the_accounting_stage() -> None:
    models = published_models()
    for published, row in zip(models.values(), published_models_rows(models), strict=True):
        model = as_model(published)
        assert model.shipped_total == row["shipped_total"]
        assert model.parts.fine_tuning == row["fine_tuning_total"]
        assert model.parts.body == row["attention"] + row["feedforward"] + row["norms"]


def test_figures_of_the_literature(capsys) -> None:
    assert main(["account", "GPT-2 XL", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert round(said["parts"]["input_embedding"] / 1e6, 1) == 80.4 and said["tied"] is True
    assert round(100 * said["tying"]["share_of_tied"], 1) == 5.2
    assert said["pretraining"]["as_shipped"] == 1_557_611_200
    assert said["pretraining"]["matrix_counted_by_use"] == 1_638_022_400
    small = as_json(read_model(["gpt2_small"]))
    assert round(100 * small["tying"]["share_of_untied"], 1) == 23.7
    assert small["tying"]["bytes"] == {"float32": 154389504, "bfloat16": 77194752, "int8": 38597376}
    assert small["tying"]["adam_bytes"] == {"moments": 308779008, "moments_and_master_weights": 463168512}  # fmt: skip
    assert small["head_flops_per_token"] == {"forward": 77194752, "with_backward": 231584256}


def test_one_model_by_config_registry_and_words(tmp_path) -> None:
    words = "vocab=50,257 width=768 layers=12 heads=12 feedforward=3072 positions=1024 tied=true"
    models = [
        read_config(saved(tmp_path, "gpt2", {})), read_model([str(tmp_path)]),
        read_model(["gpt2_small"]), read_model(words.split()),
    ]  # fmt: skip
    assert len({model.parts for model in models}) == 1
    assert [model.tied for model in models] == [True, True, True, True]
    llama = "vocab=32000 width=4096 layers=32 heads=32 kv_heads=32 feedforward=11008 feedforward_kind=swiglu tied=false"
    assert read_model(llama.split()).parts == read_model(["llama_7b"]).parts
    big = "vocab=32000 width=8192 layers=80 heads=64 kv_heads=8 head_width=128 feedforward=28672 feedforward_kind=swiglu bias=false"
    assert read_model(big.split()).parts == read_model(["llama2_70b"]).parts


@pytest.mark.parametrize("shape", SHAPES)
def test_our_own_runs(tmp_path, shape) -> None:
    make_run(tmp_path, shape)
    model, run = read_model([str(tmp_path)]), load_model(tmp_path)
    assert model.shipped_total == sum(x.numel() for x in run.parameters())
    assert model.parts.fine_tuning == run.parameter_counts()["fine_tuning"]
    path = changed(tmp_path, body=7)
    with pytest.raises(DataError, match="body: found 7; expected settings"):
        read_config(path)


def test_a_repository_of_the_local_cache(tmp_path, monkeypatch) -> None:
    path = saved(tmp_path / "snapshot", "gpt2", GPT2)
    asked = []
    monkeypatch.setattr(sources, "source_folder", lambda x, expected: (asked.append(x), path.parent)[1])  # fmt: skip
    assert read_model(["someone/model"]).source == str(path)
    assert asked == ["someone/model"]


def test_a_tie_that_is_not_stated_is_not_taken_from_the_class(tmp_path, capsys) -> None:
    saved(tmp_path, "gpt2", {}, tie_word_embeddings=None)
    assert main(["account", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "not stated: tie_word_embeddings is absent; the class of gpt2 ties by default" in out
    assert "as it ships                          not stated  124,439,808" in out
    assert "tied: one matrix, counted once      124,439,808" in out
    assert "untied: two matrices                163,037,184" in out
    said = as_json(read_model([str(tmp_path)]))
    assert (said["tied"], said["class_ties_by_default"]) == (None, True)
    assert said["pretraining"]["as_shipped"] is None


def test_lines_for_people(capsys) -> None:
    assert main(["account", "vocab=1000", "width=10", "layers=2", "heads=2", "tied=false"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "model  shape in words",
        "from   vocab=1000 width=10 layers=2 heads=2 tied=false",
        "shape  vocabulary 1,000, width 10, layers 2",
        "tie    tied=false",
        "",
        "part                parameters  of tied  of untied",
        "input embedding         10,000    78.9%      44.1%",
        "output embedding        10,000        -      44.1%",
        "maps                         0     0.0%       0.0%",
        "positions                    0     0.0%       0.0%",
        "body: attention            880     6.9%       3.9%",
        "body: feed-forward       1,700    13.4%       7.5%",
        "body: norms                100     0.8%       0.4%",
        "head                         0     0.0%       0.0%",
        "(tied, the output embedding is the input embedding and no part of its own)",
        "",
        "total                           pretraining  fine-tuning",
        "as it ships                          22,680       12,680",
        "tied: one matrix, counted once       12,680       12,680",
        "untied: two matrices                 22,680       12,680",
        "(at fine-tuning output embedding and head are gone; a tied matrix stays as the input)",
        "",
        "quantity                                value",
        "tying would save: parameters           10,000",
        "share of the untied total               44.1%",
        "two matrices add, of the tied total     78.9%",
        "bytes in float32                      40.0 kB",
        "bytes in bfloat16                     20.0 kB",
        "bytes in int8                         10.0 kB",
        "Adam's two moments                    80.0 kB",
        "Adam's moments and float32 weights   120.0 kB",
        "(Adam: two float32 moments, 8 bytes a parameter; 12 with a float32 copy of 16-bit weights; gradients not included)",
        "",
        "head FLOPs a token     value",
        "forward               20,000",
        "forward and backward  60,000",
        "(product with the output embedding, 2 x 1,000 x 10; the same tied or untied: tying saves none of it)",
        "",
        "note: feedforward=40 was taken: four times the width",
        "note: feedforward_kind=gelu norm=layer_norm bias=true were taken",
    ]  # fmt: skip


def test_widths_that_no_matrix_can_share(capsys) -> None:
    assert main(["account", "rembert"]) == 0
    out = capsys.readouterr().out
    assert "vocabulary 250,300, width 1,152 (input 256, output 1,664), layers 32" in out
    assert "tied                  none: widths 256 and 1,664" in out
    assert "the widths differ, so that tying can neither save nor add anything" in out
    said = as_json(read_model(["rembert"]))
    assert said["tying"] is None and said["pretraining"]["tied"] is None


def test_a_tie_of_unequal_widths_is_counted_as_two(tmp_path) -> None:
    model = read_config(saved(tmp_path, "rembert", ENCODER | NARROW, tie_word_embeddings=True))
    assert model.tied is False and model.shipped_total == model.untied_total
    assert any("cannot be" in note for note in model.notes)


def test_markdown(capsys) -> None:
    assert main(["account", "gpt2_xl", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# GPT-2 XL"
    assert "| input embedding | 80,411,200 | 5.2% | 4.9% |" in lines
    assert "| part | parameters | of tied | of untied |" in lines
    assert "from: published\\_models.yaml: gpt2\\_xl" in lines[3]
    with pytest.raises(SystemExit) as left:
        main(["account", "gpt2_xl", "--markdown", "--json"])
    assert left.value.code == 2


def test_what_is_taken_from_the_class_is_said(tmp_path) -> None:
    path = saved(tmp_path, "gpt_neox", PLAIN, attention_bias=None)
    assert "config.json has no attention_bias: true, as the class has it" in read_config(path).notes
    path = saved(tmp_path, "bert", ENCODER, architectures=["BertModel"])
    assert "a pooler, which takes no part in the logits, is not counted" in read_config(path).notes
    model = read_config(path)
    assert any("BertModel, without language-model head" in x for x in model.notes)
    assert model.shipped_total == model.parts.fine_tuning < model.tied_total
    path = saved(tmp_path, "albert", ENCODER | {"embedding_size": 8})
    assert "3 layers share the parameters of 1 block" in read_config(path).notes
    assert as_json(read_config(saved(tmp_path, "t5", T5)))["layers"] == [2, 2]
    path = saved(tmp_path, "t5", T5, feed_forward_proj=None)
    assert (
        "config.json has no feed_forward_proj: relu, as the class has it" in read_config(path).notes
    )
    path = saved(tmp_path, "t5", T5, tie_word_embeddings=False)
    assert any("sets to true whatever is stated" in x for x in read_config(path).notes)


BROKEN = {
    "inside": ("llama", PLAIN, {"model_type": "llava", "hidden_size": None, "num_hidden_layers": None, "num_attention_heads": None, "num_key_value_heads": None, "intermediate_size": None, "text_config": {"vocab_size": 50, "hidden_size": 8, "tie_word_embeddings": False}}, "model_type: found 'llava'"),
    "vocabulary missing": ("gpt2", GPT2, {"vocab_size": None}, "vocab_size: found nothing; expected a whole number from 1 to 1,000,000,000"),
    "width missing": ("gpt2", GPT2, {"n_embd": None}, "n_embd or hidden_size: found nothing"),
    "zero": ("llama", PLAIN, {"hidden_size": 0}, "hidden_size: found 0; expected a whole number"),
    "negative": ("llama", PLAIN, {"num_hidden_layers": -2}, "num_hidden_layers: found -2"),
    "fraction": ("llama", PLAIN, {"vocab_size": 96.5}, "vocab_size: found 96.5"),
    "a float": ("llama", PLAIN, {"vocab_size": 96.0}, "vocab_size: found 96.0"),
    "text": ("bert", ENCODER, {"hidden_size": "16"}, 'hidden_size: found "16"'),
    "true": ("bert", ENCODER, {"hidden_size": True}, "hidden_size: found true"),
    "huge": ("bert", ENCODER, {"hidden_size": 10**30}, "hidden_size: found 1000000000"),
    "list": ("bert", ENCODER, {"intermediate_size": [1, 2]}, "intermediate_size: found [1, 2]"),
    "heads": ("bert", ENCODER, {"num_attention_heads": 3}, "num_attention_heads: found 3; expected a divisor of the width, 16"),
    "heads of GPT-2": ("gpt2", GPT2, {"n_head": 5}, "n_head: found 5; expected a divisor"),
    "grouped heads": ("mistral", GROUPED, {"num_key_value_heads": 3}, "num_key_value_heads: found 3; expected a divisor of num_attention_heads, 4"),
    "grouped heads missing": ("mistral", GROUPED, {"num_key_value_heads": None}, "num_key_value_heads: found nothing"),
    "width of a head missing": ("gemma", GROUPED | {"head_dim": 6}, {"head_dim": None}, "head_dim: found nothing"),
    "flag": ("llama", PLAIN, {"tie_word_embeddings": "yes"}, 'tie_word_embeddings: found "yes"; expected true or false'),
    "bias": ("llama", PLAIN, {"attention_bias": 1}, "attention_bias: found 1; expected true or false"),
    "cross-attention": ("gpt2", GPT2, {"add_cross_attention": True}, "add_cross_attention: found true; expected false, the only one"),
    "relative positions": ("bert", ENCODER, {"position_embedding_type": "relative_key"}, 'position_embedding_type: found "relative_key"'),
    "encoder only": ("t5", T5, {"is_encoder_decoder": False}, "is_encoder_decoder: found false"),
    "an encoder": ("t5", T5, {"architectures": ["T5EncoderModel"]}, "architectures: found T5EncoderModel; expected encoder and decoder"),
    "classes": ("llama", PLAIN, {"architectures": "LlamaModel"}, 'architectures: found "LlamaModel"; expected a list of names'),
    "form": ("t5", T5, {"feed_forward_proj": "gated-a-b"}, "feed_forward_proj: found"),
    "no type": ("gpt2", GPT2, {"model_type": None}, "model_type: found nothing; expected a name"),
    "type": ("llama", PLAIN, {"model_type": "mamba", "tie_word_embeddings": True}, "model_type: found 'mamba', whose parameters are not counted here; expected one of gpt2, "),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_configs_are_refused(tmp_path, case, capsys) -> None:
    kind, values, changes, message = BROKEN[case]
    path = saved(tmp_path, kind, values, **changes)
    assert main(["account", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: {message}") and "To mend: " in said
    if case == "inside":
        assert "`tiebench account vocab=50 width=8 layers=... head_width=4 tied=false`" in said
    if case == "type":
        assert said.endswith("`tiebench account vocab=96 width=16 layers=3 heads=4 kv_heads=4 head_width=4 feedforward=40 tied=true`\n")  # fmt: skip


WORDS = {
    "missing": ("vocab=10 width=4", "found no layers; expected at least vocab, width, layers. To mend: add layers=..."),
    "unknown": ("vocab=10 widht=4 layers=1", "widht: found an unknown key"),
    "twice": ("vocab=10 vocab=11 width=4 layers=1", "vocab: found the key twice"),
    "zero": ("vocab=0 width=4 layers=1", "vocab: found '0'; expected a whole number from 1"),
    "negative": ("vocab=10 width=-4 layers=1", "width: found '-4'"),
    "fraction": ("vocab=10 width=4.5 layers=1", "width: found '4.5'"),
    "nothing": ("vocab=10 width= layers=1", "width: found ''"),
    "huge": ("vocab=10 width=4 layers=99999999999", "layers: found '99999999999'"),
    "heads": ("vocab=10 width=4 layers=1 heads=3", "heads: found 3; expected a divisor of the width, 4"),
    "grouped": ("vocab=10 width=4 layers=1 heads=4 kv_heads=3", "kv_heads: found 3; expected a divisor of heads, 4"),
    "grouped without heads": ("vocab=10 width=4 layers=1 kv_heads=2", "kv_heads: found no heads beside it"),
    "kind": ("vocab=10 width=4 layers=1 feedforward_kind=relu", "feedforward_kind: found relu; expected gelu or swiglu"),
    "tied": ("vocab=10 width=4 layers=1 tied=maybe", "tied: found maybe; expected true or false"),
    "tied widths": ("vocab=10 width=4 layers=1 tied=true input_width=2", "tied: found true with an input of width 2 and an output of width 4"),
    "mixed": ("gpt2_xl vocab=10", "gpt2_xl: found a name beside other words"),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
def test_impossible_shapes_are_refused(case, capsys) -> None:
    words, message = WORDS[case]
    assert main(["account", *words.split()]) == 1
    assert message in capsys.readouterr().err


def test_words_of_two_widths() -> None:
    model = read_model(
        ["vocab=10", "width=4", "layers=1", "input_width=2", "output_width=6", "feedforward=8"]
    )
    assert (model.parts.input_embedding, model.parts.output_embedding) == (20, 60)
    assert (model.parts.maps, model.parts.head) == (2 * 4 + 4, 4 * 6 + 6)
    assert not model.shape.tieable and model.tied is None


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("./gone", "found no such file or folder; expected a config.json"),
        ("gone/config.json", "found no such file or folder"),
        ("", "'': found no such file or folder"),
        ("gpt2xl", "a published model (gpt2_xl"),
        ("x" * 5000, "no such repository"),
    ],
)
def test_no_such_model(tmp_path, monkeypatch, source, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as error:
        read_model([source])
    assert message in str(error.value)


def test_damaged_files(tmp_path) -> None:
    with pytest.raises(DataError, match=r"config.json: found no such file.*tiebench account vocab"):
        read_model([str(tmp_path)])
    path = tmp_path / "config.json"
    for text, message in (("{", r"broken JSON \(.*line 1"), ("[]", "expected a JSON object")):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_model([str(tmp_path)])


def test_a_shape_cannot_have_both_a_tie_and_two_widths() -> None:
    with pytest.raises(SettingsError, match="matrices of unequal width cannot be one"):
        read_model(["vocab=10", "width=4", "layers=1", "tied=true", "output_width=2"])
    assert replace(read_model(["gpt2_xl"]), tied=False).shipped_total == 1_638_022_400


def test_the_command_is_light(tmp_path) -> None:
    saved(tmp_path, "gpt2", {})
    code = (
        "import sys, time\nfrom tiebench.cli import main\n"
        "start = time.process_time()\nmain(sys.argv[1:])\n"
        "held = {x.partition('.')[0] for x in sys.modules}\n"
        "print(time.process_time() - start, *sorted(held & {'torch', 'numpy', 'pandas', "
        "'transformers', 'safetensors', 'hydra', 'huggingface_hub'}))"
    )
    for source in (str(tmp_path), "gpt2_xl"):
        done = subprocess.run(
            [sys.executable, "-c", code, "account", source],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        seconds, *held = done.stdout.splitlines()[-1].split()
        assert not held and float(seconds) < 2


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("phi", {"head_dim": 6, "num_attention_heads": 4, "num_key_value_heads": 2}),
        ("phi", {"head_dim": 6, "hidden_size": 18, "num_attention_heads": 4, "num_key_value_heads": 4}),
        ("deepseek_v3", {"q_lora_rank": "absent"}),
    ],
)  # fmt: skip
def test_keys_that_are_seldom_there_are_counted_as_the_class_does(tmp_path, kind, changes) -> None:
    values = next(values for known, values in TINY.values() if known == kind)
    values = {**values, **{key: x for key, x in changes.items() if x != "absent"}}
    for key in (key for key, x in changes.items() if x == "absent"):
        values.pop(key, None)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**values, "model_type": kind, "tie_word_embeddings": False}))
    assert read_config(path).shipped_total == built(kind, values, tied=False)


def test_rembert_never_ties(tmp_path) -> None:
    """Its class has no tie to follow, though widths are equal and the flag is set."""
    values = next(values for known, values in TINY.values() if known == "rembert")
    values = {**values, "input_embedding_size": 24, "output_embedding_size": 24}
    path = saved(tmp_path, "rembert", values, tie_word_embeddings=True)
    model = read_config(path)
    assert model.tied is False and "never follows" in model.notes[-1]
    assert model.shipped_total == built("rembert", values, tied=True)
