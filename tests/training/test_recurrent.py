"""The recurrent family: chunks, the published schedule and scaling, evaluation, resume, errors."""

from __future__ import annotations

import csv
import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file

from tests.conftest import ROOT
from tests.training.cells import Stop, strays
from tiebench.checks import check
from tiebench.composition import compose, parse
from tiebench.corpus.prepare import prepare
from tiebench.corpus.tokens import read_tokens
from tiebench.errors import DataError, DivergedError, SettingsError, TrainingError
from tiebench.files import write_text
from tiebench.model.lm import LanguageModel, load_model
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain, processes_of
from tiebench.training.recurrent import RecurrentLoop
from tiebench.training.recurrent_settings import RecurrentTrainingSettings
from tiebench.training.streams import Chunks, stream_outcomes

OUTPUTS = [
    "README.md", "config.json", "history.csv", "losses.safetensors", "metrics.json",
    "model.safetensors", "tokenizer.json",
]  # fmt: skip
TRAINING = {
    "epochs": 3, "batch_size": 4, "sequence_length": 5, "learning_rate": 1.0,
    "constant_epochs": 1, "decay": 0.5, "clip": 5.0, "log_every": 4,
}  # fmt: skip
CPU = torch.device("cpu")


def training(**replaced) -> RecurrentTrainingSettings:
    return validate(RecurrentTrainingSettings, {**TRAINING, **replaced}, "training")


def make_params(**replaced) -> Params:
    """Settings of the default's family, on a text of 20 types, to train in a second."""
    values = parse(compose((), ROOT / "conf")[0])
    source = {"kind": "local", "folder": "t", "format": "text", "files": {"en": "{split}.txt"}}
    counts = {"train": (60, 420), "valid": (10, 70), "test": (12, 84)}
    parts = {x: {"name": x, "lines": n, "tokens": size} for x, (n, size) in counts.items()}
    values["corpora"]["t"] = {
        "option": "t", "source": source, "languages": ["en"], "published": parts,
        "tokenizer": {"kind": "types", "vocabulary": 20},
    }  # fmt: skip
    family = values["recurrent"]
    family |= {"corpus": "t", "seeds": [0, 1]}
    family["body"] |= {"width": 8}
    family["training"] = {**TRAINING, **replaced.pop("training", {})}
    family |= replaced
    return check(validate(Params, values))


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A prepared text in which a word leans on the one before, in an empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIEBENCH_CHECKPOINT_SECONDS", "1000")
    rng = np.random.default_rng(0)
    Path("external/t").mkdir(parents=True)
    for name, lines in (("train", 60), ("valid", 10), ("test", 12)):
        words = rng.integers(19, size=(lines, 3))
        pairs = np.stack((words, (words + 1) % 19), axis=2).reshape(lines, 6)
        text = "".join(" ".join(f"w{i}" for i in line) + "\n" for line in pairs)
        write_text(Path(f"external/t/{name}.txt"), text)
    prepare(make_params().corpora["t"], Path("data/t"))
    return Path("data/t")


def streams(folder: Path = Path("data/t")) -> dict[str, np.ndarray]:
    tokenizer = folder / "tokenizer.json"
    return {
        x: read_tokens(folder / f"{x}.safetensors", tokenizer, ["en"])["en"]
        for x in ("train", "valid", "test")
    }


def loop_of(run: str = "baseline", **replaced) -> RecurrentLoop:
    group = make_params(training=replaced).recurrent
    model = LanguageModel(group.runs[run].coupling, group.body_of(run), 20).initialize(0)
    held = streams()
    return RecurrentLoop(model, group.training_of(run), held["train"], held["valid"], 0, CPU)


def read(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in OUTPUTS}


def test_chunks_are_parts_of_the_stream_side_by_side():
    chunks = Chunks.of(np.arange(43, dtype=np.uint16), training())
    assert len(chunks) == 1  # 10 words a part: one chunk of 5 and what is lacking of a second
    ids, targets = chunks[0]
    assert ids.tolist() == [[t, 10 + t, 20 + t, 30 + t] for t in range(5)]
    assert targets.view(5, 4).tolist() == (ids + 1).tolist()
    chunks = Chunks.of(np.arange(44), training())
    assert len(chunks) == 2
    assert chunks[1][0][0].tolist() == [5, 16, 27, 38]
    assert len(Chunks.of(np.arange(88), training(data_share=0.5))) == 2
    with pytest.raises(DataError, match=r"found 23 tokens; expected at least 24, sequence"):
        Chunks.of(np.arange(23), training())


def test_penn_treebank_has_2323_updates_an_epoch():
    group = validate(
        Params, parse(compose(["study@recurrent=press_wolf_small"], ROOT / "conf")[0])
    ).recurrent
    assert len(Chunks.of(np.zeros(929_589, dtype=np.uint16), group.training)) == 2323


@pytest.mark.parametrize(
    ("study", "rates"),
    [
        ("press_wolf_small", {0: 1, 4: 1, 5: 0.5, 12: 0.5**8}),
        ("press_wolf_medium", {6: 1, 7: 0.8, 38: 0.8**32}),
        ("press_wolf_large", {14: 1, 15: 1 / 1.15, 54: 1.15**-40}),
    ],
)
def test_published_schedule(study, rates):
    values = parse(compose([f"study@recurrent={study}"], ROOT / "conf")[0])
    group = check(validate(Params, values)).recurrent
    for run in group.runs:
        assert {i: group.training_of(run).rate(i) for i in rates} == pytest.approx(rates)


def plain_update(model: LanguageModel, chunks: Chunks, state, penalty: float, clip: float):
    """An update written plainly with torch's own loss: gradients of all parameters, norm, loss."""
    ids, targets = chunks
    states, state = model.advance(ids, state)
    logits = F.linear(states, model.coupling.output_table, model.coupling.bias)
    loss = F.cross_entropy(logits, targets, reduction="sum") / ids.shape[1]
    added = sum(penalty * m.weight.square().sum() for m in model.coupling.transform)
    gradients = torch.autograd.grad(loss + added, list(model.parameters()))
    norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
    scale = min(1.0, clip / norm)
    return [g * scale for g in gradients], norm, float(loss.detach()), state


@pytest.mark.parametrize("run", ["baseline", "wt", "pr", "wt_pr"])
@pytest.mark.parametrize("clip", [5.0, 0.5])
def test_an_update_is_the_published_one(corpus, run, clip):
    """The loss is summed over the steps and divided by the batch, the penalty is added to that, and
    the gradient of both is clipped: three updates against a plain reference."""
    loop = loop_of(run, clip=clip)
    again = loop_of(run, clip=clip).model
    penalty = 0.5 / (20 * 6.5) if "pr" in run else 0.0
    state, total, norms = None, 0.0, []
    for step in range(3):
        gradients, norm, loss, state = plain_update(again, loop.chunks[step], state, penalty, clip)
        state = tuple(x.detach() for x in state)
        with torch.no_grad():
            for parameter, gradient in zip(again.parameters(), gradients, strict=True):
                parameter -= gradient
        loop.update("t")
        total += loss
        norms.append(norm)
        assert loop.record["sum"] == pytest.approx(total, rel=1e-5)
        for one, other in zip(loop.model.parameters(), again.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert (max(norms) > clip) == (clip == 0.5)


def test_each_epoch_starts_without_a_state_and_has_its_rate(corpus):
    loop = loop_of()
    count = len(loop.chunks)
    seen = []
    advance = loop.model.advance

    def noting(ids, state, dropout):
        seen.append(state is None)
        return advance(ids, state, dropout)

    loop.model.advance = noting
    loop.validate = lambda: 0.0
    for _ in range(loop.steps):
        loop.update("t")
    rates = [row["learning_rate"] for row in loop.record["history"] if row["validation_loss"] == 0]
    assert rates == [1.0, 0.5, 0.25]
    assert seen == [step % count == 0 for step in range(3 * count)]


def test_learns_and_records(corpus):
    folder = pretrain(make_params(), "recurrent", "wt_pr", 0)
    assert sorted(x.name for x in folder.iterdir()) == OUTPUTS
    metrics = json.loads((folder / "metrics.json").read_text())
    rows = list(csv.DictReader((folder / "history.csv").open()))
    count = (420 // 4 - 1) // 5
    assert metrics["steps"] == 3 * count and metrics["tokens"] == 60 * count
    assert metrics["initial_loss"] == pytest.approx(math.log(20), abs=0.05)
    assert metrics["initial_loss"] == float(rows[0]["validation_loss"])
    ended = [row for row in rows if row["validation_loss"]]
    assert [int(row["step"]) for row in ended] == [0, count, 2 * count, 3 * count]
    assert metrics["validation"]["loss"] == float(rows[-1]["validation_loss"])
    assert metrics["validation"]["loss"] < metrics["initial_loss"] - 0.02
    assert metrics["train_loss"] == float(rows[-1]["train_loss"])
    assert metrics["validation"]["predicted_tokens"] == 69
    assert metrics["test"]["predicted_tokens"] == 83
    losses = load_file(folder / "losses.safetensors")
    assert {x: len(held) for x, held in losses.items()} == {"valid": 69, "test": 83}
    perplexity = metrics["perplexity"]
    assert perplexity["test"] == pytest.approx(math.exp(losses["test"].mean()), rel=1e-5)
    assert perplexity["train"] == math.exp(metrics["train_loss"])
    assert strays() == []


@pytest.mark.parametrize("run", ["baseline", "wt_pr"])
def test_perplexity_is_of_one_stream_whatever_the_chunks(corpus, run):
    """Equal to a reference that feeds one word after the other and adds up log-probabilities."""
    loop = loop_of(run)
    for _ in range(10):
        loop.update("t")
    model, ids = loop.model, streams()["test"]
    expected, state = [], None
    with torch.no_grad():
        for word, target in pairwise(ids):
            states, state = model.advance(torch.tensor([[int(word)]]), state)
            logits = states @ model.coupling.output_table.T + model.coupling.bias
            expected.append(-float(logits.log_softmax(1)[0, int(target)]))
    for steps in (1, 7, 83, 1000):
        found = stream_outcomes(model, ids, CPU, steps)
        np.testing.assert_allclose(found["loss"], expected, rtol=1e-4, atol=1e-5)
        assert found["target"].tolist() == ids[1:].tolist()
    with pytest.raises(DataError, match="found 1 tokens; expected two or more"):
        stream_outcomes(model, ids[:1], CPU)


def test_untrained_is_saved_as_initialized(corpus):
    params = make_params()
    runs = params.recurrent.runs
    held = {"wt": runs["wt"].model_copy(update={"trained": False})}
    group = params.recurrent.model_copy(update={"runs": {**runs, **held}})
    folder = pretrain(params.model_copy(update={"recurrent": group}), "recurrent", "wt", 1)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["steps"] == metrics["tokens"] == metrics["train_flops"] == 0
    assert metrics["perplexity"]["train"] is None
    fresh = LanguageModel(runs["wt"].coupling, params.recurrent.body, 20).initialize(1)
    ids = torch.arange(8)[None]
    assert torch.equal(load_model(folder)(ids), fresh(ids))


DROPOUT = {"kind": "sequence", "input": 0.1, "between": 0.2, "recurrent": 0.2, "output": 0.3}


@pytest.mark.parametrize("dropout", [None, DROPOUT])
@pytest.mark.parametrize("step", [1, 20, 27, 60])
def test_a_stopped_run_ends_with_the_same_bytes(corpus, monkeypatch, step, dropout):
    """Stopped before the first checkpoint, at the end of an epoch, within one, after the last."""
    params = make_params(training={"dropout": dropout})
    whole = read(pretrain(params, "recurrent", "wt_pr", 0).rename("whole"))
    update = RecurrentLoop.update

    def stopping(self, cell):
        if self.steps_done == step:
            raise Stop
        update(self, cell)

    with monkeypatch.context() as patched:
        patched.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
        if step < 60:
            patched.setattr(RecurrentLoop, "update", stopping)
        else:  # while the outputs are written
            patched.setattr("tiebench.training.pretrain_recurrent.save_cell", stop)
        with pytest.raises(Stop):
            pretrain(params, "recurrent", "wt_pr", 0)
    seen = []

    def noting(self, cell):
        seen.append(self.steps_done)
        update(self, cell)

    monkeypatch.setattr(RecurrentLoop, "update", noting)
    assert read(pretrain(params, "recurrent", "wt_pr", 0)) == whole
    assert seen == list(range(step, 60))
    assert strays() == []


def stop(*_):
    raise Stop


def test_another_seed_or_setting_starts_anew(corpus):
    params = make_params()
    first = read(pretrain(params, "recurrent", "wt", 0))
    assert read(pretrain(params, "recurrent", "wt", 0)) == first
    assert read(pretrain(params, "recurrent", "wt", 1)) != first
    dropped = make_params(training={"dropout": DROPOUT})
    assert read(pretrain(dropped, "recurrent", "wt", 0)) != first


def test_a_damaged_checkpoint_is_named(corpus, monkeypatch):
    params, update = make_params(), RecurrentLoop.update

    def stopping(self, cell):
        if self.steps_done == 3:
            raise Stop
        update(self, cell)

    with monkeypatch.context() as patched:
        patched.setenv("TIEBENCH_CHECKPOINT_SECONDS", "0")
        patched.setattr(RecurrentLoop, "update", stopping)
        with pytest.raises(Stop):
            pretrain(params, "recurrent", "wt", 0)
    (path,) = Path(".scratch").glob("*/checkpoint.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TrainingError, match="a damaged checkpoint"):
        pretrain(params, "recurrent", "wt", 0)


def test_what_is_not_finite_is_named(corpus):
    loop = loop_of(learning_rate=1e38, clip=None)
    loop.update("t")
    told = r"t: found loss inf and gradient norm .* at step 2, largest gradient in coupling\."
    with pytest.raises(DivergedError, match=told):
        loop.update("t")


def test_a_loss_without_a_perplexity_is_named(corpus):
    loop = loop_of(learning_rate=3e5, clip=None)
    with pytest.raises(DivergedError, match=r"t: found loss \d.* and gradient norm .* at step"):
        for _ in range(40):
            loop.update("t")


def test_the_augmented_loss_and_reuse(corpus):
    """AL adds its divergence as the cross-entropy is scaled; RE is the tied run (Inan et al.)."""
    soft = {"weight": 0.5, "temperature": 2.0}
    loop, plain = loop_of("wt", augmented=soft), loop_of("wt")
    ids, targets = loop.chunks[0]
    states, _ = plain.model.advance(ids)
    coupling = plain.model.coupling
    table = coupling.input_table
    wanted = (table[targets] @ table.T / 2).softmax(1).detach()
    predicted = ((states @ table.T + coupling.bias) / 2).log_softmax(1)
    divergence = (wanted * (wanted.log() - predicted)).sum() / 4
    loss = F.cross_entropy(states @ table.T + coupling.bias, targets, reduction="sum") / 4
    (loss + 0.5 * divergence).backward()
    loop.update("t")
    assert loop.record["sum"] == pytest.approx(float(loss.detach()), rel=1e-5)
    torch.testing.assert_close(
        loop.model.coupling.input_table.grad, table.grad, rtol=1e-3, atol=1e-6
    )


def test_one_process(corpus):
    assert processes_of(make_params(), "recurrent", "wt", 4) == 1


@pytest.mark.parametrize(
    ("replaced", "expected"),
    [
        ({"constant_epochs": 4}, r"constant_epochs of at most epochs \(4, 3\)"),
        ({"decay": 1.0}, "decay below 1 where epochs come after constant_epochs"),
        ({"constant_epochs": 3}, "decay below 1 where epochs come after constant_epochs"),
        ({"dropout": {"kind": "step", "recurrent": 0.1}}, "recurrent 0 with kind step"),
        ({"dropout": {"kind": "step"}}, "a share above 0, or no dropout at all"),
        ({"steps": 3}, "training.steps: found a key that no setting has"),
    ],
)
def test_training_settings_that_do_nothing_are_refused(replaced, expected):
    with pytest.raises(SettingsError, match=expected):
        training(**replaced)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("corpus", "home", r"recurrent.corpus: found 'home' with 4 languages and no test part"),
        ("corpus", "none", r"recurrent.corpus: found 'none'; expected one of home"),
        ("baseline", "x", "baseline among the runs"),
        ("runs.wt.body", {"kind": "identity"}, "runs.wt.body"),
        ("runs.wt.training", {"projection_penalty": 0.1}, "without a trained linear map"),
        ("runs.wt.training", {"batch_size": 3}, "all runs of a family see the same batches"),
        (
            "training.dropout",
            {"kind": "step", "between": 0.1},
            "dropout.between: found a share with one layer",
        ),
        ("runs.wt", {"trained": False, "training": {"clip": 1.0}}, "clip with trained false"),
    ],
)
def test_family_settings_are_checked(path, value, expected):
    values = parse(compose((), ROOT / "conf")[0])
    held = values["recurrent"]
    if "dropout" in path:
        held["body"]["layers"] = 1
    *parents, name = path.split(".")
    for key in parents:
        held = held[key]
    held[name] = {**held[name], **value} if name == "wt" else value
    with pytest.raises(SettingsError, match=expected):
        check(validate(Params, values))


def test_windows_need_special_tokens_and_no_lstm():
    values = parse(compose(["+corpus@corpora.ptb=ptb"], ROOT / "conf")[0])
    values["word_decoders"]["corpus"] = "ptb"
    with pytest.raises(SettingsError, match=r"word_decoders.corpus: found 'ptb', whose vocabulary"):
        check(validate(Params, values))
    values = parse(compose((), ROOT / "conf")[0])
    values["decoders"]["body"] = values["recurrent"]["body"]
    with pytest.raises(SettingsError, match="which reads one stream and carries its state"):
        check(validate(Params, values))
