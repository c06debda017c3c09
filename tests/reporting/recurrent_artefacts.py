"""The cells of the recurrent family as far as `score` reads them, made up and deterministic."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tests.conftest import ROOT
from tiebench.analysis.counting import coupled_counts
from tiebench.checks import check
from tiebench.composition import compose, parse
from tiebench.evaluation.cells import Cell, recurrent_cells
from tiebench.files import write_json, write_text
from tiebench.schema import validate
from tiebench.settings import Params, RecurrentFamilySettings

LOSSES = {
    "baseline": (3.64, 4.79, 4.74), "wt": (3.60, 4.77, 4.72), "pr": (3.93, 4.75, 4.716),
    "wt_pr": (3.98, 4.65, 4.61), "baseline_dropout": (4.0, 4.5, 4.45),
    "wt_dropout": (4.1, 4.4, 4.35), "pr_bias": (3.95, 4.76, 4.72), "wt_pr_bias": (4.0, 4.66, 4.7),
    "baseline_four_epochs": (3.65, 4.78, 4.73), "wt_pr_five_penalties": (4.1, 4.7, 4.66),
    "vd_lstm": (4.4, 4.53, 4.47), "al": (4.5, 4.46, 4.42), "re": (4.5, 4.5, 4.44),
    "real": (4.6, 4.45, 4.41),
}  # fmt: skip
"""Training, validation and test, in nats."""
SPREAD = (0.004, -0.003, 0.001, -0.004, 0.002)
"""What the seeds add to all runs, so that differences between these vary a little less."""


@cache
def make_params(
    study: str = "press_wolf", seeds: tuple[int, ...] = (0, 1, 2, 3, 4), *overrides: str
) -> Params:
    """The default settings with a study of recurrent runs."""
    chosen = [f"study@recurrent={study}", f"recurrent.seeds={list(seeds)}", *overrides]
    return check(validate(Params, parse(compose(chosen, ROOT / "conf")[0])))


def write_recurrent(
    params: Params,
    losses: Mapping[str, tuple[float, float, float]] = LOSSES,
    *,
    falling: float = 0.01,
) -> None:
    """Write the cells.

    Args:
        losses: of training, validation and test, by run.
        falling: how much the validation loss falls in the last epoch.
    """
    group = params.recurrent
    assert group is not None
    for cell in recurrent_cells(params):
        write_cell(params, group, cell, losses[cell.run], falling)


def write_cell(
    params: Params,
    group: RecurrentFamilySettings,
    cell: Cell,
    losses: tuple[float, float, float],
    falling: float = 0.01,
) -> None:
    """Write one cell: metrics.json, history.csv, tokenizer.json."""
    training, place = group.training_of(cell.run), group.seeds.index(cell.seed) % len(SPREAD)
    own = 0.001 * ((len(cell.run) * (place + 2)) % 5 - 2)
    train, valid, test = (loss + SPREAD[place] + own for loss in losses)
    tokenizer = params.corpora[group.corpus].tokenizer
    assert tokenizer is not None
    vocabulary, per_step = tokenizer.vocabulary, training.batch_size * training.sequence_length
    rows = ["0,0,0,,,,9.2"]
    for epoch in range(1, training.epochs + 1):
        left, rate = training.epochs - epoch, training.rate(epoch - 1)
        step = 10 * epoch
        rows.append(f"{epoch},{step - 5},{(step - 5) * per_step},{train + 0.2},{rate},3.0,")
        rows.append(
            f"{epoch},{step},{step * per_step},{train + 0.3 * left},{rate},3.0,"
            f"{valid + falling * left}"
        )
    header = "epoch,step,tokens,train_loss,learning_rate,gradient_norm,validation_loss"
    write_text(cell.folder / "history.csv", "\n".join((header, *rows)) + "\n")
    steps = 10 * training.epochs
    counts = coupled_counts(
        group.all_runs[cell.run].coupling, group.body_of(cell.run), vocabulary
    ).as_dict()
    metrics: dict[str, Any] = {
        "objective": "causal", "seed": cell.seed, "epochs": training.epochs, "steps": steps,
        "tokens": steps * per_step, "train_flops": 1.5e13, "vocabulary": vocabulary,
        "parameters": counts, "train_loss": train, "initial_loss": 9.2,
        "validation": _part(valid), "test": _part(test), "perplexity": {},
    }  # fmt: skip
    write_json(cell.folder / "metrics.json", metrics)
    write_text(cell.folder / "tokenizer.json", "{}\n")


def _part(loss: float) -> dict[str, Any]:
    return {
        "loss": loss, "accuracy": 0.25, "predicted_tokens": 600, "unigram_loss": 6.5,
        "bits_per_byte": None, "by_language": {}, "by_frequency": [],
    }  # fmt: skip
