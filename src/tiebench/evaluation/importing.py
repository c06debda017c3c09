"""Importing the models that params.yaml names."""

from __future__ import annotations

from pathlib import Path

from tiebench import paths
from tiebench.files import holding
from tiebench.model.exchange import import_checkpoint
from tiebench.settings import Params, corpus_of


def import_model(params: Params, model: str) -> Path:
    """Read one model that was trained elsewhere.

    Writes the model folder of `import_checkpoint` into runs/<name>/imported/<model>/, with
    imported.json: where it came from, what was read, with its sha256, and what differs.

    Raises:
        SettingsError: no such model.
        BusyError: another process imports the same model.
        TiebenchError: as `import_checkpoint`.
    """
    corpus_of(params, paths.IMPORTED, model)
    folder = params.imported.models[model].folder
    target = paths.run_folder(params.name, paths.IMPORTED, model, params.imported.seeds[0])
    lock = paths.SCRATCH / f"{params.name}-{paths.IMPORTED}-{model}.lock"
    with holding(lock, f"imported model {model}"):
        import_checkpoint(paths.EXTERNAL / folder, target, folder)
    return target
