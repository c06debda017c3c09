"""One pretraining cell: a run of a family with one seed, from the corpus to a saved model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tiebench import paths
from tiebench.analysis.tables import write_table
from tiebench.corpus.tokenizer import byte_lengths, load_corpus_tokenizer
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import SettingsError
from tiebench.files import holding, replacing_folder
from tiebench.model.lm import LanguageModel
from tiebench.runtime import describe_runtime
from tiebench.settings import FamilySettings, Params, RecurrentFamilySettings, find_run
from tiebench.training.batches import Schedule, used_tokens, validation_batches
from tiebench.training.card import model_card
from tiebench.training.cell import cell_key, save_cell, write_times
from tiebench.training.checkpoint import remove_scratch, scratch_folder
from tiebench.training.flops import training_flops
from tiebench.training.instruments import INSTRUMENTS
from tiebench.training.loop import HISTORY, Loop
from tiebench.training.parallel import Team, connected, here
from tiebench.training.pretrain_recurrent import pretrain_recurrent
from tiebench.training.validation import summarize, unigram_counts


def pretrain(params: Params, family: str, run: str, seed: int) -> Path:
    """Train one cell, or save it as initialized when its run is untrained.

    Writes config.json, model.safetensors, tokenizer.json, README.md, history.csv and
    metrics.json into runs/<name>/<family>/<run>-s<seed>/, and times into logs/. Of several
    processes (see `tiebench.training.parallel`) the first one writes.

    Raises:
        SettingsError: as `processes_of`, or a setting of the environment.
        DataError: the corpus is missing or is not the one of its tokenizer.
        TrainingError: the loss is not finite, or the processes do not reach each other.
        BusyError: another process holds the cell.
        LostError: another process of the same training has ended.
        WriteError: no room, or no permission.
    """
    cell = f"{params.name}-{family}-{paths.cell_name(run, seed)}"
    team, folder = here(), paths.run_folder(params.name, family, run, seed)
    if processes_of(params, family, run, team.size) < team.size:
        if not team.is_first:
            return folder
        team = Team(device=team.device)
    with ExitStack() as stack:
        stack.enter_context(connected(team))
        if team.is_first:
            stack.enter_context(holding(paths.SCRATCH / f"{cell}.lock", cell))
        group = find_run(params, family, run)
        if isinstance(group, RecurrentFamilySettings):
            pretrain_recurrent(params, family, group, run, seed, cell, folder, team)
        else:
            assert isinstance(group, FamilySettings), "the other kind"
            _pretrain(params, family, group, run, seed, cell, folder, team)
    return folder


def processes_of(params: Params, family: str, run: str, wanted: int) -> int:
    """How many processes train a cell: as many as wanted, or one that saves what is not trained,
    and one for a recurrent model.

    Raises:
        SettingsError: no such family or run, or more processes than windows in a batch.
    """
    group = find_run(params, family, run)
    if not isinstance(group, FamilySettings) or not group.all_runs[run].trained:
        return 1
    if wanted > group.training.batch_size:
        raise SettingsError(
            f"{family}.training.batch_size",
            found=f"{group.training.batch_size} windows for {wanted} processes",
            expected="at least one window for each",
            mend="start fewer processes (TIEBENCH_PROCESSES)",
        )
    return wanted


def _pretrain(
    params: Params,
    family: str,
    group: FamilySettings,
    run: str,
    seed: int,
    cell: str,
    folder: Path,
    team: Team,
) -> None:
    coupling, body = group.all_runs[run].coupling, group.body_of(run)
    training = group.training_of(run)
    corpus, languages = paths.corpus_folder(group.corpus), params.corpora[group.corpus].languages
    tokenizer = corpus / "tokenizer.json"
    vocabulary = load_corpus_tokenizer(tokenizer).get_vocab_size()
    train = read_tokens(corpus / "train.safetensors", tokenizer, languages)
    valid = read_tokens(corpus / "valid.safetensors", tokenizer, languages)

    model = LanguageModel(coupling, body, vocabulary).initialize(seed).to(team.device)
    loop = Loop(model, training, validation_batches(valid, training, vocabulary), team)
    started = time.monotonic()
    if group.all_runs[run].trained:
        files = [corpus / f"{x}.safetensors" for x in ("train", "valid")]
        key = cell_key((coupling, body, training), seed, tokenizer, files)
        team.agree(cell, int(key[:15], 16))  # from here on the first one holds the cell
        loop.run(Schedule(train, training, vocabulary, seed), scratch_folder(cell, key), cell)
    else:
        loop.validate(0)
    if not team.is_first:
        return
    used = used_tokens(train, training)
    unigram = unigram_counts(used, vocabulary, training.objective == "causal")
    with replacing_folder(folder) as partial:
        _save(partial, loop, tokenizer, unigram, params, family, group, run, seed)
    remove_scratch(cell)
    seconds = time.monotonic() - started
    tokens = loop.steps_here * training.batch_size * training.sequence_length
    share = loop.steps_here / training.steps
    write_times(
        params.name, family, run, seed,
        {
            "seconds": seconds,
            "steps": loop.steps_here,
            "tokens_per_second": tokens / seconds,
            "flops_per_second": share
            * training_flops(coupling, body, vocabulary, training)
            / seconds,
            "processes": team.size,
            **describe_runtime(team.device),
        },
    )  # fmt: skip


def _save(
    folder: Path,
    loop: Loop,
    tokenizer: Path,
    unigram: Mapping[str, np.ndarray],
    params: Params,
    family: str,
    group: FamilySettings,
    run: str,
    seed: int,
) -> None:
    """Write the outputs of a cell."""
    trained, training = group.all_runs[run].trained, group.training_of(run)
    steps = training.steps if trained else 0
    vocabulary = loop.model.vocabulary
    flops = training_flops(group.all_runs[run].coupling, group.body_of(run), vocabulary, training)
    metrics = {
        "objective": training.objective,
        "seed": seed,
        "steps": steps,
        "tokens": steps * training.batch_size * training.sequence_length,
        "train_flops": flops if trained else 0.0,
        "vocabulary": vocabulary,
        "parameters": loop.model.parameter_counts(),
        "validation": {
            "initial_loss": loop.record["initial_loss"],
            **summarize(
                loop.held,
                unigram,
                byte_lengths(load_corpus_tokenizer(tokenizer)),
                training.objective == "causal",
            ),
        },
    }
    if "instruments" in loop.record:
        write_table(folder / "instruments.csv", INSTRUMENTS, loop.record["instruments"])
    card = model_card(params, family, group, run, seed, metrics)
    save_cell(folder, loop.model, tokenizer, HISTORY, loop.record["history"], card, metrics)
