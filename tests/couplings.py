"""Every coupling of conf/, composed without the rest of conf/."""

from pathlib import Path

from omegaconf import OmegaConf

from tiebench.model.settings import CouplingSettings

COUPLINGS = sorted((Path(__file__).parents[1] / "conf" / "coupling").glob("*.yaml"))


def merged(path):
    """A coupling file with those that its defaults name, as Hydra puts them together."""
    values = OmegaConf.load(path)
    for name in values.pop("defaults", []):
        if name != "_self_":
            values = OmegaConf.merge(merged(path.with_name(f"{name}.yaml")), values)
    return values


def composed_coupling(path: Path, narrow: int = 4, wide: int = 24) -> CouplingSettings:
    """The settings in a file, in a family with these widths."""
    family = OmegaConf.create({"widths": {"narrow": narrow, "wide": wide}, "body": {"std": 0.02}})
    family = OmegaConf.merge(family, {"runs": {"t": {"coupling": merged(path)}}})
    return CouplingSettings(**OmegaConf.to_container(family, resolve=True)["runs"]["t"]["coupling"])
