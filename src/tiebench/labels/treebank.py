"""Labelled spans of sentences, for probing.

Each sentence is written out from its tokens, so that every model reads the same text whatever its
tokenizer, and spans are found in it by character. Sentences that say the same are in the same part.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from tiebench.corpus.clean import normalize
from tiebench.corpus.split import rank
from tiebench.errors import DataError
from tiebench.labels.parts import PARTS, Dropped, Part, part_of, require_parts, subject
from tiebench.labels.settings import TreebankSettings

Span = tuple[int, int]
"""Token positions, end-exclusive."""


@dataclass(frozen=True)
class Sentence:
    """A sentence as it is written, with the characters of its tokens."""

    key: str
    lang: str
    text: str
    tokens: list[str]
    starts: list[int]
    """First character of each token in `text`."""
    ends: list[int]
    """The character after the last."""
    part: Part = "train"


class Target(NamedTuple):
    """A labelled span of a sentence, or a pair of spans."""

    task: str
    sentence: int
    """Position in the list of sentences."""
    first: Span
    second: Span | None
    label: str
    control: str = ""
    """Label of the control task."""


def write_out(
    key: str, lang: str, tokens: list[str], space_after: list[bool], maximum_bytes: int
) -> Sentence:
    """The written sentence: the tokens that end within `maximum_bytes` of UTF-8, then no more.

    Inflectional groups are tokens like others, joined to the next without a space.
    """
    # a model's tokenizer normalizes in the same way: positions and bytes are those that it sees
    tokens = [unicodedata.normalize("NFC", token) for token in tokens]
    pieces = [token + " " * after for token, after in zip(tokens, space_after, strict=True)]
    stops = accumulate(len(piece.encode()) for piece in pieces)
    lengths = [stop - after for stop, after in zip(stops, space_after, strict=True)]
    kept = bisect_right(lengths, maximum_bytes)
    starts = [0, *accumulate(map(len, pieces[:kept]))][:kept]
    ends = [start + len(token) for start, token in zip(starts, tokens, strict=False)]
    text = "".join(pieces[:kept])[: ends[-1] if ends else 0]
    return Sentence(key, lang, text, tokens[:kept], starts, ends)


def choose(
    records: list[dict[str, Any]], settings: TreebankSettings, dropped: Dropped
) -> tuple[list[Sentence], list[Target]]:
    """Sentences with their parts and targets with both labels, in the source's order.

    Targets dropped: of sentences that were not chosen (`not_selected`); on words past the limit
    (`past_limit`); with one span in a task of pairs, such as the root, which the missing span would
    give away (`no_second_span`); training targets beyond the number wanted (`not_trained`); with a
    label that is seen fewer than `minimum` times in what is left of training (`rare`). A sentence
    of which no word is kept is dropped.

    Args:
        records: labelled records.
        settings: seed, shares and limits.
        dropped: counts are added here.

    Raises:
        DataError: no labels, or a language, a part or a task without any.
    """
    if not any(record["targets"] for record in records):
        raise DataError(
            subject(settings),
            found=f"{len(records)} sentences without a label",
            expected="labels in UPOS, FEATS (Case) and HEAD with DEPREL, or entities",
            mend="name a source that is annotated",
        )
    pairs = {t["task"] for record in records for t in record["targets"] if t["span2"] is not None}
    written = [_written(record, settings) for record in records]
    parts = _parts(written, settings)
    sentences: list[Sentence] = []
    targets: list[Target] = []
    for index, (record, sentence) in enumerate(zip(records, written, strict=True)):
        part = parts.get(index)
        reason = "not_selected" if sentence.tokens and part is None else None
        for target in record["targets"]:
            why = reason or _refusal(target, len(sentence.tokens), pairs)
            if why:
                dropped[why, target["task"]] += 1
            else:
                targets.append(_target(target, len(sentences)))
        if part is not None:
            sentences.append(replace(sentence, part=part))
    require_parts(Counter(sentence.part for sentence in sentences), "sentence", settings)
    targets = _limited(targets, sentences, settings, dropped)
    targets = _without_rare(targets, sentences, settings, dropped)
    return sentences, _with_control(targets, sentences, settings)


def _written(record: dict[str, Any], settings: TreebankSettings) -> Sentence:
    words = (record["key"], record["lang"], record["tokens"], record["space_after"])
    return write_out(*words, settings.maximum_bytes)


def _parts(written: list[Sentence], settings: TreebankSettings) -> dict[int, Part]:
    """By position, the part of each sentence that has words and is chosen."""
    order = sorted(
        (index for index, sentence in enumerate(written) if sentence.tokens),
        key=lambda i: (rank(settings.seed, "sentence", written[i].lang, written[i].key), i),
    )[: settings.sentences]
    normal = {index: normalize(written[index].text) for index in order}
    parts = part_of(normal.values(), settings)
    return {index: parts[text] for index, text in normal.items()}


def _refusal(target: dict[str, Any], kept: int, pairs: set[str]) -> str | None:
    spans = [target["span1"], *([target["span2"]] if target["span2"] is not None else [])]
    if any(end > kept for _, end in spans):
        return "past_limit"
    return "no_second_span" if target["task"] in pairs and target["span2"] is None else None


def _target(target: dict[str, Any], sentence: int) -> Target:
    first, second = target["span1"], target["span2"]
    return Target(
        target["task"],
        sentence,
        (first[0], first[1]),
        None if second is None else (second[0], second[1]),
        target["label"],
    )


def _limited(
    targets: list[Target],
    sentences: list[Sentence],
    settings: TreebankSettings,
    dropped: Dropped,
) -> list[Target]:
    """At most `targets` training targets a task, the first by a seeded rank; a higher limit only
    adds to them."""
    if settings.targets is None:
        return targets

    def order(index: int) -> tuple[bytes, int]:
        target = targets[index]
        key, where = sentences[target.sentence].key, f"{target.first} {target.second}"
        return rank(settings.seed, "target", target.task, key, where), index

    removed: set[int] = set()
    for task in {target.task for target in targets}:
        training = [
            index
            for index, target in enumerate(targets)
            if target.task == task and sentences[target.sentence].part == "train"
        ]
        past = sorted(training, key=order)[settings.targets :]
        removed.update(past)
        if past:
            dropped["not_trained", task] += len(past)
    return [target for index, target in enumerate(targets) if index not in removed]


def _without_rare(
    targets: list[Target],
    sentences: list[Sentence],
    settings: TreebankSettings,
    dropped: Dropped,
) -> list[Target]:
    """Without rare labels, and without tasks in which fewer than two labels are left."""
    counts = Counter((t.task, t.label) for t in targets if sentences[t.sentence].part == "train")
    enough = {name for name, number in counts.items() if number >= settings.minimum}
    labels = Counter(task for task, _ in enough)
    kept: list[Target] = []
    for target in targets:
        if (target.task, target.label) in enough and labels[target.task] > 1:
            kept.append(target)
        else:
            dropped["rare", target.task] += 1
    if not kept:
        limits = [name for name in ("targets", "sentences") if getattr(settings, name) is not None]
        raise_limits = f"raise {' or '.join(limits)}, " if limits else ""
        raise DataError(
            subject(settings),
            found=f"no task with two labels of {settings.minimum} training targets each",
            expected="one task or more",
            mend=f"lower minimum, {raise_limits}or read more files",
        )
    by_part = Counter((target.task, sentences[target.sentence].part) for target in kept)
    for task in sorted({target.task for target in kept}):
        require_parts({part: by_part[task, part] for part in PARTS}, f"{task} target", settings)
    return kept


def _with_control(
    targets: list[Target], sentences: list[Sentence], settings: TreebankSettings
) -> list[Target]:
    """Each target with its label in the control task (Hewitt & Liang 2019, section 2).

    A word type has one control label a task, drawn from the labels of the training targets: the
    seed, the task and the form alone decide, so that it is the same for every model, and a type
    that training lacks has one too.
    """
    drawn: dict[tuple[str, str], str] = {}
    marginals = {
        task: _cumulative(
            t.label for t in targets if t.task == task and sentences[t.sentence].part == "train"
        )
        for task in {target.task for target in targets}
    }
    result = []
    for target in targets:
        name = target.task, word_type(target, sentences)
        if name not in drawn:
            labels, ends = marginals[target.task]
            digest = rank(settings.seed, "control", *name)
            drawn[name] = labels[bisect_right(ends, int.from_bytes(digest) % ends[-1])]
        result.append(target._replace(control=drawn[name]))
    return result


def _cumulative(labels: Iterable[str]) -> tuple[list[str], list[int]]:
    """The distinct labels in order, and the running sum of their counts."""
    counts = sorted(Counter(labels).items())
    return [label for label, _ in counts], list(accumulate(number for _, number in counts))


def word_type(target: Target, sentences: list[Sentence]) -> str:
    """The form of the first span, exactly as it is written; several tokens with spaces between."""
    return " ".join(sentences[target.sentence].tokens[slice(*target.first)])
