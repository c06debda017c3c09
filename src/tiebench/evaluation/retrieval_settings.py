"""Settings of nearest-neighbour translation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tiebench.schema import Settings


class RetrievalSettings(Settings):
    """Nearest-neighbour translation by layer (Pires et al. 2019; RemBERT, appendix A.9)."""

    option: str = "retrieval"
    """Name of the file in conf/task/ that this came from."""
    sets: Annotated[list[str], Field(min_length=1)]
    """Corpora (keys of `corpora`) whose held-out sentences are searched."""
    pool: Annotated[int, Field(ge=2)]
    """Sentences searched; at most as many as the set has."""
    distances: Annotated[list[Literal["l2", "cosine"]], Field(min_length=1)]
    offsets: Annotated[list[Literal["none", "scored_pairs", "other_half"]], Field(min_length=1)]
    """The mean difference added to a source: none; fitted on the scored pairs, as published;
    fitted on the half that is not scored."""
