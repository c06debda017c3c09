"""The stage on a corpus of a few words, with models that are not trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tiebench import paths
from tiebench.analysis.tables import read_table
from tiebench.checks import check
from tiebench.composition import compose, parse
from tiebench.corpus.settings import TokenizerSettings
from tiebench.corpus.tokenizer import encode, make_tokenizer
from tiebench.corpus.tokens import write_tokens
from tiebench.errors import DataError, SettingsError
from tiebench.experiments import word_forms
from tiebench.experiments.word_forms_settings import RAW
from tiebench.files import sha256_of
from tiebench.model.lm import LanguageModel, save_model
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.training.batches import validation_batches
from tiebench.training.pretrain import pretrain

TABLE = {
    "gehe": "gehen", "geht": "gehen", "ging": "gehen", "haus": "haus", "häuser": "haus",
    "neu": "neu", "rot": "rot", "und": "und",
}  # fmt: skip
VOCABULARY = 14  # five special ones, the eight of the table, a comma


def make_params(**changed: Any) -> Params:
    """The micro size on a corpus of one language and the smallest vocabulary."""
    values = parse(compose(["size=micro"], ROOT / "conf")[0])
    values["corpora"]["home_words"] |= {"languages": ["de"]}
    values["corpora"]["home_words"]["tokenizer"]["vocabulary"] = VOCABULARY
    values["word_decoders"]["training"]["sequence_length"] = 8
    values["word_forms"] |= {"minimum": 3, **changed}
    return validate(Params, values)


def make_text(seed: int, size: int, unknown: bool) -> list[str]:
    rng = np.random.default_rng(seed)
    words = [*TABLE, *(["Fremdwort"] if unknown else [])]
    return [f"{' '.join(rng.choice(words, 6))}," for _ in range(size)]


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(word_forms, "lemma_table", lambda language: TABLE)
    held, folder = make_params(), paths.corpus_folder("home_words")
    folder.mkdir(parents=True)
    settings = TokenizerSettings(kind="words", vocabulary=VOCABULARY)
    tokenizer = make_tokenizer(make_text(0, 200, False), settings, "test")
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, texts in (("train", make_text(0, 200, False)), ("valid", make_text(1, 30, True))):
        ids = {"de": np.array([x for part in encode(tokenizer, texts) for x in (*part, 2)])}
        digest = sha256_of(folder / "tokenizer.json")
        write_tokens(folder / f"{name}.safetensors", ids, digest, VOCABULARY)
    family = held.word_decoders
    assert family is not None
    for run in family.runs:
        model = LanguageModel(family.final_coupling(run), family.body_of(run), VOCABULARY)
        for seed in family.seeds:
            where = paths.run_folder("micro", "word_decoders", run, seed)
            where.mkdir(parents=True)
            save_model(model.initialize(seed), where)
    return held


def outputs() -> dict[str, bytes]:
    folder = paths.evaluation_folder("micro", "word_forms")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def table(name: str) -> list[dict[str, str]]:
    return read_table(paths.evaluation_folder("micro", "word_forms") / f"{name}.csv", mend="")


def test_what_is_written(params: Params) -> None:
    word_forms.run(params)
    first = outputs()
    assert list(first) == sorted(f"{name}.csv" for name in RAW)
    assert {x["lemma"] for x in table("geometry")} == {"gehen", "haus"}
    assert len(table("geometry")) == 2 * 1 * 2 * 2 * 2  # runs, seeds, sides, centrings, lemmas
    coverage = {x["metric"]: int(x["value"]) for x in table("coverage")}
    assert coverage["words"] == coverage["compared"] == 8 and coverage["types"] == 5
    assert (coverage["lemmas"], coverage["pairs"], coverage["matched_pairs"]) == (2, 4, 4)
    assert 0 < coverage["unknown"] < coverage["validation_tokens"] <= 30 * 7
    told = sum(int(x["positions"]) for x in table("choices") if x["run"] == "tied")
    assert told == coverage["positions"] == sum(int(x["positions"]) for x in table("baseline"))
    word_forms.run(params)
    assert outputs() == first


def test_the_losses_of_a_choice_are_those_of_the_model(params: Params) -> None:
    word_forms.run(params)
    family = params.word_decoders
    assert family is not None
    held = word_forms.read_languages(family, params.word_forms, ["de"])["de"]  # type: ignore[arg-type]
    model = word_forms._model(params, family, "untied", 0)
    import torch

    losses = []
    for batch in held.batches:
        tensors = [torch.from_numpy(x) for x in (batch.ids, batch.where, batch.targets)]
        loss = model.outcomes(*tensors)[0].numpy()
        losses += loss[held.forms.lemma[batch.targets] >= 0].tolist()
    rows = [x for x in table("choices") if x["run"] == "untied"]
    total = sum(
        int(x["positions"]) * (float(x["form_loss"]) + float(x["lemma_loss"])) for x in rows
    )
    assert total == pytest.approx(sum(losses), rel=1e-5)
    assert sum(int(x["positions"]) for x in rows) == len(losses)


def test_a_model_of_another_coupling_is_refused(params: Params) -> None:
    family = params.word_decoders
    assert family is not None
    other = LanguageModel(family.final_coupling("untied"), family.body_of("tied"), VOCABULARY)
    save_model(other.initialize(0), paths.run_folder("micro", "word_decoders", "tied", 0))
    with pytest.raises(
        DataError, match=r"another coupling.*pretrain_word_decoders@home_words-tied-0"
    ):
        word_forms.run(params)
    assert not paths.evaluation_folder("micro", "word_forms").exists()


def test_too_few_forms_are_refused(params: Params) -> None:
    with pytest.raises(
        DataError, match=r"no lemma with two forms.*10000 training occ.*word_forms\.m"
    ):
        word_forms.run(make_params(minimum=10_000))


def test_word_models_train_and_have_no_bits_per_byte(params: Params) -> None:
    import json

    folder = pretrain(params, "word_decoders", "untied", 0)
    validation = json.loads((folder / "metrics.json").read_text())["validation"]
    assert validation["bits_per_byte"] is None and validation["loss"] > 0


def test_the_whole_validation_is_read(params: Params) -> None:
    family = params.word_decoders
    assert family is not None
    held = word_forms.read_languages(family, params.word_forms, ["de"])["de"]  # type: ignore[arg-type]
    windows = sum(len(batch.ids) for batch in held.batches)
    assert windows == (30 * 8) // 7  # of [CLS] and seven tokens
    few = validation_batches({"de": np.arange(240) % 14}, family.training, VOCABULARY)
    assert sum(len(batch.ids) for batch in few["de"]) == family.training.validation_windows


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda v: v.pop("word_forms"), "word_forms: found nothing; expected word_decoders and"),
        (lambda v: v.pop("word_decoders"), "word_decoders: found nothing"),
        (
            lambda v: v["word_decoders"].update(corpus="home"),
            "of kind bpe; expected a tokenizer of",
        ),
        (
            lambda v: v["corpora"]["home_words"].update(languages=["de", "xx"]),
            r"corpora\.home_words\.languages: found 'xx', of which simplemma has no lemmas",
        ),
        (
            lambda v: v["word_decoders"]["runs"]["untied"].update(trained=False),
            r"word_decoders\.runs\.untied\.trained: found false",
        ),
    ],
)
def test_wrong_settings_are_refused(change: Any, said: str) -> None:
    values = parse(compose(["size=micro"], ROOT / "conf")[0])
    change(values)
    with pytest.raises(SettingsError, match=said):
        check(validate(Params, values))


@pytest.mark.parametrize("change", [{"minimum": 0}, {"bin_ratio": 1.0}, {"bins": 3}])
def test_wrong_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=rf"word_forms\.{next(iter(change))}"):
        make_params(**change)
