"""AdamW with the same rules for every coupling, and the learning rate of each step."""

from __future__ import annotations

import math

import torch
from torch import nn

from tiebench.model.lm import LanguageModel
from tiebench.training.settings import TrainingSettings


def make_optimizer(model: LanguageModel, training: TrainingSettings) -> torch.optim.AdamW:
    """Only matrices decay; the `scale` of a group multiplies the learning rate."""
    return torch.optim.AdamW(
        [
            {
                "params": parameters,
                "scale": training.table_learning_rate if kind == "tables" else 1.0,
                "weight_decay": training.weight_decay if kind == "matrices" else 0.0,
            }
            for kind, parameters in group_parameters(model).items()
        ],
        lr=training.learning_rate,
        betas=(training.betas[0], training.betas[1]),
        eps=training.epsilon,
        fused=True,
    )


def group_parameters(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Up to three groups of what is trained: vocabulary tables, matrices, the rest (positions,
    biases, norms).

    Only matrices should decay: a decayed table would move rows that no batch has touched.
    """
    groups: dict[str, list[nn.Parameter]] = {"tables": [], "matrices": [], "rest": []}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        table = name.startswith("coupling.") and name.endswith("table")
        matrix = parameter.dim() == 2 and not name.endswith("table")
        groups["tables" if table else "matrices" if matrix else "rest"].append(parameter)
    return {kind: parameters for kind, parameters in groups.items() if parameters}


def untie(model: LanguageModel, optimizer: torch.optim.Optimizer) -> None:
    """Make two tables of the shared one, each with its values and a copy of its state."""
    shared = model.coupling.input_table
    model.untie()
    own = model.coupling.output_table
    group = next(x for x in optimizer.param_groups if any(p is shared for p in x["params"]))
    group["params"].append(own)
    state = optimizer.state[shared]
    optimizer.state[own] = {key: value.clone() for key, value in state.items()}


def learning_rate(training: TrainingSettings, step: int) -> float:
    """The learning rate of update `step`, counted from 0: linear warm-up, then the decay."""
    if step < training.warmup_steps:
        return training.learning_rate * (step + 1) / training.warmup_steps
    done = (step - training.warmup_steps) / (training.steps - training.warmup_steps)
    shape = {"constant": 1.0, "linear": 1 - done, "cosine": 0.5 * (1 + math.cos(math.pi * done))}
    return training.learning_rate * shape[training.decay]
