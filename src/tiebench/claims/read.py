"""Reading the files of claims/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tiebench.claims.schema import PRINTED, Source
from tiebench.errors import DataError, SettingsError
from tiebench.schema import validate

CLAIMS = Path("claims")
FIGURES = ("source", "table", "place", "row", "column", "value", "unit")


def read_sources(folder: Path = CLAIMS) -> dict[str, Source]:
    """Every file of the folder by its name: posts, papers, then our own, each sorted.

    Raises:
        DataError: no such folder, no file in it, or one that is not YAML.
        SettingsError: a key that is wrong, with file, claim and key; an id that is there twice.
    """
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise DataError(
            folder,
            found="no file of claims",
            expected="the claims of this repository",
            mend="run the command in the folder of the repository, or `git checkout claims`",
        )
    sources: dict[str, Source] = {}
    holders: dict[str, Path] = {}
    for path in paths:
        source = read_source(path)
        for name in source.claims:
            if name in holders:
                raise SettingsError(
                    f"{path}: claims.{name}",
                    found=f"an id that {holders[name]} has",
                    expected="an id of its own",
                    mend="give one of the two another id",
                )
            holders[name] = path
        sources[path.stem] = source
    order = ("post", "paper", "own")
    return dict(sorted(sources.items(), key=lambda held: order.index(held[1].kind)))


def file_of(name: str) -> Path:
    """Where the source of a name stands."""
    return CLAIMS / f"{name}.yaml"


def read_source(path: Path) -> Source:
    """One file.

    Raises:
        DataError: it cannot be read, or is not YAML.
        SettingsError: a key that is wrong, with file, claim and key.
    """
    import yaml

    try:
        plain = yaml.load(path.read_text("utf-8"), Loader=_loader())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        found = " ".join(str(error).split())
        raise DataError(
            path, found=found, expected="a file of claims", mend="correct it, or restore it"
        ) from None
    if not isinstance(plain, dict):
        raise DataError(
            path,
            found=f"{plain!r:.60}",
            expected="the keys name, reference and claims",
            mend="correct it, or restore it",
        )
    try:
        return validate(Source, plain)
    except SettingsError as error:
        raise SettingsError(
            f"{path}: {error.subject}",
            found=error.found,
            expected=error.expected,
            mend=f"correct {path} (README, “Claims”)",
        ) from None


def _loader() -> type:
    """YAML's safe loader, which refuses a key that is there twice."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
            twice = [key for place, key in enumerate(keys) if key in keys[:place]]
            if twice:
                problem = f"the key {twice[0]} twice"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            return super().construct_mapping(node, deep)

    return Loader


def named_tables(sources: Mapping[str, Source]) -> list[str]:
    """The tables of other reports that claims are decided from, sorted."""
    claims = [claim for source in sources.values() for claim in source.claims.values()]
    named = {x for claim in claims if claim.kind == "measured" for x in claim.tables()}
    return sorted(named - {PRINTED})


def figure_rows(sources: Mapping[str, Source]) -> Iterator[dict[str, Any]]:
    """The figures that the sources print, one a row, with FIGURES."""
    for key, source in sources.items():
        for name, table in source.printed.items():
            for row, cells in table.rows.items():
                for column, value in cells.items():
                    held = (key, name, table.place, row, column, value, table.unit)
                    yield dict(zip(FIGURES, held, strict=True))
