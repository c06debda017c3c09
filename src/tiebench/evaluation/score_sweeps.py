"""The tables of the sweeps: what a pilot chooses, stability, regularization, underflow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tiebench.analysis.statistics import mean_interval
from tiebench.analysis.tables import check_seeds, read_numbers
from tiebench.errors import DataError
from tiebench.evaluation.summaries import ESTIMATES, summarize
from tiebench.evaluation.verdicts import Contest, Judgement, judge
from tiebench.experiments.sweep_settings import (
    NEEDS,
    RAW,
    Point,
    SweepSettings,
    Value,
    named,
    trial,
)
from tiebench.paths import evaluation_folder
from tiebench.settings import Params
from tiebench.training.settings import FamilySettings

Row = dict[str, Any]
Values = Mapping[tuple[str, str, str], Mapping[int, float]]
"""(run, point, metric) -> seed -> value."""

SWEEPS = ("sweep", "purpose", "run", "point", "seed", "metric", "value")
POINTS = ("sweep", "point", "axis", "value")
SUMMARY = ("sweep", "run", "point", "metric", *ESTIMATES)
CHOICES = ("sweep", "run", "axis", "chosen", "used", "same", "edge", "loss", "used_loss", "steps")
STABILITY = (
    "sweep", "run", "point", "learning_rate", "others", "seeds", "steps", "broke", "diverged",
    "spikes", "gradient_norm_mean", "gradient_norm_max", "logit_std", "loss", "low", "high",
    "baseline", "difference", "difference_low", "difference_high",
)  # fmt: skip
REGULARIZATION = (
    "sweep", "run", "point", "data_share", "others", "seeds", "steps", "epochs", "train_loss",
    "loss", "gap", "low", "high", "baseline", "difference", "difference_low", "difference_high",
    "detectable", "p_adjusted", "margin", "p_equivalence_adjusted", "verdict", "reason",
)  # fmt: skip
UNDERFLOW = (
    "sweep", "run", "point", "std", "deviation", "others", "format", "limit", "when", "seeds",
    "share", "low", "high",
)  # fmt: skip
FORMATS, LIMITS, MOMENTS = ("float16", "bfloat16"), ("normal", "subnormal"), ("start", "end")


def tables(params: Params) -> dict[str, tuple[Sequence[str], list[Row]]]:
    """Columns and rows of each table, by name; no rows without sweeps of a purpose.

    Raises:
        DataError: a table of a sweep is missing, damaged, of other runs, points or seeds, or holds
            a number that is not finite.
    """
    found: dict[str, tuple[Sequence[str], list[Row]]] = {
        "sweeps": (SWEEPS, []),
        "sweep_points": (POINTS, []),
        "sweeps_summary": (SUMMARY, []),
        "sweep_choices": (CHOICES, []),
        "stability": (STABILITY, []),
        "regularization": (REGULARIZATION, []),
        "underflow": (UNDERFLOW, []),
    }
    for name, sweep in params.sweeps.items():
        scored = Scored(params, name, sweep)
        for table, rows in scored.rows():
            found[table][1].extend(rows)
    return found


class Scored:
    """One sweep, read.

    Args:
        params: all settings.
        name: key of the sweep.
        sweep: its settings.
    """

    def __init__(self, params: Params, name: str, sweep: SweepSettings) -> None:
        assert params.decoders is not None, "checked with the settings"
        self.params, self.name, self.sweep = params, name, sweep
        self.group: FamilySettings = params.decoders
        self.raw = _read(params, name, sweep)
        held: dict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
        for row in self.raw:
            held[row["run"], row["point"], row["metric"]][row["seed"]] = row["value"]
        self.values: Values = held
        summary = summarize(
            ({**row, "family": name} for row in self.raw), ("point",), {name: sweep.runs[0]}
        )
        self.summary = {(row["run"], row["point"], row["metric"]): row for row in summary}

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Rows of each table, by its name."""
        at = {"sweep": self.name, "purpose": self.sweep.purpose}
        yield "sweeps", [{**at, **row} for row in self.raw]
        yield "sweep_points", list(self._points())
        of = {"sweep": self.name}
        kept = [name for name in SUMMARY if name != "sweep"]
        summary = [of | {key: row[key] for key in kept} for row in self.summary.values()]
        yield "sweeps_summary", summary
        made = {
            "pilot": ("sweep_choices", self._choices),
            "stability": ("stability", self._stability),
            "regularization": ("regularization", self._regularization),
            "underflow": ("underflow", self._underflow),
        }
        table, rows = made[self.sweep.purpose]
        yield table, list(rows())

    def _points(self) -> Iterator[Row]:
        for point in self.sweep.points():
            for axis, value in point.items():
                yield {"sweep": self.name, "point": named(point), "axis": axis,
                       "value": _plain(value)}  # fmt: skip

    def _mean(self, run: str, point: Point, metric: str) -> float | None:
        row = self.summary.get((run, named(point), metric))
        return None if row is None else row["mean"]

    def _choices(self) -> Iterator[Row]:
        """By run and axis, the value at the point of the lowest validation loss, and the one in
        use; `edge`, where it is at an end of several values; `used_loss`, where that was tried."""
        points, axes = self.sweep.points(), self.sweep.axes.by_name()
        for run in self.sweep.runs:
            losses = [self._loss(run, point) for point in points]
            tried = [(loss, index) for index, loss in enumerate(losses) if loss is not None]
            best = points[min(tried)[1]] if tried else None
            training = self.group.training_of(run)
            used = {axis: getattr(training, axis.partition(".")[2]) for axis in axes}
            now = [loss for point, loss in zip(points, losses, strict=True) if point == used]
            for axis, values in axes.items():
                chosen = None if best is None else best[axis]
                numbers = [x for x in values if isinstance(x, int | float)]
                edges = {min(numbers): "lowest", max(numbers): "highest"} if numbers[1:] else {}
                yield {
                    "sweep": self.name,
                    "run": run,
                    "axis": axis,
                    "chosen": _plain(chosen) if best else None,
                    "used": _plain(used[axis]),
                    "same": chosen == used[axis] if best else None,
                    "edge": edges.get(chosen) if isinstance(chosen, int | float) else None,
                    "loss": min(tried)[0] if tried else None,
                    "used_loss": now[0] if now else None,
                    "steps": self._steps(run, points[0]),
                }

    def _loss(self, run: str, point: Point) -> float | None:
        """The mean validation loss; None where a training broke."""
        held = self.values.get((run, named(point), "loss"), {})
        return self._mean(run, point, "loss") if len(held) == len(self.sweep.seeds) else None

    def _steps(self, run: str, point: Point) -> int:
        return trial(self.group, self.sweep, run, point).training.steps

    def _each(self) -> Iterator[tuple[str, Point, Row]]:
        """Run, point, what all tables say of them; `others`: the other axes of several values."""
        axis, axes = NEEDS[self.sweep.purpose], self.sweep.axes.by_name()
        for point in self.sweep.points():
            others = named({x: v for x, v in point.items() if x != axis and len(axes[x]) > 1})
            for run in self.sweep.runs:
                yield run, point, {
                    "sweep": self.name,
                    "run": run,
                    "point": named(point),
                    axis.partition(".")[2]: _plain(point[axis]),
                    "others": others,
                    "seeds": len(self.sweep.seeds),
                }  # fmt: skip

    def _estimate(self, run: str, point: Point, metric: str) -> Row:
        keys = ("low", "high", "baseline", "difference", "difference_low", "difference_high")
        found = self.summary.get((run, named(point), metric), {})
        return {metric: found.get("mean"), **{key: found.get(key) for key in keys}}

    def _stability(self) -> Iterator[Row]:
        """`broke` and `diverged` are shares of the seeds; the rest are means over those seeds that
        have them. Losses and logits are of the trainings that went to their end."""
        means = ("broke", "diverged", "spikes", "gradient_norm_mean", "gradient_norm_max")
        for run, point, row in self._each():
            yield {
                **row,
                "steps": self._steps(run, point),
                **{metric: self._mean(run, point, metric) for metric in means},
                "logit_std": self._mean(run, point, "logit_std_end"),
                **self._estimate(run, point, "loss"),
            }

    def _regularization(self) -> Iterator[Row]:
        """Gaps by run and point, with a verdict against the first run at the same point."""
        first = self.sweep.runs[0]
        verdicts = self._verdicts()
        for run, point, row in self._each():
            judgement = verdicts.get((run, named(point)))
            yield {
                **row,
                "steps": self._steps(run, point),
                **{x: self._mean(run, point, x) for x in ("epochs", "train_loss", "loss")},
                **self._estimate(run, point, "gap"),
                **_judged(judgement if run != first else None),
            }

    def _underflow(self) -> Iterator[Row]:
        for run, point, row in self._each():
            held = trial(self.group, self.sweep, run, point)
            corpus = self.params.corpora[self.group.corpus].tokenizer
            assert corpus is not None, "checked with the settings"
            width = held.coupling.widths(held.body.width)[0]
            row["deviation"] = held.coupling.table_std(corpus.vocabulary, width)
            for format_ in FORMATS:
                for limit in LIMITS:
                    for when in MOMENTS:
                        metric = f"{format_}_below_{limit}_{when}"
                        values = self.values.get((run, named(point), metric))
                        if values:
                            found = mean_interval(list(values.values()))
                            yield {
                                **row, "format": format_, "limit": limit, "when": when,
                                "seeds": found.n, "share": found.mean, "low": found.low,
                                "high": found.high,
                            }  # fmt: skip

    def _verdicts(self) -> dict[tuple[str, str], Judgement]:
        """On the gap of each run minus that of the first, by run and point; p values are corrected
        over the sweep."""
        first, contests, places = self.sweep.runs[0], [], []
        for point in map(named, self.sweep.points()):
            for run in self.sweep.runs[1:]:
                pair = tuple(self.values.get((x, point, "gap"), {}) for x in (run, first))
                if pair[0].keys() & pair[1].keys():
                    contests.append(Contest(self.name, "loss", run, first, (pair[0], pair[1])))
                    places.append((run, point))
        return dict(zip(places, judge(contests, self.params.statistics, {}), strict=True))


def _judged(judgement: Judgement | None) -> Row:
    keys = ("detectable", "p_adjusted", "margin", "p_equivalence_adjusted", "verdict", "reason")
    return {key: None if judgement is None else getattr(judgement, key) for key in keys}


def _plain(value: Value) -> Any:
    return "null" if value is None else value


def _read(params: Params, name: str, sweep: SweepSettings) -> list[Row]:
    """The results of a sweep, after a check that they are of its runs, points and seeds."""
    mend = f"run `dvc repro sweeps@{name}`"
    path = evaluation_folder(params.name, "sweeps") / name / "results.csv"
    held = read_numbers(path, RAW, {"seed": int, "value": float}, mend=mend)
    present = {(row["run"], row["point"], row["seed"]) for row in held}
    expected = {
        (run, named(point), seed)
        for run in sweep.runs for point in sweep.points() for seed in sweep.seeds
    }  # fmt: skip
    if present != expected:
        run, point, seed = one = min(present ^ expected)
        raise DataError(
            path,
            found=f"{'a' if one in present else 'no'} row of {run} at {point}, seed {seed}",
            expected="the runs, points and seeds of params.yaml",
            mend=mend,
        )
    broke = {
        (row["run"], row["point"], row["seed"])
        for row in held if row["metric"] == "broke" and row["value"]
    }  # fmt: skip
    whole = (row for row in held if (row["run"], row["point"], row["seed"]) not in broke)
    check_seeds(path, whole, ("run", "point"), ("metric",), mend=mend)
    return held
