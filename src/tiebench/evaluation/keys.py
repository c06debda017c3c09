"""What the outcomes of a cell belong to: the content of model and data, and the settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebench import paths
from tiebench.errors import DataError
from tiebench.evaluation.imported_settings import transfer_settings
from tiebench.files import digest_of, sha256_of
from tiebench.settings import corpus_of

if TYPE_CHECKING:
    from tiebench.settings import Params

MODEL = ("config.json", "model.safetensors", "tokenizer.json")
"""Files of a run folder that decide what its states are."""
BASELINES = "baselines.parquet"
"""What no model reads of a label set."""


def outcome_key(params: Params, task: str, family: str, run: str, seed: int, data: str) -> str:
    """A digest by which outcomes are known: other weights, data or settings give another.

    Args:
        task: `retrieval`, `probing` or `transfer`.
        data: the corpus or label set.

    Raises:
        SettingsError: no such family or run.
        DataError: a file is missing.
    """
    model = paths.run_folder(params.name, family, run, seed)
    corpus = corpus_of(params, family, run)
    texts = [] if corpus is None else [paths.corpus_folder(corpus) / "seen.parquet"]
    settings: dict[str, Any]
    if task == "retrieval":
        files = [paths.corpus_folder(data) / "heldout" / "sentences.parquet", *texts]
        chosen = {"pool", "distances", "offsets"}
        settings = params.retrieval.model_dump(mode="json", include=chosen)
        settings["languages"] = params.corpora[data].languages
    elif task == "probing":
        files, settings = _label_files(data), params.probing.model_dump(mode="json")
    else:
        files = [*_label_files(data), *texts]
        settings = transfer_settings(params, family).model_dump(mode="json")
    read = {"model": [model / name for name in MODEL], "data": files}
    for path in (path for held in read.values() for path in held):
        if not path.is_file():
            raise DataError(
                path, found="no such file", expected="what the outcomes were made from",
                mend="run `dvc repro`",
            )  # fmt: skip
    digests = {of: {x.name: sha256_of(x) for x in held} for of, held in read.items()}
    return digest_of({**digests, "settings": settings})


def _label_files(labels: str) -> list[Path]:
    folder = paths.labels_folder(labels)
    data = sorted(x for x in folder.glob("*.parquet") if x.name != BASELINES)
    return [folder / "meta.json", *data]
