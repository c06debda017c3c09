"""Printed shares, the pie and three-way sharing, on models whose figures are worked out by hand."""

import pytest

from tiebench.analysis.embedding_shares import (
    BODIES,
    VOCABULARIES,
    WIDTHS,
    printed_pie,
    printed_shares,
    three_way_sharing,
    vocabulary_by_width,
)

MODEL = {
    "model": "one", "vocabulary": 30_522, "layers": "12", "shipped_total": 110_000_000,
    "tied_total": 110_000_000, "untied_total": 133_400_000, "matrix": 23_400_000,
    "input_embedding": 23_400_000, "output_embedding": 23_400_000, "tied": True, "width": 768,
}  # fmt: skip


def test_shares_flip_with_what_is_printed() -> None:
    printed = {"model": "one", "vocabulary": 31, "parameters": 110, "embedding": 23, "share": 21}
    rows = {row["quantity"]: row for row in printed_shares([printed], {"one": MODEL})}
    assert rows["share"]["counted"] == pytest.approx(100 * 23.4 / 110)
    assert all(row["agrees"] for row in rows.values())
    rows = {r["quantity"]: r for r in printed_shares([{**printed, "share": 22}], {"one": MODEL})}
    assert not rows["share"]["agrees"] and rows["embedding"]["agrees"]
    assert rows["share"]["difference_percent"] == pytest.approx(100 * (22 / (2340 / 110) - 1))


def test_pie_stands_beside_the_untied_model() -> None:
    pie = {
        "model": "one",
        "slices": [
            {"slice": "body", "printed": 87, "part": "body"},
            {"slice": "shared", "printed": 23, "part": "input_embedding"},
            {"slice": "saved", "printed": 24, "part": "output_embedding"},
        ],
    }
    rows = list(printed_pie(pie, {"one": MODEL}))
    assert [row["counted_millions"] for row in rows] == [86.6, 23.4, 23.4]
    assert sum(row["counted_share_percent"] for row in rows) == pytest.approx(100)
    assert sum(row["printed_share_percent"] for row in rows) == pytest.approx(100)
    assert [row["agrees"] for row in rows] == [True, True, False]


def test_three_way_sharing_counts_matrices() -> None:
    both = {**MODEL, "layers": "12+12"}
    (row,) = three_way_sharing([MODEL, both])
    assert (row["matrices_as_shipped"], row["total_1"]) == (1, 110_000_000)
    assert row["total_3"] == 110_000_000 + 2 * 23_400_000
    assert row["saving_1_of_3_percent"] == pytest.approx(100 * 46.8 / 156.8)
    assert row["saving_2_of_3_percent"] == pytest.approx(100 * 23.4 / 156.8)
    (row,) = three_way_sharing([{**both, "tied": False}])
    assert row["matrices_as_shipped"] == 2


def test_the_grid_is_whole_and_below_half() -> None:
    rows = list(vocabulary_by_width())
    assert len(rows) == len(BODIES) * len(VOCABULARIES) * len(WIDTHS)
    assert all(0 < row["saving_percent"] < 50 for row in rows)
    at = {(row["body"], row["vocabulary"], row["width"]): row["saving_percent"] for row in rows}
    assert at[100_000_000, 2**17, 2**10] == pytest.approx(100 * 2**27 / (1e8 + 2**28))
