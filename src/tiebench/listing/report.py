"""What `tiebench list` and `tiebench show` print."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench.errors import DataError, SettingsError
from tiebench.listing.catalogue import CLAIMS, CONF, GROUPS, MODELS, Entry, entries

PARTS = {
    "input_table": "input embedding",
    "output_table": "output embedding",
    "maps": "maps",
    "head": "head",
}
"""By part of a coupling, as it is called in a table; positions and body are not the coupling's."""


@dataclass(frozen=True)
class At:
    """The shape at which the parameters of a coupling are counted."""

    width: int
    vocabulary: int
    narrow: int
    wide: int


def at(
    width: int | None, vocabulary: int | None, narrow: int | None, wide: int | None
) -> At | None:
    """A shape with its narrow and wide widths; None if nothing is given.

    Raises:
        SettingsError: a number below 1, or width or vocabulary without the other.
    """
    given = {"--width": width, "--vocabulary": vocabulary, "--narrow": narrow, "--wide": wide}
    for key, value in given.items():
        if value is not None and value < 1:
            raise SettingsError(
                key, found=f"{value}", expected="a whole number above 0", mend="give another"
            )
    if width is None and vocabulary is None and narrow is None and wide is None:
        return None
    if width is None or vocabulary is None:
        lacking = "--width" if width is None else "--vocabulary"
        raise SettingsError(
            lacking, found="nothing", expected="--width and --vocabulary together", mend="add it"
        )
    return At(width, vocabulary, narrow or max(1, width // 4), wide or 3 * width)


def list_lines(kinds: Sequence[str]) -> Iterator[str]:
    """Names by kind, and models by family, each with the first sentence of its source."""
    for number, kind in enumerate(kinds):
        held = entries(kind)
        if len(kinds) > 1:
            where = "published" if kind == MODELS else f"{CONF / GROUPS.get(kind, '')}/"
            where = f"{CLAIMS}/" if kind == CLAIMS else where
            yield ("\n" if number else "") + f"{kind} ({where})"
        length = max((len(entry.name) for entry in held), default=0)
        family = ""
        for entry in held:
            if entry.family != family:
                family = entry.family
                yield f"{family}:"
            indent = "  " if family else ""
            yield f"{indent}{entry.name:<{length}}  {entry.first_sentence}".rstrip()


def show_lines(entry: Entry, shape: At | None) -> Iterator[str]:
    """All that is known of one entry."""
    if entry.kind == CLAIMS:
        yield f"claim   {entry.name}"
        yield textwrap.fill(f"says    {entry.title}", 100, subsequent_indent=" " * 8)
    elif entry.kind == MODELS:
        yield f"model   {entry.name}"
    else:
        yield f"{entry.group:<7} {entry.name}"
    source = f"source  {entry.source or 'not stated'}"
    yield textwrap.fill(source, 100, subsequent_indent=" " * 8)
    yield f"file    {os.path.relpath(entry.file)}"
    yield ""
    yield entry.settings
    if entry.kind == MODELS:
        from tiebench.account.registry import as_model, published_models
        from tiebench.account.report import as_lines

        yield ""
        yield from as_lines(as_model(published_models()[entry.name]))
    elif entry.kind == CLAIMS:
        yield ""
        yield from _verdicts(entry.name)
    elif entry.group == "coupling":
        yield ""
        yield from _parameters(entry, shape)


def _verdicts(name: str) -> Iterator[str]:
    """The verdict on a claim in each report that has one."""
    from tiebench.analysis.tables import read_table
    from tiebench.claims.schema import LEDGER

    found = False
    for path in sorted(Path("reports").glob(f"*/tables/{LEDGER}.csv")):
        for row in read_table(path, mend="run `dvc repro score`"):
            if row["id"] == name:
                found = True
                report = path.parents[1].name
                said = [f"report  {report}: {row['verdict']}", row["measured"], row["reason"]]
                text = "; ".join(filter(None, said))
                yield textwrap.fill(text, 100, subsequent_indent=" " * 8)
    if not found:
        yield "no report here has a verdict: run `dvc repro score`"


def _parameters(entry: Entry, shape: At | None) -> Iterator[str]:
    """Parameters of a coupling."""
    from tiebench.analysis.counting import coupled_counts
    from tiebench.model.settings import BodySettings, CouplingSettings
    from tiebench.schema import validate

    if shape is None:
        yield "parameters: give --width and --vocabulary, as in --width 768 --vocabulary 30522"
        return
    coupling = validate(CouplingSettings, composed(entry.name, shape), str(entry.file))
    narrow, wide = coupling.widths(shape.width)
    body = BodySettings(option="none", kind="identity", width=shape.width)
    counts = coupled_counts(coupling, body, shape.vocabulary)
    widths = "" if narrow == wide == shape.width else f" (input {narrow:,}, output {wide:,})"
    yield f"parameters at width {shape.width:,}{widths} and a vocabulary of {shape.vocabulary:,}"
    rows = [(name, getattr(counts, key)) for key, name in PARTS.items()]
    rows.append(("in all", sum(number for _, number in rows)))
    rows.append(("at fine-tuning", counts.input_table + counts.maps))
    length = max(len(f"{number:,}") for _, number in rows)
    for name, number in rows:
        yield f"{name:<16}  {number:>{length},}"
    if coupling.tied:
        yield "(one table: the input embedding is the output embedding)"


def composed(name: str, shape: At, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of a coupling with those that it starts from.

    Raises:
        DataError: a file that is missing, is not YAML, or starts from itself.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    path = CONF / GROUPS["couplings"] / f"{name}.yaml"
    try:
        held = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except (OSError, YAMLError, OmegaConfBaseException) as error:
        raise DataError(
            path,
            found=" ".join(str(error).split())[:200],
            expected="the settings of a coupling",
            mend="correct it, or restore it with git",
        ) from None
    if not isinstance(held, dict) or name in seen:
        raise DataError(
            path,
            found="a file that starts from itself" if name in seen else "no settings",
            expected="the settings of a coupling",
            mend="correct its defaults",
        )
    values: dict[str, Any] = {}
    own = {str(key): value for key, value in held.items() if key != "defaults"}
    for base in held.get("defaults", ["_self_"]):
        values |= own if base == "_self_" else composed(str(base), shape, (*seen, name))
    named = {
        "${....widths.narrow}": shape.narrow,
        "${....widths.wide}": shape.wide,
        "${....body.std}": 1.0,  # any: it is of no parameter's shape
    }
    return {
        key: named.get(value, value) if isinstance(value, str) else value
        for key, value in values.items()
    }
