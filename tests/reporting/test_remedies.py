"""The study `remedies`: its tables from made-up curves, and sentences that turn with the numbers."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import pytest

from tests.conftest import ROOT
from tiebench.analysis.tables import shown
from tiebench.composition import compose, parse
from tiebench.errors import SettingsError
from tiebench.evaluation.score_remedies import _role, initial_loss, tables
from tiebench.reporting.remedies import section
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of
from tiebench.schema import validate
from tiebench.settings import Params

TOKENS = 8000
INITIAL = {"tied": 16.0, "log_vocabulary": 7.67, "matched_initial_loss": 7.67, "rescaled": 6.94,
           "tied_standard": 8.0}  # fmt: skip
FINAL = {"log_vocabulary": 4.4, "tied": 4.5}


@cache
def make_params(seeds: int = 5) -> Params:
    given = ["size=small", f"decoders.seeds={list(range(seeds))}"]
    return validate(Params, parse(compose(given, ROOT / "conf")[0]))


def made(
    seeds: int = 5,
    final: dict[str, float] | None = None,
    initial: dict[str, float] | None = None,
    falling: tuple[str, ...] = (),
) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Tables of runs that learn at one rate, but `log_vocabulary`, which is slower."""
    ends, starts = {**FINAL, **(final or {})}, {**INITIAL, **(initial or {})}
    params = make_params(seeds)
    assert params.decoders is not None
    headline, curves = [], []
    for number, run in enumerate(params.decoders.runs):
        for seed in range(seeds):
            noise = 0.004 * math.sin(7 * number + 3 * seed)
            start, end = starts.get(run, 7.43) + noise, ends.get(run, 4.0) + noise
            at = {"family": "decoders", "run": run, "seed": seed}
            for metric, value in (("initial_loss", start), ("loss", end), ("accuracy", 0.2)):
                headline.append({**at, "metric": metric, "value": value})
            for tokens in range(0, TOKENS + 1, 1000):
                loss = end + (start - end) * math.exp(-tokens / 800)
                metric = {"metric": "validation_loss", "value": end if tokens == TOKENS else loss}
                curves.append({**at, "tokens": tokens, **metric})
    unflattened = {("decoders", run): 0.5 for run in falling}
    return tables(params, headline, curves, unflattened) | {
        "learning_curves": ((), curves)
    }  # fmt: skip


def results(**changed: Any) -> Results:
    held, seeds = made(**changed), changed.get("seeds", 5)
    params = make_params(seeds)
    assert params.decoders is not None
    runs = [
        {"family": "decoders", "run": run, "matches": "", "trained": True, "baseline": run == "tied",
         "seeds": " ".join(map(str, range(seeds))), "tokens": TOKENS}
        for run in params.decoders.runs
    ]  # fmt: skip
    text = {
        name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
        for name, (_, rows) in {**held, "runs": ((), runs)}.items()
    }
    return Results("t", text)


def said(**changed: Any) -> str:
    return " ".join(section(results(**changed), "decoders", "").findings)


def test_theory_is_that_of_suppressed_branches() -> None:
    group = make_params().decoders
    assert group is not None
    held = {
        run: initial_loss(x.coupling, group.body_of(run), 1024) for run, x in group.runs.items()
    }
    epsilon = group.body.norm_epsilon  # shrinks a row of variance 1/256 by so much
    assert held["tied"] == pytest.approx(16 / math.sqrt(1 + 256 * epsilon), abs=0.01)
    assert held["untied"] == pytest.approx(held["half_swap"], abs=1e-3)
    assert held["untied"] == pytest.approx(math.log(1024) + 0.5, abs=0.02)
    assert held["matched_initial_loss"] == pytest.approx(held["log_vocabulary"], abs=0.03)
    assert held["tied_standard"] is held["orthogonal_standard"] is None


def test_roles_claims_and_values() -> None:
    held = made()
    roles = {row["run"]: row["role"] for row in held["remedies_runs"][1]}
    assert [run for run, role in roles.items() if role == "remedy"] == [
        "untied", "orthogonal", "half_swap", "channel_shuffle",
    ]  # fmt: skip
    assert (roles["log_vocabulary"], roles["rescaled"]) == ("slowest", "other")
    assert roles["matched_initial_loss"] == roles["untied_orthogonal"] == "control"
    assert roles["untied_standard"] == "standard"
    pairs = [(x["claim"], x["metric"]) for x in held["remedies_pairs"][1]]
    assert {pair: pairs.count(pair) for pair in pairs} == {
        ("slowest", "area"): 4, ("alike", "area"): 6, ("finals", "loss"): 10,
        ("control", "area"): 2, ("control", "loss"): 2,
        ("standard", "area"): 2, ("standard", "loss"): 2,
    }  # fmt: skip
    values = {(x["run"], x["seed"], x["metric"]): x["value"] for x in held["remedies"][1]}
    curve = [x for x in held["learning_curves"][1] if (x["run"], x["seed"]) == ("tied", 0)]
    losses = [row["value"] for row in curve]
    area = (sum(losses) - (losses[0] + losses[-1]) / 2) / 8
    assert values["tied", 0, "area"] == pytest.approx(area)
    assert values["tied", 0, "loss_at_0.125"] == pytest.approx(losses[1])
    differences = {x["run"]: x for x in held["remedies_summary"][1] if x["metric"] == "area"}
    assert differences["untied"]["baseline"] == "tied" and differences["untied"]["difference"] < 0


def test_a_run_with_a_training_of_its_own_is_no_remedy() -> None:
    group = make_params().decoders
    assert group is not None
    penalty = group.runs["untied"].model_copy(update={"training": {"tie_penalty": 0.01}})
    rates = group.runs["untied"].model_copy(update={"training": {"learning_rate": 0.01}})
    held = group.model_copy(update={"runs": {**group.runs, "penalty": penalty, "fast": rates}})
    assert (_role(held, "penalty"), _role(held, "fast")) == ("other", "remedy")


def test_what_is_found_follows_the_numbers() -> None:
    text = said()
    assert "d sigma is 16.00 and ln n 6.93: at least 2 ln n." in text
    assert "tied starts at 16.00 nats, the remedies at 7.43 to 7.67: within 0.1 nats" in text
    assert "12% of the excess over ln n with suppressed ones: most of the effect is gone" in text
    assert "Log vocabulary is slower than 4 of 4 other remedies, as Su 2023 found." in text
    assert "Of 6 pairs of the other remedies in mean loss on the way: 6 alike within 0.05" in text
    assert "4 different, against Su 2023" in text  # log_vocabulary ends higher
    assert "Orthogonal against its control untied orthogonal" in text
    assert "alike: the control explains the remedy" in text


def test_it_turns_round_with_them() -> None:
    text = said(final={"log_vocabulary": 3.5, "half_swap": 5.0}, initial={"untied": 9.0})
    assert "Log vocabulary is faster than 4 of 4 other remedies, not as Su 2023 found." in text
    assert "different, against Su 2023; the widest difference is log vocabulary minus" in text
    assert "up to 1.57 nats above theory (untied)" in text
    assert "most of the effect stays" in said(initial={"tied_standard": 15.0})
    alike = said(final={"log_vocabulary": 4.0}, initial={"log_vocabulary": 7.43})
    assert "10 alike within 0.05 nats, as Su 2023 found" in alike


@pytest.mark.parametrize("seeds", [1, 3])
def test_few_seeds_decide_nothing(seeds: int) -> None:
    text = said(seeds=seeds)
    assert f"Nothing is decided here ({seeds} seed{'s' * (seeds > 1)})" in text
    assert "without a claim, log vocabulary has a higher mean loss on the way than 4 of 4" in text
    for claim in (" is slower than", "as Su 2023 found", "against Su 2023"):
        assert claim not in text


def test_finals_wait_for_curves_and_speed_does_not() -> None:
    held = made(
        falling=("tied", "untied", "log_vocabulary", "orthogonal", "half_swap", "channel_shuffle")
    )
    verdicts = {x["metric"]: set() for x in held["remedies_pairs"][1]}
    for row in held["remedies_pairs"][1]:
        if row["claim"] in ("alike", "finals"):
            verdicts[row["metric"]].add(row["verdict"])
    assert verdicts == {"area": {"equivalent"}, "loss": {"undecided"}}


def test_figures_and_tables_are_drawn() -> None:
    for seeds in (1, 5):
        part = section(results(seeds=seeds), "decoders", ", decoders")
        for figure in part.figures:
            with styled():
                assert "<svg" in svg_of(figure.draw())
        overview, pairs = part.tables
        assert len(overview.rows) == 12 and len(overview.header) == len(overview.rows[0])
        assert len(pairs.rows) == 28
        assert "at 4k tokens" in overview.header


def test_a_sweep_of_a_reported_seed_is_refused_with_the_settings() -> None:
    from tiebench.checks import check

    given = ["size=small", "sweeps.pilot.seeds=[0]"]
    with pytest.raises(SettingsError, match=r"sweeps\.pilot\.seeds: found 0, a seed of decoders"):
        check(validate(Params, parse(compose(given, ROOT / "conf")[0])))
