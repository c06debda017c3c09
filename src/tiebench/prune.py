"""Outputs on disk that params.yaml no longer names: dropped runs, models, seeds, sets, corpora."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from tiebench.evaluation.cells import cells, evaluations, imported_cells, recurrent_cells
from tiebench.files import writing
from tiebench.paths import corpus_folder, evaluation_folder, evidence_folder, labels_folder
from tiebench.settings import Params, all_groups


def strays(params: Params, *, other_reports: bool = False) -> list[Path]:
    """Folders under data/, labels/, runs/ and evals/ that no cell of `params` writes, sorted.

    Args:
        other_reports: also whole folders of runs/ and evals/ that belong to another report.
    """
    named = set(_named(params))
    found = [x for at in ("data", "labels") for x in _folders(Path(at)) if x not in named]
    for place in (Path("runs"), Path("evals")):
        for report in _folders(place):
            if report.name == params.name:
                found += [x for group in _folders(report) for x in _unnamed(group, named)]
            elif other_reports:
                found.append(report)
    return sorted(found)


def remove(folders: Iterable[Path]) -> None:
    """Delete the folders with all that is in them; of a link, the link alone.

    Raises:
        WriteError: no permission.
    """
    for folder in folders:
        with writing(folder):
            if folder.is_symlink():
                folder.unlink()
            else:
                shutil.rmtree(folder)


def _named(params: Params) -> Iterator[Path]:
    yield from map(corpus_folder, params.corpora)
    yield from map(labels_folder, params.labels)
    yield evaluation_folder(params.name, "accounting")
    if params.word_forms is not None:
        yield evaluation_folder(params.name, "word_forms")
    if params.initial_loss is not None:
        yield evaluation_folder(params.name, "initial_loss")
    if params.bigram is not None:
        yield evaluation_folder(params.name, "bigram")
    if params.domains:
        yield evaluation_folder(params.name, "domains")
    if params.tables:
        yield from (evaluation_folder(params.name, "tables") / x for x in all_groups(params))
    for report in params.claims.reports:
        yield evidence_folder(params.name, report)
    for sweep in params.sweeps:
        yield evaluation_folder(params.name, "sweeps") / sweep
    yield from (cell.folder for cell in recurrent_cells(params))
    for cell in chain(cells(params), imported_cells(params)):
        yield cell.folder
        for task, data in evaluations(params, cell):
            yield cell.outcomes(task, data).parent


def _unnamed(group: Path, named: set[Path]) -> list[Path]:
    """The folders in `group` that are not named, or `group` itself when it holds no named one."""
    if group in named:
        return []
    if not any(group in path.parents for path in named):
        return [group]
    return [x for path in _folders(group) for x in _unnamed(path, named)]


def _folders(place: Path) -> list[Path]:
    """The folders in one, without those that a killed process left and the next one puts right."""
    held = place.iterdir() if place.is_dir() else ()
    return sorted(x for x in held if x.is_dir() and not x.name.endswith(".partial"))
