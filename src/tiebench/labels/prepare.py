"""From a source to a folder of labelled examples."""

from __future__ import annotations

from pathlib import Path

from tiebench.files import holding, replacing_folder
from tiebench.labels.settings import LabelSettings, PurposeSettings, TreebankSettings
from tiebench.paths import SCRATCH


def prepare(settings: LabelSettings, folder: Path) -> None:
    """Write the folder of a label set, whole or not at all; what was there is replaced.

    Raises:
        DataError: what the source, the labels or the split find wrong.
        BusyError: another process prepares the same folder.
    """
    with (
        holding(SCRATCH / f"labels-{folder.name}.lock", f"label set {folder.name}"),
        replacing_folder(folder) as partial,
    ):
        if isinstance(settings, TreebankSettings):
            from tiebench.labels.treebank_files import write_treebank

            write_treebank(settings, partial)
        else:
            from tiebench.labels.purposes import write_purposes

            assert isinstance(settings, PurposeSettings)
            write_purposes(settings, partial)
