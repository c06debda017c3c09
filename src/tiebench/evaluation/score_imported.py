"""What the imported models of a report are, from their folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tiebench.analysis.counting import coupled_counts
from tiebench.digests import stage_digest
from tiebench.errors import DataError
from tiebench.evaluation.cells import Cell, imported_cells
from tiebench.files import sha256_of
from tiebench.model.lm import read_config
from tiebench.paths import IMPORTED
from tiebench.settings import Params

Row = dict[str, Any]

IMPORTED_MODELS = (
    "model", "architecture", "tied", "input_width", "output_width", "vocabulary", "layers",
    "width", "causal", "maximum_length", "pretraining", "fine_tuning", "seeds", "learning_rates",
    "sha256", "notes",
)  # fmt: skip


def model_rows(params: Params) -> Iterator[Row]:
    """Shape and parameters of each model; `sha256` is that of its model.safetensors as imported.

    Raises:
        DataError: a model is missing or damaged, or was read from another folder than params.yaml
            names.
    """
    seeds, rates = (" ".join(map(str, x)) for x in (
        params.imported.seeds, params.imported.learning_rates
    ))  # fmt: skip
    for cell, record in _records(params):
        settings, vocabulary = read_config(cell.folder)
        coupling, body = settings.coupling, settings.body
        widths = coupling.widths(body.width)
        counts = coupled_counts(coupling, body, vocabulary)
        yield {
            "model": cell.run,
            "architecture": record["architecture"],
            "tied": coupling.tied,
            "input_width": widths[0],
            "output_width": widths[1],
            "vocabulary": vocabulary,
            "layers": body.layers,
            "width": body.width,
            "causal": body.causal,
            "maximum_length": body.maximum_length,
            "pretraining": counts.pretraining,
            "fine_tuning": counts.fine_tuning,
            "seeds": seeds,
            "learning_rates": rates,
            "sha256": sha256_of(cell.folder / "model.safetensors"),
            "notes": "; ".join(record["notes"]),
        }


def parameter_rows(models: Iterable[Row]) -> Iterator[Row]:
    """The parameters of `model_rows`, as those of runs are told."""
    for row in models:
        for metric in ("pretraining", "fine_tuning"):
            yield {
                "family": IMPORTED, "run": row["model"], "metric": metric, "value": row[metric],
            }  # fmt: skip


def provenance_rows(params: Params) -> Iterator[Row]:
    """The code that imports models, and the sha256 of every file that they were read from."""
    if params.imported.models:
        yield {"item": "code of import_model, sha256", "value": stage_digest("import_model")}
    for cell, record in _records(params):
        for name, digest in record["files"].items():
            yield {"item": f"imported model {cell.run}, {name}, sha256", "value": digest}


def _records(params: Params) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """One cell of each model, and its imported.json."""
    for cell in imported_cells(params):
        if cell.seed != params.imported.seeds[0]:
            continue
        record, folder = cell.imported(), params.imported.models[cell.run].folder
        if record["folder"] != folder:
            raise DataError(
                cell.folder / "imported.json",
                found=f"a model from folder {record['folder']!r}",
                expected=f"{folder!r}, as params.yaml names",
                mend=f"run `{cell.pretrain}`",
            )
        yield cell, record
