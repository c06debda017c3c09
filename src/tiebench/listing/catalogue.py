"""Files of conf/ with the source that each states, published models, and claims."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench.account.registry import PUBLISHED_MODELS, PublishedModel, published_models
from tiebench.account.words import near_names
from tiebench.errors import DataError

CONF = Path("conf")
GROUPS = {
    "couplings": "coupling",
    "bodies": "body",
    "studies": "study",
    "corpora": "corpus",
    "labels": "labels",
    "tasks": "task",
    "sizes": "size",
    "similarity": "similarity",
}
"""By kind, the folder of conf/."""
MODELS = "models"
CLAIMS = "claims"
SENTENCE = re.compile(r"(?<!\bal)\. (?=[A-Z`])")
"""Where a sentence ends."""
KINDS = (*GROUPS, MODELS, CLAIMS)


@dataclass(frozen=True)
class Entry:
    """One thing that can be chosen.

    Attributes:
        group: the folder of conf/; published models and claims are groups of their own.
        file: where it stands.
        source: the comment that the file begins with, or where the shape is published.
        settings: as text, without that comment.
        title: of a published model, its name as it is written; of a claim, what it says.
        family: of a published model; of a claim, its source.
    """

    kind: str
    group: str
    name: str
    file: Path
    source: str
    settings: str
    title: str = ""
    family: str = ""

    @property
    def first_sentence(self) -> str:
        """Of the source, or of what a claim says, as far as a line goes."""
        said = self.title if self.kind == CLAIMS else self.source
        text = SENTENCE.split(said, maxsplit=1)[0].rstrip(".")
        return text if len(text) <= 90 else f"{text[:87].rstrip()}..."


def entries(kind: str) -> list[Entry]:
    """All of one kind, by name; published models and claims in the order of their files.

    Raises:
        DataError: no conf/ or claims/ here, or a file that cannot be read.
        SettingsError: a file of claims that is wrong.
    """
    if kind == MODELS:
        return _models()
    if kind == CLAIMS:
        return _claims()
    group = GROUPS[kind]
    folder = CONF / group
    if not folder.is_dir():
        raise DataError(
            folder,
            found="no such folder",
            expected="the settings of this repository",
            mend="run the command in the folder of the repository",
        )
    held = []
    for path in sorted(folder.rglob("*.yaml")):
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            found = getattr(error, "strerror", None) or "bytes that are not UTF-8"
            raise DataError(
                path, found=found, expected="a file of settings", mend="restore it with git"
            ) from None
        source, settings = split_comment(text)
        name = path.relative_to(folder).with_suffix("").as_posix()
        held.append(Entry(kind, group, name, path, source, settings))
    return held


def _models() -> list[Entry]:
    return [
        Entry(
            MODELS, MODELS, key, PUBLISHED_MODELS, model.source, _settings(model), model.name,
            model.family,
        )
        for key, model in published_models().items()
    ]  # fmt: skip


def _settings(model: PublishedModel) -> str:
    """A model of the registry with what its family adds, as YAML."""
    values: dict[str, Any] = {"name": model.name, "family": model.family, "year": model.year}
    values |= {"tied": model.tied, "config": model.config}
    if model.printed:
        values["printed"] = {printed.source: printed.figure for printed in model.printed}
    values |= {
        name: text
        for name in ("nominal", "disagreement")
        if (text := getattr(model, name)) is not None
    }
    return _as_yaml(values)


def _claims() -> list[Entry]:
    from tiebench.claims.read import file_of, read_sources

    return [
        Entry(
            CLAIMS, CLAIMS, key, file_of(name),
            f"{source.name}, {claim.place} ({source.reference})",
            _as_yaml(claim.model_dump(exclude_defaults=True)), claim.statement, source.name,
        )
        for name, source in read_sources().items()
        for key, claim in source.claims.items()
    ]  # fmt: skip


def _as_yaml(values: dict[str, Any]) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text = yaml.dump(values, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
    return str(text).strip()


def split_comment(text: str) -> tuple[str, str]:
    """The first block of comments as one line, and the rest; directives of Hydra are neither."""
    lines = text.splitlines()
    while lines and (not lines[0].strip() or lines[0].startswith("# @package")):
        lines.pop(0)
    comment = []
    while lines and lines[0].startswith("#"):
        comment.append(lines.pop(0).lstrip("#").strip())
    return " ".join(comment), "\n".join(lines).strip("\n")


def find(name: str) -> list[Entry]:
    """Every entry of a name, which may also be GROUP/NAME, a path of conf/ or a model's title.

    Raises:
        DataError: none; the error names those that are near.
    """
    wanted = name.strip("/").removesuffix(".yaml").removeprefix(f"{CONF}/")
    last = wanted.rpartition("/")[2]
    held = [
        entry
        for kind in KINDS
        if kind == MODELS or (Path(CLAIMS) if kind == CLAIMS else CONF / GROUPS[kind]).is_dir()
        for entry in entries(kind)
    ]
    found = [
        entry
        for entry in held
        if (entry.title and name.lower() in (entry.title.lower(), entry.name))
        or wanted in (f"{start}{entry.name}" for start in ("", f"{entry.kind}/", f"{entry.group}/"))
    ]
    if found:
        return found
    names = near_names(last, dict.fromkeys(entry.name for entry in held))
    elsewhere = "" if CONF.is_dir() else ", in the folder of the repository for the files of conf/"
    raise DataError(
        f"{name:.80}",
        found="no coupling, body, study, corpus, label set, task, size, published model or claim",
        expected=f"a name such as {', '.join(names)}" if names else "a name",
        mend=f"see `tiebench list`{elsewhere}",
    )
