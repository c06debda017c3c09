"""The retrieval tables of a report, from the outcomes of the cells that params.yaml names."""

from __future__ import annotations

import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tiebench.analysis.resampling import Outcomes, Sampled, bootstrap_interval
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell, evaluated
from tiebench.evaluation.retrieval_settings import RetrievalSettings
from tiebench.evaluation.scoring import codes, finite, interval, outcomes_of
from tiebench.progress import progress
from tiebench.settings import Params

Row = dict[str, Any]

PUBLISHED = ("l2", "scored_pairs")
"""Distance and offset of RemBERT's appendix A.9."""
RETRIEVAL_SETS = ("family", "run", "seed", "set", "metric", "value")
RETRIEVAL_KEYS = ("set", "source", "target", "layer", "distance", "offset", "subset")
RETRIEVAL = ("family", "run", "seed", *RETRIEVAL_KEYS, "metric", "value", "n")
BY_LAYER = ("family", "run", "seed", *RETRIEVAL_KEYS[:-1], "value")
SENTENCES = ("family", "run", *RETRIEVAL_KEYS, "metric", "n", "mean", "low", "high", "varies")


def published_protocol(settings: RetrievalSettings) -> tuple[str, str]:
    """The headline's distance and offset: the published ones, or the first ones set."""
    distance, offset = PUBLISHED
    return (
        distance if distance in settings.distances else settings.distances[0],
        offset if offset in settings.offsets else settings.offsets[0],
    )


def published_pair(params: Params) -> str | None:
    """Start of the name of the retrieval metrics that stand for RemBERT's figure 2.

    That is English to German of the first set, with the published distance and offset; None when
    any of these was not run.
    """
    name = params.retrieval.sets[0]
    pivot, *others = params.corpora[name].languages
    searched = {pair for other in others for pair in ((pivot, other), (other, pivot))}
    if ("en", "de") not in searched or published_protocol(params.retrieval) != PUBLISHED:
        return None
    return f"retrieval_{name}_en_de"


def retrieval_rows(params: Params, cells: Iterable[Cell]) -> tuple[list[Row], list[Row], Sampled]:
    """Accuracy and mean reciprocal rank of every cell, and intervals over sentences of every run.

    Returns:
        Rows with RETRIEVAL: by set, languages, layer, distance, offset and subset; a subset
        without any sentence has none. Rows with SENTENCES: accuracy with the headline's distance
        and offset, where a sentence counts with its mean credit over the seeds; these credits at
        the last layer, by the name of the headline.
    """
    # `evaluate` reads this once, when it is imported
    os.environ["HF_EVALUATE_OFFLINE"] = "1"
    from tiebench.evaluation.metrics.retrieval_accuracy import RetrievalAccuracy

    rows: list[Row] = []
    credits: dict[tuple[str, ...], list[np.ndarray]] = defaultdict(list)
    protocol = published_protocol(params.retrieval)
    with tempfile.TemporaryDirectory() as cache:
        metric = RetrievalAccuracy(cache_dir=cache)
        for cell in progress(
            evaluated(params, cells, "retrieval"), desc="score retrieval", unit="cell"
        ):
            for name in params.retrieval.sets:
                table, _ = outcomes_of(params, cell, "retrieval", name)
                rows += finite(_retrieval_of(cell, name, table, metric), cell, "retrieval", name)
                for key, values in _credits(table, *protocol):
                    credits[cell.family, cell.run, *key].append(values)
    return rows, list(_sentence_rows(credits, protocol)), _sampled(credits)


def _retrieval_of(cell: Cell, name: str, table: Any, metric: Any) -> Iterator[Row]:
    levels, places = zip(*(codes(table[column]) for column in RETRIEVAL_KEYS[:-1]), strict=True)
    if levels[0] != [name]:
        raise DataError(
            cell.outcomes("retrieval", name),
            found=f"set {', '.join(levels[0])}",
            expected=name,
            mend=f"run `{cell.again('retrieval', name)}`",
        )
    shape = tuple(map(len, levels))
    scored = metric.compute(
        credits=table["credit"].to_numpy(),
        ranks=table["rank"].to_numpy(),
        groups=np.ravel_multi_index(places, shape),
        group_count=math.prod(shape),
        subsets=_subsets(table["shares_token"].to_numpy(), table["seen_in_training"].to_numpy()),
    )
    for subset, values in scored.items():
        for group in np.flatnonzero(values["n"]):
            at = [level[i] for level, i in zip(levels, np.unravel_index(group, shape), strict=True)]
            for measure in ("accuracy", "reciprocal_rank"):
                yield {
                    "family": cell.family, "run": cell.run, "seed": cell.seed,
                    **dict(zip(RETRIEVAL_KEYS, (*at, subset), strict=True)),
                    "metric": measure,
                    "value": float(values[measure][group]),
                    "n": int(values["n"][group]),
                }  # fmt: skip


def _subsets(shares: np.ndarray, seen: np.ndarray) -> dict[str, np.ndarray]:
    subsets = {"all": np.ones_like(shares), "no_shared_token": ~shares}
    return subsets | ({"not_in_training": ~seen} if seen.any() else {})


def _credits(
    table: Any, distance: str, offset: str
) -> Iterator[tuple[tuple[str, ...], np.ndarray]]:
    """(set, source, target, layer, subset) and the credit of each of its sentences, by index."""
    import pyarrow.compute as compute

    chosen = compute.and_(
        compute.equal(table["distance"].cast("string"), distance),
        compute.equal(table["offset"].cast("string"), offset),
    )
    frame = table.filter(chosen).to_pandas().sort_values("index", kind="stable")
    subsets = _subsets(frame["shares_token"].to_numpy(), frame["seen_in_training"].to_numpy())
    for subset, mask in subsets.items():
        groups = frame[mask].groupby(list(RETRIEVAL_KEYS[:4]), sort=False, observed=True)
        for key, group in groups:
            yield (*key, subset), group["credit"].to_numpy(np.float64)


def _sentence_rows(
    credits: dict[tuple[str, ...], list[np.ndarray]], protocol: tuple[str, str]
) -> Iterator[Row]:
    for (*group, subset), by_seed in credits.items():
        estimate = bootstrap_interval(np.mean(by_seed, axis=0))
        key = (*group, *protocol, subset)
        yield {
            **dict(zip(("family", "run", *RETRIEVAL_KEYS), key, strict=True)),
            "metric": "accuracy",
            **interval(estimate),
        }


def _sampled(credits: dict[tuple[str, ...], list[np.ndarray]]) -> Sampled:
    """Credits at each run's last layer, averaged over its seeds; every sentence stands alone."""
    last: dict[tuple[str, ...], int] = defaultdict(int)
    for *pair, layer, _ in credits:
        if layer != "tokens":
            last[tuple(pair)] = max(last[tuple(pair)], int(layer))
    sampled: dict[tuple[str, str, str], Outcomes] = {}
    for (family, run, *pair), final in last.items():
        values = np.mean(credits[family, run, *pair, str(final), "all"], axis=0)
        name = "_".join(("retrieval", *pair, "last"))
        sampled[family, run, name] = Outcomes(values, np.arange(len(values)))
    return sampled


def set_rows(params: Params, cells: Iterable[Cell]) -> Iterator[Row]:
    """Per cell and set: pool, sentences equal to another, zero vectors, texts trained on (where
    these are known)."""
    for cell in evaluated(params, cells, "retrieval"):
        for name in params.retrieval.sets:
            for metric, value in cell.summary("retrieval", name).items():
                if metric not in ("key", "outcomes"):
                    yield {
                        "family": cell.family, "run": cell.run, "seed": cell.seed,
                        "set": name, "metric": metric, "value": value,
                    }  # fmt: skip


def by_layer(params: Params, retrieval: Iterable[Row]) -> list[Row]:
    """Accuracy of every cell by layer, with the headline's distance and offset."""
    wanted = (*published_protocol(params.retrieval), "all", "accuracy")
    keys = ("distance", "offset", "subset", "metric")
    return [
        {column: row[column] for column in BY_LAYER}
        for row in retrieval
        if tuple(row[key] for key in keys) == wanted and row["layer"] != "tokens"
    ]


def headline_rows(by_layer: Iterable[Row]) -> Iterator[Row]:
    """The few numbers per cell and direction that a run is judged by.

    `last`, the run's last layer; `best`, the layer that is best for the run in the mean over its
    seeds (chosen on the pairs it is scored on); `drop`, best minus last (RemBERT, figure 2).
    """
    layers: dict[tuple[str, ...], dict[str, dict[int, float]]] = defaultdict(dict)
    for row in by_layer:
        group = (row["family"], row["run"], row["set"], row["source"], row["target"])
        layers[group].setdefault(row["layer"], {})[row["seed"]] = row["value"]
    for (family, run, name, source, target), found in layers.items():
        last = found[max(found, key=int)]
        best = max(found.values(), key=lambda by_seed: sum(by_seed.values()))
        drop = {seed: best[seed] - last[seed] for seed in last}
        for measure, by_seed in (("last", last), ("best", best), ("drop", drop)):
            for seed, value in by_seed.items():
                yield {
                    "family": family, "run": run, "seed": seed,
                    "metric": f"retrieval_{name}_{source}_{target}_{measure}", "value": value,
                }  # fmt: skip
