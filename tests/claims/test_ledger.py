"""From files of claims and tables to verdicts: words, precedence, other reports, errors."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tiebench.analysis.tables import write_table
from tiebench.claims import ledger
from tiebench.claims.evidence import Evidence, evidence_of, set_aside
from tiebench.claims.read import named_tables, read_sources
from tiebench.errors import DataError, SettingsError

INTERVAL = {"kind": "interval", "table": "t", "direction": "above"}
CLAIM = {
    "statement": "One is more.", "place": "table 1", "kind": "measured", "needs": "both",
    "command": "dvc repro score", "figure": "bars", "decided_by": [INTERVAL],
}  # fmt: skip


def write_claims(folder: Path, **claims: dict[str, Any]) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    plain = {"name": "One 2020", "reference": "A paper.", "kind": "paper", "claims": claims}
    (folder / "one.yaml").write_text(yaml.safe_dump(plain))
    return read_sources(folder)


def report(folder: Path, mean: float, half: float = 0.1, seeds: int = 5, **cells: Any) -> Evidence:
    row = {"seeds": seeds, "mean": mean, "low": mean - half, "high": mean + half, **cells}
    write_table(folder / "t.csv", list(row), [row])
    return Evidence(folder.name, folder)


def verdict(sources: dict[str, Any], *reports: Evidence) -> dict[str, Any]:
    (row,) = ledger.verdicts(sources, {x.report: x for x in reports})
    return row


def test_verdicts_follow_the_tables(tmp_path) -> None:
    """The same claim, other numbers: no verdict but the one that the rows give."""
    wider = {**INTERVAL, "published_when": [{"cells": {"width": 768}}]}
    for kind, decided_by, mean, width, wanted in (
        ("measured", INTERVAL, 0.3, 768, "agrees"),
        ("measured", INTERVAL, -0.3, 768, "disagrees"),
        ("measured", INTERVAL, 0.0, 768, "inconclusive"),
        ("measured", wider, 0.3, 768, "reproduced"),
        ("measured", wider, -0.3, 768, "contradicted"),
        ("measured", wider, 0.0, 768, "inconclusive"),
        ("measured", wider, 0.3, 64, "agrees"),
        ("arithmetic", wider, 0.3, 768, "settled by arithmetic: holds"),
        ("arithmetic", INTERVAL, -0.3, 768, "settled by arithmetic: fails"),
    ):
        sources = write_claims(tmp_path / "claims", more={**CLAIM, "kind": kind, "decided_by": [decided_by]})  # fmt: skip
        row = verdict(sources, report(tmp_path / "own", mean, width=width))
        assert row["verdict"] == wanted, (kind, mean, width)
        assert (row["report"], row["table"], row["figure"]) == ("own", "t", "bars")


def test_without_rows_nothing_is_measured(tmp_path) -> None:
    sources = write_claims(tmp_path / "claims", more=CLAIM)
    (tmp_path / "t.csv").write_text("seeds,mean,low,high\n")
    row = verdict(sources, Evidence("own", tmp_path))
    assert (row["verdict"], row["reason"]) == ("not measured", "the table t is empty")
    assert row["measured"] is row["report"] is row["figure"] is None
    assert row["command"] == "dvc repro score" and row["needs"] == "both"
    row = verdict(write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": []}), Evidence("own", tmp_path))  # fmt: skip
    assert (row["verdict"], row["reason"]) == ("not measured", "nothing here measures it")


def test_of_reports_the_narrowest_decides_and_others_are_named(tmp_path) -> None:
    sources = write_claims(tmp_path / "claims", more=CLAIM)
    own, base = report(tmp_path / "own", 0.3, 0.2), report(tmp_path / "base", -0.3, 0.01)
    row = verdict(sources, own, base)
    assert (row["verdict"], row["report"]) == ("disagrees", "base")
    assert row["also"] == "agrees (own, t; 0.3 (0.1 to 0.5))"
    row = verdict(sources, own, report(tmp_path / "base", 0.0))
    assert (row["verdict"], row["report"]) == ("agrees", "own")  # decided before what is not
    assert row["also"] == "inconclusive (base, t; 0 (-0.1 to 0.1))"
    row = verdict(sources, report(tmp_path / "own", 0.3), report(tmp_path / "base", 0.3))
    assert row["report"] == "own"  # of equals this one
    sources = write_claims(tmp_path / "claims", more={**CLAIM, "kind": "arithmetic"})
    row = verdict(
        sources, report(tmp_path / "own", 0.3, 0.2), report(tmp_path / "base", -0.3, 0.01)
    )
    assert (row["verdict"], row["also"]) == ("settled by arithmetic: holds", "")
    assert named_tables(sources) == []


def test_of_measurements_the_published_one_then_the_first_decides(tmp_path) -> None:
    first = {**INTERVAL, "command": "dvc repro bigram", "figure": "lines"}
    second = {**INTERVAL, "direction": "below", "published_when": [{"cells": {"width": 768}}]}
    sources = write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": [first, second]})
    row = verdict(sources, report(tmp_path / "own", 0.3, width=64))
    assert (row["verdict"], row["command"], row["figure"]) == (
        "agrees",
        "dvc repro bigram",
        "lines",
    )
    assert row["also"].startswith("disagrees (own, t")
    row = verdict(sources, report(tmp_path / "own", 0.3, width=768))
    assert (row["verdict"], row["command"]) == ("contradicted", "dvc repro score")
    wide = report(tmp_path / "wide", 0.3, width=768)
    assert verdict(sources, report(tmp_path / "own", 0.3, width=64), wide)["report"] == "wide"


def test_a_column_that_lacks_is_an_error_of_this_report_alone(tmp_path) -> None:
    sources = write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": [{**INTERVAL, "value": "size"}]})  # fmt: skip
    own, other = report(tmp_path / "own", 0.3), report(tmp_path / "other", 0.3, size=0.3)
    with pytest.raises(DataError, match=r"claims/one\.yaml: claims\.more\.decided_by\.0: found no column size in .*t\.csv"):  # fmt: skip
        verdict(sources, own)
    row = verdict(sources, other, own)
    assert (row["verdict"], row["report"]) == ("agrees", "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"statement": 7}, r"one\.yaml: claims\.more\.statement: found 7"),
        ({"verdict": "agrees"}, r"one\.yaml: claims\.more\.verdict: found a key that no setting has"),
        ({"kind": "guessed"}, r"one\.yaml: claims\.more\.kind: found 'guessed'"),
        ({"needs": ""}, r"one\.yaml: claims\.more\.needs"),
        ({"decided_by": [{"kind": "felt", "table": "t"}]}, r"one\.yaml: claims\.more\.decided_by\.0.*felt"),
        ({"decided_by": [{**INTERVAL, "direction": "up"}]}, r"decided_by\.0\.direction: found 'up'"),
        ({"decided_by": [{**INTERVAL, "margin": 0.1}]}, r"decided_by\.0.*a margin with direction alike"),
        ({"decided_by": [{**INTERVAL, "direction": "alike"}]}, r"decided_by\.0.*a margin with direction alike"),
        ({"decided_by": [{**INTERVAL, "sign": 1}]}, r"decided_by\.0\.sign: found a key that no setting"),
        ({"decided_by": [{"kind": "rows", "table": "t", "column": "a"}]}, r"one of equals, above and below"),
        ({"decided_by": [{"kind": "compare", "table": "t", "first": {"column": "a"}, "second": 3.0, "direction": "equal"}]}, r"a second in printed digits"),
        ({"decided_by": [{**INTERVAL, "published_when": [{"cells": {}}]}]}, r"published_when\.0\.cells"),
        ({"decided_by": [{**INTERVAL, "table": "claims"}]}, r"tables other than claims"),
        ({"kind": "arithmetic", "decided_by": [{**INTERVAL, "counted": True}]}, r"counted only in what is"),
    ],
)  # fmt: skip
def test_errors_name_file_claim_and_key(tmp_path, change, message) -> None:
    with pytest.raises(SettingsError, match=message) as raised:
        write_claims(tmp_path / "claims", more={**CLAIM, **change})
    assert "To mend: correct " in str(raised.value)


def test_an_id_is_there_once(tmp_path) -> None:
    write_claims(tmp_path / "claims", more=CLAIM)
    shutil.copyfile(tmp_path / "claims/one.yaml", tmp_path / "claims/two.yaml")
    with pytest.raises(SettingsError, match=r"two\.yaml: claims\.more: found an id that .*one\.yaml has"):  # fmt: skip
        read_sources(tmp_path / "claims")


def test_files_of_another_form(tmp_path) -> None:
    with pytest.raises(DataError, match="no file of claims"):
        read_sources(tmp_path)
    for text, message in (
        ("a: [", "expected a file of claims"),
        ("7", "found 7"),
        ("", "found None"),
    ):
        (tmp_path / "one.yaml").write_text(text)
        with pytest.raises(DataError, match=message):
            read_sources(tmp_path)


def test_tables_of_another_report_are_set_aside(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_claims(Path("claims"), more={**CLAIM, "decided_by": [INTERVAL, {**INTERVAL, "table": "gone"}]})  # fmt: skip
    assert named_tables(read_sources()) == ["gone", "t"]
    with pytest.raises(
        DataError, match=r"reports/base/tables: found no such folder.*claims\.reports"
    ):
        set_aside("small", "base")
    report(Path("reports/base/tables"), 0.3)
    shutil.copyfile("reports/base/tables/t.csv", "reports/base/tables/other.csv")
    with pytest.raises(DataError, match="run `dvc repro evidence@base`"):
        evidence_of("small", Path("own"), ["base"])
    Path("own").mkdir()
    for table in ("t", "gone"):
        Path(f"own/{table}.csv").write_text("seeds,mean,low,high\n")
    set_aside("small", "base")
    assert [x.name for x in Path("evals/small/evidence/base").iterdir()] == ["t.csv"]
    held = evidence_of("small", Path("own"), ["base"])
    assert list(held) == ["small", "base"]
    row = verdict(read_sources(), *held.values())
    assert (row["verdict"], row["report"]) == ("agrees", "base")


def test_flipped_tables_flip_committed_verdicts(tmp_path) -> None:
    """The ledger of the committed report, then with three of its tables turned round."""
    shutil.copytree(ROOT / "reports/small/tables", tmp_path / "t")
    sources = {x: y for x, y in read_sources(ROOT / "claims").items() if x in ("su_2023", "column", "tutorial")}  # fmt: skip

    def now() -> dict[str, str]:
        rows = ledger.verdicts(sources, {"small": Evidence("small", tmp_path / "t")})
        return {row["id"]: row["verdict"] for row in rows}

    before = now()
    assert before["slowest_remedy"] == "agrees" and before["gradients_conflict"] == "inconclusive"
    assert before["llama_ties"] == "settled by arithmetic: fails"
    turn(tmp_path / "t/remedies_pairs.csv", ("difference", "low", "high"))
    turn(tmp_path / "t/gradients_conflicts.csv", ("difference", "low", "high"))
    path = tmp_path / "t/published_models.csv"
    path.write_text(path.read_text().replace(",false,", ",true,"))
    after = now()
    assert after["slowest_remedy"] == "disagrees"
    assert after["untied_learns_faster"] == "disagrees" != before["untied_learns_faster"]
    assert after["llama_ties"] == "settled by arithmetic: holds"
    changed = {key for key in before if before[key] != after[key]}
    assert "initial_loss_formula" not in changed


def turn(path: Path, columns: tuple[str, str, str]) -> None:
    """Change the sign of a difference and its interval."""
    import csv

    with path.open() as file:
        rows = list(csv.DictReader(file))
    value, low, high = columns
    for row in rows:
        row[value], row[low], row[high] = (
            f"{-float(row[x])}" if row[x] else "" for x in (value, high, low)
        )
    write_table(path, list(rows[0]), rows)


def test_curves_that_fall_leave_it_open(tmp_path) -> None:
    """What rests on runs whose learning curves still fall is decided by none of its rows."""
    flat = {**INTERVAL, "flat": {"family": "decoders", "run": ["tied", "untied"]}}
    sources = write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": [flat]})
    own = report(tmp_path / "own", 0.3)
    for states, wanted in (
        ({"tied": True, "untied": True}, "agrees"),
        ({"tied": True, "untied": False}, "inconclusive"),
    ):
        rows = [{"family": "decoders", "run": run, "flat": x} for run, x in states.items()]
        write_table(tmp_path / "own/flattened.csv", list(rows[0]), rows)
        row = verdict(sources, Evidence("own", own.folder))
        assert row["verdict"] == wanted
        assert ("the learning curves of untied have not flattened" in row["reason"]) is (
            wanted == "inconclusive"
        )


def test_a_table_that_no_report_has_is_an_error(tmp_path) -> None:
    sources = write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": [{**INTERVAL, "table": "tt"}]})  # fmt: skip
    with pytest.raises(DataError, match=r"claims/one\.yaml: claims\.more\.decided_by\.0: found a table tt, which no report has"):  # fmt: skip
        verdict(sources, report(tmp_path / "own", 0.3))


def test_rows_that_are_selected_and_lack_are_named(tmp_path) -> None:
    """Nothing is reproduced by a part of what a claim is about."""
    part = {**INTERVAL, "where": {"width": [768, 1024]}, "published_when": [{"cells": {"width": 768}}]}  # fmt: skip
    sources = write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": [part]})
    row = verdict(sources, report(tmp_path / "own", 0.3, width=768))
    assert (row["verdict"], row["reason"]) == ("agrees", "no row with width 1024")


def test_few_seeds_decide_nothing_of_any_kind(tmp_path) -> None:
    for decided_by in (
        {"kind": "rows", "table": "t", "column": "mean", "above": 0.0},
        {"kind": "compare", "table": "t", "direction": "above", "first": {"column": "mean"}, "second": 0.0},
    ):  # fmt: skip
        sources = write_claims(tmp_path / "claims", more={**CLAIM, "decided_by": [decided_by]})
        few, more = report(tmp_path / "few", 0.3, seeds=1), report(tmp_path / "more", -0.3, seeds=5)
        row = verdict(sources, few, more)
        assert (row["verdict"], row["report"]) == ("disagrees", "more")
        assert "inconclusive (few" in row["also"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"mean": "inf"}, "found mean 'inf' in table t; expected a finite number"),
        ({"low": ""}, "found low '' in table t; expected a finite number"),
        ({"low": 2.0, "high": 1.0}, "found an interval from 2 to 1"),
    ],
)
def test_damaged_cells_are_refused(tmp_path, cells, message) -> None:
    sources = write_claims(tmp_path / "claims", more=CLAIM)
    row = {"seeds": 5, "mean": 0.3, "low": 0.2, "high": 0.4, **cells}
    write_table(tmp_path / "own/t.csv", list(row), [row])
    with pytest.raises(DataError, match=message):
        verdict(sources, Evidence("own", tmp_path / "own"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nreference: 2020-02-30\n", "day is out of range"),
        ("claims: {a: 1}\nclaims: {b: 1}\n", "the key claims twice"),
        ("[" * 3000, "recursion|nested|depth"),
    ],
)
def test_files_that_yaml_stumbles_over(tmp_path, text, message) -> None:
    (tmp_path / "one.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_sources(tmp_path)


def test_a_damaged_table_of_another_report_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_claims(Path("claims"), more=CLAIM)
    report(Path("reports/base/tables"), 0.3)
    Path("reports/base/tables/t.csv").write_text("a,b\n1\n")
    with pytest.raises(DataError, match=r"reports/base/tables/t\.csv, line 2: found 1 cells"):
        set_aside("small", "base")
