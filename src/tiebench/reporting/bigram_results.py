"""The tables of the 2-gram laboratory with the look-ups that its figures and findings share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tiebench.analysis.statistics import LEVEL
from tiebench.reporting.naming import plain
from tiebench.reporting.results import Results, Row

NEXT, WINDOW = "next", "window"
SYMMETRIC = 1e-4
"""A form is called symmetric when its asymmetry is below this in every seed: rounding."""
INDEFINITE = 0.01
"""A form can be negative when this share of its eigenvalues, by size, is."""
ALIKE, DIFFERENT, UNDECIDED = "alike", "different", "undecided"


@dataclass(frozen=True)
class Laboratory:
    """One objective of the laboratory."""

    results: Results
    objective: str = NEXT

    @cached_property
    def rows(self) -> dict[str, Row]:
        """What each run is, in the order of the settings."""
        return {x["run"]: x for x in self.results.where("bigram_runs", objective=self.objective)}

    @cached_property
    def _summary(self) -> dict[tuple[str, str], Row]:
        rows = self.results.where("bigram_summary", objective=self.objective)
        return {(row["run"], row["metric"]): row for row in rows}

    @cached_property
    def _pairs(self) -> dict[tuple[str, str, str], Row]:
        rows = self.results.where("bigram_pairs", objective=self.objective)
        return {(row["metric"], row["first"], row["second"]): row for row in rows}

    @cached_property
    def reference(self) -> dict[str, float]:
        """What the pairs are and what losses are held against, by metric."""
        rows = self.results.where("bigram_objectives", objective=self.objective)
        return {row["metric"]: float(row["value"]) for row in rows}

    def role(self, role: str) -> str:
        """The run that is `tied`, `untied` or `slowest`."""
        return next(row["run"] for row in self.results.where("bigram_runs", role=role))

    def group(self, *groups: str) -> list[str]:
        """The runs of some groups."""
        return [run for run, row in self.rows.items() if row["group"] in groups]

    @property
    def remedies(self) -> list[str]:
        """The countermeasures, two tables first."""
        return [self.role("untied"), *self.group("remedy")]

    def summary(self, run: str, metric: str) -> Row | None:
        """Mean and interval over seeds; None where the metric has no value."""
        return self._summary.get((run, metric))

    def mean(self, run: str, metric: str) -> float:
        """The mean over seeds of a metric that every run has."""
        return float(self._summary[run, metric]["mean"])

    @property
    def seeds(self) -> int:
        """Seeds of every run."""
        return int(self._summary[self.role("tied"), "loss"]["seeds"])

    def highest(self, run: str, metric: str) -> float:
        """The largest value over seeds."""
        rows = self.results.where("bigram", objective=self.objective, run=run, metric=metric)
        return max(float(row["value"]) for row in rows)

    def pair(self, metric: str, first: str, second: str) -> tuple[float, str, str]:
        """The mean difference first - second, its standing, and why that is undecided.

        Alike: the corrected test of equivalence within the margin, also where the difference is
        shown not to be zero.
        """
        row, sign = self._pairs.get((metric, first, second)), 1
        if row is None:
            row, sign = self._pairs[metric, second, first], -1
        within = row["p_equivalence_adjusted"]
        if row["verdict"] == UNDECIDED:
            standing = UNDECIDED
        elif within and float(within) < 1 - LEVEL:
            standing = ALIKE
        else:
            standing = DIFFERENT
        return sign * float(row["difference"]), standing, row["reason"]

    @property
    def margin(self) -> float:
        """The margin of equivalence in nats."""
        return float(next(iter(self._pairs.values()))["margin"])

    @property
    def gap(self) -> float:
        """How much lower the final training loss is with two tables than with one."""
        return self.mean(self.role("tied"), "loss") - self.mean(self.role("untied"), "loss")

    def recovered(self, run: str) -> float:
        """The share of `gap` by which a run is below the tied one."""
        return (self.mean(self.role("tied"), "loss") - self.mean(run, "loss")) / self.gap

    def parameters(self, run: str) -> float:
        """Parameters of a run beyond the tied one, as a share of what the untied one has."""
        tied, untied, own = (
            float(self.rows[x]["parameters"]) for x in (self.role("tied"), self.role("untied"), run)
        )
        return (own - tied) / (untied - tied)

    @property
    def symmetric(self) -> list[str]:
        """Runs whose logits are a symmetric form but for a factor per row."""
        return [x for x in self.rows if self.highest(x, "form_asymmetry") < SYMMETRIC]

    @property
    def dial(self) -> list[tuple[float, str]]:
        """(tie penalty, run), by penalty."""
        held = ((float(self.rows[x]["tie_penalty"]), x) for x in self.group("dial"))
        return sorted((penalty, run) for penalty, run in held if penalty)

    def curve(self, run: str, metric: str) -> Iterator[tuple[int, Row]]:
        """(update, mean and interval) along a run's training."""
        for row in self.results.where(
            "bigram_curves", objective=self.objective, run=run, metric=metric
        ):
            yield int(row["update"]), row

    def called(self, run: str) -> str:
        """A run in words; those of the dial by what is turned."""
        row = self.rows.get(run)
        if row and float(row["tie_penalty"]):
            return f"tie penalty {float(row['tie_penalty']):g}"
        return plain(run)

    def names(self, runs: Sequence[str]) -> list[str]:
        """Several runs in words."""
        return [self.called(run) for run in runs]


def laboratories(results: Results) -> list[Laboratory]:
    """One for each objective, that of the next token first."""
    found = dict.fromkeys(row["objective"] for row in results["bigram_runs"])
    return [Laboratory(results, objective) for objective in found]
