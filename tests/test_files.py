"""Files: whole or not at all, readable errors, one process at a time."""

import errno
import os

import pytest

from tiebench.errors import DataError, WriteError
from tiebench.files import (
    holding,
    read_json,
    remembered,
    replacing,
    replacing_folder,
    write_json,
    write_text,
)


def test_what_was_there_is_kept_when_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "before")
    with pytest.raises(WriteError, match=r"a\.txt: found No space left.*room and permission"):
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(RuntimeError), replacing(path):
        raise RuntimeError
    assert path.read_text() == "before"
    assert [x.name for x in tmp_path.iterdir()] == ["a.txt"]


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(WriteError, match="Read-only file system"):
        write_text(tmp_path / "new" / "a.txt", "text")


@pytest.mark.parametrize(
    ("text", "found"), [("[]", r"found \[\]"), ("{", "broken JSON"), ("[" * 10**5, "broken JSON")]
)
def test_json_that_is_no_object(tmp_path, text, found):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=found):
        read_json(tmp_path / "a.json", mend="so")


def test_json_round_trip(tmp_path):
    write_json(tmp_path / "a.json", {"b": [1, 2.5, None, "ü"]})
    assert read_json(tmp_path / "a.json", mend="") == {"b": [1, 2.5, None, "ü"]}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))


def test_a_folder_in_the_place_of_json(tmp_path):
    with pytest.raises(DataError, match="found Is a directory; expected a JSON file. To mend: x"):
        read_json(tmp_path, mend="x")


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"value": 1}', '{"value": 2, "digest": "x"}'])
def test_what_is_remembered_is_made_anew_where_it_is_damaged(tmp_path, damage):
    path, made = tmp_path / "a.json", []

    def make():
        made.append(1)
        return {"losses": [1.5, 2], "none": None}

    first = remembered(path, make)
    assert remembered(path, make) == first == make() and len(made) == 2
    path.write_text(damage)
    assert remembered(path, make) == first and len(made) == 3
    assert remembered(path, make) == first and len(made) == 3


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_takes_the_place_of_a_file_or_a_link(tmp_path, link):
    place, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    if link:
        place.symlink_to(other)
    else:
        place.write_text("x")
    for content in ("1", "2"):
        with replacing_folder(place) as partial:
            (partial / "a").write_text(content)
        assert place.is_dir() and not place.is_symlink() and (place / "a").read_text() == content
    assert sorted(x.name for x in tmp_path.iterdir()) == ["other", "out"]


def test_a_lock_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WriteError, match=r"a\.lock: found No space left"):
        with holding(tmp_path / "a.lock", "x"):
            raise AssertionError
