"""Stage scripts: what a user can mend is one line, anything else stays a traceback."""

import errno

import pytest

from tiebench.errors import DataError
from tiebench.stage import run_stage


def raising(error):
    raise error


def test_an_error_to_mend_is_printed_without_a_traceback():
    error = DataError("file", found="this", expected="that", mend="so")
    with pytest.raises(SystemExit, match="error: file: found this; expected that. To mend: so"):
        run_stage(raising, error)


def test_a_full_disk_is_named():
    with pytest.raises(SystemExit, match="error: runs/x: found No space left"):
        run_stage(raising, OSError(errno.ENOSPC, "No space left on device", "runs/x"))


@pytest.mark.parametrize("error", [ValueError("a defect"), OSError(errno.EIO, "I/O error", "x")])
def test_a_defect_is_not_hidden(error):
    with pytest.raises(type(error)):
        run_stage(raising, error)
