"""Whether a model that predicts the next word picks the right one among the forms of its lemma.

Where the next word is a form of a lemma that has other forms in the vocabulary:

- `log_odds`: log p of the right form minus the log of the summed p of the other forms, in nats;
- `accuracy`: whether no other form has as high a p;
- `form_loss`: -log of the share of the right form in the p of all forms;
- `lemma_loss`: -log of the p of all forms together, so that the two losses sum to the model's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from tiebench.experiments.lemmas import Lexicon
from tiebench.experiments.word_forms_settings import CHOICE
from tiebench.model.lm import LanguageModel
from tiebench.training.batches import Batch


@dataclass(frozen=True)
class Forms:
    """The forms that compete with each word.

    Attributes:
        lemma: `[vocabulary]` number of the lemma that a word is a form of, -1 for other words.
        members: `[lemmas, most]` ids of the forms of each lemma, -1 where it has fewer.
    """

    lemma: np.ndarray
    members: np.ndarray


def forms_of(lexicon: Lexicon, vocabulary: int) -> Forms:
    """The lemmas of a language that have two forms or more."""
    inflected = lexicon.inflected()
    most = max(map(len, inflected.values()), default=0)
    lemma = np.full(vocabulary, -1, dtype=np.int64)
    members = np.full((len(lexicon.names), most), -1, dtype=np.int64)
    for number, places in inflected.items():
        lemma[lexicon.words[places]] = number
        members[number, : len(places)] = lexicon.words[places]
    return Forms(lemma, members)


def choice(
    log_p: np.ndarray, targets: np.ndarray, forms: Forms
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What each position says, `[n]` the number of its lemma and `[n]` each metric.

    Args:
        log_p: `[n, vocabulary]`, log probabilities of the next word.
        targets: `[n]` ids, each a form of a lemma.
        forms: those of the language.
    """
    lemma = forms.lemma[targets]
    members = forms.members[lemma]
    held = np.take_along_axis(log_p, np.maximum(members, 0), axis=1)
    held = np.where(members >= 0, held, -np.inf)
    right = members == targets[:, None]
    own, others = held[right], np.where(right, -np.inf, held)
    rest, all_forms = np.logaddexp.reduce(others, axis=1), np.logaddexp.reduce(held, axis=1)
    values = (own - rest, (own > others.max(axis=1)).astype(float), all_forms - own, -all_forms)
    return lemma, dict(zip(CHOICE, values, strict=True))


@torch.no_grad()
def choices(
    model: LanguageModel, batches: Iterable[Batch], forms: Forms, device: torch.device
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """As `choice`, at every position of the batches whose target is a form."""
    found = []
    for batch in batches:
        at = np.flatnonzero(forms.lemma[batch.targets] >= 0)
        if len(at):
            last = model.states(torch.from_numpy(batch.ids).to(device))[-1].flatten(0, 1)
            where = torch.from_numpy(batch.where[at]).to(device)
            logits = model.coupling.logits(last[where])
            log_p = logits.double().log_softmax(dim=-1).cpu().numpy()
            found.append(choice(log_p, batch.targets[at], forms))
    return _joined(found)


def unigram_choices(
    counts: np.ndarray, batches: Iterable[Batch], forms: Forms
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """As `choices`, of training frequencies alone: one added to every count, `[vocabulary]`."""
    log_p = np.log((counts + 1) / (counts + 1).sum())
    targets = np.concatenate([batch.targets for batch in batches])
    targets = targets[forms.lemma[targets] >= 0]
    return choice(np.broadcast_to(log_p, (len(targets), len(log_p))), targets, forms)


def by_lemma(lemma: np.ndarray, values: Mapping[str, np.ndarray]) -> dict[int, dict[str, float]]:
    """By number of a lemma, its `positions` and the mean of each metric over them."""
    numbers, place, sizes = np.unique(lemma, return_inverse=True, return_counts=True)
    means = {name: np.bincount(place, x, len(numbers)) / sizes for name, x in values.items()}
    return {
        int(number): {
            "positions": int(sizes[i]),
            **{name: float(x[i]) for name, x in means.items()},
        }
        for i, number in enumerate(numbers)
    }


def _joined(
    found: list[tuple[np.ndarray, dict[str, np.ndarray]]],
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    if not found:
        return np.zeros(0, dtype=np.int64), dict.fromkeys(CHOICE, np.zeros(0))
    return (
        np.concatenate([lemma for lemma, _ in found]),
        {name: np.concatenate([values[name] for _, values in found]) for name in CHOICE},
    )
