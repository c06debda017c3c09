"""Settings of the word forms: which forms count, and how finely frequency is matched."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tiebench.schema import Settings

FAMILY = "word_decoders"
"""The family whose models are looked at: word-level, causal."""
SIDES = ("input", "output")
CENTRINGS = ("raw", "centred")
"""Rows as they are, or less the mean of the language's words."""
CHOICE = ("log_odds", "accuracy", "form_loss", "lemma_loss")
"""Metrics of a choice of form, see `tiebench.experiments.form_choice`."""
ALL, DIFFERENCE, UNIGRAM = "all", "input_minus_output", "unigram"
"""What stands in the scored tables for all languages, for the difference of the sides, and for
training frequencies in the place of a model."""
RAW = {
    "geometry": (
        "run", "seed", "language", "side", "centring", "lemma", "pairs", "forms", "matched", "auc",
    ),
    "choices": ("run", "seed", "language", "lemma", "positions", *CHOICE),
    "baseline": ("language", "lemma", "positions", *CHOICE),
    "coverage": ("language", "metric", "value"),
}  # fmt: skip
"""Columns of the tables that the stage writes."""


class WordFormsSettings(Settings):
    """Forms of one lemma in both vocabulary tables, and the choice between them in text.

    A lemma table is looked up without context: a word with several lemmas is left out.
    """

    option: str
    """Name of the file in conf/task/ that this came from."""
    minimum: Annotated[int, Field(gt=0)]
    """Fewest training occurrences of a word that is compared, as a form or as a control."""
    bin_ratio: Annotated[float, Field(gt=1)]
    """Ratio of the training counts at the ends of a frequency bin: the controls of a pair of forms
    are all pairs of words of other lemmas, one from the bin of each form."""
