"""The files of claims/, against the tables, figures and stages of this repository."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.conftest import ROOT
from tiebench.analysis.tables import write_table
from tiebench.claims import ledger
from tiebench.claims.evidence import Evidence, Unmeasured
from tiebench.claims.read import FIGURES, figure_rows, read_sources
from tiebench.claims.schema import PRINTED, Claim, Operand, Source

REPORTS = ROOT / "reports"
SOURCES = read_sources(ROOT / "claims")
CLAIMS = {key: claim for source in SOURCES.values() for key, claim in source.claims.items()}
FILES = {path: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / "claims").glob("*.yaml")}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Evidence]:
    """The tables of every committed report, with the printed figures as they are now."""
    held = {}
    for folder in sorted(REPORTS.glob("*/tables")):
        copy = tmp_path_factory.mktemp(folder.parent.name)
        for path in folder.glob("*.csv"):
            (copy / path.name).symlink_to(path)
        (copy / f"{PRINTED}.csv").unlink(missing_ok=True)
        write_table(copy / f"{PRINTED}.csv", FIGURES, figure_rows(SOURCES))
        held[folder.parent.name] = Evidence(folder.parent.name, copy)
    return held


def test_all_sources_are_there() -> None:
    posts = [name for name, source in SOURCES.items() if source.kind == "post"]
    assert list(SOURCES)[: len(posts)] == posts == [
        "column", "rembert_explainer", "reply_to_su", "su_2023", "tutorial",
    ]  # fmt: skip
    assert {"press_wolf_2017", "inan_2017", "chung_2021", "lopardo_2026"} <= set(SOURCES)
    assert len(CLAIMS) >= 45
    assert sum(len(source.claims) for source in SOURCES.values()) == len(CLAIMS)


def columns_of(claim: Claim) -> set[tuple[str, str]]:
    """Every table and column that a claim names."""
    found = set()
    for measurement in claim.decided_by:
        table = measurement.table
        found |= {(table, column) for column in measurement.where}
        for key in ("value", "low", "high", "column"):
            if hasattr(measurement, key):
                found.add((table, getattr(measurement, key)))
        for key in ("reference", "above", "below"):
            if isinstance(getattr(measurement, key, None), str):
                found.add((table, getattr(measurement, key)))
        for key in ("first", "second", "reference"):
            operand = getattr(measurement, key, None)
            if isinstance(operand, Operand):
                at = operand.table or table
                found |= {(at, column) for column in (operand.column, *operand.where)}
        for condition in measurement.published_when:
            at = condition.table or table
            found |= {(at, column) for column in (*condition.where, *condition.cells)}
    return found


@pytest.mark.parametrize("key", CLAIMS)
def test_what_a_claim_names_is_there(key: str, reports: dict[str, Evidence]) -> None:
    claim = CLAIMS[key]
    for table, column in columns_of(claim):
        holding = []
        for report in reports.values():
            try:
                holding.append(column in report.rows(table)[0])
            except Unmeasured:
                continue
        assert any(holding), f"no committed report has a column {column} in {table}"
    figures = {claim.figure, *(x.figure for x in claim.decided_by)} - {None}
    drawn = {path.stem for path in REPORTS.glob("*/figures/*.svg")}
    assert figures <= drawn
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text("utf-8"))["stages"]
    for command in {claim.command, *(x.command for x in claim.decided_by)} - {None}:
        for part in command.split(" && "):
            composed = re.fullmatch(r"tiebench params (size|study)(?:@recurrent)?=(\w+)", part)
            found = re.fullmatch(r"dvc repro (\w+)", part)
            assert found or composed, command
            if composed:
                assert (ROOT / f"conf/{composed[1]}/{composed[2]}.yaml").is_file(), command
            else:
                assert found[1] in stages, command


def values(plain: object, key: str = "") -> list[tuple[str, str]]:
    if isinstance(plain, dict):
        return [x for name, value in plain.items() for x in values(value, str(name))]
    if isinstance(plain, list):
        return [x for value in plain for x in values(value, key)]
    return [(key, str(plain))]


def test_no_verdict_is_typed_in() -> None:
    words = {*ledger.VERDICTS, "holds", "fails"}
    for path, plain in FILES.items():
        for key, value in values(plain):
            assert key == "column" or value not in words, (path.name, key, value)
    for cls in (Source, Claim):
        assert not {"verdict", "state", "measured"} & set(cls.model_fields)


def test_the_ledger_of_the_committed_reports(reports: dict[str, Evidence]) -> None:
    rows = list(ledger.verdicts(SOURCES, {"small": reports["small"]}))
    held = {row["id"]: row for row in rows}
    assert len(rows) == len(held) == len(CLAIMS)
    assert all(tuple(row) == ledger.COLUMNS or set(row) == set(ledger.COLUMNS) for row in rows)
    assert {row["verdict"] for row in rows} <= set(ledger.VERDICTS)
    for row in rows:
        measured = row["verdict"] != ledger.NOT_MEASURED
        assert all(bool(row[x]) is measured for x in ("measured", "report", "table")), row["id"]
        if row["verdict"] == "inconclusive":
            assert row["reason"] and row["detectable"] is not None, row["id"]
        if not measured:
            assert row["reason"] and row["needs"], row["id"]


@pytest.mark.parametrize(
    ("key", "verdict", "measured"),
    [
        ("saving_125m", "settled by arithmetic: fails", "23.67%, printed 30.9"),
        ("matrix_1_5b", "settled by arithmetic: fails", "80.41M, printed 103"),
        ("share_1_5b", "settled by arithmetic: fails", "5.162%, printed 6.9"),
        ("width_1_5b", "settled by arithmetic: fails", "1,600, printed 2048"),
        ("saving_7b_example", "settled by arithmetic: fails", "131.1M, printed 206"),
        ("share_7b_example", "settled by arithmetic: fails", "1.945%, printed 2.9"),
        ("share_70b", "settled by arithmetic: holds", "0.38%, printed 0.4"),
        ("mbert_share", "settled by arithmetic: holds", "51.59%, printed 52"),
        ("ptb_size_more_than_halved", "settled by arithmetic: fails", "0 of 2 rows"),
        ("all_probing_tasks_improve", "settled by arithmetic: fails", "9 of 10 rows"),
        ("same_fine_tuning_parameters", "settled by arithmetic: fails", "1 of 2 rows"),
        ("narrow_input_at_no_cost", "settled by arithmetic: fails", "60.2, claimed"),
        ("training_set_not_helped", "settled by arithmetic: fails", "1 of 2 rows"),
        ("llama_ties", "settled by arithmetic: fails", ""),
    ],
)
def test_printed_figures_are_corrected(key, verdict, measured, reports) -> None:
    row = next(x for x in ledger.verdicts(SOURCES, reports) if x["id"] == key)
    assert row["verdict"] == verdict and row["measured"].startswith(measured)
