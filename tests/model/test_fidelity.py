"""With equal weights, our states of every layer and our logits are those of transformers."""

from __future__ import annotations

import os

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.model.native import SHAPES, VOCABULARY, edit_config, make_run, train_small_tokenizer
from tiebench.composition import compose, parse
from tiebench.errors import DataError
from tiebench.model.architectures import ARCHITECTURES
from tiebench.model.exchange import import_checkpoint
from tiebench.model.export import differences, export_run
from tiebench.model.lm import LanguageModel, load_model, save_model
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate

os.environ["HF_HUB_OFFLINE"] = "1"  # before the library reads it
transformers = pytest.importorskip("transformers")

LIMIT = 1e-5
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 48,
}  # fmt: skip
RMS = {"rms_norm_eps": 1e-5}
SCALING = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
SAVED_AS = {
    "LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias",
    "encoder.layer.*.attention.self.": "",
}  # fmt: skip
"""Names that the library writes for ESM, which are not those of its class."""
THEIRS = {
    "bert_tied": ("BertForMaskedLM", {}),
    "bert_untied": ("BertForMaskedLM", {"tie_word_embeddings": False}),
    "bert_bare": ("BertModel", {}),
    "roberta": ("RobertaForMaskedLM", {"max_position_embeddings": 50, "layer_norm_eps": 1e-5}),
    "xlm_roberta": ("XLMRobertaForMaskedLM", {"max_position_embeddings": 50, "type_vocab_size": 1}),
    "camembert": ("CamembertForMaskedLM", {"max_position_embeddings": 50, "type_vocab_size": 1}),
    "rembert": ("RemBertForMaskedLM", {"input_embedding_size": 16, "output_embedding_size": 96}),
    "esm_tied": ("EsmForMaskedLM", {"position_embedding_type": "rotary", "layer_norm_eps": 1e-5}),
    "esm_untied": (
        "EsmForMaskedLM",
        {"position_embedding_type": "rotary", "emb_layer_norm_before": True, "tie_word_embeddings": False},
    ),
    "llama_tied": ("LlamaForCausalLM", {"tie_word_embeddings": True, **RMS}),
    "llama_untied": ("LlamaForCausalLM", {**RMS, "attention_bias": True, "mlp_bias": True}),
    "llama_grouped": ("LlamaForCausalLM", {"num_key_value_heads": 2, **RMS}),
    "llama_scaled": ("LlamaForCausalLM", {"rope_parameters": SCALING, **RMS}),
}  # fmt: skip


@torch.no_grad()
def make_theirs(name, folder, **changes):
    """A model of transformers with every tensor drawn, saved as the library saves it."""
    cls, values = THEIRS[name]
    kind = getattr(transformers, cls)
    torch.manual_seed(0)
    pad = 1 if "oberta" in cls or "Camem" in cls else 0
    config = kind.config_class(
        **{**SIZES, "pad_token_id": pad, "mask_token_id": 3, **values, **changes}
    )
    model = kind(config).eval()
    for parameter in model.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    train_small_tokenizer().save(str(folder / "tokenizer.json"))
    return model


@torch.no_grad()
def largest_difference(theirs, ours, pad):
    """Over every layer's states and the logits at real tokens, of sentences of three lengths."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, VOCABULARY, (3, 48), generator=generator)
    attended = torch.arange(48) < torch.tensor([[48], [31], [1]])
    ids[~attended] = pad
    out = theirs(input_ids=ids, attention_mask=attended.long(), output_hidden_states=True)
    states = ours.states(ids, attended)
    pairs = list(zip(out.hidden_states, states, strict=True))
    if "logits" in out:
        pairs.append((out.logits, ours.coupling.logits(states[-1])))
    return max(float((a - b)[attended].abs().max()) for a, b in pairs)


@pytest.mark.parametrize("name", THEIRS)
def test_theirs_imported(name, tmp_path):
    theirs = make_theirs(name, tmp_path / "theirs")
    said = import_checkpoint(tmp_path / "theirs", tmp_path / "ours")
    ours = load_model(tmp_path / "ours")
    assert largest_difference(theirs, ours, theirs.config.pad_token_id) < LIMIT
    assert said["tie"]["tied"] == bool(theirs.config.tie_word_embeddings)
    if name == "bert_bare":
        return
    exported = export_run(tmp_path / "ours", tmp_path / "again")
    if SIZES["max_position_embeddings"] != theirs.config.max_position_embeddings:
        assert exported.architecture == "BertForMaskedLM"  # which computes what RoBERTa does
        return
    assert exported.architecture == THEIRS[name][0]
    folded = {x for x in load_file(tmp_path / "theirs" / "model.safetensors") if "_type_" in x}
    first, again = (load_file(tmp_path / x / "model.safetensors") for x in ("theirs", "again"))
    for old, new in SAVED_AS.items():
        first = {name.replace(old, new): tensor for name, tensor in first.items()}
    folded |= {x for x in first if folded and "position_embeddings" in x}
    folded |= {x for x in first if "contact_head" in x}
    if name == "bert_untied":
        folded.add("cls.predictions.bias")  # which their untied head does not add
    assert first.keys() == again.keys()
    differing = {x for x in first if not torch.equal(first[x], again[x])}
    assert differing - {"esm.rotary_embeddings.inv_freq"} == folded


@pytest.mark.parametrize("shape", SHAPES)
def test_ours_exported(shape, tmp_path):
    run = make_run(tmp_path / "run", shape)
    exported = export_run(run, tmp_path / "native")
    kind = getattr(transformers, exported.architecture)
    theirs = kind.from_pretrained(tmp_path / "native", local_files_only=True)
    ours = load_model(run)
    assert largest_difference(theirs, ours, 0) < LIMIT
    assert exported.differences.keys() == {"layer 0", "layer 1", "layer 2", "logits"}
    assert theirs.config.tie_word_embeddings == ours.settings.coupling.tied
    stored = load_file(tmp_path / "native" / "model.safetensors")
    tables = [x for x in stored.values() if len(x) == VOCABULARY and x.dim() == 2]
    assert len(tables) == (1 if ours.settings.coupling.tied else 2)
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        tmp_path / "native", local_files_only=True
    )
    ids = tokenizer(["the cat", "dog"], padding=True).input_ids
    inner = [train_small_tokenizer().encode(text).ids for text in ("the cat", "dog")]
    assert ids[0][: len(inner[0]) + 2] == [1, *inner[0], 2]
    assert ids[1][: len(inner[1]) + 2] == [1, *inner[1], 2]
    assert tokenizer.pad_token_id == 0 and tokenizer.mask_token_id == 3
    assert tokenizer.model_max_length == 48


COMPOSED = {
    "tied": ["body@encoders.body=bert"],
    "untied": ["body@encoders.body=bert"],
    "narrow_input_wide_output": [
        "body@encoders.body=bert",
        "+encoders.runs.narrow_input_wide_output.body.embedding_width=input",
    ],
    "tied by default": [],
    "untied by default": [],
}
CLASSES = ["BertForMaskedLM", "BertForMaskedLM", "RemBertForMaskedLM", "EsmForMaskedLM", "EsmForMaskedLM"]  # fmt: skip


@pytest.mark.parametrize(("run", "cls"), [*zip(COMPOSED, CLASSES, strict=True)])
def test_settings_as_composed(run, cls, tmp_path):
    values = parse(compose(["size=micro", *COMPOSED[run]])[0])["encoders"]
    held = values["runs"][run.split()[0]]
    coupling = validate(CouplingSettings, held["coupling"])
    body = validate(BodySettings, values["body"] | held.get("body", {}))
    save_model(LanguageModel(coupling, body, VOCABULARY).initialize(0), tmp_path / "run")
    train_small_tokenizer().save(str(tmp_path / "run" / "tokenizer.json"))
    exported = export_run(tmp_path / "run", tmp_path / "native")
    assert exported.architecture == cls
    assert max(exported.differences.values()) < LIMIT


def test_what_is_not_the_run_is_seen(tmp_path):
    run = make_run(tmp_path / "run", "bert")
    export_run(run, tmp_path / "native")
    bert, model, special = ARCHITECTURES[0], load_model(run), {"pad": 0}
    with torch.no_grad():
        model.body.blocks[1].feedforward.down.bias[3] += 0.01
    found = differences(tmp_path / "native", bert, model, special)
    assert found["layer 1"] == 0.0 and found["layer 2"] > 1e-3 and found["logits"] > 1e-4
    tensors = load_file(tmp_path / "native" / "model.safetensors")
    tensors.pop("cls.predictions.transform.dense.bias")
    save_file(tensors, tmp_path / "native" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="found missing_keys: cls.predictions.transform.dense.bias"):
        differences(tmp_path / "native", bert, model, special)


def test_their_config_read_back_and_older_keys(tmp_path):
    theirs = make_theirs("llama_scaled", tmp_path / "theirs", tie_word_embeddings=True)
    old = {key: value for key, value in SCALING.items() if key != "rope_theta"}
    edit_config(tmp_path / "theirs", rope_parameters=None, rope_theta=5e5, rope_scaling=old)
    import_checkpoint(tmp_path / "theirs", tmp_path / "ours")
    assert largest_difference(theirs, load_model(tmp_path / "ours"), 0) < LIMIT
