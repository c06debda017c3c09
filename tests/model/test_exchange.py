"""Checkpoints of transformers, read and written without the library: round trips and refusals."""

from __future__ import annotations

import fcntl
import json
import math
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from tests.model.native import (
    SHAPES,
    VOCABULARY,
    edit_config,
    make_model,
    make_run,
    train_small_tokenizer,
)
from tiebench.errors import BusyError, DataError, SettingsError, WriteError
from tiebench.files import replacing_folder, sha256_of
from tiebench.model import export
from tiebench.model.exchange import Tensors, import_checkpoint
from tiebench.model.export import export_run, find_native, resolve_run
from tiebench.model.folders import new_folder, source_folder
from tiebench.model.lm import load_model


@pytest.fixture(autouse=True)
def unread(monkeypatch):
    """Exports are compared with transformers in test_fidelity.py, and not here."""
    monkeypatch.setattr(export, "differences", lambda *arguments: {"logits": 0.0})


@pytest.fixture
def make(tmp_path):
    """Makes the native checkpoint of a shape and returns its folder."""

    def made(shape: str, **changes):
        make_run(tmp_path / "run", shape, **changes)
        export_run(tmp_path / "run", tmp_path / "native")
        return tmp_path / "native"

    return made


def edit_tensors(folder, change):
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors = change(tensors) or tensors
    save_file({k: v.contiguous() for k, v in tensors.items()}, path, metadata={"format": "pt"})


def renamed(*pairs):
    def change(tensors):
        for pattern, name in pairs:
            tensors = {re.sub(pattern, name, key): value for key, value in tensors.items()}
        return tensors

    return change


def refused(folder, tmp_path, message):
    with pytest.raises(DataError, match=message):
        import_checkpoint(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_exported_comes_back(make, tmp_path, shape):
    said = import_checkpoint(make(shape), tmp_path / "out")
    before, after = load_model(tmp_path / "run"), load_model(tmp_path / "out")
    ours, again = dict(before.named_parameters()), dict(after.named_parameters())
    assert ours.keys() == again.keys()
    assert all(torch.equal(ours[name], again[name]) for name in ours)
    kept, found = (
        {
            **{f"body.{k}": v for k, v in x.settings.body.model_dump().items()},
            **{f"coupling.{k}": v for k, v in x.settings.coupling.model_dump().items()},
        }
        for x in (before, after)
    )
    kept["coupling.input_width"], kept["coupling.output_width"] = (
        before.settings.coupling.widths(before.settings.body.width)
        if shape.startswith("rembert")
        else (None, None)
    )
    kept["coupling.transform"] = found["coupling.transform"]  # ESM's epsilon is the body's
    options = {"body.option", "coupling.option"}
    assert {k: v for k, v in found.items() if v != kept[k]}.keys() <= options
    assert said["tie"]["tied"] == before.settings.coupling.tied
    assert said["parameters"] == before.parameter_counts()


def test_what_is_said_of_an_import(make, tmp_path):
    folder = make("bert")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.txt").touch()
    said = import_checkpoint(folder, tmp_path / "out")
    assert json.loads(json.dumps(said)) == said
    assert said["architecture"] == "BertForMaskedLM"
    names = ("config.json", "model.safetensors", "tokenizer.json")
    assert said["files"] == {name: sha256_of(folder / name) for name in names}
    assert said["notes"] == ["the tokenizer puts [CLS] before a sentence and [SEP] after it"]
    written = sorted(x.name for x in (tmp_path / "out").iterdir())
    assert written == sorted([*names, "README.md", "imported.json"])
    assert json.loads((tmp_path / "out" / "imported.json").read_text()) == said
    assert said["folder"] == "native"
    assert import_checkpoint(folder, tmp_path / "out", "some/bert")["folder"] == "some/bert"
    card = (tmp_path / "out" / "README.md").read_text()
    assert said["files"]["model.safetensors"] in card and "BertForMaskedLM" in card


# the tie


def test_flag_tied_and_two_different_tables(make, tmp_path):
    folder = make("bert_untied")
    edit_config(folder, tie_word_embeddings=True)
    refused(folder, tmp_path, "tie_word_embeddings: found true, beside two different tables.*cls.p")


def test_flag_untied_and_no_output_table(make, tmp_path):
    folder = make("llama")
    edit_config(folder, tie_word_embeddings=False)
    refused(folder, tmp_path, "tie_word_embeddings: found false, beside one table.*no lm_head.wei")


@pytest.mark.parametrize(("shape", "tied"), [("llama", True), ("llama_untied", False)])
def test_without_a_flag_the_tensors_decide(make, tmp_path, shape, tied):
    folder = make(shape)
    edit_config(folder, tie_word_embeddings=None)
    said = import_checkpoint(folder, tmp_path / "out")
    assert said["tie"]["tied"] == tied and said["tie"]["config"] == "nothing"


@pytest.mark.parametrize("flag", [True, False, None])
def test_two_equal_tables_are_one(make, tmp_path, flag):
    folder = make("llama")
    edit_config(folder, tie_word_embeddings=flag)
    edit_tensors(
        folder, lambda held: {**held, "lm_head.weight": held["model.embed_tokens.weight"].clone()}
    )
    said = import_checkpoint(folder, tmp_path / "out")
    note = "lm_head.weight equals model.embed_tokens.weight: read as one table"
    despite = ", though tie_word_embeddings is false" if flag is False else ""
    assert f"{note}{despite}" in said["notes"]
    assert load_model(tmp_path / "out").settings.coupling.tied


@pytest.mark.parametrize("value", ["yes", 1, [True]])
def test_a_flag_must_be_a_flag(make, tmp_path, value):
    folder = make("llama")
    edit_config(folder, tie_word_embeddings=value)
    refused(folder, tmp_path, "tie_word_embeddings: found .*; expected true or false")


def test_a_second_bias_of_a_tied_head(make, tmp_path):
    folder = make("bert")
    edit_tensors(folder, renamed(("predictions.bias", "predictions.decoder.bias")))
    import_checkpoint(folder, tmp_path / "a")
    bias = load_model(tmp_path / "a").coupling.bias
    edit_tensors(folder, lambda held: {**held, "cls.predictions.bias": bias.detach().clone()})
    import_checkpoint(folder, tmp_path / "b")
    assert torch.equal(load_model(tmp_path / "b").coupling.bias, bias)
    edit_tensors(folder, lambda held: {**held, "cls.predictions.bias": bias.detach() + 1})
    refused(folder, tmp_path, "decoder.bias: found other values than in cls.predictions.bias")


def test_a_second_bias_of_an_untied_head_is_the_one_applied(make, tmp_path):
    folder = make("bert_untied")
    kept = load_model(tmp_path / "run").coupling.bias
    edit_tensors(folder, lambda held: {**held, "cls.predictions.bias": torch.zeros(VOCABULARY)})
    said = import_checkpoint(folder, tmp_path / "out")
    assert torch.equal(load_model(tmp_path / "out").coupling.bias, kept)
    assert any("the bias of the head is cls.predictions.decoder.bias" in x for x in said["notes"])


def test_no_tensor_is_read_twice(make, tmp_path, monkeypatch):
    read, read_one = [], Tensors.read
    monkeypatch.setattr(
        Tensors, "read", lambda self, name, shape: read.append(name) or read_one(self, name, shape)
    )
    tables = {
        "llama": ("lm_head.weight", "model.embed_tokens.weight"),
        "bert": ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    }
    for shape in ("llama_untied", "llama", "bert_untied", "bert"):
        folder, read[:] = make(shape), []
        decoder, table = tables[shape.removesuffix("_untied")]
        edit_tensors(folder, lambda held, d=decoder, t=table: {d: held[t].clone(), **held})
        import_checkpoint(folder, tmp_path / "out")
        assert sorted(read) == sorted(load_file(folder / "model.safetensors"))
        shutil.rmtree(folder)


# names, files and numbers


def test_names_of_old_files(make, tmp_path):
    folder = make("bert")
    edit_tensors(
        folder, renamed((r"LayerNorm\.weight", "LayerNorm.gamma"), (r"Norm\.bias", "Norm.beta"))
    )
    edit_tensors(
        folder,
        lambda held: {
            **held,
            "bert.pooler.dense.weight": torch.ones(2),
            "bert.embeddings.position_ids": torch.arange(9)[None],
            "cls.seq_relationship.bias": torch.ones(2),
        },
    )
    said = import_checkpoint(folder, tmp_path / "out")
    ours, again = (load_model(tmp_path / x).state_dict() for x in ("run", "out"))
    assert all(torch.equal(ours[name], again[name]) for name in ours)
    assert said["notes"][0].endswith(
        "needs it: bert.embeddings, bert.pooler.dense, cls.seq_relationship"
    )


@pytest.mark.parametrize(("prefix", "flag"), [("", True), ("bert.", False)])
def test_an_encoder_without_head(make, tmp_path, prefix, flag):
    folder = make("bert")
    edit_config(folder, architectures=["BertModel"], tie_word_embeddings=flag)

    def bare(tensors):
        return {k: v for k, v in renamed(("^bert.", prefix))(tensors).items() if "cls." not in k}

    edit_tensors(folder, bare)
    said = import_checkpoint(folder, tmp_path / "out")
    assert said["notes"][0].startswith("BertModel has no language-model head")
    coupling, ids = load_model(tmp_path / "out").settings.coupling, torch.arange(9)[None]
    assert (coupling.tied, coupling.transform, coupling.bias) == (True, [], False)
    states = (load_model(tmp_path / x).states(ids)[-1] for x in ("run", "out"))
    assert torch.equal(*states)


def test_a_head_that_the_class_does_not_have(make, tmp_path):
    folder = make("bert_untied")
    edit_config(folder, architectures=["BertModel"], tie_word_embeddings=None)
    refused(folder, tmp_path, "cls.predictions.bias: found a tensor that has no place")


def test_a_head_that_is_not_there(make, tmp_path):
    folder = make("bert")
    edit_tensors(folder, lambda held: {k: v for k, v in held.items() if "cls." not in k})
    refused(folder, tmp_path, "cls.predictions.*: found no such tensor.*names the class without")


def shard(folder):
    """Put the tensors into two files with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    where = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(names)}
    for file in set(where.values()):
        save_file({k: tensors[k] for k in names if where[k] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return where


def test_several_files_with_an_index(make, tmp_path):
    folder = make("llama")
    shard(folder)
    said = import_checkpoint(folder, tmp_path / "out")
    assert list(said["files"]) == [
        "config.json", "model.safetensors.index.json", "model-0.safetensors",
        "model-1.safetensors", "tokenizer.json",
    ]  # fmt: skip
    ours, again = (load_model(tmp_path / x).state_dict() for x in ("run", "out"))
    assert all(torch.equal(ours[name], again[name]) for name in ours)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"weight_map": {"a": "../model.safetensors"}}, "weight_map: found '../model.safetensors'"),
        ({"weight_map": {}}, "weight_map: found no file"),
        ({}, "weight_map: found no file"),
        ({"weight_map": {"a": "gone.safetensors"}}, "gone.safetensors: found .*whole safetensors"),
    ],
)
def test_an_index_that_leads_nowhere(make, tmp_path, index, message):
    folder = make("llama")
    shard(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder, tmp_path, message)


def test_a_tensor_in_two_files(make, tmp_path):
    folder = make("llama")
    shard(folder)
    for file in ("model-0.safetensors", "model-1.safetensors"):
        save_file({**load_file(folder / file), "model.norm.weight": torch.ones(3)}, folder / file)
    refused(folder, tmp_path, "model.norm.weight: found a tensor that model-0.safetensors holds")


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_becomes_float32(make, tmp_path, kind):
    folder = make("llama")
    edit_tensors(folder, lambda held: {k: v.to(kind) for k, v in held.items()})
    said = import_checkpoint(folder, tmp_path / "out")
    assert f"converted from {str(kind).removeprefix('torch.')} to float32" in said["notes"]
    ours, again = (load_model(tmp_path / x).state_dict() for x in ("run", "out"))
    assert all(torch.equal(ours[name].to(kind).float(), again[name]) for name in ours)


@pytest.mark.parametrize("shape", ["bert", "bert_untied"])
@pytest.mark.parametrize("value", [math.nan, -math.inf, 1e300])
def test_numbers_that_are_not_finite_are_refused(make, tmp_path, shape, value):
    folder, bias = make(shape), "bert.encoder.layer.1.output.dense.bias"
    for name in ("bert.embeddings.word_embeddings.weight", bias):

        def spoil(held, name=name):
            held[name] = held[name].double()
            held[name].view(-1)[5] = value

        edit_tensors(folder, spoil)
        refused(folder, tmp_path, f"{name}: found numbers that are not finite, 1 of")
        edit_tensors(
            folder,
            lambda held, name=name: held.update(
                {name: held[name].nan_to_num(0, 0, 0).clamp(-9, 9)}
            ),
        )


def test_whole_numbers_are_refused(make, tmp_path):
    folder = make("llama")
    edit_tensors(folder, lambda held: {k: v.to(torch.int8) for k, v in held.items()})
    refused(folder, tmp_path, "model.*: found shape .* of I8; .*not quantized")


def test_pickled_files_are_not_read(make, tmp_path):
    folder = make("bert")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, tmp_path, "found pytorch_model.bin, which can run code.*save_pretrained")
    (folder / "pytorch_model.bin").unlink()
    refused(folder, tmp_path, "found no model.safetensors")


def test_damaged_files(make, tmp_path):
    folder = make("bert")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    refused(folder, tmp_path, "model.safetensors: found .*; expected a whole safetensors file")
    (folder / "config.json").write_text("{")
    refused(folder, tmp_path, "config.json: found broken JSON")
    (folder / "config.json").unlink()
    refused(folder, tmp_path, "config.json: found no such file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bert.encoder.layer.1.output.dense.weight"), r"layer.1.output.dense.weight: found no such"),
        (lambda t: t.update({"bert.encoder.layer.2.output.dense.weight": torch.ones(3)}), r"layer.2.output.dense.weight: found a tensor that has no place"),
        (lambda t: t.update({"bert.encoder.layer.1.attention.self.key.bias": torch.ones(3)}), r"key.bias: found shape \[3\].* expected shape \[32\]"),
        (lambda t: t.update({"bert.embeddings.word_embeddings.weight": torch.ones(7, 32)}), rf"word_embeddings.weight: found shape \[7, 32\].*\[{VOCABULARY}, 32\]"),
        (lambda t: t.update({"bert.embeddings.position_embeddings.weight": torch.ones(9, 32)}), r"position_embeddings.weight: found shape \[9, 32\]"),
        (lambda t: t.update({"bert.embeddings.token_type_embeddings.weight": torch.ones(2, 3)}), r"token_type_embeddings.weight: found shape \[2, 3\]"),
        (lambda t: t.pop("bert.embeddings.token_type_embeddings.weight"), r"token_type_embeddings.weight: found no such tensor"),
        (lambda t: t.update({"bert.embeddings.token_type_embeddings.weight": torch.ones(0, 32)}), r"token_type_embeddings.weight: found shape \[0, 32\]"),
        (lambda t: t.update({"bert.embeddings.token_type_embeddings.weight": torch.tensor(1.0)}), r"token_type_embeddings.weight: found shape \[\]"),
        (lambda t: t.update({"bert.embeddings.word_embeddings.weight": torch.tensor(1.0)}), r"word_embeddings.weight: found shape \[\]"),
        (lambda t: t.update({"cls.predictions.decoder.weight": torch.ones(7, 32)}), r"decoder.weight: found shape \[7, 32\]"),
        (lambda t: t.pop("cls.predictions.bias"), r"cls.predictions.bias: found no such tensor"),
        (lambda t: t.pop("bert.embeddings.word_embeddings.weight"), r"word_embeddings.weight: found no such tensor"),
    ],
)  # fmt: skip
def test_a_tensor_that_does_not_fit_is_named(make, tmp_path, change, message):
    folder = make("bert")

    def changed(tensors):
        change(tensors)

    edit_tensors(folder, changed)
    refused(folder, tmp_path, message)


def test_token_types_are_added_to_the_positions(make, tmp_path):
    folder = make("rembert")
    name = "rembert.embeddings.token_type_embeddings.weight"
    edit_tensors(folder, lambda held: held.update({name: held[name] + 1}))
    said = import_checkpoint(folder, tmp_path / "out")
    tables = [load_model(tmp_path / x).body.position_table for x in ("run", "out")]
    assert torch.equal(tables[0] + 1, tables[1])
    assert f"row 0 of {name} is added to the positions; other rows are not kept" in said["notes"]


def test_rates_of_rotation_must_be_ours(make, tmp_path):
    folder = make("esm")
    name, old = "esm.rotary_embeddings.inv_freq", "esm.encoder.layer.{}.attention.self.rotary_embeddings.inv_freq"  # fmt: skip
    edit_tensors(
        folder,
        lambda held: {
            **{k: v for k, v in held.items() if k != name},
            **{old.format(layer): held[name].clone() for layer in range(2)},
        },
    )
    import_checkpoint(folder, tmp_path / "old")
    edit_tensors(folder, lambda held: held.update({old.format(1): held[old.format(1)] * 1.001}))
    refused(folder, tmp_path, "layer.1.*inv_freq: found .*, which our models compute")


def test_a_map_between_equal_widths_must_change_nothing(make, tmp_path):
    folder = make("rembert_wide")
    name = "rembert.encoder.embedding_hidden_mapping_in.bias"
    edit_tensors(folder, lambda held: held.update({name: held[name] + 0.1}))
    refused(folder, tmp_path, "embedding_hidden_mapping_in.bias: found .*which our models compute")


# config.json


@pytest.mark.parametrize("names", [["GPT2LMHeadModel"], ["BertForSequenceClassification"], []])
def test_an_unknown_class(make, tmp_path, names):
    folder = make("bert")
    edit_config(folder, architectures=names)
    refused(
        folder, tmp_path, "architectures: found .*BertForMaskedLM.*XLMRobertaForMaskedLM.*Llama"
    )


@pytest.mark.parametrize(
    ("shape", "values", "message"),
    [
        ("bert", {"num_attention_heads": 5}, "num_attention_heads: found 5; expected a divisor of hidden_size, 32"),
        ("bert", {"hidden_act": "relu"}, "hidden_act: found 'relu'; expected 'gelu'"),
        ("bert", {"hidden_act": "gelu_new"}, "hidden_act: found 'gelu_new'"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type: found 'rel"),
        ("bert", {"is_decoder": True}, "is_decoder: found True; expected False"),
        ("bert", {"model_type": "roberta"}, "model_type: found 'roberta'; expected 'bert'"),
        ("bert", {"hidden_size": None}, "hidden_size: found nothing; expected a value of type int"),
        ("bert", {"hidden_size": "32"}, "hidden_size: found '32'"),
        ("bert", {"num_hidden_layers": 0}, "num_hidden_layers: found 0; expected a number above 0"),
        ("bert", {"num_hidden_layers": 10**9}, "num_hidden_layers: found 1000000000; expected no more"),
        ("bert", {"num_hidden_layers": True}, "num_hidden_layers: found True"),
        ("bert", {"vocab_size": 100}, "tokenizer.json: found token ids up to"),
        ("llama", {"head_dim": 16}, "head_dim: found 16; expected 8"),
        ("llama", {"mlp_bias": True}, "mlp_bias: found true; expected false, as attention_bias"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads: found 3; expected a divisor"),
        ("llama", {"hidden_act": "gelu"}, "hidden_act: found 'gelu'; expected 'silu'"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type: found 'linear'"),
        ("llama", {"rope_parameters": {"rope_theta": 5.0}}, "rope_theta: found two values"),
        ("llama", {"rope_theta": None, "rope_parameters": {"rope_theta": 5.0, "partial_rotary_factor": 0.5}}, "partial_rotary_factor: found 0.5"),
        ("llama_grouped", {"rope_parameters": {"factor": 9.0}}, "rope_parameters.factor: found two values"),
        ("llama", {"rope_scaling": {"rope_type": "llama3"}}, "factor: found nothing"),
        ("llama", {"rope_scaling": 3}, "rope_scaling: found 3; expected a value of type dict"),
        ("esm", {"position_embedding_type": "absolute"}, "position_embedding_type: found"),
        ("esm", {"token_dropout": True}, "token_dropout: found True.*take a checkpoint that was trained without it"),
        ("esm", {"rope_theta": [1]}, r"rope_theta: found \[1\]; expected a value of type float"),
        ("esm", {"rope_theta": 0}, "rope_theta: found 0; expected a finite number above 1"),
        ("llama", {"rope_theta": "abc"}, "rope_theta: found 'abc'; expected a value of type float"),
        ("llama", {"rope_theta": None, "rope_parameters": {"rope_theta": [1]}}, r"rope_theta: found \[1\]"),
        ("llama", {"rope_theta": 0}, "rope_theta: found 0; expected a finite number above 1"),
        ("llama", {"rope_theta": 10**400}, "rope_theta: found 1000"),
        ("bert", {"hidden_size": 10**12}, r"width 1000000000000; expected less than or equal to 1000000"),
        ("bert", {"vocab_size": 10**18}, r"word_embeddings.weight: found shape"),
        ("bert", {"intermediate_size": 10**18}, r"intermediate.dense.weight: found shape"),
        ("bert", {"max_position_embeddings": 10**6}, r"position_embeddings.weight: found shape"),
        ("bert", {"architectures": [None, {}]}, r"architectures: found \[null, \{\}\]"),
        ("rembert", {"output_embedding_size": 10**18}, r"decoder.weight: found shape"),
        ("rembert", {"input_embedding_size": 10**18}, r"word_embeddings.weight: found shape"),
        ("rembert", {"architectures": ["RemBertModel"]}, "found RemBertModel, which has no language-model head, whose table has another width; .*take a checkpoint of RemBertForMaskedLM"),
        ("esm", {"hidden_size": 36, "num_attention_heads": 12}, "an even width per head"),
    ],
)  # fmt: skip
def test_a_setting_that_our_models_do_not_have(make, tmp_path, shape, values, message):
    folder = make(shape)
    edit_config(folder, **values)
    refused(folder, tmp_path, message)


def test_a_position_table_with_no_row_for_a_sentence(make, tmp_path):
    folder = make("bert")
    edit_config(
        folder, architectures=["RobertaForMaskedLM"], model_type="roberta",
        max_position_embeddings=2, pad_token_id=1,
    )  # fmt: skip
    refused(folder, tmp_path, "max_position_embeddings: found 2; expected more than 2")


@pytest.mark.parametrize("pad", [-1, -9])
def test_positions_cannot_start_before_the_table(make, tmp_path, pad):
    folder = make("bert")
    edit_config(
        folder, architectures=["RobertaForMaskedLM"], model_type="roberta", pad_token_id=pad
    )
    refused(folder, tmp_path, f"pad_token_id: found {pad}; expected an id: 0 or a number above")


@pytest.mark.parametrize("flag", [True, None])
def test_a_wide_output_table_that_is_not_there(make, tmp_path, flag):
    folder, decoder = make("rembert"), "cls.predictions.decoder.weight"
    edit_config(folder, tie_word_embeddings=flag)
    edit_tensors(folder, lambda held: {k: v for k, v in held.items() if k != decoder})
    refused(folder, tmp_path, f"{decoder}: found no such tensor; expected shape .*of width 16")


def test_rotation_by_either_spelling(make, tmp_path):
    folder = make("llama_grouped")
    config = json.loads((folder / "config.json").read_text())
    new = {**config["rope_scaling"], "rope_theta": config["rope_theta"]}
    edit_config(folder, rope_scaling=None, rope_theta=None, rope_parameters=new)
    import_checkpoint(folder, tmp_path / "out")
    ours, again = (load_model(tmp_path / x).settings.body for x in ("run", "out"))
    assert (ours.rotary_base, ours.rotary_scaling) == (again.rotary_base, again.rotary_scaling)
    edit_config(folder, rope_parameters=None)
    import_checkpoint(folder, tmp_path / "out")
    plain = load_model(tmp_path / "out").settings.body
    assert (plain.rotary_base, plain.rotary_scaling) == (10_000.0, None)


def test_dropout_of_the_source_is_told(make, tmp_path):
    folder = make("bert")
    edit_config(folder, hidden_dropout_prob=0.1)
    notes = import_checkpoint(folder, tmp_path / "out")["notes"]
    assert (
        "our models have no dropout; the source was trained with hidden_dropout_prob 0.1" in notes
    )


# tokenizers


def test_a_checkpoint_without_fast_tokenizer(make, tmp_path):
    folder = make("bert")
    (folder / "tokenizer.json").write_text("{}")
    refused(folder, tmp_path, "tokenizer.json: found a damaged file")
    (folder / "tokenizer.json").unlink()
    refused(folder, tmp_path, "tokenizer.json: found no such file.*AutoTokenizer.from_pretrained")


def test_an_exported_tokenizer_surrounds_a_sentence(make):
    folder = make("bert")
    text = "the cat"
    ids = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids
    assert ids == [1, *train_small_tokenizer().encode(text).ids, 2]
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert config["cls_token"] == "[CLS]" and config["mask_token"] == "[MASK]"


def test_a_foreign_tokenizer_stays_as_it_is(tmp_path):
    run = make_run(tmp_path / "run", "llama")
    foreign = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 5, "cat": 1, "<mask>": 2}, "<pad>"))
    foreign.pre_tokenizer = pre_tokenizers.Whitespace()
    foreign.add_special_tokens(["<s>", "<pad>", "<mask>"])
    foreign.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 5)])
    foreign.save(str(run / "tokenizer.json"))
    export_run(run, tmp_path / "native")
    kept = (tmp_path / "native" / "tokenizer.json").read_bytes()
    assert kept == (run / "tokenizer.json").read_bytes()
    config = json.loads((tmp_path / "native" / "config.json").read_text())
    found = [config[f"{name}_token_id"] for name in ("pad", "bos", "eos", "mask")]
    assert found == [0, 5, None, 2]
    spelled = json.loads((tmp_path / "native" / "tokenizer_config.json").read_text())
    assert spelled["bos_token"] == "<s>" and "cls_token" not in spelled
    notes = import_checkpoint(tmp_path / "native", tmp_path / "out")["notes"]
    assert notes == ["the tokenizer puts <s> before a sentence and nothing after it"]


# where things come from and go to


def test_a_repository_of_the_local_cache(make, tmp_path, monkeypatch):
    folder = make("bert")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    held = tmp_path / "hub" / "models--some--bert"
    (held / "refs").mkdir(parents=True)
    (held / "refs" / "main").write_text("a" * 40)
    (held / "snapshots").mkdir()
    folder.rename(held / "snapshots" / ("a" * 40))
    for source in ("some/bert", f"some/bert@{'a' * 40}"):
        assert source_folder(source) == held / "snapshots" / ("a" * 40)
    for source in ("some/other", "not an id", "some/bert@old", "../x"):
        with pytest.raises(DataError, match="found no such folder, and no such repository"):
            source_folder(source)


def test_a_target_is_not_overwritten(tmp_path):
    run = make_run(tmp_path / "run", "bert")
    (tmp_path / "file").touch()
    for folder, found in (("run", "a folder that is not empty"), ("file", "a file")):
        with pytest.raises(DataError, match=f"{folder}: found {found}"):
            export_run(run, tmp_path / folder)
        assert (tmp_path / folder).exists()
    with pytest.raises(WriteError, match="found Not a directory"):
        export_run(run, tmp_path / "file" / "new")


@pytest.mark.parametrize("made", [True, False])
def test_a_new_folder_has_one_process(tmp_path, made):
    target = tmp_path / "new"
    if made:
        target.mkdir()
    with new_folder(target) as folder, replacing_folder(folder) as partial:
        (partial / "config.json").touch()
        with pytest.raises(BusyError, match="new: found another process at work on it"):
            with new_folder(target):
                raise AssertionError
    assert [x.name for x in tmp_path.iterdir()] == ["new"]
    assert [x.name for x in target.iterdir()] == ["config.json"]
    (target / "config.json").unlink()
    with pytest.raises(KeyError), new_folder(target):
        raise KeyError
    assert target.exists()  # it was there before


def test_a_new_folder_that_fails_is_none(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "new"):
        raise KeyError
    assert not (tmp_path / "new").exists()


def test_a_folder_that_was_replaced_meanwhile_is_not_filled(tmp_path, monkeypatch):
    target, flock = tmp_path / "new", fcntl.flock

    def late(handle, kind):
        target.rename(tmp_path / "old")
        target.mkdir()
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(BusyError), new_folder(target):
        raise AssertionError


@pytest.mark.parametrize(
    ("shape", "changes", "messages"),
    [
        ("esm", {"tied": False, "input_width": 8, "output_width": 64}, ["nearest is EsmForMaskedLM", "coupling.input_width is 8, not body.width", "coupling.output_width is 64"]),
        ("esm", {"positions": "learned"}, ["body.positions is learned, not rotary"]),
        ("esm", {"key_value_heads": 2}, ["body.key_value_heads is 2, not null"]),
        ("bert", {"input_width": 8, "output_width": 8}, ["coupling.input_width is 8", "coupling.output_width is 8"]),
        ("rembert", {"embedding_width": "body"}, ["RemBertForMaskedLM", "body.embedding_width is body, not input or either"]),
        ("bert", {"transform": [{"kind": "linear", "bias": False}]}, ["coupling.transform is linear without bias, not linear, gelu, layer_norm"]),
        ("llama", {"bias": True, "transform": [{"kind": "linear", "width": 8}, {"kind": "silu"}, {"kind": "linear"}]}, ["coupling.transform is linear to 8, silu, linear, not none"]),
        ("llama", {"causal": False}, ["LlamaForCausalLM", "body.causal is false, not true"]),
        ("bert", {"branch": "deep_norm"}, ["BertForMaskedLM", "body.branch is deep_norm, not standard"]),
        ("llama", {"transform": [{"kind": "half_swap"}]}, ["coupling.transform is half_swap, not none"]),
        ("llama", {"transform": [{"kind": "channel_shuffle", "groups": 4}]}, ["coupling.transform is channel_shuffle, not none"]),
        ("llama", {"input_operations": [{"kind": "shift"}]}, ["coupling.input_operations is shift, not none"]),
        ("bert", {"output_operations": [{"kind": "low_rank_addition", "rank": 2}]}, ["coupling.output_operations is low_rank_addition, not none"]),
        ("llama", {"input_scale": "sqrt_width"}, ["coupling.input_scale is sqrt_width", "not 1.0"]),
        ("llama", {"logit_scale": "inverse_sqrt_width"}, ["coupling.logit_scale is inverse_sqrt_width", "not 1.0"]),
    ],
)  # fmt: skip
def test_no_class_computes_it(shape, changes, messages):
    with pytest.raises(SettingsError) as caught:
        find_native(make_model(shape, **changes))
    assert all(message in str(caught.value) for message in messages)


INITIAL = [
    ("bert", {"transform": [{"kind": "linear", "initialization": "orthogonal"}, {"kind": "gelu"}, {"kind": "layer_norm"}]}),
    ("llama", {"std": 0.3, "distribution": "truncated_normal", "branch": "zero"}),
    ("llama_untied", {"shared_initialization": True}),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "changes"), INITIAL)
def test_what_only_weights_start_as_is_exported(shape, changes, tmp_path):
    run = make_run(tmp_path / "run", shape, **changes)
    native = export_run(run, tmp_path / "native")
    assert max(native.differences.values()) < 1e-4
    import_checkpoint(tmp_path / "native", tmp_path / "back")
    coupling = load_model(tmp_path / "back").settings.coupling
    assert coupling.distribution == "normal" and not coupling.shared_initialization
    assert (coupling.input_scale, coupling.logit_scale) == (1.0, 1.0)


def test_a_difference_leaves_nothing(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", "esm")
    monkeypatch.setattr(export, "differences", lambda *a: {"layer 0": 0.0, "logits": 2e-5})
    with pytest.raises(DataError, match="2e-05 in logits; the epsilon of the head.*at most 1e-05"):
        export_run(run, tmp_path / "native")
    monkeypatch.setattr(export, "differences", lambda *a: {"layer 0": 0.0, "logits": float("nan")})
    with pytest.raises(DataError, match="nan in logits"):
        export_run(run, tmp_path / "native")
    assert [x.name for x in tmp_path.iterdir()] == ["run"]


def test_a_run_by_its_name(tree, tmp_path):
    with pytest.raises(
        SettingsError, match="tied-s0: found no model in runs/small/encoders/tied-s"
    ):
        resolve_run("tied-s0")
    with pytest.raises(
        SettingsError, match="gone-s0: found no model folder, and no run.*untied-s0"
    ):
        resolve_run("gone-s0")
    make_run(tree.root / "runs" / "small" / "encoders" / "tied-s0", "bert")
    assert str(resolve_run("tied-s0")) == "runs/small/encoders/tied-s0"
    make_run(tree.root / "runs" / "small" / "decoders" / "tied-s0", "llama")
    assert str(resolve_run("tied-s0")) == "runs/small/encoders/tied-s0"
    assert str(resolve_run("encoders/tied-s0")) == "runs/small/encoders/tied-s0"
    assert str(resolve_run("decoders/tied-s0")) == "runs/small/decoders/tied-s0"
    assert str(resolve_run("runs/small/encoders/tied-s0")) == "runs/small/encoders/tied-s0"
