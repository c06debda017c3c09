"""Settings of imported models: which they are, and what is fitted on top of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator

from tiebench.evaluation.transfer_settings import Rate, TransferSettings
from tiebench.paths import IMPORTED
from tiebench.schema import Name, Settings

if TYPE_CHECKING:
    from tiebench.settings import Params

Seeds = list[Annotated[int, Field(ge=0)]]


class ImportedModel(Settings):
    """A model that was trained elsewhere."""

    folder: str
    """Name under external/ of a folder, or a link to one, with a checkpoint as transformers writes
    it (config.json, safetensors, tokenizer.json)."""

    @field_validator("folder")
    @classmethod
    def _inside(cls, folder: str) -> str:
        if not folder or folder.startswith("/") or ".." in folder.split("/"):
            raise ValueError(f"a path inside external/ ({folder!r} leaves it)")
        return folder


class ImportedSettings(Settings):
    """Models that were trained elsewhere: searched, probed and fine-tuned as the runs are."""

    seeds: Annotated[Seeds, Field(min_length=1)] = [0]
    """Of the probes and of fine-tuning; what is searched has no seed, and is searched once."""
    learning_rates: Annotated[list[Rate], Field(min_length=1)] = [2e-5, 3e-5, 5e-5]
    """Tried in place of transfer.learning_rates, which suit the runs (Devlin et al. 2019, appendix
    A.3)."""
    models: dict[Name, ImportedModel] = {}
    """By name."""

    @field_validator("seeds", "learning_rates")
    @classmethod
    def _distinct(cls, values: list[float]) -> list[float]:
        if len(set(values)) != len(values):
            raise ValueError("distinct values")
        return values


def transfer_settings(params: Params, family: str) -> TransferSettings:
    """How a family is fine-tuned; imported models as the runs, with their own learning rates."""
    if family != IMPORTED:
        return params.transfer
    return params.transfer.model_copy(update={"learning_rates": params.imported.learning_rates})
