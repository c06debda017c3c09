"""Operations of training by hand: low-rank operations, frozen maps."""

import pytest

from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.training.flops import training_flops
from tiebench.training.settings import TrainingSettings

BODY = BodySettings(option="t", kind="identity", width=16)
TRAINING = {
    "objective": "causal", "steps": 10, "batch_size": 3, "sequence_length": 8,
    "sampling_exponent": 1.0, "learning_rate": 0.1, "warmup_steps": 0, "validate_every": 10,
    "validation_windows": 1,
}  # fmt: skip
ADDED, MULTIPLIED = ({"kind": f"low_rank_{x}", "rank": 2} for x in ("addition", "multiplication"))
LINEAR = {"kind": "linear", "bias": False, "initialization": "orthogonal"}
TOKENS, VOCABULARY = 10 * 3 * 8, 50
SOFT = {"augmented": {"weight": 1.0, "temperature": 1.0}}


@pytest.mark.parametrize(
    ("changes", "training", "more"),
    [
        ({}, {}, 0),
        ({"tied": False}, {}, 0),
        ({"input_operations": [{"kind": "shift"}]}, {}, 0),
        ({"input_operations": [ADDED]}, {}, TOKENS * 2 * 16),
        ({"input_operations": [ADDED, MULTIPLIED]}, {}, TOKENS * 3 * 2 * 16),
        ({"output_operations": [ADDED]}, {}, 10 * VOCABULARY * 2 * 16),
        ({"output_operations": [MULTIPLIED]}, {}, 10 * VOCABULARY * 2 * 2 * 16),
        ({"transform": [LINEAR]}, {}, TOKENS * 16 * 16),
        ({"transform": [{**LINEAR, "trained": False}]}, {}, TOKENS * 16 * 16 * 2 / 3),
        ({"output_operations": [ADDED]}, SOFT, 10 * VOCABULARY * 2 * 16),
        ({"input_operations": [ADDED]}, SOFT, TOKENS * 2 * 16 + 10 * VOCABULARY * 2 * 16 / 3),
    ],
)
def test_by_hand(changes: dict, training: dict, more: float) -> None:
    coupling = CouplingSettings(option="t", **{"tied": True, **changes})
    found = training_flops(coupling, BODY, VOCABULARY, TrainingSettings(**TRAINING, **training))
    per_prediction = VOCABULARY * 16 * (4 / 3 if training else 1)
    assert found == pytest.approx(6 * (TOKENS * per_prediction + more))
