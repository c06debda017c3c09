"""The 2-gram laboratory: counts, gradients, symmetry, choices, and resuming."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.reporting.bigram_artefacts import bigram_settings
from tests.training.cells import make_params, write_corpus
from tiebench import paths
from tiebench.corpus.tokenizer import SEP
from tiebench.errors import DataError, SettingsError, TrainingError
from tiebench.evaluation import score_bigram
from tiebench.experiments import bigram
from tiebench.experiments.bigram import area, choose, curve_points, run
from tiebench.experiments.bigram_counts import (
    Pairs,
    asymmetry,
    count_pairs,
    most_frequent,
    references,
)
from tiebench.experiments.bigram_settings import BigramSettings
from tiebench.experiments.bigram_training import (
    Objective,
    Trained,
    logits_of,
    make_model,
    measure,
    train,
)
from tiebench.schema import validate
from tiebench.settings import Params

CPU = torch.device("cpu")
FAST = {"vocabulary": 12, "width": 16, "updates": 6, "seeds": [0, 1]}


def settings(**changed: object) -> BigramSettings:
    held = validate(BigramSettings, {**bigram_settings("t"), **FAST, **changed})
    held.check_runs()
    return held


def one(coupling: dict, training: dict | None = None, **changed: object) -> BigramSettings:
    """Settings with a run `new` beside the others."""
    held = bigram_settings("t")["runs"]
    base = {"option": "new", "bias": False, "std": "inverse_sqrt_width"}
    new = {"group": "other", "coupling": {**base, **coupling}, "training": training or {}}
    return settings(runs={**held, "new": new}, **changed)


def counts(size: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 6, (size, size)) + np.eye(size, dtype=int)


# counts


def streams(*texts: list[int]) -> dict[str, np.ndarray]:
    return {f"l{i}": np.array(text, dtype=np.uint16) for i, text in enumerate(texts)}


def test_pairs_lie_inside_one_string_and_in_the_vocabulary() -> None:
    text = streams([4, 5, 4, SEP, 5, 9, 5, SEP], [6, 6, SEP])
    kept = most_frequent(text.values(), 3)
    assert list(kept) == [5, 4, 6]  # 4 and 6 occur as often
    found, coverage = count_pairs(text, kept)
    assert found.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]  # none of SEP, none with 9
    assert coverage == 3 / 5


def test_a_window_counts_every_pair_twice() -> None:
    text = streams([4, 5, 6, SEP, 4, SEP])
    kept = np.array([4, 5, 6])
    assert count_pairs(text, kept, 1)[0].tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert count_pairs(text, kept, 2)[0].tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert count_pairs(text, kept, 9)[0].tolist() == count_pairs(text, kept, 2)[0].tolist()


@pytest.mark.parametrize("window", [None, 1, 3])
def test_counts_against_a_loop(window: int | None) -> None:
    rng = np.random.default_rng(0)
    ids = [SEP if x < 5 else x for x in rng.integers(3, 14, 300)]
    kept = most_frequent(streams(ids).values(), 6)
    expected = np.zeros((6, 6), dtype=int)
    where = {int(x): i for i, x in enumerate(kept)}
    for i, j in product(range(300), repeat=2):
        near = j == i + 1 if window is None else 0 < abs(i - j) <= window
        whole = SEP not in ids[min(i, j) : max(i, j) + 1]
        if near and whole and ids[i] in where and ids[j] in where:
            expected[where[ids[i]], where[ids[j]]] += 1
    assert (count_pairs(streams(ids), kept, window)[0] == expected).all()


def test_an_entry_for_all_other_words_is_no_token() -> None:
    text = streams([4, 4, 4, 5, 6, 5])
    assert list(most_frequent(text.values(), 2, left_out=[4])) == [5, 6]


def test_a_vocabulary_that_the_text_lacks_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"bigram\.vocabulary: found 5; expected at most 2"):
        most_frequent(streams([4, 5, SEP]).values(), 5)


def test_references() -> None:
    train_pairs = np.array([[2, 2], [0, 4]])
    held = references(Pairs(train_pairs, np.array([[1, 0], [1, 0]]), 1.0))
    assert held["train_unigram"] == pytest.approx(-(math.log(2 / 8) + 3 * math.log(6 / 8)) / 4)
    assert held["train_bigram"] == pytest.approx(math.log(2) / 2)  # the second row is certain
    unigram = 3 / 10
    assert held["valid_unigram"] == pytest.approx(-math.log(unigram))
    first, second = (2 + 2 * unigram) / 6, (0 + 1 * unigram) / 5
    assert held["valid_bigram"] == pytest.approx(-(math.log(first) + math.log(second)) / 2)


def test_asymmetry_ignores_what_biases_give() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(200, 200))
    assert asymmetry(matrix) == pytest.approx(math.sqrt(2), abs=0.02)
    biased = matrix + matrix.T + rng.normal(size=200) + 3 * rng.normal(size=(200, 1))
    assert asymmetry(biased) == pytest.approx(0, abs=1e-12)
    assert asymmetry(matrix - matrix.T) == pytest.approx(2)
    assert asymmetry(np.ones((3, 3))) == 0


# loss and gradient


def naive_loss(model: torch.nn.Module, pairs: np.ndarray) -> torch.Tensor:
    """Token by token, in double precision, by autograd; `sigma` is the root mean square."""
    table, out = model.coupling.input_table, model.coupling.output_table
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(pairs)):
        state = table[i].double() / table[i].double().square().mean().sqrt()
        logits = torch.stack([(state * out[j].double()).sum() for j in range(len(pairs))])
        for j in range(len(pairs)):
            total = total - int(pairs[i, j]) * (logits[j] - torch.logsumexp(logits, 0))
    return total / pairs.sum()


@pytest.mark.parametrize("tied", [True, False])
def test_loss_and_gradient_against_a_loop(tied: bool) -> None:
    held = settings(vocabulary=5, width=4)
    model = make_model(held, held.runs["tied" if tied else "untied"], 0)
    pairs = counts(5)
    logits = logits_of(model)
    loss, gradient = Objective(pairs, CPU).loss_and_gradient(logits.detach())
    logits.backward(gradient)
    found = [p.grad.clone() for p in model.coupling.parameters()]
    model.zero_grad()
    expected = naive_loss(model, pairs)
    expected.backward()
    assert loss == pytest.approx(float(expected.detach()), rel=1e-6)
    assert loss == pytest.approx(Objective(pairs, CPU).loss(logits.detach()), rel=1e-7)
    for ours, parameter in zip(found, model.coupling.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-5, atol=1e-7)


def test_no_model_of_pairs_is_below_the_bigram_entropy() -> None:
    pairs = counts()
    floor = references(Pairs(pairs, pairs, 1.0))["train_bigram"]
    objective = Objective(pairs, CPU)
    best = torch.from_numpy(np.log(np.maximum(pairs, 1e-30))).float()
    assert objective.loss(best) == pytest.approx(floor, abs=1e-5)
    trained = run_one(settings(updates=400), "untied", 0.05, pairs)
    assert floor - 1e-5 < trained.losses[-1] < floor + 0.02


def run_one(held: BigramSettings, name: str, rate: float, pairs: np.ndarray | None = None):
    objective = Objective(counts() if pairs is None else pairs, CPU)
    return train(held, held.runs[name], 0, rate, (objective, objective), CPU, [held.updates])


# what couplings are


@pytest.mark.parametrize(
    ("transform", "symmetric"),
    [
        ([], True),
        ([{"kind": "half_swap"}], True),
        ([{"kind": "channel_shuffle", "groups": 4}], True),  # 16 = 4 * 4: its own inverse
        ([{"kind": "channel_shuffle", "groups": 2}], False),
        ([{"kind": "linear", "bias": False, "initialization": "orthogonal"}], False),
    ],
)
def test_which_forms_are_symmetric_once_trained(transform: list, symmetric: bool) -> None:
    held = one({"tied": True, "transform": transform}, updates=30)
    measures = run_one(held, "new", 0.03).measures
    assert (measures["form_asymmetry"] < 1e-5) == symmetric
    assert measures["asymmetry"] > 1e-3  # the norm's factor per row hides it
    if not transform:
        assert measures["form_negative"] < 1e-6
    else:
        assert measures["form_negative"] > 0.1


def test_measures_of_known_logits() -> None:
    held = settings(vocabulary=3, width=2)
    model = make_model(held, held.runs["untied"], 0)
    with torch.no_grad():
        model.coupling.input_table.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        model.coupling.output_table.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
    found = measure(model, Objective(np.ones((3, 3)), CPU))
    root = math.sqrt(2)
    logits = np.array([[root, 0, 0], [0, root, 0], [0, -root, 0]])
    assert found["rank"] == np.linalg.matrix_rank(logits - logits.mean(1, keepdims=True)) == 2
    assert found["asymmetry"] == pytest.approx(asymmetry(logits), rel=1e-6)
    form = logits * np.array([[root], [1 / root], [1 / root]])
    assert found["form_asymmetry"] == pytest.approx(asymmetry(form), rel=1e-6)
    exp = np.exp(logits)
    assert found["repeats"] == pytest.approx((np.diag(exp) / exp.sum(1)).mean())
    assert found["parameters"] == 12


def test_the_norms_gain_is_no_parameter() -> None:
    held = settings()
    model = make_model(held, held.runs["tied"], 0)
    assert [name for name, p in model.named_parameters() if p.requires_grad] == [
        "coupling.input_table"
    ]


# the dial


def test_a_strong_penalty_makes_two_tables_one() -> None:
    distances = []
    for penalty in (0.0, 1e-3, 1.0):
        held = one({"tied": False}, {"tie_penalty": penalty}, updates=300)
        distances.append(run_one(held, "new", 0.02).measures["distance"])
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.05


def test_the_penalty_is_that_of_training() -> None:
    """One update of plain descent would need the gradient 2 lambda (E - W): Adam takes its sign."""
    held = one({"tied": False}, {"tie_penalty": 1e6}, updates=2)
    model = make_model(held, held.runs["new"], 0)
    apart = (model.coupling.input_table - model.coupling.output_table).detach()
    start = model.coupling.input_table.detach().clone()
    after = {}

    def keep(model, pairs):
        after["table"] = model.coupling.input_table.detach().clone()
        return {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tiebench.experiments.bigram_training.measure", keep)
        run_one(held, "new", 1e-4)
    moved = start - after["table"]
    assert (moved.sign() == apart.sign()).float().mean() > 0.99


@pytest.mark.parametrize(
    ("scales", "lookup", "head"), [((1.0, 0.0), True, False), ((0.0, 1.0), False, True)]
)
def test_a_stopped_side_gives_no_gradient(scales: tuple, lookup: bool, head: bool) -> None:
    sides = dict(zip(("input_gradient_scale", "output_gradient_scale"), scales, strict=True))
    held = one({"tied": True}, sides)
    model = make_model(held, held.runs["new"], 0)
    logits = logits_of(model)
    logits.backward(Objective(counts(), CPU).loss_and_gradient(logits.detach())[1])
    untied = make_model(held, held.runs["shared"], 0)
    with torch.no_grad():
        untied.coupling.input_table.copy_(model.coupling.input_table)
        untied.coupling.untied_output_table.copy_(model.coupling.input_table)
    logits = logits_of(untied)
    logits.backward(Objective(counts(), CPU).loss_and_gradient(logits.detach())[1])
    expected = lookup * untied.coupling.input_table.grad
    expected = expected + head * untied.coupling.untied_output_table.grad
    torch.testing.assert_close(model.coupling.input_table.grad, expected)


def test_untying_on_the_way_is_tying_before_and_goes_below_it_after() -> None:
    held = one({"tied": True}, {"untie_after": 0.5}, updates=60)
    untied, tied = run_one(held, "new", 0.03), run_one(held, "tied", 0.03)
    assert untied.losses[:31] == tied.losses[:31]
    assert untied.losses[-1] < tied.losses[-1] - 0.01
    assert untied.measures["parameters"] == 2 * tied.measures["parameters"]
    assert tied.measures["distance"] == 0 < untied.measures["distance"]


@pytest.mark.parametrize(
    ("coupling", "training", "said"),
    [
        ({"tied": True}, {"tie_penalty": 0.1}, r"tie_penalty: found 0\.1 with one table"),
        ({"tied": False}, {"untie_after": 0.5}, "untie_after: found 0.5 with two tables"),
        ({"tied": False}, {"input_gradient_scale": 0.0}, "input_gradient_scale"),
        ({"tied": True, "input_scale": 2.0}, {}, r"coupling\.input_scale: found 2\.0 on the iden"),
        ({"tied": True, "output_width": 8}, {}, "tables of unequal width cannot be one matrix"),
    ],
)
def test_what_does_nothing_is_refused(coupling: dict, training: dict, said: str) -> None:
    with pytest.raises(SettingsError, match=rf"runs\.new\..*{said}|runs\.new.*{said}"):
        one(coupling, training)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seeds": [0, 0]}, "seeds: found .*distinct values"),
        ({"milestones": [0.5, 0.50000001]}, "milestones: found .*distinct values"),
        ({"learning_rates": [0.1, 0.1000000001]}, "learning_rates: found .*distinct values"),
        ({"width": 10**9}, "width: found 1000000000"),
        ({"seeds": [100]}, "pilot_seed that is not among seeds"),
        ({"milestones": [0.9, 0.5]}, "rising order"),
        ({"tied": "untied"}, "one table and one with two"),
        ({"slowest": "low_rank"}, "group remedy"),
        ({"slowest": "nothing"}, "runs that exist"),
        ({"window_runs": ["tied"]}, "window_runs with tied and untied"),
    ],
)
def test_settings_that_contradict_each_other(changed: dict, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        settings(**changed)


# choices


def trained(*losses: float) -> Trained:
    return Trained(list(losses), [], {})


def test_the_learning_rate_is_that_of_the_lowest_final_loss_and_of_speed_at_a_tie() -> None:
    slow, fast, high = trained(9, 5, 1.0), trained(9, 2, 1.005), trained(9, 1, 1.5)
    assert choose({0.1: slow, 0.2: fast, 0.3: high}, 0.01) == 0.2
    assert choose({0.1: slow, 0.2: fast, 0.3: high}, 0.0) == 0.1
    assert choose({0.1: None, 0.3: high}, 0.01) == 0.3
    assert choose({0.1: None}, 0.01) is None


def test_area_and_points() -> None:
    assert area([4.0, 2.0, 0.0]) == 2.0
    assert area([3.0, 1.0]) == 2.0
    for updates in (2, 7, 120):
        points = curve_points(updates)
        assert points[0] == 0 and points[-1] == updates and points == sorted(set(points))


def test_a_run_that_diverges_has_no_result() -> None:
    assert run_one(settings(updates=20), "untied", 1e30) is None


# the stage


def params(**changed: object) -> Params:
    return make_params().model_copy(update={"bigram": settings(**changed)})


def outputs() -> dict[str, bytes]:
    folder = paths.evaluation_folder("t", "bigram")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_corpus()


def test_every_run_and_seed_is_written_and_again_the_same(corpus: Path) -> None:
    run(params())
    first = outputs()
    assert set(first) == {"runs.csv", "curves.csv", "rates.csv", "objectives.csv"}
    text = first["runs.csv"].decode()
    for name, seed in product(settings().runs, (0, 1)):
        assert f"next,{name},{seed},loss," in text
    assert "window,swap,1,valid_loss," in text and "window,map," not in text and ",100," not in text
    assert list(Path(".scratch").glob("bigram-t/*")) == []
    run(params())
    assert outputs() == first


def test_without_a_window_there_is_one_objective(corpus: Path) -> None:
    run(params(window_runs=[]))
    assert b"window" not in b"".join(outputs().values())


class Stop(Exception):
    pass


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(params())
    whole = outputs()
    (paths.evaluation_folder("t", "bigram") / "runs.csv").write_text("before")
    done = []

    def stopping(*arguments):
        if len(done) == 17:
            raise Stop
        done.append(arguments)
        return train(*arguments)

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(bigram, "train", stopping)
        run(params())
    assert outputs()["runs.csv"] == b"before"
    again = []

    def counting(*arguments):
        again.append(arguments)
        return train(*arguments)

    monkeypatch.setattr(bigram, "train", counting)
    run(params())
    assert outputs() == whole
    runs = len(settings().runs) + len(settings().window_runs)
    assert len(again) == 4 * runs - 17  # two rates and two seeds each


def test_other_settings_do_not_resume(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopping(held, *arguments):
        if arguments[0].group == "remedy":
            raise Stop
        return train(held, *arguments)

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(bigram, "train", stopping)
        run(params())
    run(params(updates=7))
    found = outputs()
    run(params(updates=7))
    assert outputs() == found


def test_a_damaged_result_in_the_cache_is_made_anew(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(params())
    whole = outputs()

    def stopping(held, *arguments):
        if arguments[0].group == "remedy":
            raise Stop
        return train(held, *arguments)

    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(bigram, "train", stopping)
        run(params())
    path = next(Path(".scratch/bigram-t").glob("*.json"))
    path.write_text(path.read_text()[:-20])
    run(params())
    assert outputs() == whole


def test_a_run_that_diverges_at_every_rate_is_an_error(corpus: Path) -> None:
    with pytest.raises(TrainingError, match=r"bigram\.runs\.tied, next, seed 100: found a loss"):
        run(params(learning_rates=[1e30, 1e31]))


def test_a_report_without_a_laboratory_is_named(corpus: Path) -> None:
    with pytest.raises(SettingsError, match="bigram: found nothing"):
        run(make_params())


def test_operations_are_those_of_the_products() -> None:
    held = settings(updates=4, vocabulary=10, width=8)
    runs = len(held.runs) + len(held.window_runs)
    assert held.operations() == 2 * 3 * 10 * 10 * 8 * 4 * (2 + 2) * runs


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("objectives", "no row next, vocabulary"),
        ("rates", "no row next, "),
        ("runs", "no row initial_loss of next, "),
        ("curves", "no row train_loss, 0 of next, "),
    ],
)
def test_a_lacking_row_is_named(corpus: Path, table: str, said: str) -> None:
    run(params())
    path = Path(f"evals/t/bigram/{table}.csv")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "".join(lines[2:]))
    with pytest.raises(DataError, match=f"{table}.csv: found {said}.*dvc repro bigram"):
        score_bigram.tables(params())
