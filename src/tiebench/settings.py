"""The whole of params.yaml as one typed schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from tiebench.corpus.settings import CorpusSettings
from tiebench.errors import SettingsError
from tiebench.evaluation.settings import RetrievalSettings
from tiebench.model.settings import BodySettings, RunSettings
from tiebench.paths import EXTERNAL, PARAMS
from tiebench.schema import Settings, validate
from tiebench.sources.settings import LocalSource
from tiebench.training.settings import TrainingSettings

Name = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class FamilySettings(Settings):
    """A family of runs that share corpus, body and training, and differ in their coupling."""

    study: str
    """Name of the file in conf/study/ that this came from."""
    corpus: str
    """Key of `corpora`."""
    body: BodySettings
    training: TrainingSettings
    runs: Annotated[dict[Name, RunSettings], Field(min_length=1)]
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    baseline: str
    """The run that the others are compared with."""

    @model_validator(mode="after")
    def _check(self) -> FamilySettings:
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("distinct seeds")
        if self.baseline not in self.runs:
            raise ValueError(f"baseline among the runs ({', '.join(self.runs)})")
        if self.body.causal != (self.training.objective == "causal"):
            raise ValueError("body.causal true with objective causal, and false with masked")
        if self.training.sequence_length > self.body.maximum_length:
            raise ValueError("training.sequence_length of at most body.maximum_length")
        return self

    def body_of(self, run: str) -> BodySettings:
        """The body of a run: the family's, with the run's replacements."""
        return validate(
            BodySettings, {**self.body.model_dump(), **self.runs[run].body}, f"runs.{run}.body"
        )


class Params(Settings):
    """params.yaml."""

    size: str
    """Name of the file in conf/size/."""
    name: Name
    """Name of the report; outputs carry it."""
    corpora: Annotated[dict[Name, CorpusSettings], Field(min_length=1)]
    encoders: FamilySettings
    retrieval: RetrievalSettings


def load_params(path: Path = PARAMS) -> Params:
    """Read and validate params.yaml.

    Raises:
        SettingsError: the key, what was found, what is expected, and the mend.
    """
    from omegaconf import OmegaConf

    if not path.exists():
        raise SettingsError(path, found="no such file", expected="the composed settings", mend="run `tiebench params`")
    return check(validate(Params, OmegaConf.to_container(OmegaConf.load(path), resolve=True)))  # type: ignore[arg-type]


def check(params: Params) -> Params:
    """What no single section can see: references between sections, and folders on disk.

    Raises:
        SettingsError: as `load_params`.
    """
    raise NotImplementedError
