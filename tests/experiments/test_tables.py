"""The stage `tables` on small models that were trained here."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from tests.training.cells import make_params as make_cells
from tests.training.cells import write_corpus
from tiebench.analysis.tables import write_table
from tiebench.errors import DataError
from tiebench.evaluation import score_alignment
from tiebench.evaluation.cells import cells
from tiebench.experiments import tables, word_similarity_settings
from tiebench.experiments.saved_tables import compared, has_two_tables, partners
from tiebench.experiments.tables_settings import RAW
from tiebench.model.lm import LanguageModel, load_model
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain

SETTINGS = {
    "option": "tables", "seed": 0, "bins": 4, "permutations": 2, "sample": 60, "neighbours": 3,
    "subspace": 4, "windows": 2,
}  # fmt: skip
FOLDER = Path("evals/t/tables/encoders")
SHAPES = (
    "norm", "norm_spearman", "norm_slope", "mean_cosine", "mean_norm", "participation", "width",
)  # fmt: skip


def make_params(*, runs: dict[str, object] | None = None, **changed: object) -> Params:
    values = make_cells(steps=8, validate_every=4).model_dump(mode="json")
    held = values["encoders"]["runs"]
    held["untied"] = {**held["tied"], "coupling": {**held["tied"]["coupling"], "tied": False}}
    held |= runs or {}
    return Params.model_validate({**values, "tables": {**SETTINGS, **changed}})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_corpus()
        params = make_params()
        for cell in cells(params):
            pretrain(params, cell.family, cell.run, cell.seed)
    return folder


@pytest.fixture
def params(trained, monkeypatch):
    monkeypatch.chdir(trained)
    return make_params()


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_writes_the_same_bytes_again(params):
    tables.run(params, "encoders")
    names = RAW | word_similarity_settings.RAW
    first = {name: (FOLDER / f"{name}.csv").read_bytes() for name in names}
    tables.run(params, "encoders")
    assert {name: (FOLDER / f"{name}.csv").read_bytes() for name in names} == first
    assert sorted(x.stem for x in FOLDER.iterdir()) == sorted(names)


def test_pairs(params):
    tables.run(params, "encoders")
    rows = read("alignment")
    assert all(math.isfinite(float(row["value"])) for row in rows)
    pairs = {(x["first"], x["second"], x["pair"], x["initialization"]) for x in rows}
    assert pairs == {
        *(("untied", "tied", f"{side}-tied", kind)
          for side in ("input", "output") for kind in ("same", "other")),
        *((run, run, "input-output", kind)
          for run in ("untied", "wide") for kind in ("same", "other")),
        *((run, run, "initial input-output", "same") for run in ("untied", "wide")),
        *((run, run, f"{side}-{side}", "other")
          for run in ("untied", "wide") for side in ("input", "output")),
        *((run, run, f"{side}-initial", "same")
          for run in ("untied", "wide") for side in ("input", "output")),
        ("tied", "tied", "tied-tied", "other"), ("tied", "tied", "tied-initial", "same"),
    }  # fmt: skip
    widths = {row["metric"] for row in rows if (row["first"], row["pair"]) == ("wide", "input-output")}  # fmt: skip
    assert widths == {"linear", "neighbours", "distances", "subspace", "residual"}


def test_tables_of_one_seed_start_alike(params):
    """The input table of a seed has one name in both runs, and so the same initial values."""
    tables.run(params, "encoders")
    found = {
        (row["pair"], row["initialization"]): float(row["value"])
        for row in read("alignment")
        if row["first"] == "untied" and row["metric"] == "identity" and row["seed"] == "0"
    }
    assert found["input-tied", "same"] > found["input-tied", "other"] + 0.3


def test_the_last_layer_is_the_model(params):
    tables.run(params, "encoders")
    rows = [row for row in read("logit_lens") if row["run"] == "tied" and row["seed"] == "1"]
    assert [row["layer"] for row in rows if row["metric"] == "loss"] == ["0", "1", "2"]
    held = {(row["layer"], row["metric"]): float(row["value"]) for row in rows}
    assert held["2", "divergence"] == 0
    assert held["0", "divergence"] > 0


def test_geometry_is_that_of_the_saved_tables(params):
    tables.run(params, "encoders")
    rows = {
        (row["run"], row["table"], row["metric"]): float(row["value"])
        for row in read("table_geometry")
        if row["seed"] == "0" and row["bin"] == "all"
    }
    model = load_model(Path("runs/t/encoders/wide-s0"))
    assert isinstance(model, LanguageModel)
    assert rows["wide", "input", "width"] == 4
    assert rows["wide", "output", "width"] == 24
    assert rows["tied", "tied", "width"] == 16
    norms = np.linalg.norm(model.coupling.output_table.detach().numpy(), axis=1)
    assert norms.min() < rows["wide", "output", "norm"] < norms.max()
    assert ("untrained", "tied", "norm") in rows


def test_a_missing_model_is_named_with_its_command(params):
    folder = Path("runs/t/encoders/untied-s1")
    away = folder.rename("away")
    try:
        with pytest.raises(DataError, match=r"dvc repro pretrain_encoders@t-untied-1"):
            tables.run(params, "encoders")
    finally:
        away.rename(folder)


def test_a_model_of_other_settings_is_refused(params):
    first, second = (Path(f"runs/t/encoders/{name}-s1") for name in ("untied", "wide"))

    def swap() -> None:
        away = first.rename("away")
        second.rename(first)
        away.rename(second)

    swap()
    try:
        with pytest.raises(DataError, match="another coupling, body or vocabulary"):
            tables.run(params, "encoders")
    finally:
        swap()


def test_runs_that_differ_in_tying_alone_belong_together():
    values = make_params().encoders.runs["untied"].model_dump(mode="json")
    more = {
        "faster": {**values, "training": {"learning_rate": 0.02}},
        "penalized": {**values, "training": {"tie_penalty": 0.1}},
        "deeper": {**values, "body": {"layers": 3}},
        "other_std": {**values, "coupling": {**values["coupling"], "std": 0.5}},
    }
    group = make_params(runs=more).encoders
    assert partners(group, "untied") == partners(group, "faster") == ["tied"]
    for run in ("penalized", "deeper", "other_std", "wide", "tied", "untrained"):
        assert partners(group, run) == []
    assert not has_two_tables(group, "tied")
    assert compared(group) == ["tied", "wide", "untied", *more]


# The scores, from tables that are made up.


def write_raw(output: float, inputs: float, seeds: int, *, floor: tuple[float, float] = (0, 0)):
    """Raw tables in which the tied table is as alike to both sides as given."""
    at = {"family": "encoders"}
    rows = [
        {
            **at, "first": "untied", "second": "tied", "pair": f"{side}-tied",
            "initialization": kind, "seed": seed, "metric": metric,
            "value": value + sign * 0.01 * (-1) ** seed, "floor": low,
        }
        for side, value, low, sign in (
            ("output", output, floor[0], 1), ("input", inputs, floor[1], -1)
        )
        for kind in ("same", "other") for metric in ("orthogonal", "residual", "identity")
        for seed in range(seeds)
    ]  # fmt: skip
    write_table(FOLDER / "alignment.csv", RAW["alignment"], rows)
    runs = [(run, seed) for run in make_params().encoders.runs for seed in range(seeds)]
    shapes = [{"bin": "all", "metric": metric, "value": 1} for metric in SHAPES]
    shapes += (
        {"bin": bin_, "metric": metric, "value": 1 + bin_}
        for bin_ in (0, 1) for metric in ("norm", "occurrences")
    )  # fmt: skip
    layers = [
        {"layer": layer, "metric": metric, "value": 1.5}
        for layer in (0, 1) for metric in ("loss", "divergence")
    ]  # fmt: skip
    geometry = [{"table": "tied", **row} for row in shapes]
    for name, own in (("table_geometry", geometry), ("logit_lens", layers)):
        rows = [{**at, "run": run, "seed": seed, **row} for run, seed in runs for row in own]
        write_table(FOLDER / f"{name}.csv", RAW[name], rows)


def scored(seeds: int) -> dict[str, list[dict[str, object]]]:
    params = make_params()
    group = params.encoders.model_copy(update={"seeds": list(range(seeds))})
    found = score_alignment.tables(params.model_copy(update={"encoders": group}))
    return {name: rows for name, (_, rows) in found.items()}


def verdict(rows, metric: str, over: str) -> tuple[object, object]:
    (row,) = (
        x for x in rows["alignment_differences"]
        if (x["metric"], x["over"], x["initialization"]) == (metric, over, "other")
    )  # fmt: skip
    return row["verdict"], row["reason"]


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_nearer_side_is_found(empty):
    write_raw(0.7, 0.3, 5)
    assert verdict(scored(5), "orthogonal", "nothing") == ("output", "")
    assert verdict(scored(5), "residual", "nothing") == ("input", "")  # a distance
    write_raw(0.3, 0.7, 5)
    assert verdict(scored(5), "orthogonal", "nothing") == ("input", "")


def test_the_floor_can_take_a_difference_away(empty):
    write_raw(0.7, 0.3, 5, floor=(0.5, 0.1))
    rows = scored(5)
    assert verdict(rows, "orthogonal", "nothing")[0] == "output"
    assert verdict(rows, "orthogonal", "floor") == ("undecided", "no difference is shown")
    (row,) = (
        x for x in rows["alignment_summary"]
        if (x["pair"], x["metric"], x["initialization"]) == ("output-tied", "orthogonal", "other")
    )  # fmt: skip
    assert row["floor"] == 0.5
    assert row["excess"] == pytest.approx(row["mean"] - 0.5)


def test_few_seeds_decide_nothing(empty):
    write_raw(0.7, 0.3, 4)
    assert verdict(scored(4), "orthogonal", "nothing") == ("undecided", "fewer than 5 seeds")


def test_runs_of_one_table_have_no_alignments(params):
    runs = {name: params.encoders.runs[name] for name in ("tied", "untrained")}
    group = params.encoders.model_copy(update={"runs": runs})
    few = params.model_copy(update={"encoders": group})
    tables.run(few, "encoders")
    found = {name: rows for name, (_, rows) in score_alignment.tables(few).items()}
    assert found["alignment"] == [] and {row["run"] for row in found["logit_lens"]} == set(runs)


def test_without_the_section_there_are_no_rows(empty):
    params = make_params().model_copy(update={"tables": None})
    assert not any(rows for _, rows in score_alignment.tables(params).values())


@pytest.mark.parametrize(
    ("name", "change", "found"),
    [
        ("alignment", lambda text: "", "an empty file"),
        ("alignment", lambda text: text.replace("floor", "ground", 1), "columns"),
        ("logit_lens", lambda text: text.replace("1.5", "nan", 1), "found value 'nan'"),
        ("logit_lens", lambda text: text.rsplit("\n", 5)[0] + "\n", "no row of encoders.untied"),
        ("table_geometry", None, "no such file"),
    ],
)
def test_a_damaged_table_is_named_with_its_command(empty, name, change, found):
    write_raw(0.7, 0.3, 5)
    path = FOLDER / f"{name}.csv"
    if change is None:
        path.unlink()
    else:
        path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=r"dvc repro tables_encoders") as error:
        scored(5)
    assert found in str(error.value)


def test_published_values_have_their_chance(empty):
    write_raw(0.7, 0.3, 5)
    rows = scored(5)["alignment_published"]
    assert len(rows) == 18
    first = {row["metric"]: row for row in rows[:3]}
    assert first["orthogonal"]["value"] == 0.44
    assert first["orthogonal"]["chance"] == pytest.approx(0.171, abs=5e-4)
    assert first["linear"]["chance"] == pytest.approx(0.202, abs=5e-4)
    assert {row["chance"] for row in rows if "GPT-Neo" in row["models"]} == {None}
