"""The section on vocabulary scaling: every sentence follows its tables, and the figures draw."""

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiebench.account.registry import published_models
from tiebench.analysis.published_totals import published_models_rows
from tiebench.analysis.tables import read_table, write_table
from tiebench.analysis.vocabulary_scaling.tables import vocabulary_tables
from tiebench.reporting import vocabulary, vocabulary_figures
from tiebench.reporting.results import Results, Row
from tiebench.reporting.svg import styled, svg_of

CHANGED = runpy.run_path(str(Path(__file__).with_name("tables.py")))
replaced: Callable[..., Results] = CHANGED["replaced"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("vocabulary")
    tables: dict[str, list[Row]] = {}
    for name, rows in vocabulary_tables(published_models_rows(published_models())).items():
        path = folder / f"{name}.csv"
        write_table(path, list(rows[0]), rows)
        tables[name] = read_table(path, mend="")
    return Results("small", tables)


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with styled():
        yield


def said(results: Results) -> str:
    return " ".join([*vocabulary.section(results).findings, *vocabulary.section(results).notes])


def test_table_1_and_the_width_that_gives_it(results: Results) -> None:
    text = said(results)
    assert (
        "20 of the 21 vocabularies in table 1 of Tao et al. 2024 come out to the digits printed "
        "when the released coefficients are evaluated; not 300B by approach 3 (383K printed, "
        "383.7K)." in text
    )
    assert (
        "At the width of 12,888 printed for 130B, none of the 3 vocabularies come out; at 12,288, "
        "the width in their code, all of the 3 vocabularies." in text
    )
    assert "2.87B, trained longer: 43K printed, 42.2K by approach 3" in text
    other = replaced(
        results, "vocabulary_scaling", {"name": "130B, width 12,888 as printed"},
        vocabulary_agrees="true",
    )  # fmt: skip
    other = replaced(other, "vocabulary_scaling", {"name": "300B"}, vocabulary_agrees="true")
    assert "all of the 3 vocabularies come out; at 12,288" in said(other)
    assert "21 of the 21 vocabularies" in said(other) and "not 300B" not in said(other)


def test_exponents_that_round_to_another(results: Results) -> None:
    text = said(results)
    assert "2 of 4 printed exponents are the released ones rounded; not" in text
    assert "0.84 is the quotient of the rounded 0.42 and 0.50." in text
    assert "0.8354 with one product and 0.8737 with two products per token" in text
    other = replaced(
        results, "vocabulary_exponents", {"source": "law", "printed": "0.42"}, printed="0.40"
    )
    assert "is the quotient" not in said(other)


def test_models_above_and_below(results: Results) -> None:
    rows = vocabulary_figures.models_of(results)
    assert rows and all(row["decoder"] == "true" for row in rows)
    text = said(results)
    assert f"Of {len(rows)} published decoders" in text
    assert "Farthest above: " in text and "LLaMA-1/2 7B (" not in text
    swapped = replaced(
        results, "vocabulary_scaling", {"source": "models", "name": rows[0]["name"]}, ratio="99.0"
    )
    assert f"Farthest above: {rows[0]['name']} (99.0 times)" in said(swapped)
    none = replaced(results, "vocabulary_scaling", {"source": "models"}, source="else")
    assert "published decoder" not in said(none) and vocabulary.models_table(none).rows == []


def test_what_the_fit_can_say_of_tying(results: Results) -> None:
    text = said(results)
    assert "less two matrices are the parameters printed for 7 of 7 models, less one" in text
    assert (
        "untied, fit's own models: 1.00; tied, half of the fit's: 1.32 to 1.33; "
        "two in the loss: 0.75 to 0.76; two in the FLOPs: 0.66 to 0.67; two in both: 0.50." in text
    )
    assert "at most 0.031 nats" in text and "cannot say which reading holds" in text
    fewer = replaced(results, "vocabulary_matrices", {"total": "50000000"}, agrees="false")
    assert "printed for 6 of 7 models" in said(fewer)
    assert "cannot say which reading holds" not in said(fewer)
    other = replaced(
        results, "vocabulary_tying", {"reading": "two in both", "name": "33M"}, ratio="0.9"
    )
    assert "two in both: 0.50 to 0.90." in said(other)


def test_the_share_saved_along_the_laws(results: Results) -> None:
    text = said(results)
    assert "the share that tying saves falls at every step in size" in text
    assert "approach 2 from 8.0% at 33M to 0.8% at 100T" in text
    assert "exponent -0.122 to -0.132, limit -0.134" in text
    assert (
        "With the exponent as printed the share falls as N^-0.17 in the limit; to two digits that "
        "holds from 1T on, and at 33M it is N^-0.15." in text
    )
    assert "with exponents of 0.83 to 0.87; tokens grow slower, with 0.45 to 0.48" in text
    rising = replaced(
        results, "vocabulary_share", {"approach": "derivative", "name": "85M"}, falls="false"
    )
    assert "falls at 47 of 48 steps in size, while the parameters saved grow:" in said(rising)
    shrunk = replaced(
        results, "vocabulary_share", {"approach": "derivative", "name": "85M"},
        vocabulary_parameters="1",
    )  # fmt: skip
    assert "the parameters saved grow" not in said(shrunk)
    assert "more slowly than in the limit" in text
    steep = replaced(
        results, "vocabulary_share", {"approach": "isoflops", "name": "3B"}, saved_exponent="-0.5"
    )
    assert "more slowly than in the limit" not in said(steep)


def test_slopes_of_models_have_intervals(results: Results) -> None:
    row = results.one("vocabulary_exponents", source="models, decoders")
    assert row is not None and row["low"]
    assert f"{row['points']} decoders" in said(results)


def test_tables_have_all_rows(results: Results) -> None:
    tables = {table.name: table for table in vocabulary.section(results).tables}
    assert len(tables["vocabulary_scaling"].rows) == 27
    assert len(tables["vocabulary_matrices"].rows) == 7
    assert len(tables["vocabulary_tying"].rows) == 8
    assert len(tables["vocabulary_share"].rows) == 4 * 17
    for table in tables.values():
        assert all(len(row) == len(table.header) for row in table.rows)
    assert tables["vocabulary_tying"].rows[2][:5] == [
        "approach 3", "tied, half of the fit's", "1", "1", "6.2 (1.33)"
    ]  # fmt: skip


def test_figures_show_laws_and_models(results: Results) -> None:
    figures = {figure.name: figure.draw() for figure in vocabulary.section(results).figures}
    optimum = figures["vocabulary_optimum"].axes[0]
    ends = {line.get_label(): line.get_ydata() for line in optimum.lines}
    assert len(ends["approach 3, loss fit"]) == 14
    assert round(ends["approach 3, loss fit"][0]) == 4662
    crosses = optimum.collections[0].get_offsets()
    assert len(crosses) == len(vocabulary_figures.models_of(results))
    tying = {
        line.get_label(): line.get_ydata() for line in figures["vocabulary_tying"].axes[0].lines
    }
    assert set(tying["two in both"]) == {0.5}
    named = [text.get_text() for text in figures["vocabulary_share"].axes[0].texts]
    assert 3 <= len(named) <= vocabulary_figures.LABELS and len(set(named)) == len(named)
    for figure in figures.values():
        assert "<svg" in svg_of(figure)


def test_figures_draw_without_models(results: Results) -> None:
    none = replaced(results, "vocabulary_scaling", {"source": "models"}, source="else")
    none = replaced(none, "vocabulary_share", {"source": "models"}, source="else")
    for figure in vocabulary.section(none).figures:
        assert "<svg" in svg_of(figure.draw())
