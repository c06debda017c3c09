"""The saved models of a family, their effective tables, and which of its runs belong together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from tiebench.analysis.token_frame import Frame, make_frame
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell
from tiebench.experiments.tables_settings import TablesSettings
from tiebench.model.lm import LanguageModel, load_model
from tiebench.model.settings import CouplingSettings
from tiebench.settings import FamilySettings, Group, Params, all_groups

INPUT, OUTPUT, BOTH = "input", "output", "tied"
"""The sides of a run with two tables, and the one table of a tied run."""
RATES = frozenset({"learning_rate", "table_learning_rate"})


@dataclass(frozen=True)
class Frequencies:
    """The tokens that are compared.

    Attributes:
        tokens: `[n]` ids.
        counts: `[n]` occurrences of each in training.
        frame: bins, halves, sample, permutations.
    """

    tokens: np.ndarray
    counts: np.ndarray
    frame: Frame

    @classmethod
    def of(cls, counts: np.ndarray, first: int, settings: TablesSettings) -> Frequencies:
        """Those that occur, from id `first` on, of `[vocabulary]` counts."""
        tokens = np.flatnonzero(counts)
        tokens = tokens[tokens >= first]
        frame = make_frame(counts[tokens], **settings.of_frame())
        return cls(tokens, counts[tokens], frame)


@dataclass(frozen=True)
class Saved:
    """Read access to the models of a family."""

    params: Params
    family: str
    vocabulary: int

    def model(self, run: str, seed: int) -> LanguageModel:
        """A saved model.

        Raises:
            DataError: missing, damaged, or of another coupling, body or vocabulary than the run's;
                with the command that makes it.
        """
        group = all_groups(self.params)[self.family]
        matched = isinstance(group, FamilySettings) and run in group.matched
        cell = Cell(self.params.name, self.family, group.corpus, run, seed, matched)
        if not (cell.folder / "config.json").is_file():
            raise DataError(
                cell.folder,
                found="no such model",
                expected=f"the saved model of run {run} with seed {seed}",
                mend=f"run `{cell.pretrain}`",
            )
        model = load_model(cell.folder)
        held = model.settings
        expected = (group.final_coupling(run), group.body_of(run), self.vocabulary)
        if (held.coupling, held.body, model.vocabulary) != expected:
            raise DataError(
                cell.folder,
                found="a model of another coupling, body or vocabulary",
                expected=f"that of {self.family}.runs.{run} in params.yaml",
                mend=f"run `{cell.pretrain}`",
            )
        return model

    def initial(self, run: str, seed: int) -> LanguageModel:
        """The model before training, drawn again."""
        group = all_groups(self.params)[self.family]
        model = LanguageModel(group.all_runs[run].coupling, group.body_of(run), self.vocabulary)
        model.initialize(seed)
        if not group.final_coupling(run).tied:
            model.untie()  # nothing where there are two tables
        return model

    @torch.no_grad()
    def matrix(
        self, run: str, seed: int, side: str, tokens: np.ndarray, *, initial: bool = False
    ) -> np.ndarray:
        """Rows of the effective matrix of a side, `[tokens, width]` float64."""
        model = self.initial(run, seed) if initial else self.model(run, seed)
        coupling = model.coupling
        matrix = coupling.output_matrix() if side == OUTPUT else coupling.input_matrix()
        return np.asarray(matrix.double().numpy()[tokens])


def has_two_tables(group: Group, run: str) -> bool:
    """Whether the matrices of the two sides differ when a run is saved."""
    coupling = group.final_coupling(run)
    return not coupling.tied or bool(coupling.input_operations or coupling.output_operations)


def compared(group: Group) -> list[str]:
    """The trained runs whose tables are aligned: those with two, and the tied ones beside them."""
    trained = [run for run, held in group.runs.items() if held.trained]
    two = {run for run in trained if has_two_tables(group, run)}
    beside = {name for run in two for name in partners(group, run)}
    return [run for run in trained if run in two | beside]


def partners(group: Group, run: str) -> list[str]:
    """The trained runs with one table that differ from an untied `run` in tying alone.

    The learning rates may differ: each coupling may have its best one.
    """
    if group.runs[run].coupling.tied:
        return []
    return [
        name
        for name, held in group.runs.items()
        if held.trained
        and held.coupling.tied
        and not has_two_tables(group, name)
        and _but_for_tying(held.coupling) == _but_for_tying(group.runs[run].coupling)
        and group.body_of(name) == group.body_of(run)
        and _but_for_rates(group, name) == _but_for_rates(group, run)
    ]


def _but_for_tying(coupling: CouplingSettings) -> dict[str, object]:
    return coupling.model_dump(exclude={"option", "tied", "shared_initialization"})


def _but_for_rates(group: Group, run: str) -> dict[str, object]:
    return group.training_of(run).model_dump(exclude=set(RATES))
