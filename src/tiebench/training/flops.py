"""Floating-point operations of training, by arithmetic (no torch)."""

from __future__ import annotations

from tiebench.model.settings import BodySettings, CouplingSettings, Linear
from tiebench.training.settings import TrainingSettings


def training_flops(
    coupling: CouplingSettings, body: BodySettings, vocabulary: int, training: TrainingSettings
) -> float:
    """Operations of a whole run: matrix products forward, and twice that backward.

    The head counts at predicted positions only, since logits exist only there; tying saves none
    of it. Lookups, norms, softmax and the optimizer are left out.
    """
    width, layers = body.width, body.layers
    feedforward = body.feedforward_width * width * (3 if body.feedforward == "swiglu" else 2)
    shared = 1 if body.key_value_heads is None else body.key_value_heads / body.heads
    attention = (2 + 2 * shared) * width * width + 2 * training.sequence_length * width
    input_width, output_width = coupling.input_width or width, coupling.output_width or width
    per_token = layers * (attention + feedforward)
    if input_width != width:
        per_token += input_width * width
    per_prediction, reached = vocabulary * output_width, width
    for operation in coupling.transform:
        if isinstance(operation, Linear):
            per_prediction += reached * (operation.width or output_width)
            reached = operation.width or output_width
    tokens = training.steps * training.batch_size * training.sequence_length
    share = training.masking.probability if training.masking else 1.0
    return 6.0 * tokens * (per_token + share * per_prediction)
