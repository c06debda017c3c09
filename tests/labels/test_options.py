"""Every file in conf/labels/ composes into valid settings and records its own name."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from pydantic import TypeAdapter

from tiebench.labels.settings import Labels, LabelSettings

CONF = Path(__file__).parents[2] / "conf"
OPTIONS = sorted(path.stem for path in (CONF / "labels").glob("*.yaml"))


@pytest.mark.parametrize("option", OPTIONS)
def test_option(option: str) -> None:
    with initialize_config_dir(str(CONF), version_base=None):
        composed = OmegaConf.to_container(compose(f"labels/{option}").labels)
    settings: LabelSettings = TypeAdapter(Labels).validate_python(composed)
    assert settings.option == option


@pytest.mark.parametrize("option", OPTIONS)
def test_licence_and_source_are_stated(option: str) -> None:
    text = (CONF / "labels" / f"{option}.yaml").read_text()
    comment = " ".join(line for line in text.splitlines() if line.startswith("#"))
    assert "Licence:" in comment or f"`{option.removesuffix('_micro')}`" in comment
