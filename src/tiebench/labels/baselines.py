"""Predictions without a model, which a probe or a classifier must beat."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tiebench.labels.parts import majority

_PLACEHOLDER = re.compile(r"\{[^{}]*\}|%(?:\d+\$)?[sd]\b|\$\[[\w.-]+\]")
_ADDRESS = re.compile(r"https?://|www\.|_url\}")
_MARKUP = re.compile(r"\*\*|`|\]\(|^[-*#] ", re.MULTILINE)
_FINAL = (".!?:", "。！？：")
"""Signs at the end of a string, and what stands for them in Chinese and Japanese."""


def predict_by_word_type(
    words: Sequence[str], labels: Sequence[str], tested: Sequence[str]
) -> list[str]:
    """For each tested word its most frequent label in training, or of all words if it has none.

    Args:
        words: training words, `[targets]`.
        labels: their labels, `[targets]`.
        tested: words to predict for.
    """
    by_word: dict[str, list[str]] = {}
    for word, label in zip(words, labels, strict=True):
        by_word.setdefault(word, []).append(label)
    known = {word: majority(found) for word, found in by_word.items()}
    default = majority(labels)
    return [known.get(word, default) for word in tested]


def predict_by_surface(
    texts: Sequence[str], labels: Sequence[str], tested: Sequence[str]
) -> list[str]:
    """Labels by multinomial logistic regression on features of form alone.

    What a string looks like (`surface_features`) says much of what it is for, in any language; only
    what a model adds to it is transfer of meaning.

    Args:
        texts: training texts.
        labels: their labels, at least two different ones.
        tested: texts to predict for, of any language.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    with threadpool_limits(1):  # sums do not depend on the machine's cores
        model.fit(surface_features(texts), np.array(labels, dtype=object))
        return [str(label) for label in model.predict(surface_features(tested))]


def surface_features(texts: Sequence[str]) -> np.ndarray:
    """Length, punctuation, digits, placeholders and markup, `[texts, features]`.

    None of them names a word, so that they mean much the same in any language. The length of words
    and the share of capitals are no features: they mislead in German, with its compounds and the
    capitals of its nouns.
    """
    return np.array([_features(text) for text in texts], dtype=np.float64)


def _features(text: str) -> list[float]:
    placeholders = _PLACEHOLDER.findall(text)
    plain = _PLACEHOLDER.sub(" ", text)
    words = plain.split()
    names = [word for word in words if word.isalpha() and len(word) > 1]
    last = text.rstrip("\"'”’»`*) ")[-1:]
    last = last.translate(str.maketrans(_FINAL[1], _FINAL[0]))
    ends = [float(last == sign) for sign in _FINAL[0]]
    return [
        *ends,
        float(not any(ends)),
        float(len(text)),
        float(np.log1p(len(text))),
        float(len(words)),
        float(np.log1p(len(words))),
        float(len(words) == 1),
        float(len(placeholders)),
        float(bool(placeholders)),
        float(text.startswith("{")),
        float(text[:1].isupper()),
        float(any(map(str.isupper, names))),
        float(sum(map(str.isdigit, plain))),
        float(any(map(str.isdigit, plain))),
        float(sum(plain.count(sign) for sign in ".!?。！？")),
        float(plain.count(",") + plain.count("、") + plain.count("，")),
        float("(" in plain),
        float(plain.count('"') + plain.count("“") + plain.count("'")),
        float("/" in plain),
        float(bool(_ADDRESS.search(text))),
        float(bool(_MARKUP.search(text))),
    ]
