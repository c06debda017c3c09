"""The files of a treebank label set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tiebench.files import write_json
from tiebench.labels.baselines import predict_by_word_type
from tiebench.labels.parts import PARTS, Dropped, majority, write_columns
from tiebench.labels.settings import TreebankSettings
from tiebench.labels.treebank import Sentence, Target, choose, word_type
from tiebench.progress import progress
from tiebench.sources.read import identity, read_records


def write_treebank(settings: TreebankSettings, folder: Path) -> None:
    """Write sentences.parquet, targets.parquet, baselines.parquet and meta.json into `folder`.

    Raises:
        DataError: what the source finds wrong, or one without labels; a language or part without
            sentences; a task without targets in a part.
    """
    with progress(total=4, desc=f"labels {settings.option}: read", unit="phase") as bar:
        records = read_records(settings.source, settings.languages, labelled=True).to_list()
        _advance(bar, settings, "choose")
        dropped: Dropped = Counter()
        sentences, targets = choose(records, settings, dropped)
        _advance(bar, settings, "write")
        _write_sentences(folder / "sentences.parquet", sentences)
        _write_targets(folder / "targets.parquet", targets)
        _advance(bar, settings, "baselines")
        baselines = predict_baselines(sentences, targets)
        types = {"target": "int32", "sentence": "int32"}
        write_columns(folder / "baselines.parquet", baselines, types)
        write_json(folder / "meta.json", _describe(settings, sentences, targets, dropped))
        bar.update()


def _advance(bar: Any, settings: TreebankSettings, phase: str) -> None:
    bar.update()
    bar.set_description(f"labels {settings.option}: {phase}")


def predict_baselines(sentences: list[Sentence], targets: list[Target]) -> dict[str, list[Any]]:
    """Predictions of `majority` and `word_type` for the test part, by column.

    Args:
        sentences: in the order of sentences.parquet.
        targets: in the order of targets.parquet.
    """
    names = ("baseline", "task", "target", "sentence", "reference", "prediction")
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for baseline, task in _both(targets):
        training = [t for t in targets if t.task == task and sentences[t.sentence].part == "train"]
        rows = [
            row
            for row, t in enumerate(targets)
            if t.task == task and sentences[t.sentence].part == "test"
        ]
        labels = [target.label for target in training]
        if baseline == "majority":
            predicted = [majority(labels)] * len(rows)
        else:
            words = [word_type(target, sentences) for target in training]
            tested = [word_type(targets[row], sentences) for row in rows]
            predicted = predict_by_word_type(words, labels, tested)
        columns["baseline"] += [baseline] * len(rows)
        columns["task"] += [task] * len(rows)
        columns["target"] += rows
        columns["sentence"] += [targets[row].sentence for row in rows]
        columns["reference"] += [targets[row].label for row in rows]
        columns["prediction"] += predicted
    return columns


def _both(targets: list[Target]) -> Iterator[tuple[str, str]]:
    for baseline in ("majority", "word_type"):
        for task in sorted({target.task for target in targets}):
            yield baseline, task


def _write_sentences(path: Path, sentences: list[Sentence]) -> None:
    columns = {
        name: [getattr(sentence, name) for sentence in sentences]
        for name in ("key", "lang", "part", "text", "starts", "ends")
    }
    write_columns(path, columns, {"starts": "list<int32>", "ends": "list<int32>"})


def _write_targets(path: Path, targets: list[Target]) -> None:
    seconds = [target.second or (-1, -1) for target in targets]
    positions = {
        "sentence": [target.sentence for target in targets],
        "first_start": [target.first[0] for target in targets],
        "first_end": [target.first[1] for target in targets],
        "second_start": [start for start, _ in seconds],
        "second_end": [end for _, end in seconds],
    }
    columns: dict[str, list[Any]] = {
        "task": [target.task for target in targets],
        **positions,
        "label": [target.label for target in targets],
        "control": [target.control for target in targets],
    }
    write_columns(path, columns, dict.fromkeys(positions, "int32"))


def _describe(
    settings: TreebankSettings, sentences: list[Sentence], targets: list[Target], dropped: Dropped
) -> dict[str, Any]:
    tasks = sorted({target.task for target in targets})
    parts = Counter(sentence.part for sentence in sentences)
    counts = Counter((target.task, sentences[target.sentence].part) for target in targets)
    return {
        "option": settings.option,
        "kind": settings.kind,
        "source": identity(settings.source, settings.languages),
        "languages": settings.languages,
        "labels": {task: sorted({t.label for t in targets if t.task == task}) for task in tasks},
        "spans": {
            task: 2 if any(t.second for t in targets if t.task == task) else 1 for task in tasks
        },
        "sentences": {part: parts[part] for part in PARTS},
        "targets": {task: {part: counts[task, part] for part in PARTS} for task in tasks},
        "dropped": [
            {"reason": reason, "task": task, "targets": dropped[reason, task]}
            for reason, task in sorted(dropped)
        ],
    }
