"""A classifier of strings on a pretrained encoder, as RemBERT fine-tunes one.

The output table and the head are dropped after pretraining; the input table, the map to the body,
the positions and the body stay, and one linear layer is put on top (Chung et al. 2021, section 3).
A tied table stays as the input's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from tiebench.corpus.tokenizer import OWN_ENDS, Ends
from tiebench.evaluation.encode import Framed, frame
from tiebench.model.coupling import Coupling
from tiebench.model.lm import LanguageModel
from tiebench.model.tensors import generator_of

TOKENS_PER_BATCH = 1024
"""Bounds memory where nothing is trained; changes nothing but speed."""


class Classifier(nn.Module):
    """`embed -> body -> mean over tokens -> linear`, without dropout (RemBERT, table 14).

    A string is the mean of its tokens' last states, special tokens left out: the encoders trained
    here saw windows of running text and no task that would gather a string in [CLS].

    Args:
        model: the pretrained model, which is copied and stays as it is.
        labels: number of classes.
        seed: that of the cell; the linear layer is drawn from (seed, its name), as
            `LanguageModel.initialize` draws the body's maps.
        ends: special tokens around a string; those of our tokenizers unless given.
    """

    def __init__(self, model: LanguageModel, labels: int, seed: int, ends: Ends = OWN_ENDS) -> None:
        super().__init__()
        self.ends = ends
        body = model.settings.body
        self.coupling, self.body = input_end(model.coupling), copy.deepcopy(model.body)
        self.classifier = nn.Linear(body.width, labels)
        generator = generator_of(seed, "classifier.weight")
        drawn = torch.empty(labels, body.width).normal_(0.0, body.std, generator=generator)
        with torch.no_grad():
            self.classifier.weight.copy_(drawn)
            self.classifier.bias.zero_()

    def forward(self, strings: Framed) -> Tensor:
        """Logits `[batch, labels]` of strings, read between their ends."""
        attended = None if strings.attended.all() else strings.attended
        looked_up = self.coupling.lookup(strings.ids)
        last = self.body(looked_up, attended, self.coupling.input_map)[-1]
        content = strings.content.to(last.dtype)
        # [batch, 1, seq] @ [batch, seq, hidden]; an empty string has the mean zero
        summed = (content[:, None] @ last).squeeze(1)
        return self.classifier(summed / content.sum(1, keepdim=True).clamp(min=1))

    def parameter_counts(self) -> dict[str, int]:
        """What is fine-tuned: `encoder`, and `total` with the linear layer."""
        counts = {name: parameter.numel() for name, parameter in self.named_parameters()}
        linear = sum(n for name, n in counts.items() if name.startswith("classifier."))
        total = sum(counts.values())
        return {"encoder": total - linear, "total": total}


def input_end(coupling: Coupling) -> Coupling:
    """A copy with the input side and its map, and without what only the logits need."""
    left_out = {} if coupling.tied else {id(coupling.untied_output_table): None}
    copied = copy.deepcopy(coupling, left_out)
    if not copied.tied:
        del copied.untied_output_table
    copied.transform, copied.bias = nn.Sequential(), None
    copied.output_operations = nn.ModuleList()
    return copied


@torch.no_grad()
def score_labels(
    classifier: Classifier, ids: Sequence[np.ndarray], device: torch.device
) -> np.ndarray:
    """Logits of many strings, `[strings, labels]`; batches of like length change no result."""
    logits = np.empty((len(ids), classifier.classifier.out_features), dtype=np.float32)
    for part in like_lengths([len(x) + classifier.ends.size for x in ids]):
        strings = frame([ids[i] for i in part], classifier.ends).to(device)
        logits[part] = classifier(strings).cpu().numpy()
    return logits


def like_lengths(lengths: Sequence[int]) -> Iterator[np.ndarray]:
    """Rows by length, in batches of at most TOKENS_PER_BATCH positions (or of one row)."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= TOKENS_PER_BATCH:
            end += 1
        yield order[start:end]
        start = end
