"""The whole of params.yaml as one typed schema, and look-ups in it.

Code digests stop at this module: it names every section, so that following it would make each
stage depend on all settings. What shapes a result lives in the settings modules of the sections,
which the stages import themselves, and the values reach a stage as its own parameters.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tiebench.claims.settings import ClaimsSettings
from tiebench.corpus.settings import CorpusSettings
from tiebench.errors import SettingsError
from tiebench.evaluation.imported_settings import ImportedSettings
from tiebench.evaluation.probing_settings import ProbingSettings
from tiebench.evaluation.retrieval_settings import RetrievalSettings
from tiebench.evaluation.statistics_settings import StatisticsSettings
from tiebench.evaluation.transfer_settings import TransferSettings
from tiebench.experiments.bigram_settings import BigramSettings
from tiebench.experiments.domains_settings import DomainsSettings
from tiebench.experiments.initial_loss_settings import InitialLossSettings
from tiebench.experiments.sweep_settings import SweepSettings
from tiebench.experiments.tables_settings import TablesSettings
from tiebench.experiments.word_forms_settings import WordFormsSettings
from tiebench.labels.settings import Labels
from tiebench.paths import IMPORTED, PARAMS
from tiebench.schema import Name, Settings, validate
from tiebench.training.recurrent_settings import (
    RecurrentFamilySettings as RecurrentFamilySettings,
)
from tiebench.training.settings import FamilySettings as FamilySettings
from tiebench.training.settings import GroupSettings as GroupSettings

Group = FamilySettings | RecurrentFamilySettings
"""The two kinds of families of runs."""


class Params(Settings):
    """params.yaml."""

    size: str
    """Name of the file in conf/size/ that this came from."""
    name: Name
    """Name of the report; outputs carry it."""
    corpora: Annotated[dict[Name, CorpusSettings], Field(min_length=1)]
    """By name: the texts that are trained on or searched."""
    encoders: FamilySettings
    """Masked language models."""
    decoders: FamilySettings | None = None
    """Causal language models."""
    sweeps: dict[Name, SweepSettings] = {}
    """By name: runs of the decoders, trained anew over a grid of settings."""
    word_decoders: FamilySettings | None = None
    """Causal language models of whole words, whose forms `word_forms` compares."""
    recurrent: RecurrentFamilySettings | None = None
    """Recurrent language models of whole words."""
    imported: ImportedSettings = ImportedSettings()
    """Models that were trained elsewhere."""
    word_forms: WordFormsSettings | None = None
    """Forms of one lemma in the tables of `word_decoders`, and the choice between them."""
    domains: DomainsSettings | None = None
    """Tied models that go on in another domain, with one table or two."""
    tables: TablesSettings | None = None
    """Vocabulary tables of the saved models of all families compared."""
    retrieval: RetrievalSettings
    """Nearest-neighbour translation."""
    labels: dict[Name, Labels]
    """By name: what models are probed and fine-tuned on."""
    probing: ProbingSettings
    """Probes on frozen encoders."""
    transfer: TransferSettings
    """Fine-tuning on one language, tested on others."""
    initial_loss: InitialLossSettings | None = None
    """The loss before the first update."""
    bigram: BigramSettings | None = None
    """The 2-gram laboratory: couplings on an identity body, trained on counts of pairs."""
    statistics: StatisticsSettings
    """How differences are judged."""
    claims: ClaimsSettings = ClaimsSettings()
    """What decides published claims beside this report."""


def load_params(path: Path = PARAMS) -> Params:
    """Read and validate params.yaml.

    Raises:
        SettingsError: the key, what was found, what is expected, and the mend.
    """
    from tiebench.checks import check  # which reads the schema of this module

    return check(complete(validate(Params, read_params(path))))


def complete(params: Params) -> Params:
    """Check that no section is left out: dvc.yaml has a stage for each.

    Reports of before a section was there are read without it.

    Raises:
        SettingsError: the section that is lacking.
    """
    for name in Params.model_fields:
        if getattr(params, name) is None:
            raise SettingsError(
                name,
                found="nothing",
                expected="a section: stages of dvc.yaml read it",
                mend="compose it (`tiebench params`); smaller settings make it quick",
            )
    return params


def read_params(path: Path = PARAMS) -> dict[str, Any]:
    """The plain values of params.yaml, not validated.

    Read with OmegaConf, as DVC does: YAML alone takes a hand-written `1e-5` for a string.

    Raises:
        SettingsError: no such file, or not YAML (with line and column), or not a mapping.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    expected, mend = "the composed settings", "run `tiebench params`"
    if not path.exists():
        raise SettingsError(path, found="no such file", expected=expected, mend=mend)
    try:
        values = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (YAMLError, OmegaConfBaseException, ValueError, RecursionError) as error:
        raise SettingsError(path, found=f"{error}", expected=expected, mend=mend) from None
    if not isinstance(values, dict):
        raise SettingsError(path, found="no mapping", expected=expected, mend=mend)
    return {str(key): value for key, value in values.items()}


def find_run(params: Params, family: str, run: str) -> Group:
    """The family that holds a run.

    Raises:
        SettingsError: no such family, or no such run in it.
    """
    held = all_groups(params)
    if family not in held or run not in held[family].all_runs:
        names = ", ".join(held[family].all_runs if family in held else held)
        raise SettingsError(
            f"{family}.runs.{run}" if family in held else family,
            found="no such run" if family in held else "no such family",
            expected=f"one of {names}",
            mend="name one of these, or add it in conf/ and run `tiebench params`",
        )
    return held[family]


def find_seed(params: Params, family: str, run: str, said: str) -> int:
    """The seed that a stage is given as text, if the run has it.

    Raises:
        SettingsError: no such family, run or model, or it is none of its seeds.
    """
    corpus_of(params, family, run)  # refuses unknown names
    key, seeds = f"{family}.seeds", params.imported.seeds
    if family != IMPORTED:
        group = find_run(params, family, run)
        seeds = group.seeds_of(run)
        key = key if run in group.runs else f"{family}.matched_seeds"
    if said not in map(str, seeds):
        raise SettingsError(
            key,
            found=f"no seed {said!r}",
            expected=f"one of {', '.join(map(str, seeds))}",
            mend=f"name one of these, or add it to {key} in params.yaml",
        )
    return int(said)


def known(name: str, names: Collection[str], key: str) -> str:
    """A name that a stage is given, if it is one of some.

    Raises:
        SettingsError: it is none of them.
    """
    if name not in names:
        raise SettingsError(
            f"{key}.{name}",
            found="no such name",
            expected=f"one of {', '.join(names) or '(none)'}",
            mend="name one of these, or add it in conf/ and run `tiebench params`",
        )
    return name


def all_groups(params: Params) -> dict[str, Group]:
    """The families of runs with the recurrent ones, by the key that holds them."""
    values = {name: getattr(params, name) for name in Params.model_fields}
    return {name: x for name, x in values.items() if isinstance(x, Group)}


def families(params: Params) -> dict[str, FamilySettings]:
    """The families of runs that are trained on windows of text, by the key that holds them."""
    return {name: x for name, x in all_groups(params).items() if isinstance(x, FamilySettings)}


def corpus_of(params: Params, family: str, run: str) -> str | None:
    """The corpus that a run is trained on; None for an imported model, whose text is not known.

    Raises:
        SettingsError: no such family, or no such run or model in it.
    """
    if family != IMPORTED:
        return find_run(params, family, run).corpus
    if run not in params.imported.models:
        raise SettingsError(
            f"{IMPORTED}.models.{run}",
            found="no such model",
            expected=f"one of {', '.join(params.imported.models) or '(none)'}",
            mend="name one of these, or add it with `tiebench params "
            f"+{IMPORTED}.models.{run}.folder=FOLDER`",
        )
    return None
