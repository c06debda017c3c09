"""Floating-point operations of training, by arithmetic (no torch)."""

from __future__ import annotations

from collections.abc import Sequence

from tiebench.model.settings import BodySettings, CouplingSettings, Linear, TableOperation
from tiebench.training.recurrent_settings import RecurrentTrainingSettings
from tiebench.training.settings import AddedSettings, TrainingSettings


def training_flops(
    coupling: CouplingSettings, body: BodySettings, vocabulary: int, training: TrainingSettings
) -> float:
    """Operations of a whole run: matrix products forward, and twice that backward.

    The head counts at predicted positions only, since logits exist only there; tying saves none
    of it. Operations on the input side's table count at every token, those on the output side's
    over the vocabulary, once an update. A frozen map has no gradient of its own. Lookups, norms,
    softmax and the optimizer are left out.
    """
    width, layers = body.width, body.layers
    feedforward = body.feedforward_width * width * (3 if body.feedforward == "swiglu" else 2)
    shared = 1 if body.key_value_heads is None else body.key_value_heads / body.heads
    attention = (2 + 2 * shared) * width * width + 2 * training.sequence_length * width
    of_token, per_prediction, per_update = _ends(coupling, width, vocabulary, training)
    tokens = training.steps * training.batch_size * training.sequence_length
    share = training.masking.probability if training.masking else 1.0
    per_token = layers * (attention + feedforward) + of_token
    per_run = 6.0 * training.steps * per_update
    return 6.0 * tokens * (per_token + share * per_prediction) + per_run


def recurrent_flops(
    coupling: CouplingSettings,
    body: BodySettings,
    vocabulary: int,
    training: RecurrentTrainingSettings,
    tokens: int,
    steps: int,
) -> float:
    """Operations of a recurrent model's updates, counted as `training_flops` does.

    Args:
        tokens: read in all updates, each of which is predicted from.
        steps: updates.
    """
    of_token, per_prediction, per_update = _ends(coupling, body.width, vocabulary, training)
    per_token = 8 * body.layers * body.width**2 + of_token + per_prediction
    return 6.0 * tokens * per_token + 6.0 * steps * per_update


def _ends(
    coupling: CouplingSettings, width: int, vocabulary: int, training: AddedSettings
) -> tuple[float, float, float]:
    """Products of both sides, for a token, a prediction and an update."""
    input_width, output_width = coupling.input_width or width, coupling.output_width or width
    per_token = float(input_width * width if input_width != width else 0)
    per_prediction, reached = float(vocabulary * output_width), width
    for operation in coupling.transform:
        if isinstance(operation, Linear):
            linear = reached * (operation.width or output_width)
            per_prediction += linear if operation.trained else linear * 2 / 3
            reached = operation.width or output_width
    per_token += _per_row(coupling.input_operations, input_width)
    per_update: float = vocabulary * _per_row(coupling.output_operations, output_width)
    if training.augmented is not None:  # products of the targets' rows, as if no word came twice
        per_prediction += vocabulary * input_width / 3
        per_update += vocabulary * _per_row(coupling.input_operations, input_width) / 3
    return per_token, per_prediction, per_update


def _per_row(operations: Sequence[TableOperation], width: int) -> int:
    """Products that operations on a table need for one of its rows."""
    factors = {"low_rank_addition": 1, "low_rank_multiplication": 2}
    return sum(factors.get(x.kind, 0) * getattr(x, "rank", 0) * width for x in operations)
