"""From conf/ to params.yaml, and the check that the two agree.

A composition starts from `choices`: the file taken from each group of conf/. params.yaml records
them (`size`, `study`, each `option`, and the named `widths`), so that it can be composed again and
compared. Three texts are compared, key by key: params.yaml, what conf/ composes now for the same
choices, and what it composed when the settings last passed (conf.lock.yaml). A key that moved in
conf/ alone makes params.yaml stale; a key that moved in params.yaml alone is a deliberate edit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiebench.checks import check, check_folders
from tiebench.errors import SettingsError
from tiebench.files import write_text
from tiebench.paths import PARAMS
from tiebench.schema import validate
from tiebench.settings import Params, complete, load_params, read_params

CONF, LOCK, PASSED = Path("conf"), Path("conf.lock.yaml"), Path("settings.ok")
ABSENT = "(none)"


@dataclass(frozen=True)
class Change:
    """A key that differs between two settings; `ABSENT` stands for a key that one lacks."""

    key: str
    old: Any
    new: Any
    edited: bool = False
    """The old value was a hand edit."""


def compose(overrides: Iterable[str] = (), conf: Path = CONF) -> tuple[str, dict[str, str]]:
    """Compose conf/ as `dvc exp run -S` does.

    Args:
        overrides: Hydra overrides: `size=micro`, `retrieval.pool=50`, `~encoders.runs.untied`.

    Returns:
        The text of params.yaml, and the choices by group (`{"study@encoders": "rembert", ...}`).

    Raises:
        SettingsError: a choice or key that does not exist, in Hydra's words.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf, open_dict
    from omegaconf.errors import OmegaConfBaseException

    overrides = list(overrides)
    for override in overrides:
        if override.lstrip("+~").startswith("hydra"):
            raise SettingsError(
                override,
                found="a setting of Hydra itself",
                expected="settings of conf/: Hydra composes them, and runs nothing",
                mend="leave it out",
            )
    try:
        with initialize_config_dir(str(conf.resolve()), version_base=None):
            config = hydra_compose("config", overrides=overrides, return_hydra_config=True)
        choices = dict(config.hydra.runtime.choices)
        with open_dict(config):
            del config["hydra"]
        OmegaConf.resolve(config)
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingsError(
            conf,
            found=f"{' '.join(overrides) or 'the defaults'}: {_one_line(error)}",
            expected="choices and keys that conf/ has",
            mend="`ls conf/*`; a new key needs `+key=value`, one that is dropped `~key`",
        ) from None
    groups = {key: value for key, value in choices.items() if not key.startswith("hydra/")}
    return OmegaConf.to_yaml(config), groups


def recompose(values: Mapping[str, Any], conf: Path = CONF) -> tuple[str, list[str]]:
    """What conf/ composes now for the choices recorded in `values`.

    A run or corpus that the defaults lack, and whose option is a file of conf/, counts as chosen.

    Returns:
        The text, and the Hydra overrides that lead to it from the defaults.
    """
    text, defaults = compose((), conf)
    chosen: list[str] = []
    records = [x for x in _recorded(values) if (conf / x[0] / f"{x[2]}.yaml").is_file()]
    # A size chooses studies, and a study chooses runs: in that order, each on top of the last.
    for groups in ({"size"}, {"study"}, {group for group, *_ in records} - {"size", "study"}):
        differing = [
            f"{key}={record}" if key in defaults else f"+{key}={record}"
            for group, package, record in records
            if group in groups
            and defaults.get(key := f"{group}@{package}" if package else group) != record
        ]
        if differing:
            chosen += differing
            text, defaults = compose(chosen, conf)
    composed = parse(text)
    widths = [
        f"++{family}.widths.{name}={width}"
        for family, section in values.items()
        if isinstance(section, dict) and family in composed
        for name, width in (section.get("widths") or {}).items()
        if composed[family].get("widths", {}).get(name) != width
    ]
    return (compose([*chosen, *widths], conf)[0] if widths else text), [*chosen, *widths]


GROUPS = {
    "corpora": "corpus", "labels": "labels", "statistics": "statistics", "sweeps": "sweep"
}  # fmt: skip
"""By section at the root, the group of conf/ that its options are files of."""


def _recorded(values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(group, package, name of the file) of every choice that `values` records."""
    found = [("size", "", str(values.get("size")))]

    def walk(node: Any, path: tuple[str, ...]) -> None:
        if not isinstance(node, dict):
            return
        if len(path) == 1 and isinstance(node.get("study"), str):
            found.append(("study", path[0], node["study"]))
        if isinstance(node.get("option"), str):
            # A section at the root is a task's; runs and families name their parts by group.
            group = GROUPS.get(path[0], "task" if len(path) == 1 else path[-1])
            package = "" if path == (group,) else ".".join(path)
            found.append((group, package, node["option"]))
        for key, value in node.items():
            walk(value, (*path, str(key)))

    walk(dict(values), ())
    return found


def changes(
    old: Mapping[str, Any], new: Mapping[str, Any], base: Mapping[str, Any] | None = None
) -> list[Change]:
    """The keys whose value differs, sorted; `base` tells which old values were hand edits."""
    before, after = flatten(old), flatten(new)
    composed = before if base is None else flatten(base)
    keys = sorted({*before, *after})
    return [
        Change(key, a, b, edited=_differ(a, composed.get(key, ABSENT)))
        for key in keys
        if _differ(a := before.get(key, ABSENT), b := after.get(key, ABSENT))
    ]


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one mapping by dotted key; lists are values."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value} if prefix else {}
    return {
        key: leaf
        for name, inner in value.items()
        for key, leaf in flatten(inner, f"{prefix}.{name}" if prefix else str(name)).items()
    }


def _differ(a: Any, b: Any) -> bool:
    return type(a) is not type(b) or a != b


def write_params(overrides: Iterable[str], *, path: Path = PARAMS) -> list[Change]:
    """Compose the defaults with `overrides`, check the result, and write params.yaml.

    conf.lock.yaml is written too, since there is nothing older than conf/ in a new composition.

    Returns:
        Every key that changes; `edited` marks the hand edits that are overwritten.
    """
    text, _ = compose(overrides)
    new = parse(text)
    check(complete(validate(Params, new)))
    try:
        old = read_params(path) if path.exists() else {}
    except SettingsError:  # unreadable: there is nothing to compare with, and this mends it
        old = {}
    base = _base(old) if old else {}
    write_text(path, text)
    write_text(LOCK, recompose(new)[0])
    return changes(old, new, base)


def check_params(path: Path = PARAMS) -> list[Change]:
    """The keys in which params.yaml is not what conf/ composes for its recorded choices."""
    values = read_params(path)
    check(complete(validate(Params, values)))
    return changes(values, parse(recompose(values)[0]))


def keep_params(path: Path = PARAMS) -> list[Change]:
    """Accept params.yaml as it is: what conf/ composes now becomes the base of comparison.

    Returns:
        The keys in which it differs, which count as deliberate from now on.
    """
    values = read_params(path)
    check(complete(validate(Params, values)))
    composed, _ = recompose(values)
    write_text(LOCK, composed)
    return changes(values, parse(composed))


def guard() -> None:
    """The settings stage: stop before anything runs if params.yaml is wrong or stale.

    Writes conf.lock.yaml and settings.ok, and prints the deliberate edits and the plan.

    Raises:
        SettingsError: a wrong setting, a missing folder, or keys that changed in conf/ only.
    """
    from tiebench.plan import describe_plan

    params = load_params()
    check_folders(params)
    values = read_params()
    composed, choices = recompose(values)
    new = parse(composed)
    base = _base(values)
    differing = changes(values, new, base)
    stale = [change for change in differing if not change.edited]
    if stale:
        lines = "".join(f"\n  {x.key}: params.yaml {x.old}, conf/ {x.new}" for x in stale)
        raise SettingsError(
            PARAMS,
            found=f"values older than conf/:{lines}\n",
            expected="what conf/ composes",
            mend=f"run `{' '.join(['tiebench params', *choices])}` to take over "
            "conf/, or "
            "`tiebench params --keep` to leave params.yaml as it is",
        )
    for change in differing:
        print(f"note: {change.key}: {change.old} in params.yaml, {change.new} in conf/ (kept)")
    print(describe_plan(params), file=sys.stdout, flush=True)
    write_text(LOCK, composed)
    write_text(PASSED, "ok\n")


def parse(text: str) -> dict[str, Any]:
    """YAML that was composed, as OmegaConf reads it, to plain values."""
    from omegaconf import OmegaConf

    values: dict[str, Any] = OmegaConf.to_container(OmegaConf.create(text), resolve=True)  # type: ignore[assignment]
    return values


def _base(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the values were composed as: the lock, or what conf/ composes for their choices.

    A lock of other choices says nothing about these values: what differs from conf/ then counts
    as edited.

    Raises:
        SettingsError: the lock is not YAML.
    """
    if LOCK.exists():
        base = _read_lock()
        if _recorded(base) == _recorded(values):
            return base
    try:
        return parse(recompose(values)[0])
    except SettingsError:
        return dict(values)


def _read_lock() -> dict[str, Any]:
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    try:
        return parse(LOCK.read_text("utf-8"))
    except (YAMLError, OmegaConfBaseException, ValueError) as error:
        raise SettingsError(
            LOCK,
            found=f"a damaged file ({_one_line(error)})",
            expected="what conf/ composed when the settings last passed",
            mend=f"delete {LOCK}, or run `tiebench params --keep`",
        ) from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
