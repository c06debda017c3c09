"""Every file in conf/corpus/ composes into valid settings and records its own name."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tiebench.corpus.settings import CorpusSettings
from tiebench.schema import validate

CONF = Path(__file__).parents[2] / "conf"
OPTIONS = sorted(path.stem for path in (CONF / "corpus").glob("*.yaml"))


@pytest.mark.parametrize("option", OPTIONS)
def test_option(option: str) -> None:
    with initialize_config_dir(str(CONF), version_base=None):
        composed = OmegaConf.to_container(compose(f"corpus/{option}").corpus)
    assert validate(CorpusSettings, composed, option).option == option  # type: ignore[arg-type]


@pytest.mark.parametrize("option", OPTIONS)
def test_licence_and_source_are_stated(option: str) -> None:
    text = (CONF / "corpus" / f"{option}.yaml").read_text()
    comment = " ".join(line for line in text.splitlines() if line.startswith("#"))
    assert "Licence:" in comment or "`home`" in comment
