"""Edge probing of a frozen encoder on a treebank (Tenney et al. 2019; RemBERT, table 9).

Every sentence is encoded once. The spans of all tasks are cut from its states, and the probes of
a task are trained together on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tiebench import paths
from tiebench.errors import DataError, SettingsError
from tiebench.evaluation.encode import read_run, require_finite, sentence_pieces, span_vectors
from tiebench.evaluation.keys import outcome_key
from tiebench.evaluation.outcomes import replacing_outcomes, write_outcomes
from tiebench.evaluation.probes import CONTROL, MIX, Examples, Outcome, train_probes
from tiebench.evaluation.probing_settings import ProbingSettings
from tiebench.files import sha256_of, write_json
from tiebench.labels.parts import PARTS
from tiebench.labels.read import Treebank, read_treebank
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime
from tiebench.settings import Params, corpus_of


def probe(params: Params, family: str, run: str, seed: int) -> Path:
    """Train probes on one frozen model and test them.

    Writes outcomes.parquet (one row per task, probe and test target) and summary.json (mixes,
    best epochs, development accuracies) into
    evals/<name>/probing/<family>/<labels>-<run>-s<seed>/.

    Raises:
        SettingsError: no such family or run, or a task that the label set does not have.
        DataError: the model or the label set is missing or damaged, a sentence is too long for
            the model, or a task has no targets in a part.
    """
    corpus_of(params, family, run)
    settings = params.probing
    labels = paths.labels_folder(settings.labels)
    treebank = read_treebank(labels)
    check_tasks(settings, treebank)
    run_folder = paths.run_folder(params.name, family, run, seed)
    device = prepare_runtime()
    model, tokenizer, ends = read_run(run_folder)

    chosen = {
        task: {part: choose_targets(treebank, task, part, settings) for part in PARTS}
        for task in settings.tasks
    }
    # those of all tasks of the label set, so that a task less changes no batch of sentences
    rows, spans = distinct_spans(treebank, np.arange(len(treebank.targets.task)))
    pieces = sentence_pieces(tokenizer, treebank.sentences.text)
    subject = f"label set {settings.labels}"
    found = span_vectors(model.to(device), pieces, spans, device, subject, ends)
    require_finite([found], run_folder)
    vectors = torch.from_numpy(found).to(device)

    outcomes: dict[str, dict[str, Outcome]] = {}
    for task in progress(settings.tasks, desc=f"probing {run} s{seed}", unit="task"):
        names = treebank.meta["labels"][task]
        parts = {
            part: make_examples(treebank, task, found, rows[found])
            for part, found in chosen[task].items()
        }
        moved = {part: examples.to(device) for part, examples in parts.items()}
        outcomes[task] = train_probes(vectors, moved, len(names), settings, seed, task)

    folder = paths.outcome_folder(params.name, "probing", family, run, seed, settings.labels)
    tested = {task: parts["test"] for task, parts in chosen.items()}
    with replacing_outcomes(folder) as new:
        _write_outcomes(new / "outcomes.parquet", treebank, tested, outcomes)
        summary = {
            "key": outcome_key(params, "probing", family, run, seed, settings.labels),
            "outcomes": sha256_of(new / "outcomes.parquet"),
            "layers": len(vectors),
            "tasks": {
                task: _summarize(found, len(chosen[task]["train"]))
                for task, found in outcomes.items()
            },
        }
        write_json(new / "summary.json", summary)
    return folder


def check_tasks(settings: ProbingSettings, treebank: Treebank) -> None:
    """Check that the label set has the tasks.

    Raises:
        SettingsError: one that it has not, and those that it has.
    """
    known = list(treebank.meta["labels"])
    for task in settings.tasks:
        if task not in known:
            raise SettingsError(
                "probing.tasks",
                found=repr(task),
                expected=f"tasks of label set {settings.labels}: {', '.join(known)}",
                mend="name some of these in conf/task/ and run `tiebench params`",
            )


def choose_targets(
    treebank: Treebank, task: str, part: str, settings: ProbingSettings
) -> np.ndarray:
    """Rows of the targets of a task in a part, in order.

    Raises:
        DataError: there are none, or, in training, none of a label.
    """
    targets = treebank.targets
    inside = treebank.sentences.part[targets.sentence] == part
    rows = np.flatnonzero(inside & (targets.task == task))
    if not len(rows):
        raise DataError(
            f"label set {settings.labels}, task {task}",
            found=f"no targets in part {part}",
            expected="some in each part",
            mend="raise labels.*.sentences, lower labels.*.minimum, or leave out the task",
        )
    untrained = set(treebank.meta["labels"][task]) - set(targets.label[rows])
    if part == "train" and untrained:
        raise DataError(
            f"label set {settings.labels}, task {task}",
            found=f"no training target with label {min(untrained)!r}",
            expected="some of every label",
            mend=f"run `dvc repro -f labels@{settings.labels}`, which leaves such labels out",
        )
    return rows


def distinct_spans(treebank: Treebank, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """The spans that some targets use, each once.

    Args:
        rows: those of the targets.

    Returns:
        `[targets, 2]`, the number of each one's first and second span (-1 for none), and for each
        sentence `[spans, 2]` offsets of characters; spans are numbered through the sentences.
    """
    targets = treebank.targets
    sentence = targets.sentence[rows]
    first = np.stack([sentence, targets.first_start[rows], targets.first_end[rows]], 1)
    second = np.stack([sentence, targets.second_start[rows], targets.second_end[rows]], 1)
    paired = targets.second_start[rows] >= 0
    distinct, numbers = np.unique(
        np.concatenate([first, second[paired]]), axis=0, return_inverse=True
    )
    numbered = np.full((len(rows), 2), -1)
    numbered[:, 0], numbered[paired, 1] = numbers[: len(rows)], numbers[len(rows) :]
    starts, ends = treebank.sentences.starts, treebank.sentences.ends
    offsets = np.array(
        [(starts[index][start], ends[index][end - 1]) for index, start, end in distinct.tolist()],
        dtype=np.int64,
    )
    bounds = np.searchsorted(distinct[:, 0], np.arange(1, len(treebank.sentences.text)))
    return numbered, np.split(offsets, bounds)


def make_examples(treebank: Treebank, task: str, rows: np.ndarray, spans: np.ndarray) -> Examples:
    """Targets of a task with their labels as classes.

    Args:
        rows: those of the targets.
        spans: `[targets, 2]`, from `distinct_spans`.
    """
    number = {name: index for index, name in enumerate(treebank.meta["labels"][task])}

    def classes(column: np.ndarray) -> torch.Tensor:
        return torch.tensor([number[label] for label in column[rows]])

    used = spans[:, : treebank.meta["spans"][task]]
    targets = treebank.targets
    return Examples(torch.from_numpy(used), classes(targets.label), classes(targets.control))


def _summarize(outcomes: dict[str, Outcome], training_targets: int) -> dict[str, Any]:
    return {
        "weights": outcomes[MIX].weights.tolist(),
        "training_targets": training_targets,
        "probes": {
            name: {"epoch": x.epoch, "development_accuracy": x.development_accuracy}
            for name, x in outcomes.items()
        },
    }


def _write_outcomes(
    path: Path,
    treebank: Treebank,
    tested: dict[str, np.ndarray],
    outcomes: dict[str, dict[str, Outcome]],
) -> None:
    targets, parts = treebank.targets, []
    for task, rows in tested.items():
        names = np.array(treebank.meta["labels"][task], dtype=object)
        for name, outcome in outcomes[task].items():
            answers = targets.control if name == CONTROL else targets.label
            parts.append(
                {
                    "task": np.full(len(rows), task, dtype=object),
                    "probe": np.full(len(rows), name, dtype=object),
                    "target": rows.astype(np.int32),
                    "sentence": targets.sentence[rows].astype(np.int32),
                    "reference": answers[rows],
                    "prediction": names[outcome.predictions],
                }
            )
    write_outcomes(path, {key: np.concatenate([part[key] for part in parts]) for key in parts[0]})
