"""The tables of the experiment `domains`: losses along the way, summaries, and verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.analysis.tables import check_seeds, read_numbers, shown
from tiebench.errors import DataError
from tiebench.evaluation.summaries import ESTIMATES, summarize
from tiebench.evaluation.verdicts import Contest, Judgement, judge
from tiebench.experiments.domains_settings import ARMS, FAMILY, PARTS, RAW, TEXTS, TIED, UNTIED
from tiebench.paths import evaluation_folder
from tiebench.settings import Params, families

Row = dict[str, Any]
MEND = "run `dvc repro domains`"
NUMBERS = {"seed": int, "step": int, "epochs": float, "loss": float, "value": float}
CURVES = ("arm", "share", "step", "epochs", "part", "seeds", "mean", "low", "high")
SUMMARY = ("share", "arm", "metric", *ESTIMATES)
PAIRS = (
    "metric", "share", "seeds", "difference", "low", "high", "p_adjusted", "detectable", "margin",
    "p_equivalence_adjusted", "verdict", "reason",
)  # fmt: skip
"""Untied minus tied."""
JUDGED = ("new", "lowest_new", "gap", "forgotten")


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows where the settings lack the stage.

    Raises:
        DataError: a table of the stage is missing, damaged, of other shares or seeds, or holds a
            number that is not finite.
    """
    raw = _read(params) if params.domains else {name: [] for name in RAW}
    values = list(_metrics(raw["losses"]))
    shares = dict.fromkeys(row["family"] for row in values)
    summary = summarize(values, (), dict.fromkeys(shares, TIED))
    return {
        "domains": (RAW["losses"], raw["losses"]),
        "domains_texts": (RAW["texts"], raw["texts"]),
        "domains_curves": (CURVES, list(_curves(raw["losses"]))),
        "domains_summary": (SUMMARY, [_shared(row) for row in summary]),
        "domains_pairs": (PAIRS, list(_pairs(params, values))),
    }


def _shared(row: Row) -> Row:
    kept = {key: row[key] for key in ("metric", *ESTIMATES)}
    return {"share": row["family"], "arm": row["run"], **kept}


def _read(params: Params) -> dict[str, list[Row]]:
    """The raw tables with numbers, after a check that they are of these shares and seeds."""
    folder, settings = evaluation_folder(params.name, "domains"), params.domains
    assert settings is not None, "asked before"
    held = {
        name: read_numbers(folder / f"{name}.csv", columns, NUMBERS, mend=MEND)
        for name, columns in RAW.items()
    }
    expected = {
        (arm, shown(share), seed, step, part)
        for arm in ARMS for share in settings.shares for seed in families(params)[FAMILY].seeds
        for step in (0, settings.steps) for part in PARTS
    }  # fmt: skip
    keys = ("arm", "share", "seed", "step", "part")
    present = {tuple(row[key] for key in keys) for row in held["losses"]}
    lacking = expected - present or {
        x for x in present if (*x[:3], 0, x[4]) not in expected or x[3] > settings.steps
    }
    if lacking:
        one = min(lacking)
        raise DataError(
            folder / "losses.csv",
            found=f"{'a' if one in present else 'no'} row of {one[0]}, share {one[1]}, seed "
            f"{one[2]}, step {one[3]}",
            expected="the shares, seeds and steps of params.yaml",
            mend=MEND,
        )
    path = folder / "losses.csv"
    check_seeds(path, held["losses"], ("arm", "share"), ("step", "part"), mend=MEND)
    languages = params.corpora[families(params)[FAMILY].corpus].languages
    texts = {(row["part"], row["language"], row["metric"]) for row in held["texts"]}
    whole = {(part, language, metric) for part, metric in TEXTS for language in languages}
    if texts != whole:
        size = min(texts ^ whole)
        raise DataError(
            folder / "texts.csv",
            found=f"{'a' if size in texts else 'no'} row {', '.join(size)}",
            expected="the sizes of every part in every language",
            mend=MEND,
        )
    return held


def _metrics(rows: Sequence[Row]) -> Iterator[Row]:
    """Of each training, nats; `family` is the share, so that `summarize` takes shares apart.

    `start`, `new`: loss on the new domain before and after. `lowest_new`: the lowest one on the
    way. `train`: on the text that is trained on, after. `gap`: `new` minus `train`. `old`: on the
    model's own validation text, after; `forgotten`: its rise.
    """
    held: dict[tuple[str, str, int], dict[str, dict[int, float]]] = defaultdict(dict)
    for row in rows:
        at = held[row["share"], row["arm"], row["seed"]].setdefault(row["part"], {})
        at[row["step"]] = row["loss"]
    for (share, arm, seed), parts in held.items():
        train, new, old = (parts[part] for part in PARTS)
        last = max(new)
        values = {
            "start": new[0],
            "new": new[last],
            "lowest_new": min(new.values()),
            "train": train[last],
            "gap": new[last] - train[last],
            "old": old[last],
            "forgotten": old[last] - old[0],
        }
        for metric, value in values.items():
            yield {"family": share, "run": arm, "seed": seed, "metric": metric, "value": value}


def _curves(rows: Sequence[Row]) -> Iterator[Row]:
    """Mean and t interval of each measurement."""
    held: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for row in rows:
        held[tuple(row[key] for key in CURVES[:5])].append(row["loss"])
    for key, values in held.items():
        found = mean_interval(values)
        ends = {"seeds": found.n, "mean": found.mean, "low": found.low, "high": found.high}
        yield {**dict(zip(CURVES[:5], key, strict=True)), **ends}


def _pairs(params: Params, values: Sequence[Row]) -> Iterator[Row]:
    """Verdicts; p values are corrected over the shares of a metric."""
    held: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for row in values:
        held[row["metric"], row["family"], row["run"]][row["seed"]] = row["value"]
    shares = dict.fromkeys(row["family"] for row in values)
    for metric in JUDGED:
        contests = [
            Contest(
                share, "loss", UNTIED, TIED,
                (held[metric, share, UNTIED], held[metric, share, TIED]),
            )
            for share in shares
        ]  # fmt: skip
        for judgement in judge(contests, params.statistics, {}):
            yield {"metric": metric, **_pair(judgement)}


def _pair(judgement: Judgement) -> Row:
    found = judgement.difference
    return {
        "share": judgement.contest.family,
        "seeds": found.n,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "p_adjusted": judgement.p_adjusted,
        "detectable": judgement.detectable,
        "margin": judgement.margin,
        "p_equivalence_adjusted": judgement.p_equivalence_adjusted,
        "verdict": judgement.verdict,
        "reason": judgement.reason,
    }
