"""Every pair of settings of coupling and body changes what is computed, or is refused in words."""

import hashlib
from itertools import combinations

import pytest
import torch

from tiebench.errors import DataError, SettingsError
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.model.tensors import generator_of
from tiebench.schema import validate

COUPLING = {"option": "t", "tied": True, "transform": [{"kind": "linear"}]}
BODY = {"option": "t", "width": 8, "maximum_length": 12}
SHAPE = {"layers": 2, "heads": 2, "feedforward_width": 6}
POST = {**SHAPE, "norm_placement": "post", "embedding_norm": True}
BASES = {
    "pre": ({}, SHAPE),
    "post": ({}, {**POST, "positions": "rotary"}),
    "identity": ({}, {"kind": "identity"}),
    "untied": ({"tied": False}, {**POST, "branch": "deep_norm"}),
    "narrow": ({"tied": False, "input_width": 4, "output_width": 14}, SHAPE),
}
LINEAR = {"kind": "linear", "bias": False}
SCALING = {
    "factor": 8.0, "low_frequency_factor": 1.0, "high_frequency_factor": 4.0, "original_length": 16,
}  # fmt: skip
OF_THE_COUPLING = {
    "tied": [False],
    "input_width": [6],
    "output_width": [10],
    "input_operations": [
        [{"kind": "low_rank_addition", "rank": 2}],
        [{"kind": "low_rank_multiplication", "rank": 2}],
        [{"kind": "shift"}],
    ],
    "output_operations": [
        [{"kind": "low_rank_addition", "rank": 2}],
        [{"kind": "low_rank_multiplication", "rank": 2}],
    ],
    "transform": [
        [],
        [LINEAR],
        [{**LINEAR, "initialization": "orthogonal"}],
        [{**LINEAR, "initialization": "orthogonal", "trained": False}],
        [{**LINEAR, "initialization": "identity"}],
        [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}],
        [{"kind": "linear"}, {"kind": "half_swap"}],
        [{"kind": "channel_shuffle", "groups": 2}],
    ],
    "bias": [False],
    "std": [0.5, "inverse_sqrt_width", "log_vocabulary_over_width"],
    "distribution": ["uniform", "truncated_normal"],
    "shared_initialization": [True],
    "input_scale": [2.0, "sqrt_width"],
    "logit_scale": [2.0, "inverse_sqrt_width"],
}
OF_THE_BODY = {
    "width": [12],
    "layers": [1],
    "heads": [1],
    "key_value_heads": [1],
    "feedforward_width": [8],
    "causal": [True],
    "norm_placement": ["pre", "post"],
    "norm": ["rms_norm"],
    "norm_epsilon": [0.5],
    "embedding_norm": [True, False],
    "embedding_width": ["input"],
    "positions": ["learned", "sinusoidal", "rotary"],
    "maximum_length": [20],
    "rotary_base": [500.0],
    "rotary_scaling": [SCALING],
    "feedforward": ["swiglu"],
    "bias": [False],
    "std": [0.1],
    "branch": ["inverse_sqrt_depth", "zero", "deep_norm"],
}
CHANGES = [
    (part, field, value)
    for part, fields in (("coupling", OF_THE_COUPLING), ("body", OF_THE_BODY))
    for field, values in fields.items()
    for value in values
]
IDS = torch.tensor([[1, 5, 6, 3, 5, 2, 10, 9]])
VOCABULARY = 12


def fingerprint(base: str, *changes: tuple[str, str, object]) -> str | None:
    """Of initial values, what is trained, logits, and the longest sequence; None if refused."""
    parts = {
        "coupling": {**COUPLING, **BASES[base][0]},
        "body": {**BODY, **BASES[base][1]},
    }
    for part, field, value in changes:
        parts[part][field] = value
    try:
        coupling = validate(CouplingSettings, parts["coupling"])
        body = validate(BodySettings, parts["body"])
        model = LanguageModel(coupling, body, VOCABULARY).initialize(0)
    except SettingsError as error:
        assert error.found and error.expected and error.mend
        return None
    found = hashlib.sha256()
    with torch.no_grad():
        for name, p in model.named_parameters():
            found.update(f"{name}{tuple(p.shape)}{p.requires_grad}".encode())
            found.update(p.numpy().tobytes())
            p.add_(torch.empty(p.shape).normal_(0, 0.3, generator=generator_of(1, name)))
        found.update(model(IDS).numpy().tobytes())
        try:
            model(torch.ones(1, 15, dtype=torch.long))
        except DataError:
            found.update(b"shorter")
    return found.hexdigest()


def is_nothing_new(base: str, change: tuple[str, str, object]) -> bool:
    """Whether a base has the value already; the direction of the identity is of its objective."""
    part, field, value = change
    kind = {"coupling": CouplingSettings, "body": BodySettings}[part]
    given = {**COUPLING, **BASES[base][0]} if part == "coupling" else BASES[base][1]
    held = given.get(field, kind.model_fields[field].default)
    return held == value or (base == "identity" and field == "causal")


@pytest.mark.parametrize("base", BASES)
def test_every_pair_of_settings_does_something_or_is_refused(base):
    changes = [x for x in CHANGES if not is_nothing_new(base, x)]
    plain = fingerprint(base)
    alone = {str(x): fingerprint(base, x) for x in changes}
    assert plain not in alone.values()
    allowed, refused, idle = 0, 0, []
    for first, second in combinations(changes, 2):
        if first[:2] == second[:2]:
            continue
        both = fingerprint(base, first, second)
        if both is None:
            refused += 1
            continue
        allowed += 1
        if both in (plain, alone[str(first)], alone[str(second)]):
            idle.append((first, second))
    assert idle == []
    assert allowed > 50 and refused > 50
