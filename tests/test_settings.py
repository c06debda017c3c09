"""Settings that are wrong are refused with their key, and the mend."""

from __future__ import annotations

import copy
import runpy
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tiebench import settings
from tiebench.checks import check, check_folders
from tiebench.composition import compose, parse
from tiebench.errors import SettingsError
from tiebench.schema import validate
from tiebench.settings import Params, families, load_params

DEFAULT = parse(compose(conf=ROOT / "conf")[0])


def changed(key: str, value: Any) -> dict[str, Any]:
    """The default settings with one key replaced, added, or (value `...`) removed."""
    values = copy.deepcopy(DEFAULT)
    node, *path = values, *key.split(".")
    for name in path[:-1]:
        node = node[name]
    if value is ...:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return values


@pytest.mark.parametrize(
    ("key", "value", "subject", "words"),
    [
        ("encoders.training.stepz", 3, "encoders.training.stepz", "a key that no setting has"),
        ("encoders.training.steps", "many", "encoders.training.steps", "'many'"),
        ("encoders.training.steps", 3.5, "encoders.training.steps", "3.5"),
        ("encoders.training.steps", 0, "encoders.training.steps", "greater than 0"),
        ("encoders.training.steps", ..., "encoders.training.steps", "nothing"),
        ("encoders.runs", {}, "encoders.runs", "at least 1"),
        ("encoders.seeds", [], "encoders.seeds", "at least 1"),
        ("encoders.seeds", [0, 0], "encoders.seeds", "distinct seeds"),
        ("encoders.baseline", "best", "encoders", "'best' is none of tied"),
        ("corpora.home.languages", ["en", "all"], "corpora.home.languages", "names the rows"),
        ("corpora.home.languages", ["en", "../de"], "corpora.home.languages.1", "pattern"),
        ("corpora.home.languages", ["en", "en"], "corpora.home.languages", "distinct"),
        ("encoders.baseline", "tide", "encoders", "baseline among the runs"),
        ("encoders.body.heads", 3, "encoders.body", "heads that divide"),
        ("encoders.body.positions", "rotated", "encoders.body.positions", "'rotated'"),
        ("encoders.corpus", "hose", "encoders.corpus", "one of home"),
        ("encoders.runs.tied.coupling.input_width", 32, "encoders.runs.tied.coupling.output_width", "one matrix"),
        ("encoders.runs.tied.body", {"depth": 3}, "encoders.runs.tied.body.depth", "no setting has"),
        ("encoders.runs.tied.body", {"causal": True}, "encoders.runs.tied: body.causal", "objective"),
        ("encoders.runs.tied.body", {"maximum_length": 32}, "encoders.runs.tied: training.sequence_length", "at most"),
        ("encoders.runs.narrow_input_wide_output.coupling.transform", [{"kind": "gelu"}],
         "encoders.runs.narrow_input_wide_output.coupling.transform", "ends at the output table's width"),
        ("encoders.runs.untied.training", {"untie_after": 0.5}, "encoders.runs.untied.training.untie_after", "tied true"),
        ("encoders.runs.tied.training", {"steps": 3}, "encoders.runs.tied.training.steps", "the same batches"),
        ("encoders.runs.untrained.training", {"clip": None}, "encoders.runs.untrained.training", "trained false"),
        ("encoders.training.tie_penalty", 0.1, "encoders.runs.tied.training.tie_penalty", "one table"),
        ("encoders.matched.tied_equal_pretraining.training", {"clip": None},
         "encoders.matched.tied_equal_pretraining", "feedforward_width alone"),
        ("imported.models", {"tied": {"folder": "x"}}, "imported.models.tied", "name of a run of encoders"),
        ("imported.models", {"a-b": {"folder": "x"}}, "imported.models.a-b", "pattern"),
        ("imported.models", {"bert": {"folder": "../x"}}, "imported.models.bert.folder", "inside external/"),
        ("imported.models", {"bert": {}}, "imported.models.bert.folder", "nothing"),
        ("imported.seeds", [0, 0], "imported.seeds", "distinct"),
        ("imported.learning_rates", [0.0], "imported.learning_rates.0", "greater than 0"),
        ("retrieval.sets", ["hose"], "retrieval.sets", "some of home"),
        ("retrieval.sets", ["home", "home"], "retrieval.sets", "distinct"),
        ("retrieval.pool", 100_000, "retrieval.pool", "heldout.sentences"),
        ("retrieval.distances", ["l3"], "retrieval.distances.0", "'l3'"),
        ("corpora.home.heldout", None, "retrieval.sets", "sets no sentences aside"),
        ("corpora", {}, "corpora", "at least 1"),
        ("name", "../elsewhere", "name", "pattern"),
        ("encoders.matched.tied_equal_pretraining.body.feedforward_width", 1400,
         "encoders.matched.tied_equal_pretraining.body.feedforward_width", "set it to 1532"),
        ("encoders.matched.tied_equal_pretraining.matches.run", "untide",
         "encoders.matched.tied_equal_pretraining.matches.run", "one of tied, untied"),
        ("encoders.matched.tied_equal_pretraining.matches.run", "untrained",
         "encoders.matched.tied_equal_pretraining.matches.run", "a trained run"),
        ("encoders.matched.tied_equal_pretraining.trained", False,
         "encoders.matched.tied_equal_pretraining", "feedforward_width alone"),
        ("encoders.matched.tied_equal_pretraining.body", {"feedforward_width": 1536, "branch": "zero"},
         "encoders.matched.tied_equal_pretraining", "value for value"),
        ("encoders.matched.tied_equal_pretraining.coupling.std", 0.5,
         "encoders.matched.tied_equal_pretraining", "feedforward_width alone"),
        ("encoders.baseline", "untrained", "encoders.baseline", "a trained run, one of tied"),
        ("statistics.flattened.share", 0.0001, "encoders.training.validate_every", "raise statistics.flattened.share"),
        ("encoders.matched.tied_equal_pretraining",
         {"coupling": DEFAULT["encoders"]["runs"]["untied"]["coupling"], "body": {},
          "matches": {"run": "untied", "parameters": "pretraining"}},
         "encoders.matched.tied_equal_pretraining", "feedforward_width alone"),
        ("transfer.learning_rates", [1e39], "transfer.learning_rates.0", "less than or equal to 1"),
        ("encoders.training.validate_every", 301, "encoders.training.validate_every", "at most 300"),
        ("probing.tasks", ["upos", "mood"], "probing.tasks", "some of upos, case, deprel"),
        ("encoders.matched.tied_equal_pretraining.matches.parameters", "fine_tuning",
         "encoders.matched.tied_equal_pretraining.body.feedforward_width", "set it to 512"),
        ("encoders.matched_seeds", [7], "encoders", "among seeds"),
        ("encoders.matched_seeds", [], "encoders", "matched_seeds with matched runs"),
        ("encoders.matched", {}, "encoders", "none without"),
        ("probing.labels", "home_purposes", "probing.labels", "one of: turkish_treebanks"),
        ("transfer.labels", "turkish_treebanks", "transfer.labels", "one of: home_purposes"),
        ("probing.tasks", ["upos", "upos"], "probing.tasks", "distinct"),
        ("transfer.learning_rates", [], "transfer.learning_rates", "at least 1"),
        ("transfer.learning_rates", [1e-3, 1e-3], "transfer.learning_rates", "distinct"),
        ("labels.turkish_treebanks.maximum_bytes", 511, "labels.turkish_treebanks.maximum_bytes", "at most 510"),
        ("labels.home_purposes.languages", ["en"], "labels.home_purposes", "two languages or more"),
        ("labels.turkish_treebanks.languages", ["tr", "en"], "labels.turkish_treebanks", "one language in a treebank"),
        ("labels.home_purposes.languages", ["en", "en"], "labels.home_purposes.languages", "distinct"),
        ("labels.home_purposes.test_share", 0.7, "labels.home_purposes.test_share", "less than 0.5"),
        ("labels.home_purposes.kind", "porpoises", "labels.home_purposes", "treebank"),
        ("statistics.correction", "hulm", "statistics.correction", "'holm'"),
        ("statistics.margins.loss", 0, "statistics.margins.loss", "greater than 0"),
        ("claims.reports", ["small"], "claims.reports", "'small', which is this report"),
        ("claims.reports", ["base", "base"], "claims.reports", "distinct"),
        ("claims.reports", ["../base"], "claims.reports.0", "pattern"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(key: str, value: Any, subject: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check(validate(Params, changed(key, value)))
    assert caught.value.subject == subject
    assert words in str(caught.value)
    assert "To mend: " in str(caught.value)


def test_an_evaluation_corpus_is_not_trained_on() -> None:
    values = changed(
        "corpora.only", {**DEFAULT["corpora"]["home"], "tokenizer": None, "valid_share": 0.0}
    )
    values["encoders"]["corpus"] = "only"
    with pytest.raises(SettingsError, match=r"encoders\.corpus.*evaluation only"):
        check(validate(Params, values))


def test_a_missing_folder_is_named_with_the_command_that_links_it(tmp_path) -> None:
    source = {"kind": "local", "folder": "texts", "format": "lines", "files": {"en": "e", "de": "d", "es": "s", "tr": "t"}}  # fmt: skip
    values = changed("corpora.home.source", source)
    values["claims"]["reports"] = []
    params = check(validate(Params, values))
    with pytest.raises(SettingsError, match="ln -s /path/to/texts external/texts") as caught:
        check_folders(params, tmp_path)
    assert caught.value.subject == "corpora.home.source.folder"
    (tmp_path / "external" / "texts").mkdir(parents=True)
    check_folders(params, tmp_path)


def test_a_missing_checkpoint_is_named_with_the_command_that_links_it(tmp_path) -> None:
    values = changed("imported.models", {"bert": {"folder": "a/bert"}})
    values["claims"]["reports"] = []
    params = check(validate(Params, values))
    with pytest.raises(
        SettingsError, match="ln -s /path/to/a/bert external/a/bert, or delete imported.models"
    ) as caught:
        check_folders(params, tmp_path)
    assert caught.value.subject == "imported.models.bert.folder"
    (tmp_path / "external" / "a" / "bert").mkdir(parents=True)
    check_folders(params, tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [(None, "no such file"), ("size: [", "line 1"), ("- a\n", "no mapping"), ("a: ${b}\n", "'b'")],
)
def test_an_unreadable_file_is_named(tmp_path, text: str | None, words: str) -> None:
    path = tmp_path / "params.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match="To mend: run `tiebench params`") as caught:
        load_params(path)
    assert caught.value.subject == str(path)
    assert words in caught.value.found


def test_an_exponent_written_by_hand_is_a_number(tmp_path) -> None:
    path = tmp_path / "params.yaml"
    text = (ROOT / "params.yaml").read_text().replace("epsilon: 1.0e-06", "epsilon: 1e-6")
    path.write_text(text)
    assert load_params(path).encoders.training.epsilon == 1e-6


def test_a_coupling_that_does_nothing_on_its_body_is_named() -> None:
    values = changed("encoders.runs.untied.coupling.input_scale", 2.0)
    values["encoders"]["body"]["embedding_norm"] = True
    with pytest.raises(SettingsError, match="before the embedding's norm") as caught:
        check(validate(Params, values))
    assert caught.value.subject == "encoders.runs.untied.coupling.input_scale"


def test_families_are_found_by_type() -> None:
    assert list(families(validate(Params, DEFAULT))) == ["encoders", "decoders", "word_decoders"]


def test_settings_import_nothing_heavy(tree) -> None:
    code = "import sys, tiebench.settings, tiebench.cli; print(*sys.modules)"
    loaded = tree.run("python", "-c", code).split()
    assert settings.__name__ in loaded
    assert not {"torch", "pandas", "numpy", "datasets", "dvc", "hydra", "matplotlib"} & set(loaded)


def test_a_body_without_feedforward_is_not_matched() -> None:
    values = changed("encoders.body", {"option": "identity", "kind": "identity", "width": 128})
    for run in values["encoders"]["matched"].values():
        run["body"] = {}
    with pytest.raises(SettingsError, match="whose feed-forward width can be matched"):
        check(validate(Params, values))


def test_a_matched_run_has_the_other_keys_of_the_body_too() -> None:
    values = changed("encoders.runs.narrow_input_wide_output.body", {"norm_epsilon": 1e-3})
    matched = values["encoders"]["matched"]["narrow_input_wide_output_equal_fine_tuning"]
    with pytest.raises(SettingsError, match="body.feedforward_width alone"):
        check(validate(Params, values))
    matched["body"]["norm_epsilon"] = 1e-3
    check(validate(Params, values))


@pytest.mark.parametrize("section", ["bigram", "domains", "initial_loss", "tables", "word_forms"])
def test_a_section_that_a_stage_reads_is_not_left_out(tmp_path, section: str) -> None:
    values = {name: held for name, held in DEFAULT.items() if name != section}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(values))
    with pytest.raises(SettingsError, match="a section: stages of dvc.yaml read it") as caught:
        load_params(path)
    assert caught.value.subject == section


@pytest.mark.parametrize(
    ("stage", "arguments", "subject", "words"),
    [
        ("prepare", ("other",), "corpora.other", "one of home, "),
        ("labels", ("other",), "labels.other", "one of turkish_treebanks, "),
        ("sweep", ("other",), "sweeps.other", "one of pilot, "),
        ("tables", ("other",), "other", "one of encoders, "),
        ("import_model", ("other",), "imported.models.other", r"one of \(none\)"),
        ("pretrain", ("other", "tied", "0"), "other", "one of encoders, "),
        ("pretrain", ("encoders", "other", "0"), "encoders.runs.other", "one of tied, "),
        ("pretrain", ("encoders", "tied", "one"), "encoders.seeds", "'one'; expected one of 0, 1"),
        ("pretrain", ("encoders", "tied", "77"), "encoders.seeds", "add it to encoders.seeds in"),
        ("probing", ("encoders", "tied_equal_pretraining", "4"), "encoders.matched_seeds", "'4'"),
        ("transfer", ("imported", "other", "0"), "imported.models.other", "no such model"),
        ("retrieval", ("encoders", "tied", "0", "home_words"), "retrieval.sets.home_words", "one of home"),
    ],
)  # fmt: skip
def test_a_stage_refuses_what_it_has_no_settings_for(
    monkeypatch, stage: str, arguments: tuple[str, ...], subject: str, words: str
) -> None:
    monkeypatch.chdir(ROOT)
    main = runpy.run_path(str(ROOT / "stages" / f"{stage}.py"))["main"]
    with pytest.raises(SettingsError, match=words) as caught:
        main(*arguments)
    assert caught.value.subject == subject
