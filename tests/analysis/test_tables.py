"""CSV cells and the errors of a damaged table."""

import math
import re
from pathlib import Path

import pytest

from tiebench.analysis.tables import read_numbers, read_table, shown, write_table
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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("run,seed,value\na,0,1.5\na,0,2\n", "line 3: found a second row a, 0"),
        ("run,seed,value\na,0,nan\n", "line 2: found value 'nan'"),
        ("run,seed,value\na,0.5,1\n", "line 2: found seed '0.5'"),
        ("run,seed,value\na,0,\n", "line 2: found value ''"),
        ("run,seed\na,0\n", "found columns run, seed"),
        ("run,seed,value\n", "found no rows"),
    ],
)
def test_numbers_of_a_damaged_table_are_refused(tmp_path, text: str, found: str) -> None:
    path, kinds = tmp_path / "t.csv", {"seed": int, "value": float}
    path.write_text(text)
    with pytest.raises(DataError, match=re.escape(found)):
        read_numbers(path, ("run", "seed", "value"), kinds, mend="run it")


def test_numbers_of_a_whole_table(tmp_path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("run,seed,value\na,0,1.5\na,1,\n")
    kinds = {"seed": int, "value": float}
    rows = read_numbers(path, ("run", "seed", "value"), kinds, optional=("value",), mend="run it")
    assert rows == [{"run": "a", "seed": 0, "value": 1.5}, {"run": "a", "seed": 1, "value": None}]
