"""Models that were trained elsewhere: read, encoded with their own tokenizers, and fine-tuned."""

from __future__ import annotations

import json
import runpy
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.conftest import FullDisk
from tests.foreign import WORDS, write_bert, write_llama, write_xlm_roberta
from tiebench import paths
from tiebench.errors import BusyError, DataError, SettingsError
from tiebench.evaluation.encode import (
    encode_sentences,
    read_run,
    sentence_ids,
    sentence_pieces,
    sentence_vectors,
)
from tiebench.evaluation.imported_settings import transfer_settings
from tiebench.evaluation.importing import import_model
from tiebench.evaluation.retrieval import seen_in_training
from tiebench.files import holding, sha256_of
from tiebench.settings import Params, corpus_of

FAKE = runpy.run_path(str(Path(__file__).parents[1] / "reporting" / "artefacts.py"))
CPU = torch.device("cpu")


def made_params(*models: str) -> Params:
    return FAKE["make_params"](imported=models)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with two checkpoints, both imported."""
    folder = tmp_path_factory.mktemp("imported")
    write_bert(folder / "external" / "folder_of_bert")
    write_llama(folder / "external" / "folder_of_llama")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for model in ("bert", "llama"):
            import_model(made_params("bert", "llama"), model)
    return folder


@pytest.mark.parametrize(("model", "layers"), [("bert", 2), ("llama", 3)])
def test_a_model_is_read_and_encodes(workspace: Path, model: str, layers: int) -> None:
    folder = workspace / "runs/small/imported" / model
    record = json.loads((folder / "imported.json").read_text("utf-8"))
    assert record["folder"] == f"folder_of_{model}" and len(record["files"]) == 3
    read, tokenizer, ends = read_run(folder)
    ids = sentence_ids(tokenizer, WORDS)
    vectors = sentence_vectors(read, ids, CPU, "words", ends)
    assert vectors.shape == (layers + 1, len(WORDS), 16)
    assert np.isfinite(vectors).all() and vectors.std() > 0


TEXTS = [
    *WORDS, "", " ", "smarthome on", "turn smarthome on, ışıklar açılır", "a  b", " a ", "ﬁre ½ 日本",
    "e\u0301vde",
]  # fmt: skip


@torch.no_grad()
def test_ids_and_states_are_those_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    monkeypatch.chdir(tmp_path)
    source = write_xlm_roberta(tmp_path / "external" / "folder_of_xlmr")
    read, tokenizer, ends = read_run(import_model(made_params("xlmr"), "xlmr"))
    assert tokenizer.get_vocab_size() < read.vocabulary == 128
    fast = transformers.AutoTokenizer.from_pretrained(source, local_files_only=True)
    model = transformers.AutoModelForMaskedLM.from_pretrained(source, local_files_only=True).eval()
    ids = sentence_ids(tokenizer, TEXTS)
    theirs = fast(TEXTS).input_ids
    assert [[*ends.prefix, *x.tolist(), *ends.suffix] for x in ids] == theirs
    assert [x.ids.tolist() for x in sentence_pieces(tokenizer, TEXTS)] == [x.tolist() for x in ids]
    assert {fast.convert_tokens_to_ids(x) for x in ("smarthome", "ışıklar")} < set(chain(*theirs))
    batch = fast(TEXTS, padding=True, return_tensors="pt")
    states = torch.stack(model(**batch, output_hidden_states=True).hidden_states)
    for part, ours, content in encode_sentences(read, ids, CPU, "texts", ends):
        for row, index in enumerate(part):
            own = states[:, index, 1 : len(ids[index]) + 1]
            torch.testing.assert_close(ours[:, row, content[row]], own, rtol=0, atol=1e-5)
    vectors = sentence_vectors(read, ids, CPU, "texts", ends)
    means = states[:, 0, 1 : len(ids[0]) + 1].mean(1)
    np.testing.assert_allclose(vectors[:, 0], means, rtol=0, atol=1e-5)


def test_a_sentence_too_long_for_a_model_names_the_way_out(workspace: Path) -> None:
    read, tokenizer, ends = read_run(workspace / "runs/small/imported/bert")
    with pytest.raises(DataError, match="delete it from imported.models in params.yaml") as caught:
        sentence_vectors(read, sentence_ids(tokenizer, ["a", "a b " * 300]), CPU, "set home", ends)
    assert caught.value.subject == "set home, sentence 2"


def test_the_weights_of_a_model_have_one_folder() -> None:
    folders = {paths.run_folder("small", "imported", "bert", seed) for seed in (0, 1)}
    assert folders == {Path("runs/small/imported/bert")}
    outcomes = {
        paths.outcome_folder("small", "probing", "imported", "bert", x, "y") for x in (0, 1)
    }
    assert len(outcomes) == 2


def test_what_a_model_was_trained_on_is_not_known() -> None:
    params = made_params("bert")
    assert corpus_of(params, "imported", "bert") is None
    assert corpus_of(params, "encoders", "tied") == "home"
    seen = seen_in_training({"en": ["a", "b"]}, None)
    assert seen["en"].tolist() == [False, False]
    with pytest.raises(SettingsError, match=r"one of bert.*\+imported.models.gpt.folder"):
        corpus_of(params, "imported", "gpt")


def test_a_model_is_fine_tuned_with_rates_of_its_own() -> None:
    params = made_params("bert")
    assert transfer_settings(params, "encoders") == params.transfer
    own = transfer_settings(params, "imported")
    assert own.learning_rates == [2e-5, 3e-5, 5e-5]
    assert (
        own.model_copy(update={"learning_rates": params.transfer.learning_rates}) == params.transfer
    )


def test_one_process_imports_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_bert(tmp_path / "external" / "folder_of_bert")
    with (
        holding(paths.SCRATCH / "small-imported-bert.lock", "x"),
        pytest.raises(BusyError, match="imported model bert: found process"),
    ):
        import_model(made_params("bert"), "bert")
    assert not Path("runs").exists()
    import_model(made_params("bert"), "bert")


def test_a_full_disk_leaves_a_model_with_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full_disk: FullDisk
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bert(tmp_path / "external" / "folder_of_bert")

    def held() -> dict[str, bytes]:
        return {x.name: x.read_bytes() for x in folder.iterdir()}

    folder = import_model(made_params("bert"), "bert")
    before = held()
    assert len(before) == 5 and "imported.json" in before
    write_bert(tmp_path / "external" / "folder_of_bert", seed=1)
    numbers = range(1, 1 + len(before))
    work = partial(import_model, made_params("bert"), "bert")
    assert all(full_disk.refuse(work, number) and held() == before for number in numbers)
    assert not full_disk.refuse(work, len(before) + 1)
    after, record = held(), json.loads(held()["imported.json"])
    assert after["model.safetensors"] != before["model.safetensors"]
    source = tmp_path / "external" / "folder_of_bert" / "model.safetensors"
    assert record["files"]["model.safetensors"] == sha256_of(source)
