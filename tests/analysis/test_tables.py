"""CSV cells and the errors of a damaged table."""

import math
from pathlib import Path

import pytest

from tiebench.analysis.tables import read_table, shown, write_table
from tiebench.errors import DataError


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (993_263_548, "993263548"),
        (3.0, "3"),
        (1 / 3, "0.3333333"),
        (1.23456789e-9, "1.234568e-09"),
        (2.5e14, "250000000000000"),
        (None, ""),
        (math.nan, ""),
        (True, "true"),
        ("tied", "tied"),
    ],
)
def test_cells(value: object, cell: str) -> None:
    assert shown(value) == cell


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(path, ["a", "b"], [{"a": "x, y", "b": 0.1}, {"b": None, "a": 2}])
    assert path.read_bytes() == b'a,b\n"x, y",0.1\n2,\n'
    assert read_table(path, mend="") == [{"a": "x, y", "b": "0.1"}, {"a": "2", "b": ""}]


def test_missing_empty_and_ragged_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv.*no such file.*run it"):
        read_table(tmp_path / "t.csv", mend="run it")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="an empty file"):
        read_table(tmp_path / "empty.csv", mend="run it")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(DataError, match=r"line 3: found 1 cells; expected 2"):
        read_table(tmp_path / "ragged.csv", mend="run it")
    (tmp_path / "bytes.csv").write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(DataError, match=r"bytes\.csv: found a damaged file .*run it"):
        read_table(tmp_path / "bytes.csv", mend="run it")
