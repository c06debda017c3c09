"""The part of the page on the initial loss: what the tables say, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reporting.initial_loss_artefacts import initial_loss_settings, write_initial_loss
from tiebench.analysis.tables import shown
from tiebench.evaluation.score_initial_loss import tables
from tiebench.experiments.initial_loss_settings import InitialLossSettings, Point
from tiebench.paths import evaluation_folder
from tiebench.reporting.initial_loss import section
from tiebench.reporting.parts import Section
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of
from tiebench.schema import validate
from tiebench.settings import Params

FOLDER = evaluation_folder("t", "initial_loss")
Changed = Callable[[Point, float], float]
LN = 6.9078


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def page(
    loss: Changed = lambda _, value: value,
    moment: Callable[[str, float], float] = lambda _, value: value,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    repeated: float | None = None,
    **changes: Any,
) -> Section:
    held = {**initial_loss_settings(seeds), **changes}
    settings = validate(InitialLossSettings, held, "initial_loss")
    write_initial_loss(FOLDER, settings, loss, moment)
    params = Params.model_construct(name="t", initial_loss=settings)
    cells = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
        for name, (_, rows) in tables(params).items()
    }
    cells["corpus"] = []
    if repeated is not None:
        row = {"corpus": "home", "metric": "repeated_token_share", "language": "all"}
        cells["corpus"] = [{**row, "value": str(repeated)}]
    return section(Results("t", cells))


def told(*args: Any, **changes: Any) -> str:
    return "\n".join(page(*args, **changes).findings)


def at(run: str, change: Callable[[float], float], branch: str = "") -> Changed:
    """A run whose loss is another than theory has."""
    return lambda point, value: (
        change(value) if (point.run, point.branch) == (run, branch) else value
    )


def test_agreement_and_the_largest_difference() -> None:
    assert "34 of 34 points lie within 2% of theory to second order" in told()
    text = told(at("half_swap", lambda x: x * 1.05))
    assert "31 of 34 points" in text
    assert "the largest difference is +5." in text and "(half swap, n = 1,000, d = " in text
    assert "Outside for no reason in the tables: half swap, n = 1,000, d = 128; half" in text
    assert "noise of few tokens" not in text


def test_noise_is_named_as_the_reason_where_it_is_one() -> None:
    seeds = iter(range(1000))

    def spread(value: float) -> float:
        return value + next(seeds) % 5 - 1

    text = told(at("half_swap", spread))
    assert "the interval over seeds covers theory at half swap, n = 1,000, d = 128; half" in text
    assert "noise of few tokens and seeds is enough of a reason." in text
    assert "for no reason" not in text


def test_where_the_effect_is() -> None:
    text = told()
    assert (
        "One table with std 1/sqrt(d) has dσ of at least 2 ln n from d = 512 at n = 1,000 and from "
        "d = 512 at n = 8,000." in text
    )
    assert "One table with std 0.02 has dσ of at least 2 ln n from d = 2048 at n = 1,000." in text
    assert "The highest start is 45.2" in text
    narrow = [{"vocabulary": 1000, "widths": [128]}]
    assert "ln n at no width here where n = 1,000" in told(grids=narrow)


def test_repeats_come_from_the_corpora() -> None:
    assert "repeat the one before" not in told()
    text = told(repeated=0.01)
    assert "up to 1.0% of the tokens repeat the one before (home)" in text
    assert "take at most 0.45 nats off (tied, n = 1,000, d = 2048)" in text


def test_countermeasures_and_their_failure() -> None:
    text = told()
    assert "that keep the std (untied, half swap and BERT head) start 0.4" in text
    assert "at every width, far below the" in text
    assert "which is not far below the" in told(at("half_swap", lambda x: x + 30))


def test_shared_values_are_told_from_shared_parameters() -> None:
    text = told()
    assert "same values have the initial loss of one table (within 0.00 nats)" in text
    other = told(at("shared_initialization", lambda x: x - 3))
    assert "same values have another initial loss than one table, by up to 3.00 nats" in other


def test_the_variance_explains_the_excess_of_two_tables_or_not() -> None:
    text = told()
    assert "(untied) start 0.5" in text and "is 0.50, which accounts for it." in text
    assert "is 0.41, which accounts for it." in text
    assert "is 0.50, which does not account for it." in told(at("untied", lambda x: x + 1))


def test_where_rescaling_is_negligible() -> None:
    text = told()
    assert "is negligible, as the reply says, with std 1/sqrt(d) (at most 0.0" in text
    assert "; it is not negligible with T5's std 1 (at most 38." in text
    assert "both have an own logit of sqrt(d), and start with the same loss." in text
    other = told(at("std_1_rescaled", lambda _: LN))
    assert "not negligible" not in other and "the same loss" not in other.split("T5's std 1")[1]
    assert "not negligible with std 1/sqrt(d)" in told(at("rescaled", lambda x: x + 1))


def test_ln_n_over_d_starts_at_ln_of_2n_minus_1() -> None:
    assert "starts at ln(2n - 1), ln 2 above ln n, and not at ln n: measured +0.0" in told()


def test_who_is_right_about_layers() -> None:
    text = told()
    assert (
        "The layers take most of the effect away with standard branches and branches divided by "
        "sqrt(2 layers), as the reply says; it is there, as Su 2023 says, with DeepNorm's branches "
        "and zero branches. Division by sqrt(2 layers) does not suppress branches enough for his "
        "premise: they leave 10% of the own logit." in text
    )
    assert "the layers keep 2% (standard branches), 10% (branches divided by" in text
    kept = told(at("fixed_std", lambda _: 15.4, "standard"))
    assert "against the reply, with standard branches" in kept
    assert "as the reply says; " not in kept


def test_fewer_than_five_seeds_decide_nothing() -> None:
    text = told(seeds=(0, 1, 2))
    assert "3 seeds decide nothing about what the layers take away." in text
    assert "as the reply says; it is there" not in text


def test_fewer_than_five_seeds_judge_no_one() -> None:
    held = (
        "at every width, far below the",
        "the initial values decide",
        "as the reply observes",
        "accounts for it",
    )
    text = told(seeds=(0, 1, 2, 3))
    assert not [x for x in (*held, "as the reply says", "not 1/d³") if x in text]
    assert "in the mean over 4 seeds, without a claim: tied 2.5" in text
    assert "nats above ln n, without a claim." in text
    assert all(x in told() for x in held)


def test_the_std_is_that_of_the_table() -> None:
    made = initial_loss_settings()
    for run in ("fixed_std", "rescaled_fixed_std", "untied_fixed_std"):
        made["runs"][run]["coupling"]["std"] = 0.03
    found = page(runs=made["runs"])
    assert "With 12 layers, std 0.03 and d = 768" in "\n".join(found.findings)
    assert "one table with std 0.03 and 12 layers" in found.figures[-1].caption


def test_the_replys_observations() -> None:
    text = told()
    assert "slightly above it, tied or not, as the reply observes." in text
    assert "one table starts at most 0.0" in text
    other = told(at("untied_fixed_std", lambda x: x + 4, "standard"))
    assert "which is not what the reply observes" in other


def test_the_inner_product() -> None:
    assert "is dσ⁴ = 1/d, not 1/d³ as the text of Su 2023 has it: measured within 0." in told()
    cubed = told(moment=lambda name, x: x / 64**2 if name == "variance of product" else x)
    assert "not 1/d³" not in cubed and "from that" in cubed


def test_a_size_without_a_run_says_nothing_of_it() -> None:
    held = initial_loss_settings()
    few = {name: held["runs"][name] for name in ("tied", "fixed_std")}
    deep = {**held["deep"], "runs": ["fixed_std"], "branches": ["standard"]}
    grids = [{"vocabulary": 1000, "widths": [128]}]
    text = told(runs=few, deep=deep, grids=grids)
    assert "rescaled" not in text and "Two tables" not in text and "ln(n)/d" not in text
    assert "One table with std 0.02" in text


def test_figures_are_drawn_with_their_points_and_curves() -> None:
    made = page()
    names = [figure.name for figure in made.figures]
    assert names == ["initial_loss_1000", "initial_loss_8000", "initial_loss_deep"]
    with styled():
        drawn = {figure.name: figure.draw() for figure in made.figures}
        again = {figure.name: svg_of(figure.draw()) for figure in made.figures}
        assert {name: svg_of(figure) for name, figure in drawn.items()} == again
    legend = {
        name: [text.get_text().replace("\n", " ") for text in figure.legends[0].get_texts()]
        for name, figure in drawn.items()
    }
    assert "Tied, std 1 rescaled, shared initialization" in legend["initial_loss_1000"]
    assert "BERT head" in legend["initial_loss_1000"]
    assert legend["initial_loss_8000"] == ["Tied", "Untied"]
    assert "DeepNorm's branches" in legend["initial_loss_deep"]


def test_tables_have_every_point() -> None:
    made = {table.name: table for table in page().tables}
    assert len(made["initial_loss"].rows) == 11 * 3 + 2 * 2
    assert len(made["initial_loss_deep"].rows) == 2 * 4 * 3
    assert len(made["initial_loss_moments"].rows) == 3 * 4
    for table in made.values():
        assert all(len(row) == len(table.header) for row in table.rows)
    tied = next(row for row in made["initial_loss"].rows if row[:3] == ["tied", "1,000", "512"])
    assert tied[4] == "22.6" and tied[6].startswith("22.6") and "±" in tied[6]
