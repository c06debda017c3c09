"""The page's part on another domain: findings follow the tables, figures draw."""

import pytest

from tests.experiments.test_domains import scored, write_raw
from tiebench.analysis.tables import shown
from tiebench.reporting import domains
from tiebench.reporting.results import Results
from tiebench.reporting.svg import styled, svg_of


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def results(difference: float, seeds: int = 5, **given: float) -> Results:
    write_raw(difference, seeds, **given)
    return Results(
        "t",
        {
            name: [{key: shown(cell) for key, cell in row.items()} for row in rows]
            for name, rows in scored(seeds).items()
        },
    )


def said(*given: float, **more: float) -> str:
    return "\n".join(domains.findings(results(*given, **more)))


def test_the_sentence_flips_with_the_data():
    assert "Freedom helps; the gap is the same within 0.05 nats." in said(-0.3)
    assert "Freedom hurts; the gap is the same" in said(0.3)
    assert "Freedom neither helps nor hurts by 0.05 nats" in said(0.0)
    assert "two tables overfit more than one" in said(-0.3, gap=0.2)
    assert "two tables overfit less than one" in said(-0.3, gap=-0.2)


def test_few_seeds_decide_nothing():
    text = said(-0.3, 4)
    assert "Whether freedom helps is not decided (fewer than 5 seeds), nor is" in text
    assert "reedom helps;" not in text


def test_an_end_above_the_lowest_is_told():
    assert "ends 0.300 above its lowest with two tables" in said(0.9)
    assert "above its lowest" not in said(-0.3)


@pytest.mark.parametrize("seeds", [1, 5])
def test_everything_draws_and_is_told(seeds):
    part = domains.section(results(-0.3, seeds))
    assert [figure.name for figure in part.figures] == ["domains_0_2", "domains_1"]
    assert "with 20% of the new domain's text, which is 2.0 passes" in part.figures[0].caption
    for table in part.tables:
        assert {len(row) for row in table.rows} == {len(table.header)}
    with styled():
        assert svg_of(part.figures[0].draw()).startswith("<?xml")
