"""Whether runs with a lower pretraining loss do better elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from tiebench.reporting.estimates import alone, count_of_seeds
from tiebench.reporting.naming import capital, direction, task
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.plotting import all_styles, legend, new_figure
from tiebench.reporting.results import Results, Row, layers

FEWEST = 4
"""Runs below which no rank correlation is given."""

Values = Mapping[str, Mapping[str, float]]
"""By run and seed."""


def section(results: Results, family: str, title: str) -> Section:
    """Each metric against the loss, and rank correlations over runs."""
    shown = list(measures(results, family))
    hollow = "; hollow: matched runs" if results.matched(family) else ""
    note = f"Trained runs, a point per seed{hollow}."
    return Section(
        f"{family}-against-loss",
        f"Does a lower loss help?{title}",
        findings(results, family),
        [
            Figure(
                f"{family}_against_loss_{name}",
                f"{capital(words)} against validation loss. {note}",
                partial(scatter, results, family, words, values),
            )
            for name, words, values in shown
        ],
        [means(results, family)],
    )


def means(results: Results, family: str) -> Table:
    """What is correlated: the mean over seeds of each run."""
    shown, loss = list(measures(results, family)), losses(results, family)
    rows = [
        [
            results.called(family, run),
            f"{_mean(by_seed):.3f}",
            *(f"{100 * _mean(x[run]):.1f}" if run in x else "" for _, _, x in shown),
        ]
        for run, by_seed in loss.items()
    ]
    header = ["run", "validation loss (nats)", *(f"{words} (%)" for _, words, _ in shown)]
    seeds = count_of_seeds(results, family, matched=True)
    caption = f"Means over {seeds} of the trained runs; their intervals are in the sections above."
    if alone(results, family):
        caption = "The trained runs at one seed."
    return Table(f"{family}_against_loss", caption, header, rows)


def measures(results: Results, family: str) -> Iterator[tuple[str, str, Values]]:
    """What is set against the loss: name, words, and values of every trained run with any."""
    name, source, target = results.pairs[0] if results.pairs else ("", "", "")
    rows = list(
        results.where("retrieval_by_layer", family=family, set=name, source=source, target=target)
    )
    ends = {run: layers(r["layer"] for r in rows if r["run"] == run)[-1:]
            for run in {r["run"] for r in rows}}  # fmt: skip
    last = [row for row in rows if [row["layer"]] == ends[row["run"]]]
    groups: list[tuple[str, str, list[Row]]] = [
        ("retrieval", f"translation {direction(source, target)}, last layer", last)
    ]
    probes = list(results.where("probing", family=family, probe="mix", metric="accuracy"))
    groups += (
        (f"probing_{x}", f"probing, {task(x)}", [row for row in probes if row["task"] == x])
        for x in dict.fromkeys(row["task"] for row in probes)
    )
    moved = results.where(
        "transfer", family=family, language="others", subset="all", metric="accuracy"
    )
    groups.append(("transfer", "transfer, mean of the other languages", list(moved)))
    for key, words, held in groups:
        values = _by_run(results, family, held)
        if values:
            yield key, words, values


def _by_run(results: Results, family: str, rows: list[Row]) -> dict[str, dict[str, float]]:
    runs = [row["run"] for row in results.all_runs(family) if row["trained"] == "true"]
    found = {
        run: {row["seed"]: float(row["value"]) for row in rows if row["run"] == run} for run in runs
    }
    return {run: by_seed for run, by_seed in found.items() if by_seed}


def losses(results: Results, family: str) -> dict[str, dict[str, float]]:
    """Validation loss of the trained runs."""
    rows = results.where(
        "language_modeling", family=family, language="all", bin="all", metric="loss"
    )
    return _by_run(results, family, list(rows))


def findings(results: Results, family: str) -> list[str]:
    """Rank correlations over the means of the runs, and how little they are."""
    loss, said, counts = losses(results, family), [], set()
    for _, words, values in measures(results, family):
        runs = [run for run in values if run in loss]
        if len(runs) >= FEWEST:
            means = ([_mean(held[run]) for run in runs] for held in (loss, values))
            found = spearman(*means)
            if found is not None:
                said.append(f"{words} {found:+.2f}")
                counts.add(len(runs))
    if not said:
        return [
            f"Fewer than {FEWEST} trained runs: no correlation is given; the figures show each "
            "run and seed."
        ]
    low, high = min(counts), max(counts)
    return [
        "Rank correlation (Spearman) between a run's mean validation loss and its mean accuracy, "
        f"where −1 is “the lower the loss, the higher the accuracy”: {'; '.join(said)}.",
        f"This is over {low if low == high else f'{low} to {high}'} runs, matched ones included: "
        "so few points describe these runs and are no test. The runs differ in coupling as well "
        "as in loss, so that a correlation does not say that the loss is the cause.",
    ]


def spearman(first: list[float], second: list[float]) -> float | None:
    """Spearman's rank correlation (1904); None when either does not vary."""
    from scipy import stats

    if len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return float(stats.spearmanr(first, second).statistic)


def _mean(by_seed: Mapping[str, float]) -> float:
    return sum(by_seed.values()) / len(by_seed)


def scatter(results: Results, family: str, words: str, values: Values) -> Any:
    """Accuracy against validation loss, a point per run and seed."""
    loss = losses(results, family)
    figure, axes = new_figure()
    for run, style in all_styles(results, family).items():
        seeds = [seed for seed in values.get(run, {}) if seed in loss.get(run, {})]
        if seeds:
            axes.plot(
                [loss[run][seed] for seed in seeds],
                [100 * values[run][seed] for seed in seeds],
                label=results.short(family, run),
                **style | {"linestyle": "", "markersize": 5.5},
            )
    axes.set_xlabel("validation loss (nats per predicted token)")
    axes.set_ylabel("accuracy (%)")
    axes.set_title(capital(words))
    legend(figure, axes)
    return figure
