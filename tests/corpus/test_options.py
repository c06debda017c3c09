"""Every file in conf/corpus/ says where its text is from (tests/test_composition.py composes it)."""

from pathlib import Path

import pytest

CONF = Path(__file__).parents[2] / "conf"
OPTIONS = sorted(path.stem for path in (CONF / "corpus").glob("*.yaml"))


@pytest.mark.parametrize("option", OPTIONS)
def test_licence_and_source_are_stated(option: str) -> None:
    text = (CONF / "corpus" / f"{option}.yaml").read_text()
    comment = " ".join(line for line in text.splitlines() if line.startswith("#"))
    assert "Licence:" in comment or "`home`" in comment
