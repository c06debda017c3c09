"""What the outcomes of a cell belong to: the content of model and data, and the settings."""

from __future__ import annotations

from pathlib import Path

from tiebench.errors import DataError
from tiebench.files import digest_of, sha256_of
from tiebench.schema import Settings

MODEL = ("config.json", "model.safetensors", "tokenizer.json")
"""Files of a run folder that decide what its states are."""


BASELINES = "baselines.parquet"
"""What no model reads."""


def outcome_key(run_folder: Path, labels_folder: Path, settings: Settings, *others: Path) -> str:
    """A digest by which outcomes are known: other weights, labels or settings give another.

    Args:
        run_folder: the model with its tokenizer.
        labels_folder: the prepared label set.
        settings: those of the evaluation.
        others: further files that it reads.

    Raises:
        DataError: a file is missing.
    """
    data = sorted(x for x in labels_folder.glob("*.parquet") if x.name != BASELINES)
    read = {
        "model": [run_folder / name for name in MODEL],
        "labels": [labels_folder / "meta.json", *data],
        "others": list(others),
    }
    for path in (path for files in read.values() for path in files):
        if not path.is_file():
            raise DataError(
                path, found="no such file", expected="what the outcomes were made from",
                mend="run `dvc repro`",
            )  # fmt: skip
    digests = {of: {x.name: sha256_of(x) for x in files} for of, files in read.items()}
    return digest_of({**digests, "settings": settings.model_dump(mode="json")})
