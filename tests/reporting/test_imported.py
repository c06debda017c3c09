"""Imported models on the page and in the tables: beside the runs, and in none of their verdicts."""

import json
import re
import runpy
from pathlib import Path

import pytest

from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell, evaluations, imported_cells
from tiebench.evaluation.score import score
from tiebench.evaluation.score_imported import IMPORTED_MODELS
from tiebench.prune import strays
from tiebench.reporting import imported
from tiebench.reporting.report import render
from tiebench.reporting.results import Results, read_results
from tiebench.reporting.sections import sections
from tiebench.settings import Params

FAKE = runpy.run_path(str(Path(__file__).with_name("artefacts.py")))
REPORT = Path("reports/small")
SMALL = {"runs": ("tied", "untied", "untrained"), "seeds": (0, 1), "languages": ("en", "de")}
MODELS = ("elsewhere", "other_model")


def make_params(*models: str, **changed: object) -> Params:
    return FAKE["make_params"](pool=30, imported=models, **{**SMALL, **changed})


def made(folder: Path, params: Params) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        FAKE["write_artefacts"](params)
        score(params)
    return folder / REPORT


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("without"), make_params())


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models beside a few runs, with the page."""
    folder = tmp_path_factory.mktemp("with")
    path = made(folder, make_params(*MODELS))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        render(make_params(*MODELS))
    return path


@pytest.fixture(scope="module")
def results(report: Path) -> Results:
    return read_results(report / "tables", "small")


def test_models_change_nothing_that_is_said_of_runs(report: Path, without: Path) -> None:
    """Every table has the same rows for the runs, in the same order, and more beside them."""
    changed = set()
    for path in sorted((without / "tables").glob("*.csv")):
        old = path.read_text("utf-8")
        new = (report / "tables" / path.name).read_text("utf-8")
        if path.stem == "provenance":
            told, had = (
                {x for x in text.splitlines() if not re.match('"(settings|imported|code)', x)}
                for text in (new, old)
            )
            assert told == had
        elif old != new:
            kept = [x for x in new.splitlines() if not x.startswith("imported,")]
            assert kept == old.splitlines() or path.stem == "imported"
            changed.add(path.stem)
    tasks = ("retrieval", "probing", "transfer")
    kinds = ("", "_summary", "_sentences")
    assert changed == {
        *(f"{task}{kind}" for task in tasks for kind in kinds), "retrieval_by_layer",
        "retrieval_sets", "probing_weights", "probing_weights_summary", "transfer_cells",
        "summary", "imported",
    }  # fmt: skip


def test_without_models_there_is_a_header_and_no_section(without: Path) -> None:
    text = (without / "tables" / "imported.csv").read_text("utf-8")
    assert text == ",".join(IMPORTED_MODELS) + "\n"
    assert "imported" not in json.loads((without / "metrics.json").read_text("utf-8"))
    held = read_results(without / "tables", "small")
    assert "imported" not in {section.anchor for section in sections(held)}


def test_what_a_model_is(results: Results) -> None:
    row = results["imported"][0]
    assert (row["model"], row["architecture"]) == ("elsewhere", "RemBertForMaskedLM")
    shape = [row[key] for key in ("tied", "input_width", "output_width", "vocabulary", "layers", "width")]  # fmt: skip
    assert shape == ["false", "32", "96", "5000", "6", "96"]
    assert int(row["pretraining"]) - int(row["fine_tuning"]) > 5000 * 96
    items = {x["item"]: x["value"] for x in results["provenance"]}
    assert items["imported model elsewhere, tokenizer.json, sha256"] == "ab" * 32


def test_rows_of_models_have_no_pair_and_no_unseen_part(results: Results) -> None:
    for table in ("pairs", "views", "published", "runs", "learning_curves"):
        assert not any("elsewhere" in row.values() for row in results[table])
    rows = list(results.where("summary", family="imported", run="elsewhere"))
    assert {row["baseline"] for row in rows} == {""} and {row["difference"] for row in rows} == {""}
    seeds = {row["metric"]: row["seeds"] for row in rows}
    assert seeds["retrieval_home_en_de_last"] == "1"  # no seed shapes what is searched
    assert seeds["probing_upos"] == seeds["transfer"] == "3"
    for table in ("retrieval", "transfer", "transfer_sentences"):
        subsets = {row["subset"] for row in results.where(table, family="imported")}
        assert "not_in_training" not in subsets
    sets = results.where("retrieval_sets", family="imported")
    assert "seen_in_training" not in {row["metric"] for row in sets}


def test_a_learning_rate_at_the_end_of_those_tried_is_said(results: Results) -> None:
    chosen = {
        x["value"]
        for x in results.where(
            "transfer_cells", family="imported", run="elsewhere", metric="learning_rate"
        )
    }
    held = {**results.tables}
    said = {}
    for rates in ("0.1 0.2 0.3", " ".join(["0.00001", *chosen])):
        held["imported"] = [{**row, "learning_rates": rates} for row in results["imported"]]
        said[rates] = imported.section(Results(results.name, held)).findings[-1]
    inside, at_the_end = said.values()
    assert "imported.learning_rates" not in inside
    assert f"elsewhere chose {max(map(float, chosen)):g}, the largest of" in at_the_end


def test_metrics_have_the_models(report: Path, results: Results) -> None:
    held = json.loads((report / "metrics.json").read_text("utf-8"))["imported"]["elsewhere"]
    assert held["parameters_pretraining"] == int(results["imported"][0]["pretraining"])
    assert 0 <= held["transfer"] <= 1


def test_the_section_shows_levels_beside_baseline_and_control(results: Results) -> None:
    section = imported.section(results)
    assert [x.name for x in imported.beside(results)] == ["tied", "untrained", "elsewhere", "other model"]  # fmt: skip
    assert [x.name for x in section.figures] == [
        "imported_retrieval", "imported_probing", "imported_transfer",
    ]  # fmt: skip
    assert all(x.draw() is not None for x in section.figures)
    first, translation, *rest = section.findings
    assert "Models that were trained elsewhere: elsewhere (RemBertForMaskedLM, 6 layers" in first
    for words in (
        "baseline run, tied and its control, untrained",
        "is not known",
        "Nothing here is tested",
    ):
        assert words in first
    below = translation.partition("In the mean not above: ")[2]
    assert "other model (against tied" in below and "elsewhere" not in below
    assert len(rest) == 3
    row = results.summary("imported", "elsewhere", "transfer")
    assert f"elsewhere {100 * float(row['mean']):.1f}%" in rest[-1]
    assert any("Elsewhere: the pooler is left out; row 0 is added." in x for x in section.notes)


def test_tables_of_the_section_are_those_of_the_results(results: Results) -> None:
    tables = {x.name: x for x in imported.section(results).tables}
    assert all(len(row) == len(table.header) for table in tables.values() for row in table.rows)
    searched = {(x[1], x[2]): x for x in tables["imported_retrieval"].rows}
    last = results.summary("imported", "elsewhere", "retrieval_home_en_de_last")
    assert searched["English to German", "elsewhere"][3].startswith(
        f"{100 * float(last['mean']):.1f}"
    )
    assert searched["English to German", "elsewhere"][5].endswith(" of 6")
    rates = {x[0]: x[2] for x in tables["imported_transfer"].rows}
    assert rates["elsewhere"] == "2e-05 (3 seeds)" and rates["tied"] == "0.0005 (2 seeds)"


def test_the_page_with_models_is_drawn(report: Path, results: Results) -> None:
    page = (report / "index.html").read_text("utf-8")
    assert 'id="imported"' in page
    assert (report / "figures" / "imported_retrieval.svg").exists()
    anchors = [section.anchor for section in sections(results)]
    assert anchors.count("imported") == 1 and len(set(anchors)) == len(anchors)
    assert "nan" not in {word for row in results["imported"] for word in row.values()}


def test_a_single_run_and_a_single_seed(tmp_path: Path) -> None:
    params = make_params("elsewhere", runs=("tied",), seeds=(0,), imported_seeds=(4,))
    results = read_results(made(tmp_path, params) / "tables", "small")
    assert [x.name for x in imported.beside(results)] == ["tied", "elsewhere"]
    assert "A model that was trained elsewhere" in imported.findings(results)[0]


def test_a_model_is_searched_with_the_first_seed() -> None:
    params = make_params("elsewhere", imported_seeds=(3, 1))
    tasks = {cell.seed: evaluations(params, cell) for cell in imported_cells(params)}
    rest = [("probing", "treebank"), ("transfer", "purposes")]
    assert tasks == {3: [("retrieval", "home"), *rest], 1: rest}


def test_a_missing_or_other_model_is_named_with_its_command(tmp_path: Path) -> None:
    params = make_params("elsewhere", imported_seeds=(0,))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        FAKE["write_artefacts"](params)
        other = make_params("elsewhere", imported_seeds=(0,)).imported.model_copy(
            update={"models": {"elsewhere": params.imported.models["elsewhere"].model_copy(update={"folder": "moved"})}}
        )  # fmt: skip
        with pytest.raises(DataError, match=r"'moved'.*dvc repro imported@elsewhere"):
            score(params.model_copy(update={"imported": other}))
        cell = Cell("small", "imported", "", "elsewhere", 0)
        assert cell.folder == Path("runs/small/imported/elsewhere")
        (cell.outcomes("probing", "treebank")).unlink()
        with pytest.raises(DataError, match="dvc repro probing_imported@treebank-elsewhere-0"):
            score(params)
        (cell.folder / "imported.json").unlink()
        with pytest.raises(DataError, match="dvc repro imported@elsewhere"):
            score(params)


def test_a_dropped_model_is_a_stray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    FAKE["write_artefacts"](make_params(*MODELS, imported_seeds=(0, 1)))
    assert strays(make_params(*MODELS, imported_seeds=(0, 1))) == []
    found = set(map(str, strays(make_params("elsewhere", imported_seeds=(0,)))))
    assert found == {
        "runs/small/imported/other_model",
        *(f"evals/small/retrieval/imported/home-other_model-s{x}" for x in (0,)),
        *(f"evals/small/{task}-other_model-s{x}" for task in ("probing/imported/treebank", "transfer/imported/purposes") for x in (0, 1)),
        "evals/small/probing/imported/treebank-elsewhere-s1",
        "evals/small/transfer/imported/purposes-elsewhere-s1",
    }  # fmt: skip
    assert "runs/small/imported" in set(map(str, strays(make_params())))
