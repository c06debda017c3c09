"""Outputs on disk that params.yaml no longer names: dropped runs, seeds, sets and corpora."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from tiebench.paths import corpus_folder, evaluation_folder, retrieval_folder, run_folder
from tiebench.settings import Params, families


def strays(params: Params, *, other_reports: bool = False) -> list[Path]:
    """Folders under data/, runs/ and evals/ that no cell of `params` writes, sorted.

    Args:
        other_reports: also whole folders of runs/ and evals/ that belong to another report.
    """
    named = set(_named(params))
    found = [path for path in _folders(Path("data")) if path not in named]
    for place in (Path("runs"), Path("evals")):
        for report in _folders(place):
            if report.name == params.name:
                found += [x for group in _folders(report) for x in _unnamed(group, named)]
            elif other_reports:
                found.append(report)
    return sorted(found)


def remove(folders: Iterable[Path]) -> None:
    """Delete the folders with all that is in them; of a link, the link alone."""
    for folder in folders:
        if folder.is_symlink():
            folder.unlink()
        else:
            shutil.rmtree(folder)


def _named(params: Params) -> Iterator[Path]:
    yield from map(corpus_folder, params.corpora)
    yield evaluation_folder(params.name, "accounting")
    for name, family in families(params).items():
        for run in family.runs:
            for seed in family.seeds:
                yield run_folder(params.name, name, run, seed)
                for corpus in params.retrieval.sets:
                    yield retrieval_folder(params.name, name, run, seed, corpus)


def _unnamed(group: Path, named: set[Path]) -> list[Path]:
    """The folders in `group` that are not named, or `group` itself when it holds no named one."""
    if group in named:
        return []
    if not any(group in path.parents for path in named):
        return [group]
    return [x for path in _folders(group) for x in _unnamed(path, named)]


def _folders(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []
