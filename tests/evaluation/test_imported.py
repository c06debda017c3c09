"""Models that were trained elsewhere: read, encoded with their own tokenizers, and fine-tuned."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.foreign import WORDS, write_bert, write_llama
from tiebench import paths
from tiebench.errors import DataError, SettingsError
from tiebench.evaluation.encode import read_run, sentence_ids, sentence_vectors
from tiebench.evaluation.imported_settings import transfer_settings
from tiebench.evaluation.importing import import_model
from tiebench.evaluation.retrieval import seen_in_training
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


def test_a_sentence_too_long_for_a_model_names_the_way_out(workspace: Path) -> None:
    read, tokenizer, ends = read_run(workspace / "runs/small/imported/bert")
    with pytest.raises(DataError, match=r"`~imported.models.NAME`") as caught:
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
