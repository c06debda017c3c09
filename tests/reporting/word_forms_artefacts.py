"""The word forms of made-up models, as the stage writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.conftest import ROOT
from tiebench.analysis.tables import write_table
from tiebench.composition import compose, parse
from tiebench.experiments.word_forms_settings import CENTRINGS, RAW, SIDES
from tiebench.schema import validate
from tiebench.settings import Params

CLOSER = {("untied", "input"): 0.3, ("untied", "output"): -0.1, ("tied", "input"): 0.1,
          ("tied", "output"): 0.1}  # fmt: skip
"""By run and side, what forms are closer by than matched pairs."""
ODDS = {"tied": 0.5, "untied": 1.0}
"""By run, log odds of the right form."""
LEMMAS = {"en": ["go", "device"], "de": ["gehen", "haus", "neu"]}
COVERAGE = ("words", "ambiguous", "without_lemma", "rare", "compared", "types", "lemmas", "pairs",
            "matched_lemmas", "matched_pairs", "validation_tokens", "unknown", "positions")  # fmt: skip


def make_params(seeds: int = 5) -> Params:
    """Those of the micro size with so many seeds."""
    values = parse(compose(["size=micro"], ROOT / "conf")[0])
    values["word_decoders"]["seeds"] = list(range(seeds))
    return validate(Params, values)


def write_word_forms(
    folder: Path,
    params: Params,
    closer: Mapping[tuple[str, str], float] = CLOSER,
    odds: Mapping[str, float] = ODDS,
    noise: float = 0.01,
) -> None:
    """Every table of RAW."""
    rows = raw_rows(params, closer, odds, noise)
    for name, columns in RAW.items():
        write_table(folder / f"{name}.csv", columns, rows[name])


def raw_rows(
    params: Params,
    closer: Mapping[tuple[str, str], float],
    odds: Mapping[str, float],
    noise: float,
) -> dict[str, list[dict[str, Any]]]:
    """Rows of each table of RAW."""
    rng = np.random.default_rng(0)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RAW}
    family = params.word_decoders
    assert family is not None
    for code, lemmas in LEMMAS.items():
        rows["baseline"] += (choice({"language": code}, lemma, i, 0.0)
                             for i, lemma in enumerate(lemmas))  # fmt: skip
        values = {name: 100 * (i + 1) for i, name in enumerate(COVERAGE)}
        values |= {"words": 500, "types": 200, "validation_tokens": 4000, "unknown": 400,
                   "positions": 1000}  # fmt: skip
        rows["coverage"] += (
            {"language": code, "metric": metric, "value": value} for metric, value in values.items()
        )
    for run in family.runs:
        for seed in family.seeds:
            for code, lemmas in LEMMAS.items():
                at = {"run": run, "seed": seed, "language": code}
                for i, lemma in enumerate(lemmas):
                    drawn = noise * rng.normal()
                    for side in SIDES:
                        own = drawn if run == "tied" else noise * rng.normal()
                        for centring in CENTRINGS:
                            shift = closer[run, side] + own + 0.02 * i
                            rows["geometry"].append(
                                {**at, "side": side, "centring": centring, "lemma": lemma,
                                 "pairs": i + 1, "forms": 0.2 + shift, "matched": 0.2,
                                 "auc": 0.5 + shift}
                            )  # fmt: skip
                    log_odds = odds[run] + noise * rng.normal()
                    rows["choices"].append(choice(at, lemma, i, log_odds))
    return rows


def choice(at: dict[str, Any], lemma: str, number: int, log_odds: float) -> dict[str, Any]:
    """What one lemma's positions say."""
    share = 1 / (1 + np.exp(-log_odds))
    return {
        **at, "lemma": lemma, "positions": 10 * (number + 1), "log_odds": log_odds,
        "accuracy": share, "form_loss": -np.log(share), "lemma_loss": 4.0 - log_odds,
    }  # fmt: skip
