"""Reading one stream of words: the chunks of training, and the loss of every word in evaluation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tiebench.errors import DataError
from tiebench.model.lm import LanguageModel
from tiebench.model.loss import cross_entropy_outcomes
from tiebench.training.recurrent_settings import RecurrentTrainingSettings

EVALUATED_STEPS = 1000
"""Steps of a chunk in evaluation, where the state is carried and the length changes nothing."""


@dataclass(frozen=True)
class Chunks:
    """The chunks of an epoch.

    Attributes:
        parts: `[words, batch]` int64, the parts of the stream side by side.
        steps: of a chunk.
    """

    parts: Tensor
    steps: int

    @classmethod
    def of(cls, ids: np.ndarray, training: RecurrentTrainingSettings) -> Chunks:
        """Cut the training text.

        Raises:
            DataError: what is used of it does not fill one chunk.
        """
        batch = training.batch_size
        used = ids[: round(training.data_share * len(ids))]
        length = len(used) // batch
        if length <= training.sequence_length:
            raise DataError(
                "training text",
                found=f"{len(used)} tokens",
                expected=f"at least {batch * (training.sequence_length + 1)}, "
                "sequence_length + 1 in each of batch_size parts",
                mend="shorten recurrent.training.sequence_length, lower "
                "recurrent.training.batch_size, raise recurrent.training.data_share, or take a "
                "larger corpus",
            )
        parts = used[: batch * length].astype(np.int64).reshape(batch, length).T
        return cls(torch.from_numpy(np.ascontiguousarray(parts)), training.sequence_length)

    def __len__(self) -> int:
        return (len(self.parts) - 1) // self.steps

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Words `[steps, batch]` and the words that follow them, `[steps * batch]`."""
        start = index * self.steps
        held = self.parts[start : start + self.steps + 1]
        return held[:-1], held[1:].reshape(-1)


@torch.no_grad()
def stream_outcomes(
    model: LanguageModel, ids: np.ndarray, device: torch.device, steps: int = EVALUATED_STEPS
) -> dict[str, np.ndarray]:
    """`loss` in nats, `correct` and `target` of every word but the first, `[tokens - 1]` each.

    The stream is read from its first word to its last with one state.

    Args:
        model: with a recurrent body.
        ids: `[tokens]`.
        device: of the model.
        steps: read at a time.

    Raises:
        DataError: fewer than two tokens.
    """
    if len(ids) < 2:
        raise DataError(
            "text to evaluate on",
            found=f"{len(ids)} tokens",
            expected="two or more",
            mend="take a larger corpus",
        )
    words = torch.from_numpy(ids.astype(np.int64))
    table, bias = model.coupling.output_matrix(), model.coupling.bias
    losses, correct, state = [], [], None
    for start in range(0, len(words) - 1, steps):
        held = words[start : start + steps + 1].to(device)
        states, state = model.advance(held[:-1, None], state)
        loss, hit = cross_entropy_outcomes(states, table, bias, held[1:])
        losses.append(loss.double().cpu())
        correct.append(hit.cpu())
    return {
        "loss": torch.cat(losses).numpy(),
        "correct": torch.cat(correct).numpy(),
        "target": words[1:].numpy(),
    }
