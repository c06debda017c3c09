"""What the cells of all families share: the key of a checkpoint, and the outputs."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiebench.digests import stage_digest
from tiebench.files import digest_of, replacing, sha256_of, write_json, write_text
from tiebench.model.lm import LanguageModel, save_model
from tiebench.paths import cell_name, log_folder
from tiebench.schema import Settings

STAGE = "pretrain"


def cell_key(
    settings: Iterable[Settings], seed: int, tokenizer: Path, tokens: Iterable[Path]
) -> str:
    """A digest of all that decides the result of a cell, beside the libraries' kernels.

    Args:
        settings: of coupling, body and training.
        seed: of the cell.
        tokenizer: of its corpus.
        tokens: the files that it reads.
    """
    return digest_of(
        {
            "settings": [x.model_dump() for x in settings],
            "seed": seed,
            "code": stage_digest(STAGE),
            "data": [sha256_of(path) for path in tokens],
            "tokenizer": sha256_of(tokenizer),
        }
    )


def save_cell(
    folder: Path,
    model: LanguageModel,
    tokenizer: Path,
    columns: Sequence[str],
    history: Iterable[Mapping[str, Any]],
    card: str,
    metrics: Mapping[str, Any],
) -> None:
    """Write what every cell has.

    Args:
        columns: of history.csv.
        history: its rows, as they are (not rounded).
        card: README.md.
        metrics: metrics.json.
    """
    save_model(model, folder)
    with replacing(folder / "tokenizer.json") as temporary:
        shutil.copyfile(tokenizer, temporary)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    write_text(folder / "history.csv", text.getvalue())
    write_text(folder / "README.md", card)
    write_json(folder / "metrics.json", metrics)


def write_times(name: str, family: str, run: str, seed: int, told: Mapping[str, Any]) -> None:
    """Write the side file of a cell, which nothing depends on."""
    path = log_folder(name) / STAGE / f"{family}-{cell_name(run, seed)}.json"
    write_json(path, dict(told))
