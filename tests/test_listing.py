"""What there is to choose from: listed and shown with its source, file, settings, parameters."""

from __future__ import annotations

import shutil

import pytest
import yaml

from tests.conftest import ROOT
from tiebench.account.registry import PUBLISHED_MODELS, published_models
from tiebench.account.words import near_names
from tiebench.claims.read import read_sources
from tiebench.cli import main
from tiebench.errors import DataError, SettingsError
from tiebench.listing.catalogue import GROUPS, KINDS, entries, find, split_comment
from tiebench.listing.report import At, at, composed, show_lines
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate


@pytest.fixture(autouse=True)
def repository(monkeypatch) -> None:
    monkeypatch.chdir(ROOT)


def test_every_file_is_listed(capsys) -> None:
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    for kind, group in GROUPS.items():
        folder = ROOT / "conf" / group
        names = {str(path.relative_to(folder))[:-5] for path in folder.rglob("*.yaml")}
        assert names and {entry.name for entry in entries(kind)} == names
        assert f"{kind} (conf/{group}/)\n" in out
    said = "models (published)\nGPT-2:\n  gpt2_small       Radford et al. 2019, table 2; checkpoint"
    assert said in out
    assert {entry.name for entry in entries("models")} == set(published_models())
    assert "\nclaims (claims/)\nColumn on conflicting gradients:\n  gradients_conflict " in out


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_has_a_source_and_settings(kind, capsys) -> None:
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    held, models = entries(kind), published_models()
    if kind in ("models", "claims"):
        groups = [line for line in lines if not line.startswith("  ")]
        named = yaml.safe_load(PUBLISHED_MODELS.read_text()) if kind == "models" else [
            source.name for source in read_sources(ROOT / "claims").values()
        ]  # fmt: skip
        assert groups == [f"{name}:" for name in named]
        lines = [line for line in lines if line.startswith("  ")]
    assert [line.split()[0] for line in lines] == [entry.name for entry in held]
    for entry in held:
        assert entry.source and entry.settings and not entry.settings.startswith("#")
        assert 0 < len(entry.first_sentence) <= 90 and not entry.first_sentence.endswith(" al")
        plain = yaml.safe_load(entry.settings)
        if kind == "claims":
            claim = yaml.safe_load(entry.file.read_text())["claims"][entry.name]
            assert plain["statement"] == claim["statement"] and plain["needs"] == claim["needs"]
        elif kind != "models":
            assert plain == yaml.safe_load(entry.file.read_text())
        else:
            model = models[entry.name]
            assert (plain["config"], plain["tied"]) == (model.config, model.tied)
            assert (plain["name"], plain["family"]) == (model.name, model.family)
            assert list(plain.get("printed", {}).values()) == [x.figure for x in model.printed]
    assert find(f"{held[-1].group}/{held[-1].name}") == held[-1:]


def test_another_kind_is_a_usage_error(capsys) -> None:
    with pytest.raises(SystemExit) as left:
        main(["list", "optimizers"])
    assert left.value.code == 2
    assert "couplings" in capsys.readouterr().err


def test_a_coupling_is_shown(capsys) -> None:
    assert main(["show", "tied_narrow", "--width", "768", "--vocabulary", "30522", "--narrow", "128"]) == 0  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "coupling tied_narrow",
        "source  ALBERT's factorized embedding (Lan et al. 2020, section 3.1): one narrow table for both",
        "        ends.",
        "file    conf/coupling/tied_narrow.yaml",
        "",
        "option: tied_narrow",
        "tied: true",
        "input_width: ${....widths.narrow}",
        "output_width: ${....widths.narrow}",
        "transform:",
        "  - {kind: linear, width: null, bias: true}",
        "  - {kind: gelu}",
        "  - {kind: layer_norm, epsilon: 1.0e-12}",
        "bias: true",
        "std: 0.02",
        "",
        "parameters at width 768 (input 128, output 128) and a vocabulary of 30,522",
        "input embedding   3,906,816",
        "output embedding          0",
        "maps                 99,072",
        "head                129,210",
        "in all            4,135,098",
        "at fine-tuning    4,005,888",
        "(one table: the input embedding is the output embedding)",
    ]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "conf/coupling").glob("*.yaml")))  # fmt: skip
def test_parameters_are_those_of_the_run(name) -> None:
    shape = at(32, 60, None, None)
    assert shape == At(32, 60, 8, 96)
    values = composed(name, shape)
    coupling = validate(CouplingSettings, values, name)
    body = BodySettings(
        option="t", width=32, layers=1, heads=2, feedforward_width=8, positions="sinusoidal"
    )
    import torch

    with torch.device("meta"):
        run = LanguageModel(coupling, body, 60)
    wanted = sum(x.numel() for key, x in run.named_parameters() if key.startswith("coupling."))
    (entry,) = find(f"coupling/{name}")
    lines = list(show_lines(entry, shape))
    (said,) = [line.split()[-1] for line in lines if line.startswith("in all")]
    assert int(said.replace(",", "")) == wanted


def test_a_published_model_is_shown(capsys) -> None:
    assert main(["show", "GPT-2 XL"]) == 0
    assert find("LLaMA-1/2 7B") == find("llama_7b")
    out = capsys.readouterr().out
    assert out.startswith("model   gpt2_xl\nsource  Radford et al. 2019, table 2;")
    assert "file    src/tiebench/account/published_models.yaml\n" in out
    assert "\n  n_head: 25\n" in out and "\ntied: true\n" in out
    assert "input embedding      80,411,200     5.2%       4.9%" in out


def test_a_claim_is_shown_with_the_verdicts_of_reports(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "claims", "claims")
    assert main(["show", "gradients_conflict"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("claim   gradients_conflict\nsays    The gradients that a shared table")
    assert "\nfile    claims/column.yaml\n" in out and "table: gradients_conflicts" in out
    assert out.endswith("no report here has a verdict: run `dvc repro score`\n")
    for report, verdict in (("large", "agrees"), ("small", "disagrees")):
        path = tmp_path / "reports" / report / "tables" / "claims.csv"
        path.parent.mkdir(parents=True)
        path.write_text(
            f"id,verdict,measured,reason\nother,agrees,,\ngradients_conflict,{verdict},0.5,why\n"
        )
    assert main(["show", "claims/gradients_conflict"]) == 0
    assert capsys.readouterr().out.endswith(
        "\nreport  large: agrees; 0.5; why\nreport  small: disagrees; 0.5; why\n"
    )


def test_one_name_of_two_kinds_shows_both(capsys) -> None:
    assert [entry.kind for entry in find("rembert")] == ["studies", "models"]
    assert main(["show", "rembert"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("study   rembert\n") and "\n\nmodel   rembert\n" in out
    for name in ("study/rembert", "studies/rembert", "conf/study/rembert.yaml"):
        assert [entry.kind for entry in find(name)] == ["studies"]


def test_without_a_width_it_is_asked_for(capsys) -> None:
    assert main(["show", "tied"]) == 0
    assert capsys.readouterr().out.endswith("parameters: give --width and --vocabulary, as in --width 768 --vocabulary 30522\n")  # fmt: skip
    for given, message in (
        (("--width", "768"), "--vocabulary: found nothing"),
        (("--vocabulary", "9"), "--width: found nothing"),
        (
            ("--width", "0", "--vocabulary", "9"),
            "--width: found 0; expected a whole number above 0",
        ),
    ):
        assert main(["show", "tied", *given]) == 1
        assert message in capsys.readouterr().err


def test_an_unknown_name_lists_near_ones(capsys) -> None:
    for name, near in (
        ("tied_lo", "tied_log_vocabulary, tied_low_rank_input"),
        ("gpt2xl", "gpt2_xl"),
        ("", "expected a name"),
        ("study/remedy", "remedies"),
        ("UNTIED_PLAN", "untied_plain"),
    ):
        assert main(["show", name]) == 1
        said = capsys.readouterr().err
        assert (
            "found no coupling, body, study, corpus, label set, task, size, published model or claim"
            in said
        )
        assert near in said and "To mend: see `tiebench list`" in said
    with pytest.raises(DataError, match=r"expected a name\. To mend"):
        find("x" * 3000)
    assert near_names("zz", ["a", "b"]) == []


def test_elsewhere_only_models_are_known(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["list", "models"]) == 0
    assert main(["show", "llama_7b"]) == 0
    assert "untied: two matrices" in capsys.readouterr().out
    for command in (["list", "couplings"], ["list", "claims"], ["show", "tied"]):
        assert main(command) == 1
        assert "in the folder of the repository" in capsys.readouterr().err


def test_files_of_another_form(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "conf" / "coupling"
    folder.mkdir(parents=True)
    shape = At(8, 9, 2, 24)
    for name, text, message in (
        ("circle", "defaults: [circle, _self_]", "a file that starts from itself"),
        ("broken", "a: [", "expected the settings of a coupling"),
        ("number", "7", "expected the settings of a coupling|no settings"),
        ("orphan", "defaults: [gone, _self_]", "gone.yaml: found"),
    ):
        (folder / f"{name}.yaml").write_text(text)
        with pytest.raises(DataError, match=message):
            composed(name, shape)
    (folder / "plain.yaml").write_text("# A tie.\ntied: true\nwidth: 3\n")
    (entry,) = find("plain")
    with pytest.raises(SettingsError, match=r"plain.yaml.*(option|width)"):
        list(show_lines(entry, shape))
    (folder / "latin.yaml").write_bytes(b"# \xe9\n")
    with pytest.raises(DataError, match="bytes that are not UTF-8"):
        entries("couplings")


def test_the_first_comment_is_the_source() -> None:
    assert split_comment("# @package _global_\n# One.\n# Two.\nsize: x\n# Not this.\n") == (
        "One. Two.", "size: x\n# Not this.",
    )  # fmt: skip
    assert split_comment("size: x\n") == ("", "size: x")
    assert split_comment("") == ("", "")
