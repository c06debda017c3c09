"""The stage `tables` on recurrent models that were trained here, and what is scored from it."""

from __future__ import annotations

import csv
from pathlib import Path

from scipy.stats import spearmanr

from tests.training.test_recurrent import corpus, make_params  # noqa: F401
from tiebench.corpus.tokenizer import load_tokenizer
from tiebench.evaluation import score_alignment, score_similarity
from tiebench.experiments import tables
from tiebench.experiments.tables_settings import TablesSettings
from tiebench.model.lm import load_model
from tiebench.prune import strays
from tiebench.settings import Params
from tiebench.training.pretrain import pretrain

SETTINGS = {
    "option": "tables", "seed": 0, "bins": 2, "permutations": 2, "sample": 20, "neighbours": 3,
    "subspace": 4, "windows": 2,
    "similarity": {
        "option": "t", "minimum": 3,
        "sets": {
            name: {
                "language": language,
                "source": {
                    "kind": "local", "folder": "w", "format": "pairs",
                    "files": {language: "p.txt"},
                },
            }
            for name, language in (("mine", "en"), ("other", "fr"))
        },
    },
}  # fmt: skip
FOLDER = Path("evals/small/tables/recurrent")


def trained() -> Params:
    params = make_params()
    group = params.recurrent
    kept = {run: group.runs[run] for run in ("baseline", "wt")}
    params = params.model_copy(
        update={
            "recurrent": group.model_copy(update={"runs": kept}),
            "tables": TablesSettings.model_validate(SETTINGS),
        }
    )
    for run in kept:
        for seed in group.seeds:
            pretrain(params, "recurrent", run, seed)
    return params


def write_pairs() -> None:
    """Each word with those that follow it, and a word that the text has not."""
    Path("external/w").mkdir()
    pairs = [(i, (i + step) % 19, 10 - step) for i in range(19) for step in (1, 3, 6)]
    lines = [*(f"w{a}\tw{b}\t{score}" for a, b, score in pairs), "w1\ttruck\t2", "W1\tW2\t4"]
    Path("external/w/p.txt").write_text("".join(f"{line}\n" for line in lines))


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_tables_of_recurrent_models_are_compared(corpus, monkeypatch):  # noqa: F811
    params = trained()
    write_pairs()
    tables.run(params, "recurrent")
    assert FOLDER not in strays(params)
    pairs = {(x["first"], x["second"], x["pair"]) for x in read("alignment")}
    assert {("baseline", "wt", "input-tied"), ("baseline", "wt", "output-tied")} <= pairs
    assert ("baseline", "baseline", "input-output") in pairs
    assert read("logit_lens") == []
    norms = {
        (row["run"], row["table"]): float(row["value"])
        for row in read("table_geometry")
        if (row["seed"], row["bin"], row["metric"]) == ("0", "all", "norm")
    }
    assert set(norms) == {("baseline", "input"), ("baseline", "output"), ("wt", "tied")}
    table = load_model(Path("runs/small/recurrent/wt-s0")).coupling.input_table
    # every type is of the text, the line end too
    assert abs(norms["wt", "tied"] / float(table.detach().norm(dim=1).mean()) - 1) < 1e-5
    monkeypatch.setattr(score_alignment, "all_groups", lambda p: {"recurrent": p.recurrent})
    held = {name: rows for name, (_, rows) in score_alignment.tables(params).items()}
    told = [x for x in held["alignment_differences"] if x["metric"] == "distances"]
    assert {(x["untied"], x["tied"]) for x in told} == {("baseline", "wt")}
    assert {x["verdict"] for x in told} == {"undecided"} and not held["logit_lens"]


def test_word_similarity_of_recurrent_models(corpus, monkeypatch):  # noqa: F811
    params = trained()
    write_pairs()
    tables.run(params, "recurrent")
    used, left = read("similarity_sets")
    assert (used["pairs"], used["used"], used["words"], used["known_words"]) == ("59", "58", "22", "21")  # fmt: skip
    assert left["reason"] == "the corpus has no text in fr (en)"
    rows = read("word_similarity")
    assert {x["set"] for x in rows} == {"mine"}
    tables_of = {(x["run"], x["table"]) for x in rows}
    assert tables_of == {("baseline", "input"), ("baseline", "output"), ("wt", "tied")}
    model = load_model(Path("runs/small/recurrent/baseline-s1"))
    table = model.coupling.output_matrix().detach().double().numpy()
    tokenizer = load_tokenizer(Path("data/t/tokenizer.json"))
    pairs = [x.split("\t") for x in Path("external/w/p.txt").read_text().lower().splitlines()]
    pairs = [x for x in pairs if x[1] != "truck"]
    ids = [[tokenizer.token_to_id(word) for word in pair[:2]] for pair in pairs]
    dots = [table[a] @ table[b] for a, b in ids]
    (row,) = (
        x for x in rows
        if (x["table"], x["seed"], x["similarity"]) == ("output", "1", "dot")
    )  # fmt: skip
    expected = spearmanr([float(x[2]) for x in pairs], dots).statistic
    assert abs(float(row["value"]) - expected) < 1e-6
    monkeypatch.setattr(score_similarity, "all_groups", lambda p: {"recurrent": p.recurrent})
    held = {name: rows for name, (_, rows) in score_similarity.tables(params).items()}
    assert len(held["word_similarity_summary"]) == 6 and len(held["similarity_sets"]) == 2
    assert [(x["run"], x["similarity"], x["reason"])
            for x in held["word_similarity_differences"]] == [
        ("baseline", kind, "fewer than 5 seeds") for kind in ("cosine", "dot")
    ]  # fmt: skip
