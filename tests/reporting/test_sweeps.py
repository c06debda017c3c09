"""The sweeps on the page: sentences that turn with the tables, figures, and the tables shown."""

from __future__ import annotations

from typing import Any

import pytest

from tiebench.analysis.tables import shown
from tiebench.evaluation import score_sweeps
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of
from tiebench.reporting.sweeps import section

COLUMNS = {
    "sweeps": score_sweeps.SWEEPS,
    "sweep_choices": score_sweeps.CHOICES,
    "stability": score_sweeps.STABILITY,
    "regularization": score_sweeps.REGULARIZATION,
    "underflow": score_sweeps.UNDERFLOW,
    "sweep_points": score_sweeps.POINTS,
}


def row(table: str, **cells: Any) -> dict[str, str]:
    assert cells.keys() <= set(COLUMNS[table])
    return {key: shown(cells.get(key)) for key in COLUMNS[table]}


def choice(run: str, chosen: float | None, used: float = 1.0, **cells: Any) -> dict[str, str]:
    same = None if chosen is None else chosen == used
    held = {"sweep": "pilot", "run": run, "axis": "training.table_learning_rate", "steps": 40}
    return row("sweep_choices", **held, chosen=chosen, used=used, same=same, **cells)


def stable(run: str, rate: float, **cells: Any) -> dict[str, str]:
    held = {"sweep": "stability", "run": run, "learning_rate": rate, "others": "", "seeds": 3,
            "steps": 40, "broke": 0, "diverged": 0, "spikes": 0, "loss": 5.0, "low": 4.9,
            "high": 5.1, "gradient_norm_mean": 1, "gradient_norm_max": 2, "logit_std": 1}  # fmt: skip
    return row("stability", **{**held, **cells})


def gap(run: str, share: float, size: float, verdict: str = "", **cells: Any) -> dict[str, str]:
    held: dict[str, Any] = {
        "sweep": "regularization", "run": run, "data_share": share, "others": "width 64",
        "seeds": 5, "steps": 120, "epochs": 0.4 / share, "train_loss": 5 - size, "loss": 5.0,
        "gap": size, "low": size - 0.01, "high": size + 0.01,
    }  # fmt: skip
    if verdict:
        held |= {"baseline": "tied", "difference": size - 0.1, "difference_low": size - 0.11,
                 "difference_high": size - 0.09, "verdict": verdict}  # fmt: skip
    return row("regularization", **{**held, **cells})


def small(std: float, share: float, limit: str = "normal", **cells: Any) -> dict[str, str]:
    held = {"sweep": "underflow", "run": "tied", "std": f"{std:g}", "deviation": std, "others": "",
            "format": "float16", "limit": limit, "when": "start", "seeds": 5, "share": share,
            "point": f"std {std:g}"}  # fmt: skip
    return row("underflow", **{**held, **cells})


def shares(
    *points: tuple[float, float], seeds: int = 5, noise: float = 0.01
) -> list[dict[str, str]]:
    """By seed, the shares below float16's normal numbers at (std, share)."""
    return [
        row("sweeps", sweep="underflow", run="tied", point=f"std {std:g}", seed=seed,
            metric="float16_below_normal_start", value=share + sign * noise * (seed - 2))
        for sign, (std, share) in zip((1, -1), points, strict=True)
        for seed in range(seeds)
    ]  # fmt: skip


USUAL: dict[str, list[dict[str, str]]] = {
    "sweep_choices": [choice("tied", 1.0, loss=5.8, used_loss=5.8), choice("untied", 1.0)],
    "stability": [stable(run, rate) for run in ("tied", "untied") for rate in (0.001, 0.01)],
    "regularization": [
        gap("tied", 0.1, 0.1), gap("untied", 0.1, 0.3, "different"),
        gap("tied", 1.0, 0.1), gap("untied", 1.0, 0.1, "equivalent"),
    ],
    "underflow": [
        small(0.002, 0.4), small(0.06, 0.1), small(0.002, 0.02, "subnormal"),
        small(0.06, 0.0, "subnormal"),
        *(small(x, 0.0, "subnormal", format="bfloat16") for x in (0.002, 0.06)),
    ],
    "sweeps": [
        row("sweeps", sweep="stability", metric="unigram_loss", value=5.83),
        *shares((0.002, 0.4), (0.06, 0.1)),
    ],
    "sweep_points": [
        row("sweep_points", sweep="stability", point=x, axis=axis, value=value)
        for x in ("1", "2")
        for axis, value in (("training.learning_rate", x), ("body.branch", "inverse_sqrt_depth"))
    ],
}  # fmt: skip


def said(**tables: list[dict[str, str]]) -> str:
    return " ".join(section(Results("t", {**USUAL, **tables})).findings)


def test_a_pilot_says_when_other_rates_are_used() -> None:
    text = said()
    assert (
        "The pilot (trainings of 40 updates) chooses the rates that are used for all 2 runs in"
        in text
    )
    text = said(sweep_choices=[choice("tied", 1.0), choice("untied", 3.0), choice("other", None)])
    assert "chooses other rates than are used for 1 of 3 runs" in text
    assert "untied (table learning rate 3 where 1 is used)" in text
    assert "it has no training that went to its end for other" in text


def test_where_a_run_breaks_is_said() -> None:
    text = said()
    assert "tied diverges at no rate, with no spikes; untied diverges at no rate" in text
    assert "Fewer than 5 seeds: no claim." in text
    rows = [
        stable("tied", 0.001, spikes=2 / 3),
        stable("tied", 0.01, broke=1 / 3, diverged=1 / 3),
        stable("tied", 0.1, broke=1, diverged=1, loss=None, spikes=None),
        stable("untied", 0.001, diverged=1),
    ]
    text = said(stability=rows)
    assert "tied breaks (not finite) from learning rate 0.01 on, with 2 spikes" in text
    assert "untied ends above the loss of token frequencies at 0.001, with no spikes" in text
    rows = [stable("tied", 0.001, seeds=5), stable("tied", 0.01, seeds=5, diverged=0.4)]
    assert "at 0.01 (2 of 5), with no spikes" in said(stability=rows)


def test_the_gap_follows_the_verdicts() -> None:
    text = said()
    assert "with 10% of the text (up to 4 passes)" in text
    assert "untied minus tied +0.200 (+0.190 to +0.210) (width 64)" in text
    assert "Of 2 comparisons with tied the gap is wider in 1 and alike in 1." in text
    turned = [gap("tied", 0.1, 0.1), gap("untied", 0.1, 0.02, "different")]
    assert "the gap is narrower in 1." in said(regularization=turned)
    few = [gap("tied", 0.1, 0.1, seeds=3), gap("untied", 0.1, 0.3, "undecided", seeds=3)]
    assert (
        "No verdict; in the mean, without a claim, the gap is wider than that of tied in 1 of 1"
        in (said(regularization=few))
    )
    assert "no two runs are compared" in said(regularization=[gap("tied", 0.1, 0.1)])


def test_underflow_follows_the_shares() -> None:
    text = said()
    assert "float16 loses up to 2% (at std 0.002) and bfloat16 holds every entry" in text
    assert "From std 0.002 to 0.06 the share below float16's normal numbers falls" in text
    assert "%), at each step." in text
    rows = [small(0.002, 0.1), small(0.06, 0.4), small(0.06, 0.001, "subnormal")]
    text = said(underflow=rows, sweeps=shares((0.002, 0.1), (0.06, 0.4)))
    assert "float16 loses up to 0.1% (at std 0.06, slight)" in text
    assert "rises (10% to 40%), at each step." in text


def test_underflow_claims_nothing_with_few_seeds_or_within_the_interval() -> None:
    for seeds in (1, 4):
        text = said(sweeps=shares((0.002, 0.4), (0.06, 0.1), seeds=seeds))
        assert "step." not in text
        assert f"goes from 40% to 10% in the mean over {seeds} seed" in text
    text = said(sweeps=shares((0.002, 0.4), (0.06, 0.1), noise=0.5))
    assert "normal numbers is not shown to change (40% to 10%)." in text and "Su 2023" not in text


@pytest.mark.parametrize("lacking", [(), ("stability", "underflow"), ("sweep_choices",)])
def test_figures_and_tables_are_drawn(lacking: tuple[str, ...]) -> None:
    part = section(Results("t", {**USUAL, **{key: [] for key in lacking}}))
    for figure in part.figures:
        with styled():
            assert "<svg" in svg_of(figure.draw())
    kept = [
        x for x in ("sweep_choices", "stability", "regularization", "underflow") if x not in lacking
    ]
    assert [table.name for table in part.tables] == kept
    for table in part.tables:
        assert {len(cells) for cells in table.rows} == {len(table.header)}
