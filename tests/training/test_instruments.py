"""Gradients of both sides of a table: against autograd, and without a trace in the training."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tiebench.corpus.tokenizer import SPECIALS
from tiebench.errors import SettingsError
from tiebench.model.lm import LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.schema import validate
from tiebench.training.batches import Batch
from tiebench.training.instruments import INSTRUMENTS, MEASURES, compare, side_gradients
from tiebench.training.loop import Loop, train
from tiebench.training.settings import InstrumentSettings, TrainingSettings

VOCABULARY = 30
BODY = BodySettings(
    option="t", width=8, layers=1, heads=2, feedforward_width=12, causal=True, maximum_length=16
)
IDENTITY = BodySettings(option="t", kind="identity", width=8)


def model_of(body: BodySettings = BODY, **coupling) -> LanguageModel:
    settings = {"option": "t", "tied": True, "bias": False, "std": 0.3, **coupling}
    return LanguageModel(CouplingSettings(**settings), body, VOCABULARY).initialize(0)


def batch_of(seed: int = 0, length: int = 9) -> Batch:
    ids = np.random.default_rng(seed).integers(SPECIALS, VOCABULARY, size=(3, length))
    where = np.arange(ids.size).reshape(ids.shape)[:, :-1].reshape(-1)
    return Batch(ids, where, ids[:, 1:].reshape(-1))


def training_of(**replaced) -> TrainingSettings:
    held = {
        "objective": "causal", "steps": 12, "batch_size": 2, "sequence_length": 8,
        "sampling_exponent": 1.0, "learning_rate": 0.01, "warmup_steps": 2, "validate_every": 6,
        "validation_windows": 2, **replaced,
    }  # fmt: skip
    return validate(TrainingSettings, held)


TOKENS = {
    "en": np.random.default_rng(1).zipf(1.5, size=900).clip(1, VOCABULARY - SPECIALS) + SPECIALS - 1
}


@pytest.mark.parametrize("body", [BODY, IDENTITY])
def test_the_sides_add_up_to_the_gradient_of_a_shared_table(body) -> None:
    model, batch = model_of(body), batch_of()
    given, sent = side_gradients(model, [batch])
    tensors = [torch.from_numpy(x) for x in (batch.ids, batch.where, batch.targets)]
    (model.summed_loss(*tensors) / len(batch.targets)).backward()
    torch.testing.assert_close(given + sent, model.coupling.input_table.grad)
    assert model.coupling.tied and "untied_output_table" not in dict(
        model.coupling.named_parameters()
    )


def test_the_output_side_is_probabilities_times_states() -> None:
    """Press & Wolf 2017, section 2: (p - 1) h at the target's row, p h at every other."""
    model, batch = model_of(IDENTITY), batch_of()
    _, sent = side_gradients(model, [batch])
    tensors = [torch.from_numpy(x) for x in (batch.ids, batch.where, batch.targets)]
    with torch.no_grad():
        states = model.states(tensors[0])[-1].flatten(0, 1)[tensors[1]]
        off = torch.softmax(states @ model.coupling.output_table.T, dim=1)
        off[torch.arange(len(off)), tensors[2]] -= 1
    torch.testing.assert_close(sent, off.T @ states / len(off))
    assert (sent.norm(dim=1) > 0).all(), "a softmax moves every row"


def test_input_rows_get_a_gradient_only_where_they_are_in_the_batch() -> None:
    batch = batch_of()
    given, _ = side_gradients(model_of(), [batch])
    read = np.zeros(VOCABULARY, dtype=bool)
    read[batch.ids[:, :-1]] = True
    assert ((given.norm(dim=1) > 0).numpy() == read).all()


def test_a_large_batch_is_the_mean_of_its_batches() -> None:
    model, batches = model_of(), [batch_of(0), batch_of(1)]
    apart = [side_gradients(model, [batch]) for batch in batches]
    for side, held in enumerate(side_gradients(model, batches)):
        torch.testing.assert_close(held, (apart[0][side] + apart[1][side]) / 2)


def test_opposite_gradients_have_cosine_minus_one() -> None:
    given = torch.eye(4)[:3].double()
    held = compare(given, -2 * given, given[[1, 2, 0]])
    assert held["cosine"] == pytest.approx(-1) and held["row_cosine"] == pytest.approx(-1)
    assert held["null_cosine"] == 0
    assert held["output_row_norms"] == 6 and held["output_norm"] == pytest.approx(12**0.5)


def test_measures_without_a_value_are_absent() -> None:
    zero, other = torch.zeros(3, 2), torch.ones(3, 4)
    assert compare(zero, torch.ones(3, 2), zero)["cosine"] is None
    assert compare(torch.ones(3, 2), other, torch.ones(3, 2))["cosine"] is None
    assert compare(zero, other, zero)["input_coverage"] == 0


@pytest.mark.parametrize("coupling", [{}, {"tied": False}, {"tied": False, "output_width": 4,
    "transform": [{"kind": "linear"}]}])  # fmt: skip
def test_measuring_changes_no_bit_of_the_training(coupling) -> None:
    ends = []
    for instruments in (None, {"every": 2, "large_batches": 3}):
        model = model_of(**coupling)
        done = train(model, training_of(instruments=instruments), TOKENS, TOKENS, 3)
        ends.append((model.state_dict(), done.history))
    assert ends[0][1] == ends[1][1]
    assert all(torch.equal(ends[0][0][name], held) for name, held in ends[1][0].items())


def test_rows_of_a_training() -> None:
    from tiebench.training.batches import Schedule, validation_batches
    from tiebench.training.parallel import ALONE

    training = training_of(instruments={"every": 4, "large_batches": 2})
    model = model_of()
    loop = Loop(model, training, validation_batches(TOKENS, training, VOCABULARY), ALONE)
    loop.run(Schedule(TOKENS, training, VOCABULARY, 0), None, "t")
    rows = loop.record["instruments"]
    assert all(tuple(row) == INSTRUMENTS for row in rows)
    assert {row["step"] for row in rows if row["batch"] == "update"} == {0, 4, 8}
    assert {row["step"] for row in rows if row["batch"] == "large"} == {0, 3, 6, 9}
    for row in rows:
        assert row["output_coverage"] == 1 and row["input_coverage"] <= 1
        assert (row["input_updated"] is None) == (row["batch"] == "large")
        if row["batch"] == "update":
            assert row["input_updated"] == row["output_updated"] == 1, "one table, all rows move"
    whole = [row for row in rows if row["bin"] == "all"]
    parts = [row for row in rows if row["bin"] != "all"]
    assert sum(row["rows"] for row in parts) == sum(row["rows"] for row in whole)
    assert set(MEASURES) <= set(whole[0])


def test_untied_input_rows_stay_where_no_batch_reads_them() -> None:
    from tiebench.training.batches import Schedule, validation_batches
    from tiebench.training.parallel import ALONE

    training = training_of(instruments={"every": 1}, steps=2, warmup_steps=0, validate_every=1)
    loop = Loop(
        model_of(tied=False), training, validation_batches(TOKENS, training, VOCABULARY), ALONE
    )
    loop.run(Schedule(TOKENS, training, VOCABULARY, 0), None, "t")
    first = next(row for row in loop.record["instruments"] if row["bin"] == "all")
    assert first["input_updated"] == first["input_coverage"] < 1
    assert first["output_updated"] == first["output_coverage"] == 1


def test_a_large_batch_of_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="large_batches of 2 or more"):
        validate(InstrumentSettings, {"every": 1, "large_batches": 1})
