"""Examples whose label is what an interface string is for, by its path in the source's JSON.

Trained on in the first language only and tested in every one. No test text is one of the training
or development texts, and no test key has their pivot text.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tiebench.corpus.clean import Strings, clean, normalize
from tiebench.corpus.split import rank
from tiebench.errors import DataError
from tiebench.files import write_json
from tiebench.labels.baselines import predict_by_surface
from tiebench.labels.parts import (
    PARTS,
    Dropped,
    Part,
    majority,
    part_of,
    require_parts,
    subject,
    write_columns,
)
from tiebench.labels.settings import PurposeSettings
from tiebench.progress import progress
from tiebench.sources.read import identity, read_records


@dataclass(frozen=True)
class Example:
    """A string of one language with its label."""

    key: str
    lang: str
    text: str
    normal: str
    """What it says up to case, digits, punctuation and placeholders."""
    label: str
    part: Part = "train"


def write_purposes(settings: PurposeSettings, folder: Path) -> None:
    """Write examples.parquet, baselines.parquet and meta.json into `folder`.

    Raises:
        DataError: what the source finds wrong; a source of sentences without keys; a language, a
            part or a class without examples.
    """
    if settings.source.format in ("conllu", "iob2"):
        raise DataError(
            subject(settings),
            found=f"format {settings.source.format}, whose keys name sentences",
            expected="strings whose keys say what they are for (translations or jsonl)",
            mend="name another source, or use kind treebank",
        )
    with progress(total=4, desc=f"labels {settings.option}: read", unit="phase") as bar:
        records = read_records(settings.source, settings.languages)
        _advance(bar, settings, "choose")
        dropped: Dropped = Counter()
        strings = clean(records, settings.languages, dropped)
        examples = choose(strings, settings, dropped)
        _advance(bar, settings, "write")
        columns = {
            name: [getattr(example, name) for example in examples]
            for name in ("key", "lang", "part", "text", "label")
        }
        write_columns(folder / "examples.parquet", columns, {})
        _advance(bar, settings, "baselines")
        baselines = predict_baselines(examples)
        write_columns(folder / "baselines.parquet", baselines, {"example": "int32"})
        write_json(folder / "meta.json", _describe(settings, examples, dropped))
        bar.update()


def _advance(bar: Any, settings: PurposeSettings, phase: str) -> None:
    bar.update()
    bar.set_description(f"labels {settings.option}: {phase}")


def class_of(key: str, classes: dict[str, list[str]]) -> str | None:
    """The first class with a pattern that matches the key's path, without its component."""
    path = key.partition(".")[2]
    return next(
        (
            label
            for label, patterns in classes.items()
            if any(fnmatchcase(path, pattern) for pattern in patterns)
        ),
        None,
    )


def choose(strings: Strings, settings: PurposeSettings, dropped: Dropped) -> list[Example]:
    """The examples of all parts, in the source's order.

    Dropped, in this order: strings of no class (`no_class`); texts that have several classes in a
    language (`ambiguous`); training and development keys in other languages than the first
    (`not_tested`); all but the first of equal texts (`duplicate`); texts of the test part that are
    trained on or chosen by (`equals_training`); training examples past the limit (`past_limit`);
    classes of which fewer than `minimum` are left in training (`rare`).

    Args:
        strings: what `clean` returns.
        settings: classes, seed, shares and limits.
        dropped: counts are added here.

    Raises:
        DataError: a language, a part or a class without examples.
    """
    labelled = _label(strings, settings, dropped)
    pivot = settings.languages[0]
    # A key that the first language lacks has no pivot text, and is a group of its own.
    group = {
        key: normalize(texts[pivot]) if pivot in texts else f"\0{key}"
        for key, texts in strings.items()
    }
    parts = part_of((group[example.key] for example in labelled), settings)
    placed = [replace(example, part=parts[group[example.key]]) for example in labelled]
    kept: list[Example] = []
    said: set[tuple[str, str]] = set()
    learned = {x.normal for x in placed if x.lang == pivot and x.part != "test"}
    for example in placed:
        if example.lang != pivot and example.part != "test":
            dropped["not_tested", example.lang] += 1
        elif (example.lang, example.normal) in said:
            dropped["duplicate", example.lang] += 1
        elif example.part == "test" and example.normal in learned:
            dropped["equals_training", example.lang] += 1
        else:
            said.add((example.lang, example.normal))
            kept.append(example)
    kept = _limited(kept, settings, dropped)
    kept = _without_rare(kept, settings, dropped)
    _check(kept, settings)
    return kept


def _label(strings: Strings, settings: PurposeSettings, dropped: Dropped) -> list[Example]:
    """Examples with a class, without the texts that have several classes in a language."""
    found: list[Example] = []
    for key, texts in strings.items():
        label = class_of(key, settings.classes)
        for lang, text in texts.items():
            if label is None:
                dropped["no_class", lang] += 1
            else:
                found.append(Example(key, lang, text, normalize(text), label))
    classes: dict[tuple[str, str], set[str]] = {}
    for example in found:
        classes.setdefault((example.lang, example.normal), set()).add(example.label)
    distinct = [x for x in found if len(classes[x.lang, x.normal]) == 1]
    _count(dropped, "ambiguous", found, distinct)
    return distinct


def _without_rare(
    examples: list[Example], settings: PurposeSettings, dropped: Dropped
) -> list[Example]:
    counts = Counter(example.label for example in examples if example.part == "train")
    kept = [example for example in examples if counts[example.label] >= settings.minimum]
    _count(dropped, "rare", examples, kept)
    if len({example.label for example in kept}) < 2:
        sizes = ", ".join(f"{label} {counts[label]}" for label in settings.classes)
        raise_limit = "" if settings.examples is None else "raise examples, "
        raise DataError(
            subject(settings),
            found=f"fewer than two classes with {settings.minimum} training examples ({sizes})",
            expected="two or more",
            mend=f"lower minimum, {raise_limit}widen the patterns of `classes`, or read more files",
        )
    return kept


def _limited(examples: list[Example], settings: PurposeSettings, dropped: Dropped) -> list[Example]:
    """At most `examples` of the training part, the first by a seeded rank."""
    training = sorted(
        (example.key for example in examples if example.part == "train"),
        key=lambda key: (rank(settings.seed, "training", key), key),
    )
    chosen = set(training[: settings.examples])
    kept = [example for example in examples if example.part != "train" or example.key in chosen]
    _count(dropped, "past_limit", examples, kept)
    return kept


def _check(examples: list[Example], settings: PurposeSettings) -> None:
    require_parts(Counter(example.part for example in examples), "example", settings)
    pivot = settings.languages[0]
    tested = {example.lang for example in examples if example.part == "test"}
    for lang in settings.languages:
        if lang not in tested:
            raise DataError(
                f"{subject(settings)}, language {lang}",
                found="no example in the test part",
                expected="at least one",
                mend="raise test_share, read more files, or name fewer languages",
            )
    held = {(x.part, x.label) for x in examples if x.lang == pivot}
    for label in sorted({example.label for example in examples}):
        for part in PARTS:
            if (part, label) not in held:
                raise DataError(
                    f"{subject(settings)}, class {label}",
                    found=f"no example in the {part} part in {pivot}",
                    expected="at least one in every part",
                    mend="raise minimum so that it is dropped, or raise development_share, "
                    "test_share or examples",
                )


def _count(dropped: Dropped, reason: str, before: list[Example], after: list[Example]) -> None:
    kept = Counter(example.lang for example in after)
    for lang, number in Counter(example.lang for example in before).items():
        if number > kept[lang]:
            dropped[reason, lang] += number - kept[lang]


def predict_baselines(examples: list[Example]) -> dict[str, list[Any]]:
    """Predictions of `majority` and `surface` for the test part, by column.

    Args:
        examples: in the order of examples.parquet.
    """
    training = [example for example in examples if example.part == "train"]
    rows = [index for index, example in enumerate(examples) if example.part == "test"]
    labels = [example.label for example in training]
    tested = [examples[row] for row in rows]
    by_name = {
        "majority": [majority(labels)] * len(rows),
        "surface": predict_by_surface(
            [example.text for example in training], labels, [example.text for example in tested]
        ),
    }
    columns: dict[str, list[Any]] = {
        name: [] for name in ("baseline", "lang", "example", "reference", "prediction")
    }
    for name, predicted in by_name.items():
        columns["baseline"] += [name] * len(rows)
        columns["lang"] += [example.lang for example in tested]
        columns["example"] += rows
        columns["reference"] += [example.label for example in tested]
        columns["prediction"] += predicted
    return columns


def _describe(
    settings: PurposeSettings, examples: list[Example], dropped: Dropped
) -> dict[str, Any]:
    languages = settings.languages
    labels = sorted({example.label for example in examples})
    counts = Counter((x.part, x.lang, x.label) for x in examples)
    return {
        "option": settings.option,
        "kind": settings.kind,
        "source": identity(settings.source, languages),
        "languages": languages,
        "labels": labels,
        "examples": {
            part: {
                lang: {label: counts[part, lang, label] for label in labels}
                for lang in (languages if part == "test" else languages[:1])
            }
            for part in PARTS
        },
        "dropped": [
            {"reason": reason, "lang": lang, "examples": dropped[reason, lang]}
            for reason, lang in sorted(dropped, key=lambda k: (k[0], languages.index(k[1])))
        ],
    }
