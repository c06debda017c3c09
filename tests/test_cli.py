"""The command line: what each command prints and returns."""

from __future__ import annotations

import sys

import pytest

from tests.model.native import make_run
from tiebench.cli import main
from tiebench.explain import explain
from tiebench.model import export
from tiebench.prune import strays
from tiebench.settings import load_params


def test_explain_covers_every_leaf_of_params(tree) -> None:
    keys = {line.split(": ")[0].strip() for line in explain().splitlines()}
    assert "encoders.runs.<name>.coupling.transform[].epsilon" in keys
    text = explain()
    assert "encoders.training.decay: linear | cosine | constant = linear\n" in text
    assert "corpora.<name>.source.kind: wheel\n" in text
    assert "corpora.<name>.source.kind: hub\n" in text
    assert "    Share of the positions of a window that are predicted" in text
    assert "corpora.<name>.heldout: section | null = null\n" in text


def test_an_error_is_one_message_and_status_one(tree, capsys) -> None:
    tree.edit("params.yaml", "  learning_rate: 0.0012\n", "  learning_rat: 0.0012\n")
    assert main(["plan"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: encoders.training")
    assert "To mend: " in said


def test_values_and_modes_do_not_mix(capsys) -> None:
    assert main(["params", "--check", "size=micro"]) == 2
    assert "KEY=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["params", "--check", "--keep"], ["paint"], []])
def test_usage_errors_leave_with_status_two(arguments: list[str], capsys) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2


def test_prune_lists_then_removes(tree, capsys) -> None:
    tree.tiebench("params", "size=micro")
    folders = [
        "data/home", "data/old", "runs/micro/encoders/tied-s0", "runs/micro/encoders/tied-s7",
        "runs/micro/encoders/gone-s0", "runs/micro/gone/tied-s0", "runs/small/encoders/tied-s0",
        "evals/micro/accounting", "evals/micro/retrieval/encoders/home-tied-s1",
        "evals/micro/retrieval/encoders/old-tied-s1", "evals/micro/chunking/tied-s0", "evals/small/accounting",
        "evals/micro/evidence/small", "evals/micro/evidence/gone",
        "labels/home_purposes", "labels/old", "evals/micro/probing/encoders/turkish_treebanks-tied-s0",
    ]  # fmt: skip
    for folder in folders:
        (tree.root / folder).mkdir(parents=True)
    stray = [
        "data/old", "evals/micro/chunking", "evals/micro/evidence/gone", "evals/micro/retrieval/encoders/old-tied-s1", "labels/old",
        "runs/micro/encoders/gone-s0", "runs/micro/encoders/tied-s7", "runs/micro/gone",
    ]  # fmt: skip
    others = [str(x) for x in strays(load_params(), other_reports=True)]
    assert others == sorted([*stray, "evals/small", "runs/small"])
    assert main(["prune"]) == 0
    assert capsys.readouterr().out.splitlines() == [*stray, "8 folders to remove with --yes"]
    assert (tree.root / "data/old").exists()
    assert main(["prune", "--yes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "8 folders removed"
    assert [x for x in folders if (tree.root / x).exists()] == [
        x for x in folders if x not in stray and not x.startswith(("runs/micro/gone", "evals/micro/chunking"))
    ]  # fmt: skip
    assert strays(load_params()) == []


def test_a_reader_that_stops_early_is_no_error(tree) -> None:
    said = tree.run(
        "bash", "-c", f"set -o pipefail; {sys.executable} -m tiebench params --explain | head -n 1"
    )
    assert len(said.splitlines()) == 1


def test_prune_removes_a_link_and_not_what_it_leads_to(tree) -> None:
    (tree.root / "mine").mkdir()
    (tree.root / "data").mkdir()
    (tree.root / "data" / "linked").symlink_to(tree.root / "mine")
    assert main(["prune", "--yes"]) == 0
    assert (tree.root / "mine").is_dir() and not (tree.root / "data" / "linked").is_symlink()


def test_a_run_is_exported_and_imported(tree, monkeypatch, capsys) -> None:
    make_run(tree.root / "runs/small/encoders/tied-s0", "esm")
    monkeypatch.setattr(export, "differences", lambda *arguments: {"logits": 2.5e-7})
    assert main(["export", "tied-s0", "native"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "EsmForMaskedLM, 27,512 parameters, in native", "largest difference in logits: 2.5e-07",
    ]  # fmt: skip
    assert said[2].startswith("note: the epsilon of the head's norm")
    assert main(["import", "native", "models/again"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "EsmForMaskedLM, 27,512 parameters, in models/again",
        "tables: one table in the file; tie_word_embeddings says true",
    ]  # fmt: skip
    assert said[2].startswith("note: not read") and len(said) == 4
    first, again = (
        (tree.root / x / "model.safetensors").read_bytes()
        for x in ("runs/small/encoders/tied-s0", "models/again")
    )
    assert first == again
    for command in (["export", "tied-s0", "native"], ["import", "native", "models/again"]):
        assert main(command) == 1
        assert "found a folder that is not empty" in capsys.readouterr().err
    assert main(["import", "nowhere", "other"]) == 1
    assert "nowhere: found no such folder" in capsys.readouterr().err
