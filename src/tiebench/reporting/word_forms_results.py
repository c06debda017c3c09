"""Look-ups in the tables of the word forms that figures, tables and findings share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tiebench.experiments.word_forms_settings import ALL, DIFFERENCE, SIDES, UNIGRAM
from tiebench.reporting.naming import language, plain
from tiebench.reporting.results import Results, Row

INPUT, OUTPUT = SIDES


def language_names(codes: Iterable[str]) -> list[str]:
    """The languages in words."""
    return [language(code) for code in codes]


@dataclass(frozen=True)
class WordForms:
    """The word forms of a report."""

    results: Results

    @property
    def family(self) -> str:
        """The family whose models were looked at."""
        return self.results["word_forms"][0]["family"]

    @cached_property
    def runs(self) -> list[str]:
        """Its runs, the baseline first."""
        present = {row["run"] for row in self.results["word_forms"]}
        return [x["run"] for x in self.results.all_runs(self.family) if x["run"] in present]

    @cached_property
    def languages(self) -> list[str]:
        """Languages, in order."""
        return list(dict.fromkeys(row["language"] for row in self.results["word_forms_coverage"]))

    @property
    def seeds(self) -> int:
        """Seeds of the main runs."""
        return len(self.results.seeds(self.family))

    def called(self, run: str) -> str:
        """A run in words."""
        return self.results.called(self.family, run)

    def is_flat(self, run: str) -> bool:
        """Whether the learning curve of a run has flattened."""
        row = self.results.one("flattened", family=self.family, run=run)
        return row is not None and row["flat"] == "true"

    def is_shared(self, run: str) -> bool:
        """Whether both sides of a run read the same rows."""
        rows = self.results.where("word_forms", run=run, side=DIFFERENCE, metric="contrast")
        return all(float(row["value"]) == 0 for row in rows)

    def sides(self, run: str) -> list[str]:
        """The sides of a run that are told apart, and their difference."""
        return [INPUT] if self.is_shared(run) else [INPUT, OUTPUT, DIFFERENCE]

    def table_name(self, run: str, side: str) -> str:
        """`input table`; of a run with one table, `shared table`."""
        if side == DIFFERENCE:
            return plain(side)
        return f"{'shared' if self.is_shared(run) else side} table"

    def geometry(
        self, run: str, side: str, metric: str, *, code: str = ALL, centring: str = "centred"
    ) -> Row | None:
        """A summary over seeds of one side of a run."""
        return self.results.one(
            "word_forms_summary", run=run, side=side, metric=metric, language=code,
            centring=centring,
        )  # fmt: skip

    def lemmas(self, run: str, side: str, centring: str) -> Row | None:
        """The contrast resampled over lemmas."""
        return self.results.one(
            "word_forms_lemmas", run=run, side=side, centring=centring, language=ALL
        )

    def choice(self, run: str, metric: str, *, code: str = ALL, unit: str = "positions") -> Row:
        """A summary over seeds of the choice of forms."""
        found = self.results.one(
            "form_choice_summary", run=run, metric=metric, language=code, unit=unit
        )
        assert found is not None, (run, metric, code)
        return found

    def unigram(self, metric: str, code: str = ALL, unit: str = "positions") -> str:
        """What training frequencies alone give."""
        found = self.results.one(
            "form_choice", run=UNIGRAM, metric=metric, language=code, unit=unit
        )
        return found["value"] if found else ""

    def coverage(self, code: str, metric: str) -> str:
        """A count of one language."""
        found = self.results.one("word_forms_coverage", language=code, metric=metric)
        return found["value"] if found else ""

    def total(self, metric: str) -> int:
        """A count over all languages."""
        return sum(int(self.coverage(code, metric) or 0) for code in self.languages)
