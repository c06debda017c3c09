"""The page of claims, and the section that counts verdicts."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.reporting.test_report import Page
from tiebench.analysis.tables import read_table
from tiebench.claims.ledger import COLUMNS, VERDICTS
from tiebench.claims.read import read_sources
from tiebench.evaluation.score import score
from tiebench.reporting import claims
from tiebench.reporting.claims_page import link_to_figure, link_to_table
from tiebench.reporting.report import claims_page, render
from tiebench.reporting.results import Results

FAKE = runpy.run_path(str(Path(__file__).with_name("artefacts.py")))
KEYS = [key for source in read_sources(ROOT / "claims").values() for key in source.claims]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("claims")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        settings = FAKE["make_params"](pool=30, seeds=(0, 1, 2))
        FAKE["write_artefacts"](settings)
        score(settings)
        render(settings)
    return folder / "reports/small"


def row(**changed: str) -> dict[str, str]:
    held = dict.fromkeys(COLUMNS, "")
    return held | {
        "source": "One 2020", "reference": "A paper.", "id": "more", "claim": "One is more.",
        "place": "table 1", "published": "30.9%", "verdict": "agrees", "measured": "2 (1 to 3)",
        "report": "small", "table": "pairs", "rows": "first a", "figure": "bars",
        "command": "dvc repro score", "needs": "both",
    } | changed  # fmt: skip


def results(*rows: dict[str, str]) -> Results:
    return Results("small", {"claims": list(rows)})


def test_the_page_is_whole_and_links_to_files_of_the_report(report: Path) -> None:
    text = (report / "claims.html").read_text()
    page = Page(text.replace("<script>", "<style>").replace("</script>", "</style>"))
    assert len(page.ids) == len(set(page.ids))
    assert {f"claim-{key}" for key in KEYS} <= set(page.ids)
    main = Page((report / "index.html").read_text())
    for reference in page.references:
        file, _, anchor = reference.partition("#")
        assert not file or (report / file).is_file(), reference
        if anchor:
            assert anchor in (main.ids if file else page.ids), reference
    assert not re.search(r"https?:|//\w|@import|url\(", text)
    words = " ".join(page.words)
    assert f"{len(KEYS)} claims of " in words and "Not measured" in words
    assert len(text.encode()) < 500_000


def test_without_script_it_is_a_plain_table(report: Path) -> None:
    text = (report / "claims.html").read_text()
    assert '<form class="filters" hidden>' in text
    assert text.count("<tr id=") == len(KEYS) and "<tr hidden" not in text


def test_the_ledger_is_rendered_and_a_table(report: Path) -> None:
    rows = read_table(report / "tables/claims.csv", mend="")
    assert [x["id"] for x in rows] == KEYS and {x["verdict"] for x in rows} <= set(VERDICTS)
    figures = read_table(report / "tables/printed_figures.csv", mend="")
    trained = next(x for x in figures if x["source"] == "press_wolf_2017" and x["row"] == "small" and x["column"] == "train")  # fmt: skip
    assert trained["value"] == "38.0"
    text = (report / "rendered/claims.md").read_text()
    assert text.count("\n|") == len(KEYS) + 2
    assert "claims_by_source" in {path.stem for path in (report / "figures").iterdir()}
    assert 'href="claims.html"' in (report / "index.html").read_text()


def test_counts_follow_the_rows() -> None:
    held = results(row(), row(id="b", verdict="disagrees"), row(id="c", source="Two", verdict="not measured"))  # fmt: skip
    said = claims.findings(held)
    assert said[0].startswith("Of 3 claims of 2 sources: 1 agree at our scale, 1 not measured and 1 disagree")  # fmt: skip
    assert said[1] == "Measured, and not as claimed: “One is more” (One 2020)."
    assert claims.by_source(held).rows == [
        ["One 2020", "2", "1", "", "1"],
        ["Two", "1", "", "1", ""],
    ]
    assert set(claims.SAID) == set(VERDICTS)
    wrong = row(source=claims.TUTORIAL, verdict="settled by arithmetic: fails", measured="23.67%, printed 30.9")  # fmt: skip
    said = claims.findings(results(wrong, {**wrong, "id": "b", "published": ""}))
    assert said[1] == "Printed figures of the tutorial that are wrong: 30.9% (table 1) is 23.67%."
    assert said[2] == "What it says beside them and is not so: “One is more”."
    refuted = row(verdict="settled by arithmetic: fails")
    assert "“One is more” (One 2020)" in claims.notes(results(refuted))[0]
    assert claims.TUTORIAL in {x.name for x in read_sources(ROOT / "claims").values()}


def test_links_lead_to_the_report_that_decided() -> None:
    held = results(row())
    own, other = row(), row(report="base")
    assert link_to_table(held, own) == "tables/pairs.csv"
    assert link_to_table(held, other) == "../base/tables/pairs.csv"
    assert link_to_figure(held, own, {"bars"}) == "index.html#figure-bars"
    assert link_to_figure(held, own, set()) == ""
    assert link_to_figure(held, other, set()) == "../base/index.html#figure-bars"
    assert link_to_table(held, row(report="", table="")) == ""


def test_words_of_claims_are_escaped_and_others_listed() -> None:
    text = claims_page(results(row(claim="a < b & c", also="agrees (x) | disagrees (y)")), {"bars"})
    assert "a &lt; b &amp; c" in text and "2 other measurements" in text
    assert "<li>disagrees (y)</li>" in text
    text = claims_page(results(row(verdict="inconclusive", detectable="0.1234567", reason="few")), set())  # fmt: skip
    assert "smallest detectable difference: 0.123" in text and ">Inconclusive</span>" in text


def test_opposite_measurements_are_marked() -> None:
    from tiebench.reporting.claims_page import _differ

    assert _differ("agrees", ["disagrees (small, t; 1)"])
    assert _differ("settled by arithmetic: fails", ["settled by arithmetic: holds (small, t; 1)"])
    assert not _differ("agrees", ["reproduced (small, t; 1)", "inconclusive (small, t; 0)"])
    assert not _differ("inconclusive", ["disagrees (small, t; 1)"])
