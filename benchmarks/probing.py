"""Probing speed: our cell against a frozen encoder inside the training loop, as a ratio.

Both sides train the same probes on the same targets with the same settings. Ours encodes each
sentence once; the peer encodes a target's sentence whenever the target is trained on, developed on
or tested, one target an example, as toolkits do that treat the encoder as a part of the model. The
milder peer keeps what it has encoded and does so once per target. Both encode in batches of like
lengths, and train one module for all probes of the task: only the encoding differs.

The peers' encoding is not run as often as they would: one pass over the targets is measured, and
multiplied by tasks and passes.

The text is drawn at random: about 17 words of three pieces a sentence, as in the Turkish treebank.

Run: python benchmarks/probing.py [--sentences N]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from support.results import record
from tiebench.evaluation.encode import Pieces, span_vectors
from tiebench.evaluation.probes import Examples, train_probes
from tiebench.evaluation.probing_settings import ProbingSettings
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.runtime import prepare_runtime

LAYERS, WIDTH, VOCABULARY, WORDS, PIECES, LABELS = 2, 128, 4096, 17, 3, 12
SPANS = {"upos": 1, "case": 1, "deprel": 2}
"""Tasks, and the spans of their targets; every word is a target of each."""
SETTINGS = ProbingSettings(
    labels="drawn", tasks=list(SPANS), hidden=256, learning_rate=4e-3, batch_size=256, epochs=3
)
SHARES = {"train": 0.7, "development": 0.1, "test": 0.2}


def draw_sentences(number: int) -> tuple[list[Pieces], list[np.ndarray]]:
    """Sentences of random pieces, and the characters of their words."""
    rng = np.random.default_rng(0)
    sentences, spans = [], []
    for words in rng.poisson(WORDS - 1, number) + 1:
        starts = np.arange(words * PIECES)
        ids = rng.integers(4, VOCABULARY, len(starts))
        sentences.append(Pieces(ids, starts, starts + 1))
        spans.append(np.stack([starts[::PIECES], starts[::PIECES] + PIECES], 1))
    return sentences, spans


def one_by_one(
    sentences: list[Pieces], spans: list[np.ndarray]
) -> tuple[list[Pieces], list[np.ndarray]]:
    """The same targets, each with its sentence."""
    pairs = [(x, span[None]) for x, held in zip(sentences, spans, strict=True) for span in held]
    return [x for x, _ in pairs], [x for _, x in pairs]


def drawn_model() -> LanguageModel:
    """The encoder, as initialized."""
    body = BodySettings(
        option="pre_norm", width=WIDTH, layers=LAYERS, heads=4, feedforward_width=4 * WIDTH,
        maximum_length=512,
    )  # fmt: skip
    coupling = CouplingSettings(option="tied", tied=True)
    return LanguageModel(coupling, body, VOCABULARY).initialize(0)


def parts_of(targets: int, spans: int) -> dict[str, Examples]:
    """A label for every word, or for it and the one before it, and the parts."""
    labels = torch.from_numpy(np.random.default_rng(1).integers(0, LABELS, targets))
    rows = torch.stack([torch.arange(targets).roll(shift) for shift in range(spans)], 1)
    parts, start = {}, 0
    for part, share in SHARES.items():
        inside = slice(start, start := start + int(share * targets))
        parts[part] = Examples(rows[inside], labels[inside], labels[inside])
    return parts


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=100, help="sentences encoded on each side")
    device = prepare_runtime()
    sentences, spans = draw_sentences(parser.parse_args().sentences)
    model = drawn_model().to(device)
    span_vectors(model, sentences[:8], spans[:8], device, "warm-up")

    start = time.perf_counter()
    vectors = span_vectors(model, sentences, spans, device, "ours")
    once_a_sentence = time.perf_counter() - start
    repeated, single = one_by_one(sentences, spans)
    start = time.perf_counter()
    again = span_vectors(model, repeated, single, device, "peer")
    once_a_target = time.perf_counter() - start
    np.testing.assert_allclose(vectors, again, atol=1e-4)
    states = torch.from_numpy(vectors).to(device)
    train_probes(states, parts_of(90, 1), LABELS, SETTINGS, 0, "warm-up")
    start = time.perf_counter()
    for task, size in SPANS.items():
        train_probes(states, parts_of(len(single), size), LABELS, SETTINGS, 0, task)
    probes = time.perf_counter() - start

    once_a_target *= len(SPANS)
    passes = SETTINGS.epochs * (SHARES["train"] + SHARES["development"]) + SHARES["test"]
    ours = once_a_sentence + probes
    targets = len(SPANS) * len(single)
    for peer, encoding in (
        ("re-encoding for each target in each epoch", passes * once_a_target),
        ("re-encoding once for each target", once_a_target),
    ):
        record(
            f"probing, {LAYERS} layers, {WIDTH} wide, {len(SPANS)} x {len(single)} targets "
            f"in {len(sentences)} sentences, encoder and probes, against {peer}",
            targets / ours,
            targets / (encoding + probes),
            "targets/s",
            None,
        )
    alone = passes * once_a_target / once_a_sentence
    print(
        f"ours took {ours:.2f} s, {probes:.2f} s of them for the probes, as the peer's; "
        f"the encoding alone is {alone:.1f} times as fast"
    )


if __name__ == "__main__":
    main()
