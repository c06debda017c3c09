"""Scores of word similarity, from tables that are made up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.experiments.test_tables import FOLDER, make_params
from tiebench.analysis.tables import read_table, write_table
from tiebench.errors import DataError
from tiebench.evaluation import score_similarity
from tiebench.experiments.word_similarity_settings import RAW
from tiebench.settings import Params

SETS = ("men", "wordsim_353")
SIDES = {
    "tied": ("tied",), "untrained": ("tied",), "wide": ("input", "output"),
    "untied": ("input", "output"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def params_of(seeds: int) -> Params:
    source = {"kind": "local", "folder": "w", "format": "pairs", "files": {"a": "p.txt"}}
    sets = {name: {"language": "a", "source": source} for name in (*SETS, "left")}
    params = make_params(similarity={"option": "t", "minimum": 3, "sets": sets})
    group = params.encoders.model_copy(update={"seeds": list(range(seeds))})
    return params.model_copy(update={"encoders": group})


def write_similarity(
    seeds: int, output: float = 0.3, inputs: float = 0.1, *, pairs: float = 0.05
) -> None:
    """Tables in which those of every run with two have these correlations, and an interval over
    pairs of this half width."""
    value = {"output": output, "input": inputs, "tied": 0.2, "output-input": output - inputs}
    described = [
        {
            "family": "encoders", "set": name, "language": "a", "file": "p.txt", "sha256": "0",
            "pairs": 40, "repeated": 1, "used": 30, "words": 50, "known_words": 40, "pieces": 1.5,
            "reason": "fewer than 100 pairs of known words" if name == "left" else "",
        }
        for name in (*SETS, "left")
    ]  # fmt: skip
    write_table(FOLDER / "similarity_sets.csv", RAW["similarity_sets"], described)
    at = [
        {"family": "encoders", "run": run, "table": table, "set": name, "similarity": kind}
        for run, sides in SIDES.items() for table in sides
        for name in SETS for kind in ("cosine", "dot")
    ]  # fmt: skip
    rows = []
    for seed in range(seeds):
        for row in at:
            noise = 0.01 * (-1) ** seed * (1 if row["table"] == "output" else -1)
            mean = value[row["table"]] + noise
            rows.append({**row, "seed": seed, "value": mean, "low": mean - 0.1, "high": mean + 0.1})
    write_table(FOLDER / "word_similarity.csv", RAW["word_similarity"], rows)
    over = [*at, *({**row, "table": "output-input"} for row in at if row["table"] == "output")]
    held = [
        {
            **row, "value": value[row["table"]], "low": value[row["table"]] - pairs,
            "high": value[row["table"]] + pairs,
        }
        for row in over
    ]  # fmt: skip
    write_table(FOLDER / "word_similarity_pairs.csv", RAW["word_similarity_pairs"], held)


def scored(seeds: int) -> dict[str, list[dict[str, Any]]]:
    found = score_similarity.tables(params_of(seeds))
    for columns, rows in found.values():
        assert all(set(row) == set(columns) for row in rows)
    return {name: rows for name, (_, rows) in found.items()}


def verdicts(seeds: int) -> set[tuple[str, str]]:
    return {(x["verdict"], x["reason"]) for x in scored(seeds)["word_similarity_differences"]}


def test_the_better_table_is_found():
    write_similarity(5)
    rows = scored(5)["word_similarity_differences"]
    assert {(x["run"], x["set"], x["similarity"]) for x in rows} == {
        (run, name, kind) for run in ("wide", "untied") for name in SETS
        for kind in ("cosine", "dot")
    }  # fmt: skip
    assert verdicts(5) == {("output", "")}
    row = rows[0]
    assert (row["used"], row["coverage"], row["seeds"]) == (30, 0.75, 5)
    assert row["difference"] == pytest.approx(row["output"] - row["input"])
    assert row["p_adjusted"] == pytest.approx(4 * row["p"])  # of two runs in two sets
    assert row["low"] < row["difference"] < row["high"] and row["detectable"] > 0
    write_similarity(5, output=0.1, inputs=0.3)
    assert verdicts(5) == {("input", "")}


def test_seeds_pairs_and_p_must_all_show_it():
    write_similarity(4)
    assert verdicts(4) == {("undecided", "fewer than 5 seeds")}
    write_similarity(5, pairs=0.3)
    assert verdicts(5) == {("undecided", "the interval over pairs holds zero")}
    write_similarity(5, inputs=0.3)
    assert verdicts(5) == {("undecided", "no difference is shown")}


def test_summaries_have_both_intervals():
    write_similarity(5)
    rows = {(x["run"], x["table"], x["set"]): x for x in scored(5)["word_similarity_summary"]}
    assert len(rows) == 12
    row = rows["untied", "output", "men"]
    assert row["low"] < row["mean"] < row["high"]
    assert (row["pair_low"], row["pair_high"]) == (0.25, 0.35)
    assert ("untrained", "tied", "men") in rows


def test_sets_that_are_left_out_are_told():
    write_similarity(5)
    rows = scored(5)["similarity_sets"]
    assert [row["set"] for row in rows if row["reason"]] == ["left"]
    assert {row["coverage"] for row in rows} == {0.75}
    for name in ("word_similarity", "word_similarity_pairs"):
        write_table(FOLDER / f"{name}.csv", RAW[name], [])
    path = FOLDER / "similarity_sets.csv"
    described = [{**row, "reason": "no"} for row in read_table(path, mend="")]
    write_table(path, RAW["similarity_sets"], described)
    found = scored(5)
    assert len(found["similarity_sets"]) == 3 and not found["word_similarity"]


@pytest.mark.parametrize("without", ["tables", "similarity", "sets"])
def test_without_sets_there_are_no_rows(without):
    params = params_of(5)
    if without == "tables":
        params = params.model_copy(update={"tables": None})
    else:
        held = params.tables.similarity
        kept = held.model_copy(update={"sets": {}}) if without == "sets" else None
        params = params.model_copy(
            update={"tables": params.tables.model_copy(update={"similarity": kept})}
        )
    assert not any(rows for _, rows in score_similarity.tables(params).values())


def drop(name: str, text: str) -> None:
    path = FOLDER / f"{name}.csv"
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if text not in line]
    assert len(kept) < len(lines)
    path.write_text("".join(kept))


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("similarity_sets", ",men,", "no row of men"),
        ("word_similarity", "untied,input,3,men", "no row of untied, input, 3, men"),
        ("word_similarity", "untied,input,3,men,dot", "no row men, dot of untied, input, seed 3"),
        ("word_similarity_pairs", "wide,output-input,men", "no row of wide, output-input, men"),
        ("word_similarity_pairs", "wide,input,men,dot", "no row of wide, input, men, dot"),
        ("word_similarity", "encoders", "no rows"),
    ],
)
def test_a_table_of_other_settings_is_named_with_its_command(name, text, found):
    write_similarity(5)
    drop(name, text)
    with pytest.raises(DataError, match=r"dvc repro tables_encoders") as error:
        scored(5)
    assert found in str(error.value)


@pytest.mark.parametrize("counts", ["0,1,30", "29,1,30"])
def test_impossible_numbers_of_pairs_are_named(counts):
    write_similarity(5)
    path = FOLDER / "similarity_sets.csv"
    path.write_text(path.read_text().replace("40,1,30", counts, 1))
    with pytest.raises(DataError, match="found 30 of .* pairs used of men.*dvc repro"):
        scored(5)


def test_missing_and_damaged_tables():
    write_similarity(5)
    path = FOLDER / "word_similarity.csv"
    path.write_text(path.read_text().replace("0.31", "nan", 1))
    with pytest.raises(DataError, match="found value 'nan'"):
        scored(5)
    Path(path).unlink()
    with pytest.raises(DataError, match="no such file"):
        scored(5)
