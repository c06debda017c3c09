"""Three ways to make the same update of the same masked language model, from the same weights.

`ours` is this project's model, as stages/pretrain.py trains it; `as shipped` is transformers'
BertForMaskedLM, with logits at every position; `masked only` is a head written around it: the
states at the predicted positions are picked first, and logits exist only there. Same shape, same
weights (copied over), same data, same optimizer and limit of the gradient's norm, no dropout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings

EPSILON = 1e-12
"""Of every norm, as in BERT."""


@dataclass(frozen=True)
class Shape:
    """Sizes of model and batch; the defaults are those of the benchmark."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    vocabulary: int = 32_000
    batch: int = 32
    sequence: int = 64
    masked: float = 0.15

    @property
    def tokens(self) -> int:
        """Tokens of a batch."""
        return self.batch * self.sequence

    @property
    def predicted(self) -> int:
        """Positions of a batch that are predicted."""
        return int(self.masked * self.tokens)

    def __str__(self) -> str:
        return (
            f"{self.layers} layers, {self.width} wide, {self.vocabulary} entries, "
            f"{self.batch} x {self.sequence} tokens, {self.masked:.0%} masked"
        )


@dataclass(frozen=True)
class Batch:
    """`ids` `[batch, seq]`; `where` `[n]` in the flattened ids; `targets` `[n]` ids."""

    ids: Tensor
    where: Tensor
    targets: Tensor


def batches(shape: Shape, seed: int = 0) -> Iterator[Batch]:
    """Random ids without end: what is learned does not matter here."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(4, shape.vocabulary, (shape.batch, shape.sequence), generator=generator)
        order = torch.randperm(shape.tokens, generator=generator)
        where = order[: shape.predicted].sort().values
        drawn = torch.randint(4, shape.vocabulary, (shape.predicted,), generator=generator)
        yield Batch(ids, where, drawn)


class Contender:
    """A model, its optimizer, and its mean loss at the predicted positions of a batch."""

    def __init__(self, model: nn.Module, loss: Callable[[Batch], Tensor]) -> None:
        self.model, self.loss = model, loss
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step(self, batch: Batch) -> None:
        """One update."""
        self.optimizer.zero_grad()
        self.loss(batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def body_settings(shape: Shape) -> BodySettings:
    """BERT's body."""
    return BodySettings(
        option="bert", width=shape.width, layers=shape.layers, heads=shape.heads,
        feedforward_width=4 * shape.width, norm_placement="post", embedding_norm=True,
        norm_epsilon=EPSILON, maximum_length=shape.sequence,
    )  # fmt: skip


def coupling_settings() -> CouplingSettings:
    """BERT's tied table and head."""
    transform = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm", "epsilon": EPSILON}]
    return CouplingSettings(option="tied", tied=True, transform=transform)  # type: ignore[arg-type]


def our_model(shape: Shape) -> LanguageModel:
    """The tied model with BERT's head and body."""
    model = LanguageModel(coupling_settings(), body_settings(shape), shape.vocabulary)
    return model.initialize(0)


def bert_places(layers: int) -> dict[str, tuple[str, int | None]]:
    """By the peer's name of a tensor: ours, and which third of it (None: all of it).

    The peer's table of token types is left out: ours has none.
    """
    modules = {
        "bert.embeddings.LayerNorm": "body.embedding_norm",
        "cls.predictions.transform.dense": "coupling.transform.0",
        "cls.predictions.transform.LayerNorm": "coupling.transform.2",
    }
    places: dict[str, tuple[str, int | None]] = {
        "bert.embeddings.word_embeddings.weight": ("coupling.input_table", None),
        "bert.embeddings.position_embeddings.weight": ("body.position_table", None),
        "cls.predictions.decoder.weight": ("coupling.input_table", None),
        "cls.predictions.decoder.bias": ("coupling.bias", None),
        "cls.predictions.bias": ("coupling.bias", None),
    }
    for layer in range(layers):
        peer, block = f"bert.encoder.layer.{layer}", f"body.blocks.{layer}"
        modules |= {
            f"{peer}.attention.output.dense": f"{block}.attention.output",
            f"{peer}.attention.output.LayerNorm": f"{block}.attention_norm",
            f"{peer}.intermediate.dense": f"{block}.feedforward.up",
            f"{peer}.output.dense": f"{block}.feedforward.down",
            f"{peer}.output.LayerNorm": f"{block}.feedforward_norm",
        }
        for third, kind in enumerate(("query", "key", "value")):
            for leaf in ("weight", "bias"):
                fused = f"{block}.attention.query_key_value.{leaf}"
                places[f"{peer}.attention.self.{kind}.{leaf}"] = (fused, third)
    for peer, name in modules.items():
        places |= {f"{peer}.{leaf}": (f"{name}.{leaf}", None) for leaf in ("weight", "bias")}
    return places


def bert_model(shape: Shape) -> nn.Module:
    """The peer with our weights."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.width, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=4 * shape.width,
        max_position_embeddings=shape.sequence, layer_norm_eps=EPSILON,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForMaskedLM(config)
    types = "bert.embeddings.token_type_embeddings.weight"
    weights = {types: torch.zeros_like(model.state_dict()[types])}
    ours = our_model(shape).state_dict()
    for peer, (name, third) in bert_places(shape.layers).items():
        weights[peer] = ours[name] if third is None else ours[name].chunk(3)[third]
    model.load_state_dict(weights, strict=True)
    return model.train()


def ours(shape: Shape) -> Contender:
    """This project's model and loss."""
    model = our_model(shape)

    def loss(batch: Batch) -> Tensor:
        return model.summed_loss(batch.ids, batch.where, batch.targets) / len(batch.targets)

    return Contender(model, loss)


def as_shipped(shape: Shape) -> Contender:
    """The peer's own forward pass with labels: logits at every position."""
    model = bert_model(shape)

    def loss(batch: Batch) -> Tensor:
        labels = torch.full_like(batch.ids, -100)
        labels.view(-1)[batch.where] = batch.targets
        return model(input_ids=batch.ids, labels=labels).loss

    return Contender(model, loss)


def masked_only(shape: Shape) -> Contender:
    """The peer's body, and its head at the predicted positions only."""
    model = bert_model(shape)

    def loss(batch: Batch) -> Tensor:
        states = model.bert(input_ids=batch.ids).last_hidden_state.flatten(0, 1)
        return F.cross_entropy(model.cls(states[batch.where]), batch.targets)

    return Contender(model, loss)


CONTENDERS: dict[str, Callable[[Shape], Contender]] = {
    "ours": ours,
    "as shipped": as_shipped,
    "masked only": masked_only,
}
