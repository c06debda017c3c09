"""What a tied model costs under pipeline parallelism: a second copy, and one more all-reduce.

The first stage holds the input embedding and the last the output embedding. Tied, both hold a copy
of one matrix, and must add up its two gradients once a step, so that the copies stay equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Assumptions:
    """What decides the traffic of a step, beside the model.

    Attributes:
        models: by the names of published_models.
        stages: of the pipeline.
        tokens: per optimizer update and pipeline.
        replicas: pipelines that work in parallel on batches of their own.
        activation_bytes: of one number that passes between stages.
        gradient_bytes: of one number of a gradient that is added up.
        training_bytes: a parameter in training: weight, gradient and optimizer.
    """

    models: Sequence[str]
    stages: Sequence[int]
    tokens: Sequence[int]
    replicas: int
    activation_bytes: int
    gradient_bytes: int
    training_bytes: int


def pipeline_costs(models: Mapping[str, Row], assumed: Assumptions) -> Iterator[Row]:
    """What tying saves and costs by model, stages and tokens per step.

    Traffic is in bytes that are sent per pipeline and optimizer update:

    - between neighbours, every token's state forward and its gradient backward;
    - between the replicas of each stage, a ring all-reduce of its gradients: 2 (R - 1) / R of their
      size from each of R replicas;
    - of the tie, the all-reduce of one gradient of the matrix between first and last stage, once
      however many micro-batches there are: each of the two sends its size.

    With one stage there is one copy, nothing is sent for the tie, and the matrix is saved.
    """
    for name in assumed.models:
        model = models[name]
        matrix, width = model["matrix"], model["width"]
        for stages in assumed.stages:
            copies = min(stages, 2)
            held = model["tied_total"] + (copies - 1) * matrix
            sent = 2 * matrix * assumed.gradient_bytes if stages > 1 else 0
            ring = 2 * (assumed.replicas - 1) / assumed.replicas
            replicas = ring * held * assumed.gradient_bytes
            for tokens in assumed.tokens:
                states = 2 * (stages - 1) * tokens * width * assumed.activation_bytes
                others = states + replicas
                yield {
                    "model": name,
                    "vocabulary": model["vocabulary"],
                    "tied_as_shipped": model["tied"],
                    "stages": stages,
                    "tokens": tokens,
                    "replicas": assumed.replicas,
                    "activation_bytes": assumed.activation_bytes,
                    "gradient_bytes": assumed.gradient_bytes,
                    "training_bytes": assumed.training_bytes,
                    "copies": copies,
                    "saved_parameters": (2 - copies) * matrix,
                    "saved_bytes": (2 - copies) * matrix * assumed.training_bytes,
                    "tie_bytes": sent,
                    "state_bytes": states,
                    "replica_bytes": replicas,
                    "share_of_states_percent": 100 * sent / states if states else None,
                    "share_of_others_percent": 100 * sent / others if others else None,
                }
