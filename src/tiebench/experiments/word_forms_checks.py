"""What the word forms need of the rest of params.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiebench.errors import SettingsError
from tiebench.experiments.word_forms_settings import FAMILY

if TYPE_CHECKING:
    from tiebench.settings import Params


def check_word_forms(params: Params) -> None:
    """Check that there are models of whole words that predict the next one, and lemmas for these.

    Raises:
        SettingsError: the key that is in the way.
    """
    family = params.word_decoders
    if (family is None) != (params.word_forms is None):
        lacking = FAMILY if family is None else "word_forms"
        raise _wrong(lacking, "nothing", f"{FAMILY} and word_forms, or neither")
    if family is None:
        return
    from tiebench.experiments.lemmas import known_languages, no_table  # which load numpy

    corpus = params.corpora[family.corpus]
    assert corpus.tokenizer is not None, "checked before"
    if corpus.tokenizer.kind != "words":
        raise _wrong(f"{FAMILY}.corpus", f"{family.corpus!r}, of kind bpe", "a tokenizer of words")
    if family.training.objective != "causal":
        raise _wrong(f"{FAMILY}.training.objective", family.training.objective, "causal")
    for language in corpus.languages:
        if language not in known_languages():
            raise no_table(language, f"corpora.{family.corpus}.languages")
    untrained = [run for run, held in family.all_runs.items() if not held.trained]
    if untrained:
        raise _wrong(f"{FAMILY}.runs.{untrained[0]}.trained", "false", "runs that are trained")


def _wrong(key: str, found: str, expected: str) -> SettingsError:
    return SettingsError(
        key,
        found=found,
        expected=expected,
        mend="edit conf/ and run `tiebench params`, or edit params.yaml",
    )
