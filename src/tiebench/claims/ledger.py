"""The ledger: a verdict on every claim, from the tables of this report and of others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiebench.account.words import near_names
from tiebench.claims.decide import FAILS, HOLDS, INCONCLUSIVE, Decision, decide, is_published
from tiebench.claims.evidence import Evidence, Unmeasured, selection_text
from tiebench.claims.evidence import lacking as lacking_cells
from tiebench.claims.schema import Claim, Selection, Source
from tiebench.errors import DataError

COLUMNS = (
    "source", "reference", "id", "claim", "place", "published", "verdict", "measured", "detectable",
    "report", "table", "rows", "reason", "also", "figure", "command", "needs",
)  # fmt: skip
NOT_MEASURED = "not measured"
WORDS = {
    (True, HOLDS): "reproduced",
    (True, FAILS): "contradicted",
    (False, HOLDS): "agrees",
    (False, FAILS): "disagrees",
}
"""By whether the measurement is at the published configuration, and what it says."""
ALSO = " | "
"""Between what several measurements say beside the one that decides."""
ARITHMETIC = "settled by arithmetic: {state}"
VERDICTS = (
    *WORDS.values(), *(ARITHMETIC.format(state=x) for x in (HOLDS, FAILS)), INCONCLUSIVE,
    NOT_MEASURED,
)  # fmt: skip
"""All that a verdict may be."""


@dataclass(frozen=True)
class Outcome:
    """What one measurement in one report says of a claim; without a decision, why it says nothing.

    Attributes:
        position: of the measurement among those of the claim.
        published: whether it is at the published configuration.
    """

    report: str
    measurement: Selection
    position: int
    decision: Decision | None
    published: bool = False
    reason: str = ""

    @property
    def rank(self) -> tuple[int, int, float]:
        """Order of precedence, first the lowest.

        Published and decided, decided, inconclusive, not measured; then the order of the claim's
        measurements; then, of reports, the smallest interval relative to the effect.
        """
        if self.decision is None:
            return 3, self.position, math.inf
        if self.decision.state == INCONCLUSIVE:
            return 2, self.position, self.decision.spread
        return int(not self.published), self.position, self.decision.spread

    def verdict(self, claim: Claim) -> str:
        """The verdict in words."""
        if self.decision is None:
            return NOT_MEASURED
        if self.decision.state == INCONCLUSIVE:
            return INCONCLUSIVE
        if claim.kind == "arithmetic":
            return ARITHMETIC.format(state=self.decision.state)
        return WORDS[self.published, self.decision.state]


def verdicts(
    sources: Mapping[str, Source], reports: Mapping[str, Evidence]
) -> Iterator[dict[str, Any]]:
    """A row for each claim.

    Args:
        sources: files of claims by name.
        reports: tables of reports by name, this one's first.

    Yields:
        Rows with COLUMNS. `also` has what the other measurements and reports say.

    Raises:
        DataError: a claim names a column that a table of this report lacks; with file and claim.
    """
    for file, source in sources.items():
        for key, claim in source.claims.items():
            outcomes = _outcomes(f"claims/{file}.yaml: claims.{key}", claim, reports)
            named = {"source": source.name, "reference": source.reference, "id": key}
            yield {**named, **_row(claim, outcomes)}


def _outcomes(subject: str, claim: Claim, reports: Mapping[str, Evidence]) -> list[Outcome]:
    """What every measurement says in every report, best first.

    Arithmetic is the same in all reports: others are asked only where this one lacks the rows.
    """
    outcomes: list[Outcome] = []
    for report, evidence in enumerate(reports.values()):
        if claim.kind == "arithmetic" and any(x.decision for x in outcomes):
            break
        outcomes += (
            _outcome(subject, position, measurement, evidence, own=not report)
            for position, measurement in enumerate(claim.decided_by)
        )
    return sorted(outcomes, key=lambda outcome: outcome.rank)


def _outcome(
    subject: str, position: int, measurement: Selection, evidence: Evidence, *, own: bool
) -> Outcome:
    lacking = sorted(measurement.tables() - evidence.held) if own else []
    if lacking:
        near = ", ".join(near_names(lacking[0], sorted(evidence.held)))
        raise DataError(
            f"{subject}.decided_by.{position}",
            found=f"a table {lacking[0]}, which no report has",
            expected=f"a table of a report{f', such as {near}' if near else ''}",
            mend="correct its name",
        )
    try:
        decision = decide(measurement, evidence)
    except Unmeasured as missing:
        return Outcome(evidence.report, measurement, position, None, reason=str(missing))
    except DataError as error:
        if own:
            raise DataError(
                f"{subject}.decided_by.{position}",
                found=f"{error.found} in {Path(str(error.subject)).name}",
                expected=error.expected,
                mend=error.mend,
            ) from None
        return Outcome(evidence.report, measurement, position, None, reason=error.found)
    try:
        published = is_published(measurement, evidence)
    except (Unmeasured, DataError):  # the rows that would say so are not there
        published = False
    absent = lacking_cells(evidence.rows(measurement.table), measurement.where)
    if absent:
        reason = f"no row with {', '.join(absent)}"
        reason = f"{decision.reason}; {reason}" if decision.reason else reason
        decision, published = replace(decision, reason=reason), False
    return Outcome(evidence.report, measurement, position, decision, published)


def _row(claim: Claim, outcomes: list[Outcome]) -> dict[str, Any]:
    said = {
        "claim": claim.statement,
        "place": claim.place,
        "published": claim.published,
        "needs": claim.needs,
    }
    if not outcomes:
        empty = dict.fromkeys(("measured", "detectable", "report", "table", "rows", "also"))
        return {
            **said, **empty, "verdict": NOT_MEASURED, "reason": "nothing here measures it",
            "figure": None, "command": claim.command,
        }  # fmt: skip
    first, *others = outcomes
    decision, measurement = first.decision, first.measurement
    return {
        **said,
        "verdict": first.verdict(claim),
        "measured": decision and decision.measured,
        "detectable": decision and decision.detectable,
        "report": decision and first.report,
        "table": decision and measurement.table,
        "rows": decision and selection_text(measurement.where),
        "reason": decision.reason if decision else first.reason,
        "also": ALSO.join(_also(x, claim) for x in others if x.decision is not None),
        "figure": decision and (measurement.figure or claim.figure),
        "command": measurement.command or claim.command,
    }


def _also(outcome: Outcome, claim: Claim) -> str:
    assert outcome.decision is not None
    rows = selection_text(outcome.measurement.where)
    where = f"{outcome.report}, {outcome.measurement.table}{': ' + rows if rows else ''}"
    return f"{outcome.verdict(claim)} ({where}; {outcome.decision.measured})"
