"""Training speed: our step against transformers' BertForMaskedLM, in one process, as a ratio.

Same shape, optimizer, batch and masked positions; the peer is taken as shipped, with logits at
every position. Adds to benchmarks/results.json: name, ours, peer, unit, ratio.

Run: python benchmarks/training.py [--steps N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from transformers import BertConfig, BertForMaskedLM

from support.results import record
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings

LAYERS, WIDTH, VOCABULARY, BATCH, SEQUENCE, MASKED = 4, 256, 32_000, 32, 64, 0.15


def our_step(ids: torch.Tensor, where: torch.Tensor, targets: torch.Tensor) -> Callable[[], None]:
    """One update of the tied model with BERT's head and body."""
    coupling = CouplingSettings(
        option="tied",
        tied=True,
        transform=[{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}],  # type: ignore[list-item]
    )
    body = BodySettings(
        option="bert", width=WIDTH, layers=LAYERS, heads=4, feedforward_width=4 * WIDTH,
        norm_placement="post", embedding_norm=True, maximum_length=SEQUENCE,
    )  # fmt: skip
    model = LanguageModel(coupling, body, VOCABULARY).initialize(0)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        (model.summed_loss(ids, where, targets) / len(targets)).backward()
        optimizer.step()

    return step


def peer_step(ids: torch.Tensor, where: torch.Tensor, targets: torch.Tensor) -> Callable[[], None]:
    """One update of the peer; it pays for logits at all positions and ignores most of them."""
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=4,
        intermediate_size=4 * WIDTH, max_position_embeddings=SEQUENCE,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    labels = torch.full_like(ids, -100)
    labels.view(-1)[where] = targets

    def step() -> None:
        optimizer.zero_grad()
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()

    return step


def tokens_per_second(step: Callable[[], None], steps: int) -> float:
    """After two updates to warm up."""
    for _ in range(2):
        step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return steps * BATCH * SEQUENCE / (time.perf_counter() - start)


def main() -> None:
    """Measure, print one line, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10, help="updates timed on each side")
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    ids = torch.randint(4, VOCABULARY, (BATCH, SEQUENCE))
    where = torch.randperm(BATCH * SEQUENCE)[: int(MASKED * BATCH * SEQUENCE)].sort().values
    targets = ids.view(-1)[where]
    ours = tokens_per_second(our_step(ids, where, targets), steps)
    peer = tokens_per_second(peer_step(ids, where, targets), steps)
    result = {
        "name": f"training step, {LAYERS} layers, {WIDTH} wide, {VOCABULARY} entries, "
        f"{BATCH} x {SEQUENCE} tokens, {MASKED:.0%} masked, against BertForMaskedLM as shipped",
        "ours": round(ours),
        "peer": round(peer),
        "unit": "tokens/s",
        "ratio": round(ours / peer, 2),
    }
    record(result)
    print(f"{result['name']}: {ours:,.0f} against {peer:,.0f} tokens/s, {result['ratio']} times")


if __name__ == "__main__":
    main()
