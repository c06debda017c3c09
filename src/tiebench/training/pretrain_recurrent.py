"""One cell of the recurrent family, from the corpus to a saved model and its perplexities."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tiebench import paths
from tiebench.corpus.tokenizer import byte_lengths, id_count, load_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.files import replacing_folder
from tiebench.model.lm import LanguageModel
from tiebench.model.tensors import save_tensors
from tiebench.runtime import describe_runtime
from tiebench.settings import Params, RecurrentFamilySettings
from tiebench.training.card import recurrent_card
from tiebench.training.cell import cell_key, save_cell, write_times
from tiebench.training.checkpoint import remove_scratch, scratch_folder
from tiebench.training.flops import recurrent_flops
from tiebench.training.loop import broken
from tiebench.training.parallel import Team
from tiebench.training.recurrent import RECURRENT_HISTORY, RecurrentLoop
from tiebench.training.recurrent_settings import LARGEST_LOSS
from tiebench.training.streams import stream_outcomes
from tiebench.training.validation import summarize, unigram_counts

PARTS = ("train", "valid", "test")


def pretrain_recurrent(
    params: Params,
    family: str,
    group: RecurrentFamilySettings,
    run: str,
    seed: int,
    cell: str,
    folder: Path,
    team: Team,
) -> None:
    """Train one cell and write its folder, as `tiebench.training.pretrain.pretrain` says.

    Beside the files of other families: losses.safetensors, the loss of every word of `valid` and
    `test` in nats; and, of a trained run with `training.table_snapshots`, the rows that were kept.
    """
    coupling, body, training = (
        group.all_runs[run].coupling, group.body_of(run), group.training_of(run)
    )  # fmt: skip
    corpus, (language,) = paths.corpus_folder(group.corpus), params.corpora[group.corpus].languages
    tokenizer = corpus / "tokenizer.json"
    held = load_tokenizer(tokenizer)
    vocabulary = id_count(held)
    files = {name: corpus / f"{name}.safetensors" for name in PARTS}
    streams = {x: read_tokens(path, tokenizer, [language])[language] for x, path in files.items()}

    started, trained = time.monotonic(), group.all_runs[run].trained
    model = LanguageModel(coupling, body, vocabulary).initialize(seed).to(team.device)
    loop = RecurrentLoop(model, training, streams["train"], streams["valid"], seed, team.device)
    if trained:
        key = cell_key((coupling, body, training), seed, tokenizer, files.values())
        loop.run(scratch_folder(cell, key), cell)
    else:
        loop.validate()
    outcomes = {
        "valid": loop.held, "test": stream_outcomes(model, streams["test"], team.device)
    }  # fmt: skip
    for name, values in outcomes.items():
        loss = float(values["loss"].mean())
        if not loss <= LARGEST_LOSS:
            raise broken(cell, f"a loss of {loss:g} nats per word of {name} after the last step")
    used = np.asarray(streams["train"][: round(training.data_share * len(streams["train"]))])
    unigram = unigram_counts({language: used}, vocabulary, causal=True)
    steps = loop.steps if trained else 0
    tokens = steps * loop.per_step
    flops = recurrent_flops(coupling, body, vocabulary, training, tokens, steps)
    metrics: dict[str, Any] = {
        "objective": "causal",
        "seed": seed,
        "epochs": training.epochs if trained else 0,
        "steps": steps,
        "tokens": tokens,
        "train_flops": flops,
        "vocabulary": vocabulary,
        "parameters": model.parameter_counts(),
        "train_loss": loop.record["history"][-1]["train_loss"],
        "initial_loss": loop.record["initial_loss"],
    }
    for name, values in outcomes.items():
        metrics["validation" if name == "valid" else name] = summarize(
            {language: values}, unigram, byte_lengths(held), causal=True
        )
    metrics["perplexity"] = {
        "train": None if metrics["train_loss"] is None else math.exp(metrics["train_loss"]),
        **{name: math.exp(float(values["loss"].mean())) for name, values in outcomes.items()},
    }
    with replacing_folder(folder) as partial:
        card = recurrent_card(params, family, group, run, seed, metrics)
        history = loop.record["history"]
        save_cell(partial, model, tokenizer, RECURRENT_HISTORY, history, card, metrics)
        losses = {
            name: torch.from_numpy(values["loss"]).float() for name, values in outcomes.items()
        }
        save_tensors(partial / "losses.safetensors", losses, {})
        if loop.snapshots is not None and trained:
            loop.snapshots.save(partial)
    remove_scratch(cell)
    seconds = time.monotonic() - started
    write_times(
        params.name, family, run, seed,
        {
            "seconds": seconds,
            "steps": loop.steps_here,
            "tokens_per_second": loop.steps_here * loop.per_step / seconds,
            "flops_per_second": flops * loop.steps_here / max(steps, 1) / seconds,
            "processes": 1,
            **describe_runtime(team.device),
        },
    )  # fmt: skip
