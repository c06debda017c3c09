"""The tables of Inan et al.'s subspace experiment: how much of W lies outside L, by mixture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.shapes import read_data
from tiebench.analysis.statistics import mean_interval, paired_difference
from tiebench.analysis.tables import read_numbers
from tiebench.errors import DataError
from tiebench.experiments.tables_settings import SUBSPACES
from tiebench.paths import RECURRENT, evaluation_folder
from tiebench.published.figures import PUBLISHED_SUBSPACES
from tiebench.settings import Params
from tiebench.training.subspace_runs import Mixture, subspace_runs

Row = dict[str, Any]
RESIDUALS = ("run", "share", "temperature", "seed", "metric", "value")
SUMMARY = (
    "run", "share", "temperature", "units", "seeds", "mean", "low", "high", "initial_residual",
    "chance", "cross_entropy", "augmented_loss", "augmented_constant",
)  # fmt: skip
"""`mean` and its interval: of the residual. `chance`: of random tables. Losses: means over seeds,
in nats per word of the training text after training; the augmented loss times temperature^2
times vocabulary, as it is minimized, and `augmented_constant`: the least of one prediction for all.
"""
TRENDS = ("temperature", "runs", "seeds", "from_share", "to_share", "difference", "low", "high",
          "p", "spearman")  # fmt: skip
"""`difference`: the residual at the largest share minus that at none, paired by seed; `spearman`:
of share and residual over the runs, in the mean over seeds."""
PUBLISHED = ("source", "place", "temperature", "share", "published", "run", "ours", "low", "high",
             "seeds", "units", "reason")  # fmt: skip
RESIDUAL = "residual"
MEANS = ("initial_residual", "chance", "cross_entropy", "augmented_loss", "augmented_constant")


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where the settings have no runs for it.

    Raises:
        DataError: the stage's table is missing, damaged, of other runs or seeds, or holds a number
            that is not finite.
    """
    mixtures = subspace_runs(params.recurrent) if params.recurrent and params.tables else {}
    raw = _read(params, mixtures) if mixtures else []
    held: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for row in raw:
        held[row["run"], row["metric"]][row["seed"]] = row["value"]
    summary = list(_summary(params, mixtures, held))
    return {
        "subspaces": (RESIDUALS, [{**row, **_told(mixtures[row["run"]])} for row in raw]),
        "subspaces_summary": (SUMMARY, summary),
        "subspaces_trends": (TRENDS, list(_trends(mixtures, held))),
        "subspaces_published": (PUBLISHED, list(_published(summary)) if mixtures else []),
    }


def _told(mixture: Mixture) -> Row:
    return {"share": mixture.share, "temperature": mixture.temperature}


def _read(params: Params, mixtures: Mapping[str, Mixture]) -> list[Row]:
    assert params.recurrent is not None, "it has the runs"
    path = evaluation_folder(params.name, "tables") / RECURRENT / "subspaces.csv"
    mend = f"run `dvc repro tables_{RECURRENT}`"
    rows = read_numbers(path, SUBSPACES, {"seed": int, "value": float}, mend=mend)
    expected = {
        (run, seed, metric)
        for run, mixture in mixtures.items()
        for seed in params.recurrent.seeds
        for metric in (RESIDUAL, *(MEANS if mixture.temperature else MEANS[:3]))
    }
    strays = {(row["run"], row["seed"], row["metric"]) for row in rows} ^ expected
    if strays:
        run, seed, metric = one = min(strays)
        raise DataError(
            path,
            found=f"{'no' if one in expected else 'a'} row of {metric} of {run}, seed {seed}",
            expected="the runs and seeds of params.yaml",
            mend=mend,
        )
    return [{key: row[key] for key in RESIDUALS if key in row} for row in rows]


Held = Mapping[tuple[str, str], Mapping[int, float]]


def _summary(params: Params, mixtures: Mapping[str, Mixture], held: Held) -> Iterator[Row]:
    for run, mixture in mixtures.items():
        assert params.recurrent is not None, "it has the runs"
        found = mean_interval(list(held[run, RESIDUAL].values()))
        means = {x: list(held[run, x].values()) for x in MEANS if (run, x) in held}
        yield {
            "run": run, **_told(mixture), "units": params.recurrent.body_of(run).width,
            "seeds": found.n, "mean": found.mean, "low": found.low, "high": found.high,
            **{x: mean_interval(means[x]).mean if x in means else None for x in MEANS},
        }  # fmt: skip


def curve(mixtures: Mapping[str, Mixture], temperature: float) -> list[str]:
    """The runs of a temperature by share, from the one without the augmented loss on."""
    on = (run for run, x in mixtures.items() if x.temperature in (None, temperature))
    return sorted(on, key=lambda run: mixtures[run].share)


def temperatures(mixtures: Mapping[str, Mixture]) -> list[float]:
    """Those of the runs, falling."""
    return sorted({x.temperature for x in mixtures.values() if x.temperature}, reverse=True)


def _trends(mixtures: Mapping[str, Mixture], held: Held) -> Iterator[Row]:
    from scipy.stats import spearmanr

    for temperature in temperatures(mixtures):
        runs = curve(mixtures, temperature)
        shares = [mixtures[run].share for run in runs]
        values = {run: held[run, RESIDUAL] for run in runs}
        seeds = list(values[runs[0]])
        first, last = ([values[run][seed] for seed in seeds] for run in (runs[0], runs[-1]))
        found = paired_difference(last, first)
        ranks = [spearmanr(shares, [values[x][seed] for x in runs]).statistic for seed in seeds]
        yield {
            "temperature": temperature, "runs": len(runs), "seeds": found.n,
            "from_share": shares[0], "to_share": shares[-1], "difference": found.mean,
            "low": found.low, "high": found.high, "p": found.p,
            "spearman": float(sum(ranks) / len(ranks)),
        }  # fmt: skip


def _published(summary: list[Row]) -> Iterator[Row]:
    data = read_data(PUBLISHED_SUBSPACES)
    for row in data["rows"]:
        at = [x for x in summary if x["share"] == row["share"]
              and x["temperature"] in (None, row["temperature"])]  # fmt: skip
        ours = at[0] if at else None
        yield {
            "source": data["source"], "place": data["place"], "temperature": row["temperature"],
            "share": row["share"], "published": row["residual"],
            "run": ours and ours["run"], "ours": ours and ours["mean"], "low": ours and ours["low"],
            "high": ours and ours["high"], "seeds": ours and ours["seeds"],
            "units": ours and ours["units"],
            "reason": "" if ours else "no run of this share and temperature",
        }  # fmt: skip
