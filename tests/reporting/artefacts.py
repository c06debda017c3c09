"""Artefacts of every cell in the form that the stages write, made up and deterministic.

The losses and ranks follow simple curves plus a seeded draw, so that tables, figures and
verdicts have something to show without training a model.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from tests.conftest import ROOT
from tests.reporting.bigram_artefacts import bigram_settings, write_bigram
from tiebench import paths
from tiebench.analysis.accounting import account
from tiebench.analysis.counting import coupled_counts
from tiebench.evaluation.cells import Cell, cells, evaluations, imported_cells
from tiebench.evaluation.imported_settings import transfer_settings
from tiebench.evaluation.keys import outcome_key
from tiebench.files import sha256_of, write_json, write_text
from tiebench.settings import Params, families

HEAD = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
RUNS: dict[str, dict[str, Any]] = {
    "tied": {"coupling": {"tied": True}},
    "untied": {"coupling": {"tied": False}},
    "narrow_input_wide_output": {
        "coupling": {"tied": False, "input_width": 32, "output_width": 384}
    },
    "narrow_input_body_output": {"coupling": {"tied": False, "input_width": 32}},
    "deep": {"coupling": {"tied": True}, "body": {"layers": 6}},
    "untrained": {"coupling": {"tied": True}, "trained": False},
    "untrained_narrow_input": {
        "coupling": {"tied": False, "input_width": 32, "output_width": 384},
        "trained": False,
    },
}
COMMON = ("tied", "untied", "narrow_input_wide_output", "untrained", "untrained_narrow_input")
FINAL_LOSS = {
    "tied": 3.6, "untied": 3.9, "narrow_input_wide_output": 4.2, "narrow_input_body_output": 4.1,
    "deep": 3.5, "untrained": 9.05, "untrained_narrow_input": 9.01,
}  # fmt: skip
ACCURACY = {
    "tied": 0.30, "untied": 0.33, "narrow_input_wide_output": 0.26,
    "narrow_input_body_output": 0.2, "deep": 0.31, "untrained": 0.12,
    "untrained_narrow_input": 0.09,
}  # fmt: skip


MATCHED: dict[str, dict[str, Any]] = {
    "tied_equal_pretraining": {
        "coupling": {"tied": True},
        "body": {"feedforward_width": 1536},
        "matches": {"run": "untied", "parameters": "pretraining"},
    },
}
FINAL_LOSS["tied_equal_pretraining"] = 3.4
ACCURACY["tied_equal_pretraining"] = 0.31
ACCURACY |= {"elsewhere": 0.45, "other_model": 0.08}
IMPORTED_LAYERS = 6
"""Of every imported model."""
SOURCE = {"kind": "local", "folder": "x", "format": "conllu", "files": {"tr": "x.conllu"}}
SPLIT = {"seed": 0, "development_share": 0.1, "test_share": 0.2, "minimum": 5}
TREEBANK = {
    "option": "treebank", "kind": "treebank", "source": SOURCE, "languages": ["tr"],
    "maximum_bytes": 60, **SPLIT,
}  # fmt: skip
PURPOSES = {
    "option": "purposes", "kind": "purposes", "classes": {"title": ["*.title"], "name": ["*.name"]},
    "source": {"kind": "local", "folder": "x", "format": "jsonl", "files": "x.jsonl"}, **SPLIT,
}  # fmt: skip
TASKS = {"upos": ("NOUN", "VERB", "ADJ"), "deprel": ("nsubj", "obj", "ig", "root")}
PROBED = 60
"""Sentences in the test part of the made-up treebank; two targets a task in each."""
STRINGS = 40
"""Test strings of a language."""


def make_params(
    *,
    runs: tuple[str, ...] = COMMON,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    languages: tuple[str, ...] = ("en", "de", "es", "tr"),
    pool: int = 100,
    objective: str = "masked",
    sets: tuple[str, ...] = ("home",),
    matched: tuple[str, ...] = (),
    margins: Mapping[str, float] = {},
    imported: tuple[str, ...] = (),
    imported_seeds: tuple[int, ...] = (0, 1, 2),
) -> Params:
    """Settings of a small study over a made-up corpus."""
    corpus = {
        "option": "home",
        "source": {"kind": "local", "folder": "x", "format": "jsonl", "files": "x.jsonl"},
        "languages": list(languages),
        "seed": 0,
        "valid_share": 0.05,
        "heldout": {"sentences": pool, "minimum_words": 4},
        "tokenizer": {"vocabulary": 8192},
    }
    chosen, equal = (
        {
            run: {
                **known[run],
                "coupling": {"option": run, "transform": HEAD, **known[run]["coupling"]},
            }
            for run in names
        }
        for known, names in ((RUNS, runs), (MATCHED, matched))
    )
    masked = objective == "masked"
    family = {
        "study": "rembert",
        "corpus": "home",
        "baseline": runs[0],
        "runs": chosen,
        "seeds": list(seeds),
        "matched": equal,
        "matched_seeds": list(seeds[:3]) if matched else [],
        "body": {
            "option": "pre_norm",
            "width": 128,
            "layers": 4,
            "heads": 4,
            "feedforward_width": 512,
            "maximum_length": 64,
            "causal": not masked,
        },
        "training": {
            "objective": objective,
            "masking": {"probability": 0.3} if masked else None,
            "steps": 1500,
            "batch_size": 32,
            "sequence_length": 64,
            "sampling_exponent": 0.5,
            "learning_rate": 2.5e-3,
            "warmup_steps": 150,
            "log_every": 50,
            "validate_every": 100,
            "validation_windows": 32,
        },
    }
    return Params.model_validate(
        {
            "size": "small",
            "name": "small",
            "corpora": dict.fromkeys(("home", *sets), corpus),
            "encoders": family,
            "imported": {
                "seeds": list(imported_seeds),
                "models": {model: {"folder": f"folder_of_{model}"} for model in imported},
            },
            "retrieval": {
                "sets": list(sets),
                "pool": pool,
                "distances": ["l2", "cosine"],
                "offsets": ["none", "scored_pairs", "other_half"],
            },
            "labels": {"treebank": TREEBANK, "purposes": {**PURPOSES, "languages": list(languages)}},
            "probing": {
                "labels": "treebank", "tasks": list(TASKS), "hidden": 16,
                "learning_rate": 1e-3, "batch_size": 32, "epochs": 2,
            },
            "transfer": {
                "labels": "purposes", "learning_rates": [5e-4, 2e-3], "batch_size": 32,
                "epochs": 2, "warmup_share": 0.1,
            },
            "bigram": bigram_settings(seeds=seeds),
            "statistics": {
                "correction": "holm",
                "margins": {
                    "loss": 0.05, "accuracy": 0.01, "retrieval": 0.02, "probing": 0.01,
                    "transfer": 0.02, **margins,
                },
                "flattened": {"share": 0.25, "nats": 0.1},
            },
        }
    )  # fmt: skip


def write_artefacts(params: Params, rates: Mapping[Any, float] = ACCURACY) -> None:
    """Write what every stage before `score` writes, into the working folder.

    Args:
        rates: accuracy at layer 2 by run, or by (run, distance, offset).
    """
    for name, corpus in params.corpora.items():
        _write_corpus(paths.corpus_folder(name), corpus.languages)
    write_treebank(paths.labels_folder("treebank"))
    write_bigram(paths.evaluation_folder(params.name, "bigram"), params.bigram)
    write_purposes(paths.labels_folder("purposes"), params.labels["purposes"].languages)
    write = {
        "probing": lambda cell, _: write_probing(params, cell),
        "transfer": lambda cell, _: write_transfer(params, cell),
        "retrieval": lambda cell, name: write_outcomes(params, cell, name, {**ACCURACY, **rates}),
    }
    for cell in (*cells(params), *imported_cells(params)):
        if cell.corpus:
            write_run(params, cell)
        else:
            write_imported(params, cell)
        for task, data in evaluations(params, cell):
            write[task](cell, data)
    account(paths.evaluation_folder(params.name, "accounting"))
    shutil.copytree(ROOT / "claims", "claims", dirs_exist_ok=True)


def _draw(*parts: object) -> np.random.Generator:
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "big"))


def _write_corpus(folder: Path, languages: list[str]) -> None:
    sizes = {
        "strings": 22_000,
        "words": 120_000,
        "bytes": 800_000,
        "tokens": 225_000,
        "bytes_per_token": 800 / 225,
    }
    write_text(folder / "seen.parquet", "made up\n")
    write_text(folder / "heldout" / "sentences.parquet", "made up\n")
    write_json(
        folder / "meta.json",
        {
            "option": "home",
            "source": {"kind": "local", "folder": "x", "sha256": "0" * 64},
            "languages": languages,
            "read": dict.fromkeys(languages, 44_000),
            "heldout": {"sentences": 1000},
            "dropped": [
                {"reason": reason, "lang": language, "strings": 100 * (i + 1) + j}
                for i, reason in enumerate(("duplicate", "equals_heldout", "untranslated"))
                for j, language in enumerate(languages)
            ],
            "vocabulary": 8192,
            "train": dict.fromkeys(languages, sizes),
            "valid": {language: {**sizes, "strings": 1_200} for language in languages},
            "repeated_token_share": {**dict.fromkeys(languages, 0.0007), "all": 0.0007},
        },
    )


def write_run(params: Params, cell: Cell) -> None:
    """The run folder of one cell, as far as `score` reads it."""
    group = families(params)[cell.family]
    trained, training = group.all_runs[cell.run].trained, group.training
    steps = training.steps if trained else 0
    per_step = training.batch_size * training.sequence_length
    draw = _draw(cell.run, cell.seed)
    offset = float(_draw(cell.seed).normal(0, 0.03) + draw.normal(0, 0.02))
    final, initial = FINAL_LOSS[cell.run] + offset, 9.05
    rows = [f"0,0,,,,{initial}"]
    for step in range(training.log_every, steps + 1, training.log_every):
        loss = final + (initial - final) * np.exp(-step / 300)
        validated = f"{loss}" if step % training.validate_every == 0 else ""
        noisy = loss + draw.normal(0, 0.08)
        rows.append(f"{step},{step * per_step},{noisy},{1e-3},{0.5},{validated}")
    write_text(
        cell.folder / "history.csv",
        "step,tokens,loss,learning_rate,gradient_norm,validation_loss\n" + "\n".join(rows) + "\n",
    )
    languages = params.corpora[cell.corpus].languages
    accuracy = max(0.0, 0.9 - 0.15 * final)
    part = {"accuracy": accuracy, "predicted_tokens": 600}
    counts = coupled_counts(group.all_runs[cell.run].coupling, group.body_of(cell.run), 8192)
    bins = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")
    write_json(
        cell.folder / "metrics.json",
        {
            "objective": training.objective,
            "seed": cell.seed,
            "steps": steps,
            "tokens": steps * per_step,
            "train_flops": 1.5e13 if trained else 0.0,
            "vocabulary": 8192,
            "parameters": counts.as_dict(),
            "validation": {
                "initial_loss": initial,
                "loss": final,
                "accuracy": accuracy,
                "predicted_tokens": 600 * len(languages),
                "unigram_loss": 6.9,
                "bits_per_byte": 1.3 if training.objective == "causal" else None,
                "by_language": {
                    language: {"loss": final + 0.1 * i - 0.15, **part}
                    for i, language in enumerate(languages)
                },
                "by_frequency": [
                    {"bin": name, "loss": final + 2.5 - i, **part} for i, name in enumerate(bins)
                ],
            },
        },
    )
    for name in ("tokenizer.json", "config.json", "model.safetensors"):
        write_text(cell.folder / name, f"{cell.run} {cell.seed}\n" if "model" in name else "{}\n")


def write_imported(params: Params, cell: Cell) -> None:
    """The folder of an imported model, as far as `score` reads it."""
    coupling = {"option": "untied", "tied": False, "input_width": 32, "output_width": 96}
    body = {"option": "imported", "width": 96, "layers": IMPORTED_LAYERS, "heads": 4}
    settings = {
        "coupling": {**coupling, "transform": HEAD},
        "body": {**body, "feedforward_width": 128},
    }
    config = {"model_type": "tiebench", "format": 1, "vocabulary": 5000, **settings}
    write_json(cell.folder / "config.json", config)
    for name in ("tokenizer.json", "model.safetensors"):
        write_text(cell.folder / name, f"{cell.run} {name}\n")
    held = {"folder": params.imported.models[cell.run].folder, "architecture": "RemBertForMaskedLM"}
    files = dict.fromkeys(("config.json", "model.safetensors", "tokenizer.json"), "ab" * 32)
    notes = ["the pooler is left out", "row 0 is added"] if cell.run == "elsewhere" else []
    write_json(cell.folder / "imported.json", {**held, "files": files, "notes": notes})


def _layers(params: Params, cell: Cell) -> int:
    if not cell.corpus:
        return IMPORTED_LAYERS
    return families(params)[cell.family].body_of(cell.run).layers


def write_outcomes(
    params: Params, cell: Cell, name: str, rates: Mapping[Any, float] = ACCURACY
) -> None:
    """Retrieval outcomes: more right answers in the middle layers and with an offset."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    settings = params.retrieval
    pivot, *others = params.corpora[name].languages
    pairs = [pair for other in others for pair in ((pivot, other), (other, pivot))]
    layers = _layers(params, cell)
    columns: dict[str, list[Any]] = {}
    shares = _draw(name).random(settings.pool) < 0.6
    for (source, target), layer, offset, distance in product(
        pairs, [*map(str, range(layers + 1)), "tokens"], settings.offsets, settings.distances
    ):
        baseline = layer == "tokens"
        draw = _draw(name, source, target, *(() if baseline else (cell.run, cell.seed, layer)))
        rate = rates.get((cell.run, distance, offset), rates[cell.run])
        chance = 0.2 if baseline else max(0.0, rate - 0.03 * abs(int(layer) - 2))
        chance *= 1.0 if offset != "none" else 0.8
        right = draw.random(settings.pool) < np.where(shares, chance, chance / 3)
        rank = np.where(right, 1, draw.integers(2, settings.pool, settings.pool))
        size = settings.pool
        part = {
            "set": [name] * size,
            "source": [source] * size,
            "target": [target] * size,
            "layer": [layer] * size,
            "distance": [distance] * size,
            "offset": [offset] * size,
            "index": range(size),
            "rank": rank.tolist(),
            "credit": right.astype(float).tolist(),
            "shares_token": shares.tolist(),
            "seen_in_training": [cell.corpus not in ("", name) and i < 3 for i in range(size)],
            "nearest": range(size),
        }
        for key, values in part.items():
            columns.setdefault(key, []).extend(values)
    types = {"index": pa.int32(), "rank": pa.int32(), "credit": pa.float32(), "nearest": pa.int32()}
    table = pa.table({key: pa.array(v, types.get(key)) for key, v in columns.items()})
    path = cell.outcomes("retrieval", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table, path)
    summary = {
        "key": outcome_key(params, "retrieval", cell.family, cell.run, cell.seed, name),
        "outcomes": sha256_of(path),
        "pool": settings.pool,
        "zero_vectors": 0,
        "equal_sentences": 0,
    }
    if cell.corpus:
        summary["seen_in_training"] = 0 if name == cell.corpus else 3
    write_json(path.parent / "summary.json", summary)


def _write(path: Path, columns: Mapping[str, Any], **types: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({key: pa.array(list(v), types.get(key)) for key, v in columns.items()})
    parquet.write_table(table, path)


def _wrong(labels: tuple[str, ...], gold: str, right: bool) -> str:
    return gold if right else labels[(labels.index(gold) + 1) % len(labels)]


def _targets() -> list[tuple[int, str, int, str]]:
    """(target, task, sentence, label) of the test part."""
    draw, rows = _draw("targets"), []
    for task, labels in TASKS.items():
        for sentence in np.repeat(np.arange(PROBED), 2).tolist():
            rows.append((len(rows), task, sentence, labels[int(draw.integers(len(labels)))]))
    return rows


def write_treebank(folder: Path) -> None:
    """A label folder of kind treebank, test part only."""
    import pyarrow as pa

    rows, ints = _targets(), pa.list_(pa.int32())
    _write(
        folder / "sentences.parquet",
        {
            "key": [f"s{i}" for i in range(PROBED)], "lang": ["tr"] * PROBED,
            "part": ["test"] * PROBED, "text": ["a b"] * PROBED,
            "starts": [[0, 2]] * PROBED, "ends": [[1, 3]] * PROBED,
        },
        starts=ints, ends=ints,
    )  # fmt: skip
    whole = {"first_start": 0, "first_end": 1, "second_start": 1, "second_end": 2}
    _write(
        folder / "targets.parquet",
        {
            "task": [row[1] for row in rows], "sentence": [row[2] for row in rows],
            **{key: [value] * len(rows) for key, value in whole.items()},
            "label": [row[3] for row in rows], "control": [row[3] for row in rows],
        },
        **dict.fromkeys(("sentence", *whole), pa.int32()),
    )  # fmt: skip
    guesses = [(name, *row) for name in ("majority", "word_type") for row in rows]
    _write(
        folder / "baselines.parquet",
        {
            "baseline": [x[0] for x in guesses], "task": [x[2] for x in guesses],
            "target": [x[1] for x in guesses], "sentence": [x[3] for x in guesses],
            "reference": [x[4] for x in guesses],
            "prediction": [TASKS[x[2]][0] for x in guesses],
        },
        target=pa.int32(), sentence=pa.int32(),
    )  # fmt: skip
    parts = {"train": 0, "development": 0, "test": PROBED}
    write_json(
        folder / "meta.json",
        {
            "option": "treebank", "kind": "treebank", "source": SOURCE, "languages": ["tr"],
            "labels": {task: sorted(labels) for task, labels in TASKS.items()},
            "spans": {"upos": 1, "deprel": 2}, "sentences": parts,
            "targets": {task: {part: 2 * n for part, n in parts.items()} for task in TASKS},
            "dropped": [{"reason": "past_limit", "task": "upos", "targets": 3}],
        },
    )  # fmt: skip


def write_probing(params: Params, cell: Cell) -> None:
    """Probing outcomes: the better the lower the loss, the middle layers best."""
    import pyarrow as pa

    layers = _layers(params, cell)
    probes = [f"layer_{x}" for x in range(layers + 1)]
    probes += [f"mix_upto_{x}" for x in range(1, layers)] + ["mix", "control"]
    rate = 0.35 + ACCURACY[cell.run]
    rates = {probe: rate - 0.02 * abs(2 - x) for x, probe in enumerate(probes[: layers + 1])}
    rates |= {f"mix_upto_{x}": rate + 0.01 * x for x in range(1, layers)}
    rates |= {"mix": rate + 0.01 * layers, "control": 0.3}
    rows = []
    for probe in probes:
        draw = _draw("probing", cell.run, cell.seed, probe)
        for target, task, sentence, label in _targets():
            guess = _wrong(TASKS[task], label, bool(draw.random() < rates[probe]))
            rows.append((task, probe, target, sentence, label, guess))
    names = ("task", "probe", "target", "sentence", "reference", "prediction")
    path = cell.outcomes("probing", "treebank")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    _write(path, columns, target=pa.int32(), sentence=pa.int32())
    weights = [(x + 1) / sum(range(layers + 2)) for x in range(layers + 1)]
    held = {"epoch": 2, "development_accuracy": rate}
    task = {"weights": weights, "training_targets": 400, "probes": dict.fromkeys(probes, held)}
    write_json(
        path.parent / "summary.json",
        {
            "key": outcome_key(params, "probing", cell.family, cell.run, cell.seed, "treebank"),
            "outcomes": sha256_of(path),
            "layers": layers + 1,
            "tasks": dict.fromkeys(TASKS, task),
        },
    )


def _strings(languages: list[str]) -> list[tuple[int, str, str, str]]:
    """(example, key, language, label) of the test part."""
    labels = tuple(PURPOSES["classes"])
    return [
        (at * STRINGS + i, f"k{i}", language, labels[i % len(labels)])
        for at, language in enumerate(languages)
        for i in range(STRINGS)
    ]


def write_purposes(folder: Path, languages: list[str]) -> None:
    """A label folder of kind purposes, test part only."""
    import pyarrow as pa

    rows, labels = _strings(languages), list(PURPOSES["classes"])
    _write(
        folder / "examples.parquet",
        {
            "key": [row[1] for row in rows], "lang": [row[2] for row in rows],
            "part": ["test"] * len(rows), "text": [f"{row[1]} {row[2]}" for row in rows],
            "label": [row[3] for row in rows],
        },
    )  # fmt: skip
    guesses = [(name, *row) for name in ("majority", "surface") for row in rows]
    _write(
        folder / "baselines.parquet",
        {
            "baseline": [x[0] for x in guesses], "lang": [x[3] for x in guesses],
            "example": [x[1] for x in guesses], "reference": [x[4] for x in guesses],
            "prediction": [labels[0] for _ in guesses],
        },
        example=pa.int32(),
    )  # fmt: skip
    counts = dict.fromkeys(labels, STRINGS // 2)
    write_json(
        folder / "meta.json",
        {
            "option": "purposes", "kind": "purposes", "source": PURPOSES["source"],
            "languages": languages, "labels": labels,
            "examples": {
                "train": {languages[0]: dict.fromkeys(labels, 0)},
                "development": {languages[0]: dict.fromkeys(labels, 0)},
                "test": dict.fromkeys(languages, counts),
            },
            "dropped": [{"reason": "ambiguous", "lang": languages[0], "examples": 7}],
        },
    )  # fmt: skip


def write_transfer(params: Params, cell: Cell) -> None:
    """Transfer outcomes: best in the language that was trained on."""
    import pyarrow as pa

    languages = params.labels["purposes"].languages
    labels, draw = tuple(PURPOSES["classes"]), _draw("transfer", cell.run, cell.seed)
    rows = []
    for example, _, language, label in _strings(languages):
        rate = 0.5 + ACCURACY[cell.run] - 0.05 * languages.index(language)
        guess = _wrong(labels, label, bool(draw.random() < rate))
        rows.append((language, example, label, guess, bool(cell.corpus) and example % 3 == 0))
    names = ("lang", "example", "reference", "prediction", "seen")
    path = cell.outcomes("transfer", "purposes")
    _write(path, dict(zip(names, zip(*rows, strict=True), strict=True)), example=pa.int32())
    settings = transfer_settings(params, cell.family)
    grid = [
        {"learning_rate": rate, "epoch": 2, "development_accuracy": 0.8}
        for rate in settings.learning_rates
    ]
    write_json(
        path.parent / "summary.json",
        {
            "key": outcome_key(params, "transfer", cell.family, cell.run, cell.seed, "purposes"),
            "outcomes": sha256_of(path),
            **grid[0], "grid": grid, "parameters": 900_002, "encoder_parameters": 900_000,
            "cut": 0,
        },
    )  # fmt: skip


def owned(folder: Path) -> None:
    """Let the summary say that the outcomes beside it are its own."""
    path = folder / "summary.json"
    held = json.loads(path.read_text("utf-8"))
    write_json(path, {**held, "outcomes": sha256_of(folder / "outcomes.parquet")})
