"""Audits of checkpoints: what transformers writes, every disagreement, every damage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.model.native import make_run
from tiebench.audit import comparison
from tiebench.audit.families import FAMILIES
from tiebench.audit.headers import BITS, read_header
from tiebench.audit.judging import audit
from tiebench.audit.report import KEYS, as_json
from tiebench.cli import main
from tiebench.errors import DataError
from tiebench.model.lm import LanguageModel, save_model
from tiebench.model.settings import BodySettings, CouplingSettings

V, D, NARROW = 96, 16, 8
DTYPES = {"float32": "F32", "float16": "F16", "float64": "F64", "int8": "I8", "int32": "I32"}


def matrix(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape or (V, D)).astype(np.float32)


E, H, OTHER = matrix(0), matrix(1), matrix(2)
NORM = np.ones(D, np.float32)
IN, OUT = "model.embed_tokens.weight", "lm_head.weight"
SHARED, ENCODER, DECODER = "shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"  # fmt: skip
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": V, "hidden_size": D}  # fmt: skip
TIED, UNTIED = {"tie_word_embeddings": True}, {"tie_word_embeddings": False}
T5 = {
    "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": V, "d_model": D,
    "is_encoder_decoder": True,
}  # fmt: skip
ALBERT = {
    "model_type": "albert", "architectures": ["AlbertForMaskedLM"], "vocab_size": V, "hidden_size": D,
    "embedding_size": NARROW,
}  # fmt: skip
OPT = {
    "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": V, "hidden_size": D,
    "word_embed_proj_dim": NARROW,
}  # fmt: skip


def header_of(entries: dict, **changes) -> bytes:
    """The header of tensors one behind the other; `changes` replaces what it says of a name."""
    held, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in entries.items():
        held[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
    return json.dumps(held | changes).encode()


def write_file(path: Path, tensors: dict) -> Path:
    """A file of arrays, or of (dtype, shape, bytes)."""
    entries = {
        name: x if isinstance(x, tuple) else (DTYPES[str(x.dtype)], x.shape, x.tobytes())
        for name, x in tensors.items()
    }
    header = header_of(entries)
    data = b"".join(data for _, _, data in entries.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def write(folder: Path, tensors: dict, config: dict | None) -> Path:
    write_file(folder / "model.safetensors", tensors)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    return folder


def codes(folder: Path, **options) -> list[str]:
    return [x.code for x in audit(str(folder), **options).findings]


# what transformers writes


def models() -> dict:
    import transformers as t

    plain = dict(
        vocab_size=V, hidden_size=D, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=24, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    gpt2 = dict(vocab_size=V, n_embd=D, n_layer=1, n_head=2, n_positions=24, bos_token_id=0, eos_token_id=0)  # fmt: skip
    t5 = dict(vocab_size=V, d_model=D, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    opt = dict(vocab_size=V, hidden_size=D, ffn_dim=16, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=24)  # fmt: skip
    bart = dict(vocab_size=V, d_model=D, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=24)  # fmt: skip
    two = dict(input_embedding_size=NARROW, output_embedding_size=24)
    return {
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config, gpt2, "one", "transformer.wte.weight", None),
        "gpt2 body": (t.GPT2Model, t.GPT2Config, gpt2, "no-head", "wte.weight", None),
        "gpt2 untied": (t.GPT2LMHeadModel, t.GPT2Config, gpt2 | UNTIED, "different", "transformer.wte.weight", OUT),
        "llama": (t.LlamaForCausalLM, t.LlamaConfig, plain, "different", IN, OUT),
        "llama tied": (t.LlamaForCausalLM, t.LlamaConfig, plain | TIED, "one", IN, None),
        "bert": (t.BertForMaskedLM, t.BertConfig, plain, "one", "bert.embeddings.word_embeddings.weight", None),
        "bert untied": (t.BertForMaskedLM, t.BertConfig, plain | UNTIED, "different", "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
        "bert body": (t.BertModel, t.BertConfig, plain | UNTIED, "no-head", "embeddings.word_embeddings.weight", None),
        "roberta": (t.RobertaForMaskedLM, t.RobertaConfig, plain, "one", "roberta.embeddings.word_embeddings.weight", None),
        "roberta untied": (t.RobertaForMaskedLM, t.RobertaConfig, plain | UNTIED, "different", "roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
        "gpt_neox": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig, plain, "different", "gpt_neox.embed_in.weight", "embed_out.weight"),
        "t5": (t.T5ForConditionalGeneration, t.T5Config, t5, "one", "shared.weight", None),
        "t5 encoder": (t.T5EncoderModel, t.T5Config, t5, "no-head", "shared.weight", None),
        "bart": (t.BartForConditionalGeneration, t.BartConfig, bart, "one", "model.shared.weight", None),
        "albert": (t.AlbertForMaskedLM, t.AlbertConfig, plain | {"embedding_size": NARROW}, "one", "albert.embeddings.word_embeddings.weight", None),
        "electra": (t.ElectraForMaskedLM, t.ElectraConfig, plain | {"embedding_size": NARROW}, "one", "electra.embeddings.word_embeddings.weight", None),
        "opt": (t.OPTForCausalLM, t.OPTConfig, opt | {"word_embed_proj_dim": NARROW}, "one", "model.decoder.embed_tokens.weight", None),
        "opt of one width": (t.OPTForCausalLM, t.OPTConfig, opt | {"word_embed_proj_dim": D}, "one", "model.decoder.embed_tokens.weight", None),
        "rembert": (t.RemBertForMaskedLM, t.RemBertConfig, plain | two, "different", "rembert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict:
    """By kind: the folder, and what should be found there."""
    folder = tmp_path_factory.mktemp("saved")
    held = {}
    for kind, (model, config, values, *expected) in models().items():
        model(config(**values)).save_pretrained(folder / kind)
        held[kind] = (folder / kind, *expected)
    return held


KINDS = (
    "gpt2", "gpt2 body", "gpt2 untied", "llama", "llama tied", "bert", "bert untied", "bert body",
    "roberta", "roberta untied", "gpt_neox", "t5", "t5 encoder", "bart", "albert", "electra", "opt",
    "opt of one width", "rembert",
)  # fmt: skip


def test_every_kind_is_tested(saved) -> None:
    assert tuple(saved) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_what_transformers_writes_agrees(saved, kind, capsys) -> None:
    folder, relation, first, head = saved[kind]
    assert main(["audit", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["findings"], said["relation"]) == ("agrees", [], relation)
    assert said["input"]["name"] == first
    assert (said["head"] and said["head"]["name"]) == head
    assert said["wasted_bytes"] == 0
    three = any("three uses" in x for x in said["remarks"])
    assert three == (kind in ("t5", "bart"))
    maps = {"albert": 2, "electra": 2, "opt": 2, "rembert": 2}
    assert len(said["maps"]) == maps.get(kind, 0)


def test_defaults_are_those_of_transformers() -> None:
    from transformers import CONFIG_MAPPING

    defaults = {name: CONFIG_MAPPING[name]().tie_word_embeddings for name in FAMILIES}
    assert defaults == {name: family.tied for name, family in FAMILIES.items()}


def test_lines_for_people(saved, capsys) -> None:
    folder = saved["albert"][0]
    assert main(["audit", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"checkpoint  {folder}",
        "model       AlbertForMaskedLM, 28 tensors, 12.3 kB in 1 file",
        "input       albert.embeddings.word_embeddings.weight           96 x 8  F32     3.1 kB",
        "map         albert.encoder.embedding_hidden_mapping_in.weight  16 x 8  F32  512 bytes",
        "map         predictions.dense.weight                           8 x 16  F32  512 bytes",
        "stored      one tensor, which is input embedding and head",
        "stated      tie_word_embeddings is true",
        "verdict     agrees",
    ]


def test_our_own_runs_are_read(tmp_path) -> None:
    for shape, relation in (("esm", "one"), ("esm_untied", "different"), ("rembert", "different")):
        make_run(tmp_path / shape, shape)
        said = audit(str(tmp_path / shape))
        assert (said.verdict, said.relation) == ("agrees", relation)
    config = json.loads((tmp_path / "esm" / "config.json").read_text())
    config["coupling"]["tied"] = False
    (tmp_path / "esm" / "config.json").write_text(json.dumps(config))
    assert codes(tmp_path / "esm") == ["untied-flag-no-head"]


# every disagreement

NEOX = {"model_type": "gpt_neox", "architectures": ["GPTNeoXForCausalLM"], "vocab_size": V, "hidden_size": D}  # fmt: skip
BIGGER = np.concatenate([E, matrix(3, 4, D)])
SIDES = {f"model.{SHARED}": E, f"model.{ENCODER}": OTHER}
NARROW_E = matrix(4, V, NARROW)
ALBERT_IN, ALBERT_MAP = "albert.embeddings.word_embeddings.weight", "albert.encoder.embedding_hidden_mapping_in.weight"  # fmt: skip
OPT_IN = "model.decoder.embed_tokens.weight"
MAP, BACK = matrix(5, D, NARROW), matrix(6, NARROW, D)
DISAGREEMENTS = {
    "tied, two matrices": ({IN: E, OUT: H}, LLAMA | TIED, ["tied-flag-two-matrices"], "64 of 64 sampled rows"),
    "tied, other dtype": ({IN: E, OUT: E.astype(np.float16)}, LLAMA | TIED, ["tied-flag-two-matrices"], "in dtype: F16 beside F32"),
    "untied, no head": ({IN: E}, LLAMA | UNTIED, ["untied-flag-no-head"], "no head is stored beside model.embed_tokens.weight"),
    "saved twice": ({IN: E, OUT: E}, LLAMA | TIED, ["head-saved-twice"], "lm_head.weight holds the same 6.1 kB as model.embed_tokens.weight"),
    "saved twice, unstated": ({IN: E, OUT: E}, LLAMA, ["head-saved-twice"], "state tie_word_embeddings as true"),
    "equal, untied": ({IN: E, OUT: E}, LLAMA | UNTIED, ["equal-under-untied-flag"], "set tie_word_embeddings to true"),
    "two heads, equal": ({IN: E, OUT: H, "embed_out.weight": H}, LLAMA | UNTIED, ["two-heads"], "lm_head.weight and embed_out.weight: equal"),
    "two heads, different": ({IN: E, OUT: H, "output.weight": OTHER}, LLAMA | UNTIED, ["two-heads"], "output.weight: different"),
    "only the head": ({OUT: H}, LLAMA | TIED, ["input-embedding-missing"], "only lm_head.weight is stored"),
    "map missing": ({ALBERT_IN: NARROW_E, "predictions.dense.weight": BACK}, ALBERT | TIED, ["factorized-input-without-map"], "8 wide and the body 16"),
    "map of another shape": ({ALBERT_IN: NARROW_E, ALBERT_MAP: matrix(0, D, 12), "predictions.dense.weight": BACK}, ALBERT | TIED, ["factorized-input-without-map"], "no map"),
    "map back missing": ({OPT_IN: NARROW_E, "model.decoder.project_in.weight": MAP}, OPT | TIED, ["factorized-output-without-map"], "the head, is 8 wide"),
    "width": ({IN: E}, LLAMA | TIED | {"embedding_size": 12}, ["width-differs"], "16 wide; config.json says 12"),
    "another name": ({IN: E, "embed_out.weight": H}, LLAMA | UNTIED, ["head-under-another-name"], "the head is embed_out.weight; llama reads lm_head.weight"),
    "another vague name": ({IN: E, "output.weight": H}, LLAMA | UNTIED, ["head-under-another-name"], "rename it to lm_head.weight"),
    "decoder of BERT": ({"gpt_neox.embed_in.weight": E, "cls.predictions.decoder.weight": H}, NEOX | UNTIED, ["head-under-another-name"], "gpt_neox reads embed_out.weight"),
    "a name of no family": ({IN: E, "my.unembedding": H}, LLAMA | UNTIED, ["head-under-another-name"], "my.unembedding has the shape of a head"),
    "three uses": ({SHARED: E, ENCODER: OTHER}, T5 | TIED, ["encoder-decoder-three-uses"], "encoder.embed_tokens.weight differs from shared.weight"),
    "three uses without a shared one": ({DECODER: E, ENCODER: OTHER, OUT: H}, T5 | UNTIED, ["encoder-decoder-three-uses"], "differs from decoder.embed_tokens.weight"),
    "input saved twice": ({SHARED: E, ENCODER: E, DECODER: E}, T5 | TIED, ["embedding-saved-twice"] * 2, "the encoder's input, holds the same"),
    "three uses, a head of its own": ({SHARED: E, OUT: H}, T5 | TIED, ["tied-flag-two-matrices"], "lm_head.weight differs from shared.weight"),
    "positions are no head": ({IN: E, "model.embed_positions.weight": H}, LLAMA | UNTIED, ["untied-flag-no-head"], "no head is stored"),
    "two BERTs and a copy": ({"encoder.embeddings.word_embeddings.weight": OTHER, "decoder.bert.embeddings.word_embeddings.weight": E, "decoder.cls.predictions.decoder.weight": E}, {"model_type": "encoder-decoder"} | TIED, ["head-saved-twice"], "as decoder.bert.embeddings.word_embeddings.weight"),
    "the head that the class reads": ({"model.embeddings.tok_embeddings.weight": E, OUT: H, "decoder.weight": OTHER}, {"model_type": "modernbert"} | UNTIED, ["two-heads"], "decoder.weight and lm_head.weight"),
    "an encoder with a copy": ({SHARED: E, ENCODER: E}, T5 | TIED | {"architectures": ["T5EncoderModel"], "is_encoder_decoder": False}, ["embedding-saved-twice"], "the encoder's input"),
    "resized input": ({IN: BIGGER, OUT: H}, LLAMA | UNTIED, ["one-side-resized"], "has 100 rows and lm_head.weight 96; vocab_size is 96"),
    "resized head": ({IN: E, OUT: BIGGER}, LLAMA | UNTIED, ["one-side-resized"], "stored      two different matrices: the first 96 rows are equal, byte by byte"),
    "resized input of a tie": ({IN: BIGGER, OUT: E}, LLAMA | TIED, ["one-side-resized"], "resize lm_head.weight to 100 rows"),
    "resized, and another matrix": ({IN: BIGGER, OUT: H}, LLAMA | TIED, ["tied-flag-two-matrices", "one-side-resized"], "in shape: [96, 16] beside [100, 16]"),
    "config not resized": ({IN: BIGGER}, LLAMA | TIED, ["vocabulary-size-differs"], "has 100 rows; vocab_size is 96"),
    "flags": ({IN: E}, LLAMA | TIED | {"text_config": UNTIED}, ["flags-contradict"], "text_config.tie_word_embeddings false"),
    "nested flag": ({f"language_model.{IN}": E, f"language_model.{OUT}": H}, {"model_type": "llava", "text_config": TIED | {"vocab_size": V}}, ["tied-flag-two-matrices"], "text_config.tie_word_embeddings is true"),
}  # fmt: skip


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_disagreements(tmp_path, case, capsys) -> None:
    tensors, config, expected, words = DISAGREEMENTS[case]
    folder = write(tmp_path / "model", tensors, config)
    assert main(["audit", str(folder)]) == 1
    out = capsys.readouterr().out
    assert [line.split("[")[-1].rstrip("]") for line in out.splitlines() if line.startswith("disagrees")] == expected  # fmt: skip
    assert words in out and out.count("to mend  ") == len(expected)
    assert main(["audit", str(folder), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert tuple(said) == KEYS and said["verdict"] == "disagrees"
    assert [x["code"] for x in said["findings"]] == expected


AGREEMENTS = {
    "untied, two matrices": ({IN: E, OUT: H}, LLAMA | UNTIED, "different"),
    "dtypes of their own": ({IN: E, OUT: H.astype(np.float16)}, LLAMA | UNTIED, "different"),
    "a body with an untied flag": ({"embed_tokens.weight": E}, LLAMA | UNTIED | {"architectures": ["LlamaModel"]}, "no-head"),
    "nested flag": ({f"language_model.{IN}": E}, {"model_type": "llava", "text_config": TIED}, "one"),
    "original LLaMA": ({"tok_embeddings.weight": E, "output.weight": H}, UNTIED, "different"),
    "ChatGLM": ({"transformer.embedding.word_embeddings.weight": E, "transformer.output_layer.weight": H}, UNTIED, "different"),
    "Mamba": ({"backbone.embeddings.weight": E}, {"model_type": "mamba", "hidden_size": D} | TIED, "one"),
    "T5 1.1": ({SHARED: E, OUT: H}, T5 | UNTIED, "different"),
    "Marian of two vocabularies": ({f"model.{ENCODER}": OTHER, f"model.{DECODER}": E}, {"model_type": "marian", "architectures": ["MarianMTModel"], "is_encoder_decoder": True, "share_encoder_decoder_embeddings": False} | TIED, "one"),
    "two BERTs": ({"encoder.embeddings.word_embeddings.weight": OTHER, "decoder.bert.embeddings.word_embeddings.weight": E}, {"model_type": "encoder-decoder", "is_encoder_decoder": True, "decoder": {"model_type": "bert", "vocab_size": V} | TIED}, "one"),
    "a MobileBERT": ({"mobilebert.embeddings.word_embeddings.weight": NARROW_E, "mobilebert.embeddings.embedding_transformation.weight": matrix(0, D, 3 * NARROW), "cls.predictions.dense.weight": matrix(0, D - NARROW, V)}, {"model_type": "mobilebert", "architectures": ["MobileBertForMaskedLM"], "hidden_size": D} | TIED, "one"),
    "another model in the file": ({"a.embed_tokens.weight": matrix(0, 7, D), f"z.{IN}": E}, LLAMA | TIED, "one"),
    "a classifier": ({IN: E, "pooled.head.weight": matrix(0, 7, D), "other.head.weight": matrix(0, V, 40)}, LLAMA | TIED, "one"),
    "a nested vocabulary": ({IN: E}, {"vocab_size": 7, "text_config": {"vocab_size": V}} | TIED, "one"),
    "a quantized body": ({IN: E, OUT: H, "model.layers.0.mlp.up_proj.qweight": np.ones((4, 4), np.int32)}, LLAMA | UNTIED, "different"),
    "a head inside a numbered block": ({IN: E, "model.layers.9.shared_head.head.weight": H, "model.layers.9.embed_tokens.weight": H}, LLAMA | TIED, "one"),
}  # fmt: skip


@pytest.mark.parametrize("case", AGREEMENTS)
def test_agreements(tmp_path, case) -> None:
    tensors, config, relation = AGREEMENTS[case]
    said = audit(str(write(tmp_path, tensors, config)))
    assert (said.findings, said.verdict, said.relation) == ([], "agrees", relation)


@pytest.mark.parametrize(
    ("tensors", "config", "default", "words"),
    [
        ({IN: E, OUT: H}, LLAMA, False, "class default of llama is untied, which is no statement"),
        ({IN: E}, LLAMA, False, "a loader that follows it starts a missing head at random"),
        ({"wte.weight": E, OUT: H}, {"model_type": "gpt2"}, True, "may drop lm_head.weight"),
        ({"wte.weight": E}, {"model_type": "gpt2"}, True, "class default of gpt2 is tied"),
        ({IN: E, OUT: H}, {"model_type": "mine"}, None, "does not state tie_word_embeddings"),
        ({IN: E, OUT: H}, None, None, "no config.json: nothing is stated"),
    ],
)
def test_a_tie_is_never_inferred(tmp_path, tensors, config, default, words) -> None:
    said = audit(str(write(tmp_path, tensors, config)))
    assert (said.verdict, said.findings) == ("unstated", [])
    assert words in " | ".join(said.remarks)
    assert (as_json(said)["class_default"] or {}).get("tied") is default
    assert as_json(said)["stated"]["tied"] is None


def test_wasted_bytes(tmp_path) -> None:
    folder = write(tmp_path, {SHARED: E, ENCODER: E, OUT: E, "embed_out.weight": E}, T5 | TIED)
    assert audit(str(folder)).wasted == 3 * E.nbytes


# comparing


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2"])
def test_dtypes_are_compared_as_bytes(tmp_path, dtype) -> None:
    size = V * D * BITS[dtype] // 8
    data = bytes(np.random.default_rng(0).integers(0, 256, size, np.uint8))  # NaN too
    stored = dtype, (V, D), data
    folder = write(tmp_path, {IN: stored, OUT: stored}, LLAMA | TIED)
    assert codes(folder) == ["head-saved-twice"]


def test_one_row_that_no_sample_meets_is_found(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(comparison, "PIECE", 300)
    head = E.copy()
    head[1, 3] = -head[1, 3]  # 64 rows of 96: 0, 1, 3, 4, ...
    head[2, 3] = -head[2, 3]
    folder = write(tmp_path, {IN: E, OUT: head}, LLAMA | UNTIED)
    found = audit(str(folder)).comparison
    assert found and (found.compared, found.differing, found.first) == (64, 1, 1)
    head[1] = E[1]
    found = audit(str(write(tmp_path, {IN: E, OUT: head}, LLAMA | UNTIED))).comparison
    assert found and (found.compared, found.differing, found.first) == (V, 1, 2)


def test_the_full_comparison_shows_its_progress(tmp_path, monkeypatch) -> None:
    """All bytes of a matrix, in pieces."""
    shown, bars = [], []

    class Bar:
        def __enter__(self):
            return self

        def __exit__(self, *arguments):
            return None

        def update(self, count: int) -> None:
            shown.append(count)

    monkeypatch.setattr(comparison, "PIECE", 1000)
    monkeypatch.setattr("tiebench.progress.progress", lambda **given: bars.append(given) or Bar())
    assert codes(write(tmp_path, {IN: E, OUT: E}, LLAMA | TIED)) == ["head-saved-twice"]
    assert sum(shown) == bars[0]["total"] == E.nbytes and max(shown) <= 1000
    write(tmp_path, {IN: E, OUT: H}, LLAMA | UNTIED)
    assert codes(tmp_path) == [] and len(bars) == 1  # a sampled row has decided


def test_two_zeros_differ(tmp_path) -> None:
    zeros = np.zeros((V, D), np.float32)
    assert codes(write(tmp_path, {IN: zeros, OUT: -zeros}, LLAMA | TIED)) == ["tied-flag-two-matrices"]  # fmt: skip


@pytest.mark.parametrize(
    ("flag", "expected"), [(TIED, ["tied-flag-two-stored"]), (UNTIED, []), ({}, [])]
)
def test_headers_only_compares_nothing(tmp_path, monkeypatch, flag, expected) -> None:
    monkeypatch.setattr("tiebench.audit.judging.compare", None)
    folder = write(tmp_path, {IN: E, OUT: E}, LLAMA | flag)
    said = audit(str(folder), headers_only=True)
    assert [x.code for x in said.findings] == expected
    assert said.relation == "not-compared" and "values are not compared (--headers-only)" in said.remarks  # fmt: skip


def test_headers_alone_show_two_shapes(tmp_path) -> None:
    folder = write(tmp_path, {IN: BIGGER, OUT: E}, LLAMA | TIED)
    assert codes(folder, headers_only=True) == ["tied-flag-two-matrices", "one-side-resized"]


def test_a_huge_checkpoint_is_not_read(tmp_path, capsys) -> None:
    rows, width = 1_000_000, 10_000
    size = rows * width * 2
    header = json.dumps(
        {
            name: {"dtype": "BF16", "shape": [rows, width], "data_offsets": [i * size, (i + 1) * size]}
            for i, name in enumerate((IN, OUT, "model.a", "model.b", "model.c"))
        }
    ).encode()  # fmt: skip
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + 5 * size)
    assert path.stat().st_size > 100e9
    assert main(["audit", str(path), "--headers-only"]) == 0
    assert "5 tensors, 100.0 GB in 1 file" in capsys.readouterr().out
    assert path.stat().st_blocks * 512 < 1e6


@pytest.mark.parametrize("options", [["--headers-only"], []])
def test_no_heavy_library_is_imported(tmp_path, options) -> None:
    folder = write(tmp_path, {IN: E, OUT: E}, LLAMA | UNTIED)
    code = (
        "import sys\nfrom tiebench.cli import main\nstatus = main(sys.argv[1:])\n"
        "held = {x.partition('.')[0] for x in sys.modules}\n"
        "print(status, *sorted(held & {'torch', 'numpy', 'safetensors', 'transformers', 'pydantic', "
        "'huggingface_hub'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "audit", str(folder), *options],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == ("0" if options else "1")


# where a checkpoint is


def shards(folder: Path, config: dict = LLAMA | UNTIED, **where: str) -> dict[str, str]:
    """Two shards with an index."""
    for number, held in ((1, {IN: E, "model.norm.weight": NORM}), (2, {OUT: H})):
        write_file(folder / f"model-0000{number}-of-00002.safetensors", held)
    first, second = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))
    index = {IN: first, "model.norm.weight": first, OUT: second}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return index


def reindex(folder: Path, index: dict) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def test_shards(tmp_path) -> None:
    shards(tmp_path)
    said = as_json(audit(str(tmp_path)))
    assert (said["verdict"], said["relation"], said["tensors"]) == ("agrees", "different", 3)
    assert said["head"]["file"] == "model-00002-of-00002.safetensors"


def test_one_file_takes_the_config_beside_it(tmp_path) -> None:
    folder = write(tmp_path / "model", {IN: E, OUT: E}, LLAMA | TIED)
    assert codes(folder / "model.safetensors") == ["head-saved-twice"]
    alone = write_file(tmp_path / "alone.safetensors", {IN: E, OUT: E})
    assert codes(alone) == ["head-saved-twice"]


def test_links_and_the_local_cache(tmp_path, monkeypatch) -> None:
    blob = write(tmp_path / "blobs", {IN: E}, LLAMA | UNTIED)
    snapshot = tmp_path / "hub" / "models--some--llama" / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (snapshot / name).symlink_to(blob / name)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("a" * 40)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for source in ("some/llama", snapshot, snapshot / "model.safetensors"):
        assert codes(source) == ["untied-flag-no-head"]
    (tmp_path / "link").symlink_to(snapshot)
    assert codes(tmp_path / "link") == ["untied-flag-no-head"]
    with pytest.raises(
        DataError,
        match="no such repository .*expected a folder with config.json and safetensors\\.",
    ):
        audit("some/other")


# damage


def header(text: bytes, data: bytes = b"", length: int | None = None) -> bytes:
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(**changes) -> bytes:
    """A file with one matrix, of which the header says something else."""
    size = E.nbytes
    plain = {"dtype": "F32", "shape": [V, D], "data_offsets": [0, size]}
    return header(json.dumps({IN: plain | changes}).encode(), E.tobytes())


def two(first: list[int], second: list[int]) -> bytes:
    """A file with two matrices at given places."""
    held = {
        name: {"dtype": "F32", "shape": [(b - a) // 64, D], "data_offsets": [a, b]}
        for name, (a, b) in ((IN, first), (OUT, second))
    }
    return header(json.dumps(held).encode(), bytes(12800))


DAMAGED = {
    "nothing": (b"", "found 0 bytes; expected at least 8"),
    "a few bytes": (b"\x10\0", "found 2 bytes"),
    "a truncated header": (entry()[:50], "expected a header that ends within the file"),
    "a header longer than the file": (header(b"{}", length=500), "a header of 500 bytes in a file of 10 bytes"),
    "an absurd length": (header(b"{}", length=10**9), "a header of 1,000,000,000 bytes; expected 100,000,000 bytes at most"),
    "broken JSON": (header(b'{"a": '), r"header: found broken JSON \(Expecting value"),
    "no UTF-8": (header(b'{"\xff": 1}'), "header: found broken JSON"),
    "nested too deep": (header(b"[" * 100_000), "header: found broken JSON"),
    "no object": (header(b"[1]"), r"header: found \[1\]; expected a JSON object"),
    "a name twice": (header(b'{"a": 1, "a": 1}'), "header: found 'a' twice"),
    "a name that breaks a terminal": (header(b'{"\\u001b[2J": 1}'), "found a name that cannot be printed"),
    "half a character": (header(b'{"\\ud800.lm_head.weight": 1}'), "found a name that cannot be printed"),
    "no entry": (header(b'{"a": 1}'), "a: found 1; expected dtype, shape and data_offsets"),
    "an unknown dtype": (entry(dtype="F31"), 'found dtype "F31"; expected one of BOOL'),
    "a dtype that is no name": (entry(dtype=[1]), r"found dtype \[1\]"),
    "a negative size": (entry(shape=[-V, D]), r"found shape \[-96, 16\]; expected a list of whole numbers"),
    "a fraction": (entry(shape=[V, 16.0]), r"found shape \[96, 16\.0\]"),
    "a truth value": (entry(shape=[True, V * D]), r"found shape \[true, 1536\]"),
    "a size in words": (entry(shape="96x16"), 'found shape "96x16"'),
    "a size beyond any file": (entry(shape=[10**30, D]), "found shape"),
    "sizes beyond any file": (entry(shape=[2**60] * 40), "found 6,144 bytes; expected bytes for shape"),
    "a size of zero": (header(json.dumps({IN: {"dtype": "F32", "shape": [0, D], "data_offsets": [0, 0]}}).encode()), r"found shape \[0, 16\]; expected two sizes above 0"),
    "one dimension": (entry(shape=[V * D]), r"found shape \[1536\]; expected two sizes above 0"),
    "three dimensions": (entry(shape=[V, 4, 4]), r"found shape \[96, 4, 4\]"),
    "shape and bytes": (entry(shape=[V, 15]), r"found 6,144 bytes; expected 5,760 bytes for shape \[96, 15\] of F32"),
    "offsets backwards": (entry(data_offsets=[8, 0]), r"found data_offsets \[8, 0\]"),
    "three offsets": (entry(data_offsets=[0, 1, 2]), r"found data_offsets \[0, 1, 2\]"),
    "offsets out of the file": (entry()[:-8], r"embed_tokens.weight: found bytes up to .* in a file of"),
    "overlap": (two([0, 6400], [64, 6464]), "a first byte that model.embed_tokens.weight holds too"),
    "a gap": (two([0, 6336], [6400, 12800]), "a gap of 64 bytes behind model.embed_tokens.weight"),
    "bytes behind": (entry() + b"more", "found 4 bytes behind the last tensor"),
    "GGUF inside": (b"GGUF\3\0\0\0" + bytes(100), "found a GGUF file"),
    "a zip inside": (b"PK\3\4" + bytes([9] * 100), r"found a zip archive, as torch.save writes it"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer.*git lfs pull"),
    "no embedding": (header(b'{"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}', bytes(4)), "neither input embedding nor head among 1 tensor;"),
    "an adapter": (header(b'{"lm_head.lora_A.weight": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}', bytes(4)), "an adapter .LoRA. without its model"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files(tmp_path, case, capsys) -> None:
    data, message = DAMAGED[case]
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(DataError, match=message):
        audit(str(tmp_path), headers_only=True)
    assert main(["audit", str(tmp_path), "--headers-only", "--json"]) == 2
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert tuple(said) == KEYS and said["verdict"] == "unreadable"
    assert err.startswith("error: ") and said["error"]["mend"] in err


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{", r"config.json: found broken JSON"),
        ("[]", r"config.json: found \[\]; expected a JSON object"),
        ('{"tie_word_embeddings": "yes"}', 'tie_word_embeddings: found "yes"; expected true or false'),
        ('{"text_config": {"tie_word_embeddings": 1}}', r"text_config.tie_word_embeddings: found 1"),
        ('{"vocab_size": -3}', "vocab_size: found -3; expected a whole number above 0"),
        ('{"text_config": {"hidden_size": 1.5}}', "text_config.hidden_size: found 1.5"),
        ('{"model_type": 3}', "model_type: found 3; expected a name"),
        ('{"architectures": "GPT2"}', 'architectures: found "GPT2"; expected a list of names'),
        ('{"architectures": ["\\ud800"]}', "expected a list of names"),
        ('{"model_type": "\\u0007"}', "expected a name"),
        ('{"share_encoder_decoder_embeddings": 0}', "share_encoder_decoder_embeddings: found 0; expected true or false"),
    ],
)  # fmt: skip
def test_damaged_configs(tmp_path, values, message) -> None:
    write(tmp_path, {IN: E}, None)
    (tmp_path / "config.json").write_text(values)
    with pytest.raises(DataError, match=message):
        audit(str(tmp_path))


def _third(folder: Path, index: dict) -> None:
    write_file(folder / "model-00003-of-00003.safetensors", {"x": NORM})


def _twice(folder: Path, index: dict) -> None:
    write_file(folder / "model-00002-of-00002.safetensors", {OUT: H, IN: E})


def _dangling(folder: Path, index: dict) -> None:
    path = folder / "model-00002-of-00002.safetensors"
    path.unlink()
    path.symlink_to("nowhere")


SHARDS = {
    "missing": (lambda folder, index: (folder / index[OUT]).unlink(), "00002-of-00002.safetensors: found no such file; expected the shard"),
    "link": (_dangling, "found a link that leads nowhere"),
    "not in the index": (_third, "00003-of-00003.safetensors: found a shard that is not in the index"),
    "in two": (_twice, "embed_tokens.weight: found a tensor that model-00001-of-00002.safetensors holds too"),
    "not in its shard": (lambda folder, index: reindex(folder, index | {"x": index[OUT]}), "index.json: x: found model-00002-of-00002.safetensors, which does not hold it"),
    "in another shard": (lambda folder, index: reindex(folder, index | {"model.norm.weight": index[OUT]}), "model.norm.weight: found"),
    "a tensor that the index lacks": (lambda folder, index: reindex(folder, {k: v for k, v in index.items() if k != "model.norm.weight"}), "norm.weight: found a tensor that is not in the index"),
    "no map": (lambda folder, index: reindex(folder, {}), "weight_map: found no file"),
    "elsewhere": (lambda folder, index: reindex(folder, index | {"x": "../a.safetensors"}), "weight_map: found '../a.safetensors'"),
    "broken": (lambda folder, index: (folder / "model.safetensors.index.json").write_text("{"), "index.json: found broken JSON"),
    "damaged": (lambda folder, index: (folder / index[OUT]).write_bytes(b"x"), "00002-of-00002.safetensors: found 1 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", SHARDS)
def test_damaged_shards(tmp_path, case) -> None:
    change, message = SHARDS[case]
    change(tmp_path, shards(tmp_path))
    with pytest.raises(DataError, match=message):
        audit(str(tmp_path))


def test_a_config_that_leads_nowhere(tmp_path) -> None:
    (write(tmp_path, {IN: E}, None) / "config.json").symlink_to("nowhere")
    with pytest.raises(DataError, match="config.json: found no such file"):
        audit(str(tmp_path))


def test_one_shard_is_not_the_checkpoint(tmp_path) -> None:
    index = shards(tmp_path)
    with pytest.raises(DataError, match=f"found one of several files.*name its folder, {tmp_path}"):
        audit(str(tmp_path / index[OUT]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pytorch_model.bin", "pytorch_model.bin, which can run code when loaded"),
        ("consolidated.00.pth", "consolidated.00.pth, which can run code when loaded"),
        ("model.pt", "model.pt, which can run code"),
        ("model-q4.gguf", "model-q4.gguf, which is GGUF"),
        ("tf_model.h5", "tf_model.h5, which is HDF5"),
        ("flax_model.msgpack", "flax_model.msgpack, which is MessagePack"),
    ],
)
def test_other_formats_are_refused_by_name(tmp_path, name, message) -> None:
    (tmp_path / name).write_bytes(b"something")
    for source in (tmp_path, tmp_path / name):
        with pytest.raises(DataError, match=message):
            audit(str(source))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("lm_head.qweight", np.ones((4, 4), np.int32)),
        ("lm_head.scales", np.ones((4, 4), np.float16)),
        ("lm_head.weight_packed", np.ones((4, 4), np.int32)),
        ("lm_head.weight_scale", np.ones((4, 1), np.float32)),
        ("lm_head.weight.absmax", np.ones(4, np.float32)),
        ("lm_head.weight.quant_state.bitsandbytes__nf4", np.ones(4, np.int8)),
        ("lm_head.weight", np.ones((V, D), np.int8)),
        ("lm_head.SCB", np.ones(V, np.float32)),
        ("model.embed_tokens.qweight", np.ones((4, 4), np.int32)),
        ("output.qweight", np.ones((4, 4), np.int32)),
    ],
)
def test_quantized_matrices_are_refused_by_name(tmp_path, name, array) -> None:
    folder = write(tmp_path, {IN: E, name: array}, LLAMA | UNTIED)
    with pytest.raises(DataError, match=f"{name}: found a quantized matrix .*quantized from"):
        audit(str(folder))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gone.safetensors", "gone.safetensors: found no such file or folder"),
        ("./gone", "found no such file or folder"),
        ("gone.gguf", "found no such file or folder"),
        ("not an id", "no such repository in the local Hugging Face cache"),
        ("x" * 5000, "no such repository"),
    ],
)
def test_no_checkpoint(tmp_path, monkeypatch, source, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=message):
        audit(source)


def test_a_folder_without_checkpoint(tmp_path) -> None:
    with pytest.raises(
        DataError, match="found no model.safetensors; expected model.safetensors or"
    ):
        audit(str(tmp_path))
    write_file(tmp_path / "adapter_model.safetensors", {"x": NORM})
    with pytest.raises(DataError, match="but adapter_model.safetensors.*name the file itself"):
        audit(str(tmp_path))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch) -> None:
    folder = write(tmp_path, {IN: E}, LLAMA)

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="model.safetensors: found Permission denied"):
        read_header(folder / "model.safetensors")


def test_operations_on_the_table_of_a_run_are_told(tmp_path: Path) -> None:
    low_rank = {"kind": "low_rank_addition", "rank": 2}
    coupling = CouplingSettings(option="t", tied=True, output_operations=[low_rank])
    body = {"width": 8, "layers": 1, "heads": 2, "feedforward_width": 8}
    save_model(
        LanguageModel(coupling, BodySettings(option="t", **body), 20).initialize(0), tmp_path
    )
    found = audit(str(tmp_path))
    assert found.verdict == "agrees"
    assert any("low_rank_addition on the output side" in x for x in found.remarks)
