"""The tables of the initial loss, and what is said of damaged ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.reporting.initial_loss_artefacts import initial_loss_settings, write_initial_loss
from tiebench.errors import DataError
from tiebench.evaluation.score_initial_loss import tables
from tiebench.experiments.initial_loss_settings import InitialLossSettings
from tiebench.paths import evaluation_folder
from tiebench.reporting.results import TABLES
from tiebench.schema import validate
from tiebench.settings import Params

FOLDER = evaluation_folder("t", "initial_loss")


@pytest.fixture
def params(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    monkeypatch.chdir(tmp_path)
    settings = validate(InitialLossSettings, initial_loss_settings(), "initial_loss")
    write_initial_loss(FOLDER, settings)
    return Params.model_construct(name="t", initial_loss=settings)


def rows(params: Params, table: str, **cells: Any) -> list[dict[str, Any]]:
    held = tables(params)[table][1]
    return [row for row in held if all(row[key] == cell for key, cell in cells.items())]


def test_every_model_is_a_row_beside_its_theory(params: Params) -> None:
    held = rows(params, "initial_loss")
    assert len(held) == len(params.initial_loss.points())
    (tied,) = rows(params, "initial_loss", run="tied", vocabulary=1000, width=512)
    assert tied["theory"] == pytest.approx(math.sqrt(512), abs=1e-3)
    assert tied["d_sigma"] == pytest.approx(math.sqrt(512))
    assert tied["log_vocabulary"] == pytest.approx(math.log(1000))
    assert tied["agrees"] and tied["seeds"] == 5 and tied["tolerance"] == 0.02
    assert tied["low"] < tied["mean"] < tied["high"]
    assert tied["high"] - tied["low"] == pytest.approx(2 * 2.776 * tied["se"], rel=1e-3)
    (head,) = rows(params, "initial_loss", run="bert_head", vocabulary=1000, width=512)
    assert head["theory"] is head["theory_second_order"] is head["agrees"] is None


def test_deep_models_stand_beside_no_layers_and_are_not_judged(params: Params) -> None:
    deep = [row for row in rows(params, "initial_loss") if row["branch"]]
    assert len(deep) == 2 * 4 * 3
    assert all(row["agrees"] is row["relative_difference"] is None for row in deep)
    zero, norm = (
        rows(params, "initial_loss", run="fixed_std", branch=branch, width=768)[0]
        for branch in ("zero", "deep_norm")
    )
    shrunk = 768 * 0.02 / math.sqrt(1 + 1e-6 / 0.02**2)
    assert zero["own_logit_theory"] == pytest.approx(shrunk)
    assert norm["own_logit_theory"] == pytest.approx(768 * 0.02)


def test_curves_pass_through_the_points(params: Params) -> None:
    curves = rows(params, "initial_loss_curves", run="tied", vocabulary=1000)
    assert [row["width"] for row in curves] == sorted({row["width"] for row in curves})
    assert len(curves) > 30 and all(row["width"] % 8 == 0 for row in curves)
    held = {row["width"]: row["theory_second_order"] for row in curves}
    for row in rows(params, "initial_loss", run="tied", vocabulary=1000):
        assert held[row["width"]] == pytest.approx(row["theory_second_order"])
    assert not rows(params, "initial_loss_curves", run="bert_head")


def test_moments_stand_beside_their_formulas(params: Params) -> None:
    held = rows(params, "initial_loss_moments", distribution="uniform", width=64)
    theory = {(row["quantity"], row["metric"]): row["theory"] for row in held}
    assert theory == pytest.approx(
        {
            ("squared_norm", "mean"): 1.0,
            ("squared_norm", "variance"): 0.8 / 64,
            ("product", "mean"): 0.0,
            ("product", "variance"): 1 / 64,
        }
    )


def test_columns_are_those_of_the_rows_and_the_page_reads_them(params: Params) -> None:
    for name, (columns, held) in tables(params).items():
        assert name in TABLES
        assert all(set(row) == set(columns) for row in held)
    without = tables(Params.model_construct(name="t", initial_loss=None))
    assert {name: (columns, []) for name, (columns, _) in tables(params).items()} == without


def one_line_less(text: str) -> str:
    return text[: text.rstrip("\n").rindex("\n") + 1]


@pytest.mark.parametrize("name", ["losses", "moments"])
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (one_line_less, "no row "),
        (lambda text: text + text.splitlines(keepends=True)[-1], "a second row "),
        (lambda text: text.rstrip("\n") + "x\n", "a finite number"),
        (lambda text: text[: text.rindex(",")] + ",nan\n", "found value 'nan'"),
        (lambda text: text[: text.rindex(",")] + ",\n", "found value ''"),
        (lambda text: text.replace("value", "other", 1), "other"),
        (lambda text: text.splitlines(keepends=True)[0], "no rows"),
        (lambda _: "", "an empty file"),
    ],
)
def test_damage_is_answered_with_the_command(
    params: Params, name: str, damage: Any, said: str
) -> None:
    path = FOLDER / f"{name}.csv"
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataError, match=said) as error:
        tables(params)
    assert "dvc repro initial_loss" in str(error.value) and f"{name}.csv" in str(error.value)


def test_a_missing_file_is_answered_with_the_command(params: Params) -> None:
    (FOLDER / "losses.csv").unlink()
    with pytest.raises(DataError, match="dvc repro initial_loss"):
        tables(params)


def test_tables_of_other_settings_are_refused(params: Params) -> None:
    fewer = params.initial_loss.model_copy(update={"seeds": [0, 1]})
    with pytest.raises(DataError, match="found a row .*expected one row for each model and seed"):
        tables(Params.model_construct(name="t", initial_loss=fewer))
