"""The initial loss: measured on models as they are trained, beside theory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.reporting.initial_loss_artefacts import initial_loss_settings
from tiebench.analysis.initial_loss import logits_of, second_order
from tiebench.analysis.tables import read_table
from tiebench.checks import _check_initial_loss
from tiebench.errors import BusyError, SettingsError
from tiebench.experiments import initial_loss
from tiebench.experiments.initial_loss import draw_tokens, loss_rows, measure, moment_rows, run
from tiebench.experiments.initial_loss_settings import (
    RAW,
    DeepSettings,
    InitialLossSettings,
    identity,
)
from tiebench.files import holding
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import CouplingSettings
from tiebench.paths import SCRATCH, evaluation_folder
from tiebench.schema import validate
from tiebench.settings import Params


def small(**changes: Any) -> InitialLossSettings:
    """Settings that take no time."""
    held = initial_loss_settings(seeds=(0, 1))
    held |= {"grids": [{"vocabulary": 50, "widths": [64]}], "moment_widths": [8]}
    held["deep"] |= {
        "vocabulary": 50, "widths": [64], "branches": ["standard", "deep_norm", "zero"],
    }  # fmt: skip
    held["deep"]["body"]["layers"] = 2
    return validate(InitialLossSettings, {**held, **changes}, "initial_loss")


def measured(settings: InitialLossSettings) -> dict[tuple[Any, ...], float]:
    """By run, branch, vocabulary, width and metric, the mean over seeds."""
    values: dict[tuple[Any, ...], list[float]] = {}
    for row in loss_rows(settings):
        key = tuple(row[k] for k in ("run", "branch", "vocabulary", "width", "metric"))
        values.setdefault(key, []).append(row["value"])
    return {key: sum(held) / len(held) for key, held in values.items()}


def test_the_identity_body_is_within_2_percent_of_theory() -> None:
    grids = [{"vocabulary": 1000, "widths": [128, 256]}]
    settings = small(grids=grids, seeds=[0, 1, 2, 3, 4], sequences=16)
    found, checked = measured(settings), 0
    for point in settings.points():
        logits = logits_of(settings.runs[point.run].coupling, point.vocabulary, point.body.width)
        if point.branch or logits is None:
            continue
        at = point.run, "", point.vocabulary, point.body.width
        theory = second_order(logits, point.vocabulary)
        assert found[*at, "loss"] == pytest.approx(theory, rel=0.02), at
        assert found[*at, "own_logit"] == pytest.approx(logits.own_mean, rel=0.02, abs=0.1), at
        checked += 1
    assert checked == 20
    by_width = [found["tied", "", 1000, width, "loss"] for width in (128, 256)]
    assert by_width[0] < by_width[1]
    assert found["tied", "", 1000, 256, "loss"] > 2 * found["untied", "", 1000, 256, "loss"]


def test_layers_take_the_effect_away_unless_they_start_as_nothing() -> None:
    settings = small()
    deep = settings.deep.model_dump()
    deep |= {"vocabulary": 200, "widths": [512], "branches": ["standard", "deep_norm", "zero"]}
    deep["body"]["layers"], deep["runs"] = 4, ["fixed_std"]
    found = measured(small(deep=deep))
    kept = {x: found["fixed_std", x, 200, 512, "own_logit"] / 10.24 for x in deep["branches"]}
    assert kept["standard"] < 0.2
    assert kept["deep_norm"] == pytest.approx(1, abs=0.02)
    assert kept["zero"] == pytest.approx((1 + 1e-6 / 0.02**2) ** -0.5, abs=0.02)
    assert found["fixed_std", "zero", 200, 512, "loss"] > 10
    assert found["fixed_std", "standard", 200, 512, "loss"] < 6


def test_what_is_measured_is_the_loss_of_the_model_itself() -> None:
    coupling = small().runs["bert_head"].coupling.model_copy(update={"bias": True})
    model = LanguageModel(coupling, identity(32), 50).initialize(0)
    assert model.coupling.bias is not None
    torch.nn.init.normal_(model.coupling.bias)
    ids, targets = draw_tokens(0, 50, (3, 7))
    loss, own = measure(model, ids, targets)
    logits = model(ids).flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(logits, targets)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    plain = logits - model.coupling.bias
    assert own == pytest.approx(plain.gather(1, ids.reshape(-1, 1)).mean().item(), abs=1e-5)


def test_no_target_is_its_input() -> None:
    ids, targets = draw_tokens(1, 3, (20, 50))
    assert (ids.flatten() != targets).all()
    assert set(targets.tolist()) == {0, 1, 2}
    again, _ = draw_tokens(1, 3, (20, 50))
    assert (ids == again).all()
    assert (ids != draw_tokens(2, 3, (20, 50))[0]).any()


def test_moments_are_drawn_anew_for_each_distribution_and_seed() -> None:
    rows = list(moment_rows(small()))
    assert len(rows) == 3 * 2 * 4
    assert len({row["value"] for row in rows}) == len(rows)
    means = [r["value"] for r in rows if r["quantity"] == "squared_norm" and r["metric"] == "mean"]
    assert means == pytest.approx([1.0] * 6, abs=0.15)


def test_the_stage_writes_the_same_bytes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    params = Params.model_construct(name="t", initial_loss=small())
    folder, written = evaluation_folder("t", "initial_loss"), []
    for _ in range(2):
        run(params)
        assert sorted(path.name for path in folder.iterdir()) == [f"{x}.csv" for x in RAW]
        written.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert written[0] == written[1]
    rows = read_table(folder / "losses.csv", mend="")
    assert len({row["value"] for row in rows if row["run"] == "tied"}) == 4
    with holding(SCRATCH / "initial_loss-t.lock", "x"), pytest.raises(BusyError, match="of t"):
        run(params)


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    params = Params.model_construct(name="t", initial_loss=small())
    folder = evaluation_folder("t", "initial_loss")
    folder.mkdir(parents=True)
    (folder / "losses.csv").write_text("before\n")

    def broken(_: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(initial_loss, "moment_rows", broken)
    with pytest.raises(RuntimeError):
        run(params)
    assert [path.name for path in folder.parent.iterdir()] == ["initial_loss"]
    assert (folder / "losses.csv").read_text() == "before\n"


def test_deep_bodies_have_the_shape_of_llama() -> None:
    deep = small().deep
    body = deep.shaped(768, "zero")
    assert (body.width, body.heads, body.feedforward_width) == (768, 12, 2048)
    assert body.norm_placement == "pre"
    assert deep.shaped(64, "deep_norm").norm_placement == "post"


def deep_with(**changes: Any) -> dict[str, Any]:
    return {**initial_loss_settings()["deep"], **changes}


def runs_with(**changes: Any) -> dict[str, Any]:
    runs = initial_loss_settings()["runs"]
    return {name: {**run, **changes.get(name, {})} for name, run in runs.items()}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"grids": []}, "at least 1"),
        ({"seeds": [0, 0]}, "distinct values"),
        ({"sequence_length": 600}, "at most deep.body.maximum_length"),
        ({"grids": [{"vocabulary": 50, "widths": [64], "runs": ["no"]}]}, r"grids\[0\].runs among"),
        ({"grids": [{"vocabulary": 50, "widths": [64], "runs": ["tied"] * 2}]}, "distinct values"),
        ({"grids": [{"vocabulary": 50, "widths": [64]}] * 2}, "one grid for each vocabulary"),
        ({"grids": [{"vocabulary": 50, "widths": [60]}]}, "multiple of 8"),
        ({"deep": deep_with(runs=["no"])}, "deep.runs among the runs"),
        ({"deep": deep_with(widths=[104])}, "head_width"),
        ({"deep": deep_with(branches=["no"])}, "standard"),
        ({"deep": deep_with(body=identity(64).model_dump())}, "Transformer"),
        ({"runs": runs_with(tied={"trained": False})}, "alone"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        small(**changes)


def test_a_coupling_that_does_nothing_there_is_refused() -> None:
    settings = small()
    scaled = CouplingSettings.model_validate(
        {**settings.runs["tied"].coupling.model_dump(), "input_scale": "sqrt_width"}
    )
    runs = {**settings.runs, "tied": settings.runs["tied"].model_copy(update={"coupling": scaled})}
    changed = settings.model_copy(update={"runs": runs})
    with pytest.raises(SettingsError, match=r"initial_loss.runs.tied.coupling.input_scale"):
        _check_initial_loss(Params.model_construct(initial_loss=changed))


def test_deep_settings_know_deep_norm_on_the_post_norm_only() -> None:
    deep = DeepSettings.model_validate(deep_with(branches=["deep_norm"]))
    assert deep.shaped(128, "deep_norm").branch == "deep_norm"
