"""What a training does to tables and maps beside the updates, in memory and in cells."""

import csv
import json
import math

import pytest
import torch
from safetensors.torch import load_file

from tests.training.cells import HEAD, Stop, make_params, read, steps_of, write_corpus
from tiebench import paths
from tiebench.analysis.counting import coupled_counts
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import DivergedError, SettingsError
from tiebench.model.lm import LanguageModel, load_model
from tiebench.model.settings import CouplingSettings
from tiebench.training.batches import Schedule
from tiebench.training.checkpoint import load_checkpoint, save_checkpoint
from tiebench.training.flops import training_flops
from tiebench.training.loop import HISTORY, Loop, train
from tiebench.training.optimizer import make_optimizer, untie
from tiebench.training.pretrain import pretrain
from tiebench.training.settings import PER_RUN, TrainingSettings, check_coupled

VOCABULARY = 300
UNTIED_AT = 12
SOFT = {"weight": 0.5, "temperature": 2.0}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A prepared corpus of two made-up languages, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    return write_corpus()


def tokens_of(corpus, part="train"):
    return read_tokens(corpus / f"{part}.safetensors", corpus / "tokenizer.json", ["a", "b"])


def coupled(**settings):
    return CouplingSettings(option="t", **{"tied": True, "transform": HEAD, **settings})


def trained(corpus, coupling=None, **training):
    """A model trained in memory, and what came of it."""
    family = make_params(**training).encoders
    model = LanguageModel(coupling or coupled(), family.body, VOCABULARY).initialize(0)
    parts = tokens_of(corpus), tokens_of(corpus, "valid")
    return model, train(model, family.training, *parts, 0)


def weights(model):
    return {name: p.detach() for name, p in model.named_parameters()}


def test_in_memory_as_in_a_cell(corpus):
    model, found = trained(corpus)
    folder = pretrain(make_params(), "encoders", "tied", 0)
    saved = load_file(folder / "model.safetensors")
    assert saved.keys() == weights(model).keys()
    assert all(torch.equal(saved[name], value) for name, value in weights(model).items())
    rows = list(csv.DictReader((folder / "history.csv").open()))
    told = [{k: "" if row[k] is None else str(row[k]) for k in HISTORY} for row in found.history]
    assert told == rows
    assert found.steps == 30 and found.diverged is None
    metrics = json.loads((folder / "metrics.json").read_text())
    assert found.validation_loss == metrics["validation"]["loss"]
    assert sorted(found.held) == ["a", "b"]


def test_in_memory_a_divergence_is_told(corpus):
    _, found = trained(corpus, learning_rate=1e38, table_learning_rate=10.0)
    assert "at step 2" in found.diverged and not paths.SCRATCH.exists()
    assert math.isnan(found.validation_loss) and found.held == {} and found.steps == 1
    assert [row["step"] for row in found.history] == [0]


def gradients_of(model, batch):
    """Of the mean loss of a batch, by torch."""
    ids, where, targets = map(torch.from_numpy, (batch.ids, batch.where, batch.targets))
    model.zero_grad()
    logits = model(ids).flatten(0, 1)[where]
    torch.nn.functional.cross_entropy(logits, targets).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def updated(model, training, batch):
    """A loop after one update."""
    loop = Loop(model, training, {})
    loop.optimizer = make_optimizer(model, training)
    loop._update(batch, "t")
    return loop


@pytest.mark.parametrize("scales", [(5.0, 1.0), (0.0, 1.0), (1.0, 0.0), (0.5, 2.0)])
def test_each_side_has_its_scale(corpus, scales):
    family = make_params(clip=None).encoders
    batch = Schedule(tokens_of(corpus), family.training, VOCABULARY, 0).batch(0)
    model = LanguageModel(coupled(), family.body, VOCABULARY).initialize(0)
    apart = LanguageModel(coupled(), family.body, VOCABULARY).initialize(0)
    apart.untie()
    both = gradients_of(apart, batch)
    training = family.training.model_copy(
        update={"input_gradient_scale": scales[0], "output_gradient_scale": scales[1]}
    )
    updated(model, training, batch)
    expected = scales[0] * both["coupling.input_table"]
    expected += scales[1] * both["coupling.untied_output_table"]
    torch.testing.assert_close(model.coupling.input_table.grad, expected, atol=1e-7, rtol=1e-4)
    other = "body.blocks.0.feedforward.up.weight"
    found = dict(model.named_parameters())[other].grad
    torch.testing.assert_close(found, both[other], atol=1e-7, rtol=1e-4)


FROZEN = [{"kind": "linear", "bias": False, "initialization": "orthogonal", "trained": False}]


def test_what_is_frozen_stays_and_is_no_part_of_anything(corpus, monkeypatch):
    model, found = trained(corpus, coupled(transform=FROZEN))
    fresh = LanguageModel(coupled(transform=FROZEN), make_params().encoders.body, VOCABULARY)
    name = "coupling.transform.0.weight"
    assert torch.equal(weights(model)[name], weights(fresh.initialize(0))[name])
    assert found.validation_loss < found.history[0]["validation_loss"] - 0.3
    training = make_params().encoders.training
    batch = Schedule(tokens_of(corpus), training, VOCABULARY, 0).batch(0)
    loop = updated(fresh, training, batch)
    save_checkpoint(paths.SCRATCH, fresh, loop.optimizer, 1, {})
    names = load_file(paths.SCRATCH / "checkpoint.safetensors")
    assert {x for x in names if name in x} == {f"weight/{name}"}
    again = LanguageModel(coupled(transform=FROZEN), make_params().encoders.body, VOCABULARY)
    optimizer = make_optimizer(again, training)
    assert load_checkpoint(paths.SCRATCH, again, optimizer) == (1, {})
    assert weights(again).keys() == weights(fresh).keys()
    assert all(torch.equal(weights(again)[x], weights(fresh)[x]) for x in weights(fresh))
    assert len(optimizer.state) == len(weights(fresh)) - 1


def test_an_update_that_misses_a_parameter_is_restored_as_it_was():
    family = make_params().encoders
    made = []
    for _ in range(2):
        model = LanguageModel(coupled(), family.body, VOCABULARY).initialize(0)
        made.append((model, make_optimizer(model, family.training)))
    (model, optimizer), (again, restored) = made
    for step in range(3):
        optimizer.zero_grad()
        ids = torch.arange(4, 12)[None]
        model.summed_loss(ids, torch.arange(4), ids[0, 4:8]).backward()
        model.coupling.bias.grad = None if step else model.coupling.bias.grad
        model.body.position_table.grad = None
        optimizer.step()
    save_checkpoint(paths.SCRATCH, model, optimizer, 3, {})
    load_checkpoint(paths.SCRATCH, again, restored)
    assert float(restored.state[again.coupling.bias]["step"]) == 1
    assert float(restored.state[again.coupling.input_table]["step"]) == 3
    assert again.body.position_table not in restored.state


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_state_of_a_shared_table_is_copied(corpus):
    family = make_params().encoders
    model = LanguageModel(coupled(), family.body, VOCABULARY).initialize(0)
    batch = Schedule(tokens_of(corpus), family.training, VOCABULARY, 0).batch(0)
    optimizer = updated(model, family.training, batch).optimizer
    untie(model, optimizer)
    first, second = model.coupling.input_table, model.coupling.output_table
    assert first is not second and torch.equal(first, second)
    for part in ("exp_avg", "exp_avg_sq", "step"):
        ours, theirs = (optimizer.state[x][part] for x in (first, second))
        assert torch.equal(ours, theirs) and ours.data_ptr() != theirs.data_ptr()
    held = [group for group in optimizer.param_groups if any(p is second for p in group["params"])]
    assert len(held) == 1 and any(p is first for p in held[0]["params"])
    assert held[0]["weight_decay"] == 0


def untying(**training):
    return make_params(untie_after=0.4, log_every=1, **training)


def test_one_table_becomes_two(corpus):
    params = untying()
    whole = pretrain(make_params(log_every=1), "encoders", "tied", 0).rename("whole")
    folder = pretrain(params, "encoders", "tied", 0)
    rows = [list(csv.DictReader((x / "history.csv").open())) for x in (whole, folder)]
    same = [int(a["step"]) for a, b in zip(*rows, strict=True) if a == b]
    assert same == list(range(UNTIED_AT + 1))
    after = [row[UNTIED_AT + 1] for row in rows]
    assert after[0]["loss"] == after[1]["loss"]  # which the parting does not change
    config = json.loads((folder / "config.json").read_text())
    assert config["coupling"]["tied"] is False
    model = load_model(folder)
    assert not torch.equal(model.coupling.input_table, model.coupling.output_table)
    group = params.encoders
    counts = coupled_counts(group.final_coupling("tied"), group.body, VOCABULARY)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["parameters"] == counts.as_dict() == model.parameter_counts()
    assert "two after 40% of the updates" in (folder / "README.md").read_text()
    assert group.all_runs["untrained"].coupling == group.final_coupling("untrained")


@pytest.mark.parametrize("at", [5, UNTIED_AT - 1, UNTIED_AT, UNTIED_AT + 1, 30])
def test_a_stopped_run_that_unties_has_the_same_bytes(corpus, monkeypatch, at):
    params = untying(input_gradient_scale=5.0, augmented=SOFT, projection_penalty=0.01)
    whole = read(pretrain(params, "encoders", "tied", 0))
    update, save = Loop._update, "tiebench.training.pretrain._save"

    def stopping(self, batch, cell):
        if self.steps_done == at:
            raise Stop
        update(self, batch, cell)

    def stop(*_):
        raise Stop

    with monkeypatch.context() as patched:
        patched.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
        patched.setattr(Loop, "_update", stopping)
        patched.setattr(save, stop)
        with pytest.raises(Stop):
            pretrain(params, "encoders", "tied", 0)
    steps = steps_of(monkeypatch)
    assert read(pretrain(params, "encoders", "tied", 0)) == whole
    assert steps == list(range(at, 30))


def test_penalties_are_no_part_of_a_loss_that_is_told(corpus):
    base = coupled(tied=False)
    plain, found = trained(corpus, base, log_every=1)
    pulled, other = trained(corpus, base, log_every=1, tie_penalty=1.0)
    assert found.history[:2] != other.history[:2]
    for key in ("loss", "validation_loss"):
        assert [x[key] for x in found.history[:2]] == [x[key] for x in other.history[:2]]
    apart = [
        torch.dist(x.coupling.input_table, x.coupling.output_table).item() for x in (plain, pulled)
    ]
    assert apart[1] < 0.5 * apart[0]


def test_the_first_part_of_the_text(corpus):
    tokens = tokens_of(corpus)
    training = make_params(data_share=0.1, masking=None, objective="causal").encoders.training
    schedule = Schedule(tokens, training, VOCABULARY, 0)
    assert {language: len(ids) for language, ids in schedule.tokens.items()} == {"a": 300, "b": 300}
    longest = max(int(schedule.start[schedule.choice == i].max()) for i in (0, 1))
    assert 150 < longest <= 300 - schedule.content
    folder = pretrain(make_params(data_share=0.1), "encoders", "tied", 0)
    less = json.loads((folder / "metrics.json").read_text())["validation"]
    folder = pretrain(make_params(), "encoders", "tied", 0)
    more = json.loads((folder / "metrics.json").read_text())["validation"]
    assert less["unigram_loss"] > more["unigram_loss"]


EFFECTIVE = {
    "input_gradient_scale": (5.0, {}),
    "output_gradient_scale": (0.0, {}),
    "untie_after": (0.5, {}),
    "tie_penalty": (0.1, {"tied": False}),
    "projection_penalty": (0.1, {}),
    "augmented": (SOFT, {}),
    "data_share": (0.2, {}),
}


@pytest.mark.parametrize("key", EFFECTIVE)
def test_every_setting_does_something(corpus, key):
    value, coupling = EFFECTIVE[key]
    _, plain = trained(corpus, coupled(**coupling))
    _, other = trained(corpus, coupled(**coupling), **{key: value})
    check_coupled(make_params(**{key: value}).encoders.training, coupled(**coupling), 16)
    assert plain.validation_loss != other.validation_loss


WIDE = {"tied": False, "input_width": 4, "output_width": 24}


@pytest.mark.parametrize(
    ("training", "coupling", "subject", "found"),
    [
        ({"input_gradient_scale": 5.0}, {"tied": False}, "input_gradient_scale", "5.0 with two"),
        ({"output_gradient_scale": 0.0}, {"tied": False}, "output_gradient_scale", "0.0 with two"),
        ({"input_gradient_scale": 0.0, "output_gradient_scale": 0.0}, {}, "input_gradient_scale", "0 beside"),
        ({"untie_after": 0.5}, {"tied": False}, "untie_after", "0.5 with two tables"),
        ({"tie_penalty": 0.1}, {}, "tie_penalty", "0.1 with one table"),
        ({"tie_penalty": 0.1}, WIDE, "tie_penalty", "tables of widths 4 and 24"),
        ({"projection_penalty": 0.1}, {"transform": []}, "projection_penalty", "without a trained"),
        ({"projection_penalty": 0.1}, {"transform": FROZEN}, "projection_penalty", "without a trained"),
    ],
)  # fmt: skip
def test_what_does_nothing_is_refused(training, coupling, subject, found):
    with pytest.raises(SettingsError, match=found) as error:
        check_coupled(make_params(**training).encoders.training, coupled(**coupling), 16)
    assert error.value.subject == f"training.{subject}"


def replacing(run, **training):
    """Settings in which a run replaces some of its family's training."""
    params = make_params()
    family = params.encoders
    runs = {
        name: held.model_copy(update={"training": training}) if name == run else held
        for name, held in family.runs.items()
    }
    return params.model_copy(update={"encoders": family.model_copy(update={"runs": runs})})


def test_a_run_has_a_training_of_its_own(corpus):
    params = replacing("tied", learning_rate=5e-3, clip=None)
    folder = pretrain(params, "encoders", "tied", 0)
    same = read(folder)
    card = same.pop("README.md").decode()
    assert "peak learning rate 0.005" in card
    assert "| other than its family | learning_rate 0.005, clip None |" in card
    alone = read(pretrain(make_params(learning_rate=5e-3, clip=None), "encoders", "tied", 0))
    alone.pop("README.md")
    assert same == alone
    assert params.encoders.training_of("wide") == params.encoders.training


@pytest.mark.parametrize(
    ("run", "training", "subject", "found"),
    [
        ("tied", {"steps": 9}, "runs.tied.training.steps", "all runs of a family see the same"),
        ("tied", {"decay": "none"}, "runs.tied.training.decay", "'none'"),
        ("tied", {"warmup_steps": 30}, "runs.tied.training", "warmup_steps below steps"),
        ("tied", {"augmented": {"weight": 1.0}}, "runs.tied.training.augmented.temperature", "nothing"),
        ("wide", {"untie_after": 0.5}, "runs.wide.training.untie_after", "two tables"),
        ("untrained", {"clip": None}, "runs.untrained.training", "clip with trained false"),
    ],
)  # fmt: skip
def test_a_training_that_a_run_cannot_have(run, training, subject, found):
    with pytest.raises(SettingsError, match=found) as error:
        replacing(run, **training).encoders.check_training(run, 16)
    assert error.value.subject == subject


def test_what_a_run_may_replace_leaves_the_batches_alone(corpus):
    values = {
        "learning_rate": 1e-3, "table_learning_rate": 2.0, "warmup_steps": 1, "decay": "constant",
        "weight_decay": 0.0, "betas": [0.8, 0.9], "epsilon": 1e-3, "clip": None,
        "input_gradient_scale": 2.0, "output_gradient_scale": 2.0, "untie_after": 0.5,
        "tie_penalty": 1.0, "projection_penalty": 1.0, "augmented": SOFT,
    }  # fmt: skip
    assert values.keys() == PER_RUN <= TrainingSettings.model_fields.keys()
    plain, other = (
        Schedule(tokens_of(corpus), make_params(**x).encoders.training, VOCABULARY, 0).batch(3)
        for x in ({}, values)
    )
    assert (plain.ids == other.ids).all() and (plain.where == other.where).all()


def test_the_augmented_loss_costs_products():
    family = make_params().encoders
    soft = make_params(augmented=SOFT).encoders.training
    base, augmented = (
        training_flops(coupled(transform=[]), family.body, VOCABULARY, x)
        for x in (family.training, soft)
    )
    # Per predicted token one product with the input table.
    predicted = 30 * 4 * 16 * 0.3
    assert augmented - base == pytest.approx(predicted * VOCABULARY * 16 * 2)


def test_a_divergence_is_an_error_of_a_training(corpus):
    with pytest.raises(DivergedError, match="at step 2"):
        pretrain(make_params(learning_rate=1e38, table_learning_rate=10.0), "encoders", "tied", 0)
