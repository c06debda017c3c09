"""The accounting tables: what is wrong in the printed figures, and which convention fits."""

from pathlib import Path

import pytest

from tiebench.account.registry import published_models
from tiebench.analysis.accounting import account
from tiebench.analysis.rembert_parameters import printed_counts
from tiebench.analysis.shapes import read_data
from tiebench.analysis.tables import read_table
from tiebench.published.figures import PUBLISHED_PARAMETERS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("accounting")
    account(path)
    return path


def table(folder: Path, name: str) -> list[dict[str, str]]:
    return read_table(folder / f"{name}.csv", mend="")


def test_what_is_wrong_in_the_tutorial(folder: Path) -> None:
    rows = table(folder, "parameter_savings")
    wrong = {(row["place"], row["label"]): row["wrong"] for row in rows}
    assert wrong == {
        ("table", "125M"): "share",
        ("table", "1.5B"): "width saving share",
        ("table", "7B"): "nothing",
        ("table", "70B"): "nothing",
        ("worked example", "7B"): "vocabulary saving share",
    }
    assert [round(float(row["saving_percent"]), 2) for row in rows] == [
        23.67, 4.91, 1.95, 0.38, 1.95
    ]  # fmt: skip
    assert [row["ties_as_shipped"] for row in rows] == ["true", "true", "false", "false", "false"]
    assert "the matrix as a share of the tied model (31.0%)" in rows[0]["statement"]
    assert "GPT-2 XL is 1,600 wide" in rows[1]["statement"]
    assert rows[2]["statement"] == "hypothetical: LLaMA-1/2 7B ships two matrices"


def test_rembert_rows_fit_tables_and_blocks_truncated(folder: Path) -> None:
    rows = table(folder, "rembert_parameters")
    fitting = {row["row"] for row in rows if "tables + blocks, truncated" in row["statement"]}
    assert len(rows) == 11 and len(fitting) == 8
    left = {row["row"]: row["statement"] for row in rows if row["row"] not in fitting}
    # all four ways that give both figures, not the first alone
    assert left["width 1024"] == "agrees only when counting " + "; or ".join(
        f"tables + blocks{parts} + pooler, rounded"
        for parts in ("", " + positions", " + maps", " + positions + maps")
    )


def test_each_figure_of_rembert_is_matched_by_itself(folder: Path) -> None:
    rows = {row["row"]: row for row in table(folder, "rembert_parameters")}
    checkpoint = rows["RemBERT, output 1664 as in the checkpoint"]
    assert checkpoint["statement"].startswith(
        "no convention gives both; 995M at pretraining agrees only when counting tables + blocks "
        "+ positions + maps + head + pooler, rounded, and 575M at fine-tuning agrees only when"
    )
    assert float(checkpoint["pooler_pretraining"]) == pytest.approx(994.59, abs=0.005)
    assert checkpoint["pooler_pretraining_agrees"] == "true"
    printed = rows["RemBERT, output 1536 as printed in table 14"]
    assert "995M at pretraining agrees under no convention tried" in printed["statement"]
    assert printed["pooler_pretraining_agrees"] == "false"


def test_what_of_a_shape_is_assumed_is_stated_with_it() -> None:
    held = read_data(PUBLISHED_PARAMETERS)["rembert"]
    assumed = {row.row: row.assumed for row in printed_counts(held, published_models())}
    assert "output width 128 derived" in assumed["11 layers more at pretraining"]
    assert "16 heads and feed-forward width 4,096 assumed" in assumed["width 1024"]


def test_rembert_checkpoint_is_nearer_to_print_than_the_printed_width(folder: Path) -> None:
    rows = {row["row"]: row for row in table(folder, "rembert_parameters")}
    off = {
        row: float(cells["full_pretraining_difference_percent"])
        for row, cells in rows.items()
        if row.startswith("RemBERT")
    }
    assert off["RemBERT, output 1536 as printed in table 14"] == pytest.approx(-3.46, abs=0.01)
    assert off["RemBERT, output 1664 as in the checkpoint"] == pytest.approx(-0.17, abs=0.01)


def test_extra_layers_count_at_pretraining_only(folder: Path) -> None:
    rows = {row["row"]: row for row in table(folder, "rembert_parameters")}
    extra, plain = rows["11 layers more at pretraining"], rows["input 128, output 128"]
    assert extra["full_fine_tuning"] == plain["full_fine_tuning"]
    added = float(extra["full_pretraining"]) - float(plain["full_pretraining"])
    assert added == pytest.approx(11 * 7.087872, rel=1e-5)


def test_conventions_are_ranked(folder: Path) -> None:
    rows = table(folder, "rembert_conventions")
    agreeing = [int(row["agreeing_figures"]) for row in rows]
    assert agreeing == sorted(agreeing, reverse=True)
    assert (rows[0]["convention"], agreeing[0]) == ("tables + blocks, truncated", 16)
    # the 995M and 575M of RemBERT count once, though read in two ways
    assert {row["figures"] for row in rows} == {"20"}


def test_savings_fall_with_scale_at_one_vocabulary(folder: Path) -> None:
    rows = table(folder, "savings_by_scale")
    gpt2 = [float(row["saving_percent"]) for row in rows if row["model"].startswith("GPT-2")]
    assert gpt2 == sorted(gpt2, reverse=True)
    assert "RemBERT" not in {row["model"] for row in rows}


def test_same_bytes(folder: Path, tmp_path: Path) -> None:
    account(tmp_path)
    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
