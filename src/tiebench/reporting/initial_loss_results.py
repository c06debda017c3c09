"""Look-ups in the tables of the initial loss."""

from __future__ import annotations

from tiebench.reporting.naming import plain, whole
from tiebench.reporting.results import Results, Row

SU = "Su 2023"
NEGLIGIBLE = 0.1
"""Nats above ln n that are called negligible."""


def identity(results: Results) -> list[Row]:
    """The models without a body."""
    return [row for row in results["initial_loss"] if not row["branch"]]


def deep(results: Results) -> list[Row]:
    """The models with a Transformer body."""
    return [row for row in results["initial_loss"] if row["branch"]]


def one_table(results: Results) -> list[Row]:
    """The models with a Transformer body, one table and std 0.02."""
    return [row for row in deep(results) if row["run"] == "fixed_std"]


def of_run(results: Results, run: str) -> list[Row]:
    """The models of a run without a body; none where it is not among the runs."""
    return [row for row in identity(results) if row["run"] == run]


def sizes(results: Results) -> list[str]:
    """The vocabularies of the models without a body."""
    return list(dict.fromkeys(row["vocabulary"] for row in identity(results)))


def excess(row: Row, column: str = "mean") -> float:
    """Nats above ln n."""
    return float(row[column]) - float(row["log_vocabulary"])


def width_of(row: Row) -> int:
    """Width of the tables."""
    return int(row["width"])


def own_share(row: Row) -> float | None:
    """Share of the input's own logit that is there with a body; None where theory has no logit."""
    by_theory = float(row["own_logit_theory"] or 0)
    return float(row["own_logit"]) / by_theory if by_theory else None


def called(run: str) -> str:
    """A run in words."""
    return plain(run).replace("bert", "BERT")


def branches(branch: str) -> str:
    """An initialization of the residual branches in words."""
    known = {
        "inverse_sqrt_depth": "branches divided by sqrt(2 layers)",
        "deep_norm": "DeepNorm's branches",
    }
    return known.get(branch, f"{plain(branch)} branches")


def point(row: Row) -> str:
    """A model in words."""
    return f"{called(row['run'])}, n = {whole(row['vocabulary'])}, d = {row['width']}"
