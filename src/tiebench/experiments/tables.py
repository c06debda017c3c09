"""Saved vocabulary tables compared: alignment between runs, geometry, and the head at every layer.

Alignment: within each run with two tables; from both tables of an untied run to the table of the
run that differs from it in tying alone; between seeds of one run, as a ceiling; before training.
Two tables of one seed share initial values where they have the same name (`generator_of`), which
inflates what they have in common: pairs are therefore also taken across seeds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tiebench import paths
from tiebench.analysis.alignment import IDENTITY, Table, compare, row_cosines, shape
from tiebench.analysis.tables import write_table
from tiebench.corpus.tokenizer import (
    SPECIALS,
    UNKNOWN,
    is_of_words,
    load_corpus_tokenizer,
    load_tokenizer,
)
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import SettingsError
from tiebench.experiments import word_similarity_settings
from tiebench.experiments.alignment_by_step import has_snapshots, step_rows
from tiebench.experiments.logit_lens import lens_rows, windows
from tiebench.experiments.saved_tables import (
    BOTH,
    INPUT,
    OUTPUT,
    Frequencies,
    Saved,
    compared,
    has_two_tables,
    partners,
)
from tiebench.experiments.subspaces import subspace_rows
from tiebench.experiments.tables_settings import BY_STEP, RAW, SUBSPACES
from tiebench.experiments.word_similarity import Vocabulary, WordSimilarity
from tiebench.files import holding, replacing_folder
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.settings import (
    FamilySettings,
    Group,
    Params,
    RecurrentFamilySettings,
    all_groups,
)
from tiebench.training.streams import Chunks
from tiebench.training.subspace_runs import Mixture, subspace_runs

Row = dict[str, Any]
SAME, OTHER = "same", "other"
"""Initial values: of the same seed, or of another one."""


def run(params: Params, family: str) -> None:
    """Write evals/<name>/tables/<family>/*.csv, all or none: a table for each of RAW, those of
    word similarity, that of BY_STEP where training keeps rows of the tables, and that of SUBSPACES
    where runs give the augmented loss a share.

    Raises:
        SettingsError: no such family.
        DataError: a model or token file is missing, damaged or of other settings; with the command
            that makes it.
        BusyError: another process is at work on the same tables.
    """
    known = all_groups(params)
    if family not in known:
        raise SettingsError(
            family,
            found="no such family",
            expected=f"one of {', '.join(known)}",
            mend="name one of these",
        )
    folder = paths.evaluation_folder(params.name, "tables") / family
    lock = paths.SCRATCH / f"tables-{params.name}-{family}.lock"
    kept = BY_STEP if has_snapshots(known[family]) else {}
    written = {**RAW, **word_similarity_settings.RAW, **kept}
    rows: dict[str, list[Row]] = defaultdict(list)
    with holding(lock, f"the tables of {family} of {params.name}"):
        comparison = Comparison(params, family, prepare_runtime())
        for name, found in comparison.rows():
            rows[name].append({"family": family, **found})
        if comparison.mixtures:
            written["subspaces"] = SUBSPACES
        with replacing_folder(folder) as partial:
            for name, columns in written.items():
                write_table(partial / f"{name}.csv", columns, rows[name])


class Comparison:
    """The models of one family.

    Args:
        params: all settings.
        family: key of the family.
        device: that reads the layers.
    """

    def __init__(self, params: Params, family: str, device: torch.device) -> None:
        assert params.tables is not None, "the stage has its section"
        self.settings, self.device = params.tables, device
        self.group: Group = all_groups(params)[family]
        folder = paths.corpus_folder(self.group.corpus)
        corpus = params.corpora[self.group.corpus]
        languages, published = corpus.languages, corpus.published is not None
        load = load_tokenizer if published else load_corpus_tokenizer
        tokenizer = load(folder / "tokenizer.json")
        train, valid = (
            read_tokens(folder / f"{part}.safetensors", folder / "tokenizer.json", languages)
            for part in ("train", "valid")
        )
        vocabulary = tokenizer.get_vocab_size()
        counts = sum(np.bincount(ids, minlength=vocabulary) for ids in train.values())
        first = UNKNOWN + 1 if is_of_words(tokenizer) else SPECIALS
        first = 0 if published else first  # all of its types are of the text
        self.frequencies = Frequencies.of(np.asarray(counts), first, self.settings)
        self.saved = Saved(params, family, vocabulary)
        known = Vocabulary(tokenizer, self.frequencies.tokens)
        self.similarity = WordSimilarity(self.settings.similarity, known, languages)
        self.batches = None  # a recurrent body reads no windows
        if isinstance(self.group, FamilySettings):
            self.batches = windows(valid, self.group.training, vocabulary, self.settings.windows)
        self.held: dict[tuple[str, int, str, bool], Table] = {}
        self.mixtures: dict[str, tuple[Mixture, Chunks]] = {}
        if isinstance(self.group, RecurrentFamilySettings):
            (text,) = train.values()
            for name, mixture in subspace_runs(self.group).items():
                self.mixtures[name] = mixture, Chunks.of(text, self.group.training_of(name))

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Rows of the tables, by the names of `run`, without the family."""
        work = compared(self.group)
        total = len(self.group.runs) + len(self.mixtures) + len(work)
        with progress(total=total, desc="vocabulary tables", unit="run") as bar:
            for name in self.group.runs:
                for seed in self.group.seeds:
                    yield from self._of_model(name, seed)
                bar.update()
            for name, of in self.mixtures.items():
                for seed in self.group.seeds:
                    for metric, value in subspace_rows(self.saved, name, seed, *of):
                        at = {"run": name, "seed": seed, "metric": metric, "value": value}
                        yield "subspaces", at
                bar.update()
            for name, held in (
                ("similarity_sets", self.similarity.described),
                ("word_similarity_pairs", self.similarity.pair_rows()),
            ):
                yield from ((name, row) for row in held)
            for name in work:
                self.held = {}
                for row in self._alignments(name):
                    yield "alignment", row
                bar.update()
        for row in step_rows(self.saved, self.frequencies, self.settings):
            yield "alignment_by_step", row

    def _of_model(self, run: str, seed: int) -> Iterator[tuple[str, Row]]:
        model = self.saved.model(run, seed)
        at = {"run": run, "seed": seed}
        if self.batches is not None:
            model = model.to(self.device)
            for layer, metric, value in lens_rows(model, self.batches, self.device):
                yield "logit_lens", {**at, "layer": layer, "metric": metric, "value": value}
        for table in self._sides(run):
            rows = self.saved.matrix(run, seed, table, self.frequencies.tokens)
            for bin_, metric, value in self._geometry(rows):
                shown = {"bin": bin_, "metric": metric, "value": value}
                yield "table_geometry", {**at, "table": table, **shown}
            for row in self.similarity.rows(run, seed, table, rows):
                yield "word_similarity", row

    def _geometry(self, rows: np.ndarray) -> Iterator[tuple[str, str, float]]:
        counts, frame = self.frequencies.counts, self.frequencies.frame
        for metric, value in shape(rows, counts).items():
            yield "all", metric, value
        norms = np.linalg.norm(rows, axis=1)
        for bin_ in range(self.settings.bins):
            inside = frame.bins == bin_
            yield str(bin_), "norm", float(norms[inside].mean())
            yield str(bin_), "occurrences", float(np.exp(np.log(counts[inside]).mean()))

    def _sides(self, run: str) -> tuple[str, ...]:
        return (INPUT, OUTPUT) if has_two_tables(self.group, run) else (BOTH,)

    def _table(self, run: str, seed: int, side: str, *, initial: bool = False) -> Table:
        key = run, seed, side, initial
        if key not in self.held:
            tokens = self.frequencies.tokens
            rows = self.saved.matrix(run, seed, side, tokens, initial=initial)
            self.held[key] = Table(rows, self.frequencies.frame)
        return self.held[key]

    def _alignments(self, run: str) -> Iterator[Row]:
        """All pairs that a trained run is the first of."""
        sides, seeds = self._sides(run), self.group.seeds
        for seed, other in zip(seeds, [*seeds[1:], seeds[0]], strict=True):
            both = [(SAME, seed), *([(OTHER, other)] if other != seed else [])]
            if len(sides) == 2:
                for kind, at in both:
                    yield from self._pair((run, INPUT), (run, OUTPUT), kind, seed, at)
                yield from self._pair((run, INPUT), (run, OUTPUT), SAME, seed, seed, initial=True)
                for partner in partners(self.group, run):
                    for side in sides:
                        for kind, at in both:
                            yield from self._pair((run, side), (partner, BOTH), kind, seed, at)
            for side in sides:
                if other != seed:
                    yield from self._pair((run, side), (run, side), OTHER, seed, other)
                yield self._drift(run, side, seed)

    def _pair(
        self,
        first: tuple[str, str],
        second: tuple[str, str],
        kind: str,
        seed: int,
        other: int,
        *,
        initial: bool = False,
    ) -> Iterator[Row]:
        tables = (
            self._table(first[0], seed, first[1], initial=initial),
            self._table(second[0], other, second[1], initial=initial),
        )
        prefix = "initial " if initial else ""
        for metric, (value, floor) in compare(*tables).items():
            yield {
                "first": first[0], "second": second[0], "pair": f"{prefix}{first[1]}-{second[1]}",
                "initialization": kind, "seed": seed, "metric": metric, "value": value,
                "floor": floor,
            }  # fmt: skip

    def _drift(self, run: str, side: str, seed: int) -> Row:
        """How far a table is from its own initial values, by the mean cosine of the rows."""
        tables = (self._table(run, seed, side, initial=initial).rows for initial in (True, False))
        return {
            "first": run, "second": run, "pair": f"{side}-initial", "initialization": SAME,
            "seed": seed, "metric": IDENTITY, "value": float(row_cosines(*tables).mean()),
            "floor": None,
        }  # fmt: skip
