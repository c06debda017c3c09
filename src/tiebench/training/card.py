"""The model card of a run: what it is, what it was trained on, how it measured, how to load it."""

from __future__ import annotations

from typing import Any

from tiebench.model.words import head_words, table_words
from tiebench.settings import FamilySettings, GroupSettings, Params, RecurrentFamilySettings


def model_card(
    params: Params, family: str, group: FamilySettings, run: str, seed: int, metrics: dict[str, Any]
) -> str:
    """Markdown of a run's README.md."""
    training, validation = group.training_of(run), metrics["validation"]
    how = (
        f"{metrics['steps']:,} updates of {training.batch_size} windows of "
        f"{training.sequence_length} tokens ({metrics['tokens']:,} tokens), AdamW, peak learning "
        f"rate {training.learning_rate:g}, {training.decay} decay"
    )
    untied = ""
    if metrics["steps"] and training.untie_after is not None:
        untied = f", two after {training.untie_after:.0%} of the updates"
    measured = {
        "validation loss": f"{validation['loss']:.4f} nats per predicted token "
        f"(unigram {validation['unigram_loss']:.4f}, "
        f"before training {validation['initial_loss']:.4f})",
        "accuracy": f"{validation['accuracy']:.4f}",
    }
    if validation["bits_per_byte"] is not None:
        measured["bits per byte"] = f"{validation['bits_per_byte']:.4f}"
    return _card(params, family, group, run, seed, metrics, how, untied, measured)


def recurrent_card(
    params: Params,
    family: str,
    group: RecurrentFamilySettings,
    run: str,
    seed: int,
    metrics: dict[str, Any],
) -> str:
    """The same of a recurrent run."""
    training, perplexity = group.training_of(run), metrics["perplexity"]
    how = (
        f"{metrics['epochs']} epochs, {metrics['steps']:,} updates of {training.sequence_length} "
        f"steps in {training.batch_size} parts of the text ({metrics['tokens']:,} tokens), "
        f"gradient descent, learning rate {training.learning_rate:g} for "
        f"{training.constant_epochs} epochs, then times {training.decay:g} each"
    )
    measured = {
        "perplexity": f"validation {perplexity['valid']:.2f}, test {perplexity['test']:.2f}"
        + (f", training {perplexity['train']:.2f}" if perplexity["train"] else "")
    }
    return _card(params, family, group, run, seed, metrics, how, "", measured)


def _card(
    params: Params,
    family: str,
    group: GroupSettings,
    run: str,
    seed: int,
    metrics: dict[str, Any],
    how: str,
    untied: str,
    measured: dict[str, str],
) -> str:
    coupling, body, corpus = (
        group.all_runs[run].coupling, group.body_of(run), params.corpora[group.corpus]
    )  # fmt: skip
    counts = metrics["parameters"]
    tables = ("one table for both ends" if coupling.tied else "two tables") + untied
    widths = (coupling.input_width or body.width, coupling.output_width or body.width)
    inner = f", feed-forward width {body.feedforward_width}" if body.feedforward_width else ""
    rows = {
        "coupling": f"{coupling.option}: {tables}, input width {widths[0]}, "
        f"output width {widths[1]}, head "
        f"{head_words(coupling, body.width, metrics['vocabulary'])}; "
        f"{table_words(coupling, body.width, metrics['vocabulary'])}",
        "body": f"{body.option}: {body.kind}, {body.layers} layers, width {body.width}{inner}",
        "objective": metrics["objective"],
        "training": how if metrics["steps"] else "not trained: the control, as initialized",
        "seed": str(seed),
        "corpus": f"{group.corpus}: {', '.join(corpus.languages)}; "
        f"vocabulary {metrics['vocabulary']:,}",
        "parameters": f"{counts['pretraining']:,} in pretraining, "
        f"{counts['fine_tuning']:,} in fine-tuning",
        **measured,
    }
    if group.all_runs[run].training:
        replaced = group.all_runs[run].training.items()
        rows["other than its family"] = ", ".join(f"{key} {value}" for key, value in replaced)
    table = "\n".join(f"| {key} | {value} |" for key, value in rows.items())
    return (
        f"# {run}, seed {seed} ({family})\n\n"
        "A small language model for the comparison of embedding couplings; not for use alone.\n\n"
        f"| | |\n|---|---|\n{table}\n\n"
        "Load it with `tiebench.model.lm.load_model(folder)`.\n"
    )
