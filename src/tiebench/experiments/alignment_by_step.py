"""When a shared table becomes like the input or the output table of two, from rows kept in
training.

At each update that rows were kept after, the rank correlation of distances (Press & Wolf 2017,
section 4) of the pairs that the stage `tables` compares after training: within an untied run, and
from both of its tables to the table of the run that differs in tying alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from tiebench.analysis.alignment import Table, distances
from tiebench.analysis.token_frame import make_frame
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell
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
from tiebench.experiments.tables_settings import TablesSettings
from tiebench.settings import Group, RecurrentFamilySettings, all_groups
from tiebench.training import table_snapshots as kept

Row = dict[str, Any]
Side = tuple[str, int, str]
"""Run, seed and side of a table."""


def has_snapshots(group: Group) -> bool:
    """Whether the training of a family keeps rows of its tables."""
    if not isinstance(group, RecurrentFamilySettings):
        return False
    return group.training.table_snapshots is not None


@dataclass(frozen=True)
class Snapshots:
    """What a run with one seed kept.

    Attributes:
        words: `[n]` ids.
        updates: `[m]`.
        sides: by INPUT and OUTPUT, or BOTH: `[m, n, width]` float32.
    """

    words: np.ndarray
    updates: np.ndarray
    sides: dict[str, np.ndarray]


def step_rows(saved: Saved, frequencies: Frequencies, settings: TablesSettings) -> Iterator[Row]:
    """Rows of the table alignment_by_step without the family; none where no rows were kept.

    Compared are the words kept that are among the tokens of `frequencies`.

    Raises:
        DataError: a file is missing, damaged, or of other words or updates than another run's;
            with the command that makes it.
    """
    group = all_groups(saved.params)[saved.family]
    runs = compared(group) if has_snapshots(group) else []
    held = {(run, seed): read_snapshots(saved, run, seed) for run in runs for seed in group.seeds}
    if not held:
        return
    first = next(iter(held.values()))
    for (run, seed), other in held.items():
        _check_alike(saved, run, seed, other, first)
    inside = np.isin(first.words, frequencies.tokens)
    if not inside.any():
        run, seed = next(iter(held))
        raise _refused(saved, run, seed, "no word that is compared")
    places = np.searchsorted(frequencies.tokens, first.words[inside])
    frame = make_frame(frequencies.counts[places], **settings.of_frame())
    for index, update in enumerate(first.updates.tolist()):
        tables = {
            (run, seed, side): Table(rows[index][inside].astype(np.float64), frame)
            for (run, seed), of in held.items()
            for side, rows in of.sides.items()
        }
        for told, one, facing in pairs_of(group):
            value, floor = distances(tables[one], tables[facing])
            measured = {"value": value, "floor": floor}
            yield {**told, **measured, "step": update, "words": len(frame.sample)}


def pairs_of(group: Group) -> Iterator[tuple[Row, Side, Side]]:
    """What each row of an update is of, and the two sides compared: tables of one seed, and of each
    seed with the next."""
    for run in (x for x in compared(group) if has_two_tables(group, x)):
        couples = [((run, INPUT), (run, OUTPUT))]
        couples += [
            ((run, side), (partner, BOTH))
            for partner in partners(group, run)
            for side in (INPUT, OUTPUT)
        ]
        for seed, other in zip(group.seeds, [*group.seeds[1:], group.seeds[0]], strict=True):
            for kind, at in (("same", seed), *([("other", other)] if other != seed else [])):
                for (first, side), (second, facing) in couples:
                    told = {
                        "first": first, "second": second, "pair": f"{side}-{facing}",
                        "initialization": kind, "seed": seed,
                    }  # fmt: skip
                    yield told, (first, seed, side), (second, at, facing)


def read_snapshots(saved: Saved, run: str, seed: int) -> Snapshots:
    """What the run with a seed kept.

    Raises:
        DataError: missing, damaged, or not of these tables; with the command that makes it.
    """
    path = _cell(saved, run, seed).folder / kept.FILE
    two = has_two_tables(all_groups(saved.params)[saved.family], run)
    names = {INPUT: kept.INPUT, OUTPUT: kept.OUTPUT} if two else {BOTH: kept.INPUT}
    try:
        held = load_file(path)
    except FileNotFoundError:
        raise _refused(saved, run, seed, "no such file") from None
    except (SafetensorError, OSError) as error:
        raise _refused(saved, run, seed, f"a damaged file ({error})") from None
    if held.keys() != {"words", "updates", *names.values()}:
        raise _refused(saved, run, seed, f"the tensors {', '.join(sorted(held))}")
    shape = (len(held["updates"]), len(held["words"]))
    for name in names.values():
        if held[name].shape[:2] != shape or not np.isfinite(held[name]).all():
            raise _refused(saved, run, seed, f"{name} of shape {held[name].shape}, or not finite")
    sides = {side: held[name] for side, name in names.items()}
    return Snapshots(held["words"], held["updates"], sides)


def _check_alike(saved: Saved, run: str, seed: int, found: Snapshots, first: Snapshots) -> None:
    for name in ("words", "updates"):
        if not np.array_equal(getattr(found, name), getattr(first, name)):
            raise _refused(saved, run, seed, f"other {name} than of the first run and seed")


def _cell(saved: Saved, run: str, seed: int) -> Cell:
    corpus = all_groups(saved.params)[saved.family].corpus
    return Cell(saved.params.name, saved.family, corpus, run, seed)


def _refused(saved: Saved, run: str, seed: int, found: str) -> DataError:
    cell = _cell(saved, run, seed)
    return DataError(
        cell.folder / kept.FILE,
        found=found,
        expected="the rows that training.table_snapshots keeps, the same words and updates in all "
        "runs and seeds",
        mend=f"run `{cell.again('pretrain', cell.corpus)}`",
    )
