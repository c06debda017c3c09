"""The tables of a report as the page reads them, with the look-ups that figures and text share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tiebench.analysis.statistics import PairedDifference, paired_difference, shared_seeds
from tiebench.analysis.tables import read_table
from tiebench.paths import RECURRENT

Row = dict[str, str]
Pair = tuple[str, str, str]
"""Set, source and target of a retrieval."""
Chosen = dict[str, tuple[str, Row]]
"""By run, one of its layers and the summary of its accuracy there."""

TABLES = (
    "runs", "parameters", "language_modeling", "learning_curves", "retrieval", "retrieval_sets",
    "retrieval_sentences", "corpus", "provenance", "summary", "language_modeling_summary",
    "retrieval_summary", "published", "published_curves", "parameter_savings",
    "savings_by_scale", "published_models", "rembert_parameters", "rembert_conventions",
    "three_way_sharing", "embedding_shares", "tutorial_pie", "vocabulary_by_width",
    "pipeline_parallel", "retrieval_by_layer", "probing", "probing_weights", "probing_summary",
    "probing_weights_summary", "probing_sentences", "transfer", "transfer_summary",
    "transfer_sentences", "transfer_cells", "label_baselines", "label_sets", "flattened", "pairs",
    "domains", "domains_texts", "domains_curves", "domains_summary", "domains_pairs",
    "alignment", "alignment_summary", "alignment_differences", "alignment_published",
    "alignment_by_step", "alignment_by_step_summary", "alignment_by_step_differences",
    "table_geometry", "table_geometry_summary", "logit_lens", "logit_lens_summary",
    "similarity_sets", "word_similarity", "word_similarity_summary",
    "word_similarity_differences", "printed_figures",
    "views", "imported", "gradients", "gradients_summary", "gradients_conflicts",
    "initial_loss", "initial_loss_curves", "initial_loss_moments",
    "bigram", "bigram_summary", "bigram_curves", "bigram_pairs",
    "bigram_runs", "bigram_rates", "bigram_objectives",
    "word_forms", "word_forms_summary", "word_forms_lemmas", "word_forms_coverage", "form_choice",
    "form_choice_summary", "form_choice_lemmas", "form_choice_pairs",
    "sweeps", "sweep_points", "sweeps_summary", "sweep_choices", "stability", "regularization",
    "claims", "underflow", "remedies", "remedies_summary", "remedies_runs", "remedies_pairs",
    "vocabulary_scaling", "vocabulary_tying", "vocabulary_matrices", "vocabulary_share",
    "vocabulary_exponents",
    "recurrent_runs", "recurrent_perplexity", "recurrent_curves", "recurrent_summary",
    "recurrent_pairs", "recurrent_published", "subspaces_summary", "subspaces_trends",
    "subspaces_published",
)  # fmt: skip


@dataclass(frozen=True)
class Results:
    """All tables of a report by name; every cell is text."""

    name: str
    tables: dict[str, list[Row]]

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables[table]

    def where(self, table: str, **cells: str) -> Iterator[Row]:
        """Rows of a table with these cells."""
        for row in self.tables[table]:
            if all(row[column] == cell for column, cell in cells.items()):
                yield row

    @cached_property
    def families(self) -> list[str]:
        """Families of runs that are trained on windows of text, in order."""
        found = dict.fromkeys(row["family"] for row in self["runs"])
        return [family for family in found if family != RECURRENT]

    def runs(self, family: str) -> list[Row]:
        """What each main run of a family is, the baseline first and what is untrained last."""
        rows = list(self.where("runs", family=family, matches=""))
        return sorted(rows, key=lambda r: (r["trained"] != "true", r["baseline"] != "true"))

    def matched(self, family: str) -> list[Row]:
        """What each run is that is matched in parameters to another."""
        return [row for row in self.where("runs", family=family) if row["matches"]]

    def all_runs(self, family: str) -> list[Row]:
        """The main runs, then the matched ones."""
        return [*self.runs(family), *self.matched(family)]

    def trained(self, family: str) -> list[Row]:
        """The main runs that are trained."""
        return [row for row in self.runs(family) if row["trained"] == "true"]

    def called(self, family: str, run: str) -> str:
        """A run in words, which say so when it is untrained, or matched to another."""
        words, row = run.replace("_", " "), self.run(family, run)
        if row["matches"]:
            return f"{words} (matched)"
        return words if row["trained"] == "true" or "untrained" in words else f"{words} (untrained)"

    def run(self, family: str, run: str) -> Row:
        """What a run is."""
        return next(self.where("runs", family=family, run=run))

    def unmatched(self, family: str, run: str) -> str:
        """The main run that a matched one differs from in feed-forward width; else the run."""
        row = self.run(family, run)
        alike = ("trained", "tied", "input_width", "output_width", "width", "layers", "head")
        same = [x for x in self.runs(family) if all(x[key] == row[key] for key in alike)]
        return same[0]["run"] if row["matches"] and same else run

    def short(self, family: str, run: str) -> str:
        """As `called`, with a matched run as its coupling with a wider or narrower feed-forward."""
        main = self.unmatched(family, run)
        if main == run:
            return self.called(family, run)
        widths = (int(self.run(family, x)["feedforward_width"]) for x in (run, main))
        kind = "wider" if next(widths) > next(widths) else "narrower"
        return f"{self.called(family, main)} ({kind} feed-forward)"

    def reason(self, family: str, text: str) -> str:
        """A reason in words, with its runs as they are `called`."""
        names = {row["run"] for row in self.where("runs", family=family)}
        parts = re.split(r"(\W+)", text)
        return "".join(self.called(family, x) if x in names else x.replace("_", " ") for x in parts)

    def seeds(self, family: str) -> list[str]:
        """The seeds that every main run of a family has."""
        return self.runs(family)[0]["seeds"].split()

    def matched_seeds(self, family: str) -> list[str]:
        """The seeds of the matched runs; none without any."""
        rows = self.matched(family)
        return rows[0]["seeds"].split() if rows else []

    def baseline(self, family: str) -> str:
        """The run that the others are compared with."""
        return next(self.where("runs", family=family, baseline="true"))["run"]

    def summary(self, family: str, run: str, metric: str) -> Row | None:
        """A row of the summary, None when the run has no such metric."""
        return next(self.where("summary", family=family, run=run, metric=metric), None)

    def paired(
        self, table: str, family: str, first: str, second: str, **cells: str
    ) -> PairedDifference | None:
        """The difference between two runs over the seeds they share, from a long table."""
        values, others = (
            {
                int(row["seed"]): float(row["value"])
                for row in self.where(table, family=family, run=run, **cells)
            }
            for run in (first, second)
        )
        shared = shared_seeds(values, others)
        return paired_difference(*shared) if shared[0] else None

    def one(self, table: str, **cells: str) -> Row | None:
        """The first row of a table with these cells, None without any."""
        return next(self.where(table, **cells), None)

    @cached_property
    def pairs(self) -> list[Pair]:
        """(set, source, target) of the retrieval, the one set beside RemBERT's first."""
        found = dict.fromkeys((r["set"], r["source"], r["target"]) for r in self["retrieval"])
        return sorted(found, key=lambda p: (p[0] != next(iter(found))[0], p[1:] != ("en", "de")))

    @cached_property
    def protocol(self) -> tuple[str, str]:
        """Distance and offset of the headline: RemBERT's where they were run, else the first."""
        row = self["retrieval_sentences"][0]
        return row["distance"], row["offset"]

    def layers(self, family: str) -> list[str]:
        """Layers that any run was searched at, `0` first, without the bag of tokens."""
        return layers(r["layer"] for r in self.where("retrieval_summary", family=family))

    def retrieval(self, family: str, run: str, pair: Pair, **cells: str) -> dict[str, Row]:
        """Summaries of accuracy by layer, for the headline's distance and offset unless given."""
        distance, offset = self.protocol
        wanted = {"distance": distance, "offset": offset, "subset": "all", **cells}
        at = (wanted["distance"], wanted["offset"], wanted["subset"])
        return self._accuracies.get((family, run, *pair, *at), {})

    @cached_property
    def _accuracies(self) -> dict[tuple[str, ...], dict[str, Row]]:
        keys = ("family", "run", "set", "source", "target", "distance", "offset", "subset")
        held: dict[tuple[str, ...], dict[str, Row]] = {}
        for row in self.where("retrieval_summary", metric="accuracy"):
            held.setdefault(tuple(row[key] for key in keys), {})[row["layer"]] = row
        return held

    def chosen(
        self, family: str, pair: Pair, *, last: bool = False, matched: bool = False, **cells: str
    ) -> Chosen:
        """Each run at its best layer, in the mean over its seeds, or at its own last one."""
        chosen = {}
        rows = self.all_runs(family) if matched else self.runs(family)
        for run in (row["run"] for row in rows):
            found = self.retrieval(family, run, pair, **cells)
            if not found:
                continue
            own = layers(found)
            layer = own[-1] if last else max(own, key=lambda x: float(found[x]["mean"]))
            chosen[run] = layer, found[layer]
        return chosen

    def probes(self, family: str, run: str, labels: str, task: str) -> dict[str, Row]:
        """By probe, the summary of its accuracy in a task."""
        rows = self.where(
            "probing_summary", family=family, run=run, labels=labels, task=task, metric="accuracy"
        )
        return {row["probe"]: row for row in rows}

    def probed_layers(self, family: str) -> list[int]:
        """Layers that any main run was probed at."""
        main = {row["run"] for row in self.runs(family)}
        rows = self.where("probing_weights_summary", family=family)
        return sorted({int(row["layer"]) for row in rows if row["run"] in main})

    def tested_languages(self, labels: str) -> list[str]:
        """Languages of a transfer task, the one that is trained on first."""
        rows = self.where("label_baselines", labels=labels)
        return list(dict.fromkeys(r["language"] for r in rows if r["language"] != "others"))

    def transferred(
        self, family: str, run: str, labels: str, code: str, metric: str, subset: str = "all"
    ) -> Row | None:
        """The summary of a metric of transfer in a language, or in the mean of the `others`."""
        return self.one(
            "transfer_summary", family=family, run=run, labels=labels, language=code,
            subset=subset, metric=metric,
        )  # fmt: skip

    def sizes(self, family: str, pair: Pair) -> dict[str, str]:
        """Sentences of a retrieval by subset."""
        name, source, target = pair
        sizes: dict[str, str] = {}
        for row in self.where("retrieval", family=family, set=name, source=source, target=target):
            sizes.setdefault(row["subset"], row["n"])
        return sizes

    def sentences(self, family: str, run: str, pair: Pair, subset: str = "all") -> dict[str, Row]:
        """By layer, the headline's accuracy with its interval over sentences."""
        name, source, target = pair
        rows = self.where(
            "retrieval_sentences", family=family, run=run, subset=subset,
            set=name, source=source, target=target,
        )  # fmt: skip
        return {row["layer"]: row for row in rows}


def layers(found: Iterable[str]) -> list[str]:
    """The numbered ones among the keys of `Results.retrieval`, in order; the last is the last."""
    return sorted(set(found) - {"tokens"}, key=int)


def read_results(folder: Path, name: str) -> Results:
    """Read every table.

    Raises:
        DataError: a table is missing or damaged.
    """
    mend = "run `dvc repro score`"
    return Results(
        name, {table: read_table(folder / f"{table}.csv", mend=mend) for table in TABLES}
    )
