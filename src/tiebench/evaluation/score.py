"""From outcomes to numbers: every table of a report and its metrics.json, in one process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tiebench import paths
from tiebench.analysis.published import COMPARISONS, CURVES, compare, published_curves
from tiebench.analysis.tables import rounded, write_table
from tiebench.errors import DataError
from tiebench.evaluation import score_retrieval as searches
from tiebench.evaluation import score_tables as tables
from tiebench.evaluation.cells import cells, strays
from tiebench.evaluation.summaries import Row, summarize, summary_columns
from tiebench.files import write_json, write_text
from tiebench.settings import Params, families

logger = logging.getLogger(__name__)

ACCOUNTING = (
    "parameter_savings", "savings_by_scale", "published_counts",
    "rembert_parameters", "rembert_conventions",
)  # fmt: skip
HEADLINES = ("loss", "accuracy", "bits_per_byte", "initial_loss", "unigram_loss")


def score(params: Params) -> None:
    """Write reports/<name>/tables/*.csv and reports/<name>/metrics.json.

    Reads exactly the cells that params.yaml names. What else lies beside them is named in the
    log and ignored.

    Raises:
        DataError: a cell's artefact is missing, damaged, or of other settings; with the command
            that makes it.
    """
    for path in strays(params):
        logger.warning("%s is not a cell of params.yaml: ignored (`tiebench prune`)", path)
    metrics = {cell: cell.metrics() for cell in cells(params)}
    baselines = {family: group.baseline for family, group in families(params).items()}
    parameters = tables.parameter_rows(params, metrics)
    language_modeling = list(tables.language_modeling_rows(metrics))
    retrieval, sentences = searches.retrieval_rows(params, metrics)
    by_layer = searches.by_layer(params, retrieval)
    headline = headline_rows(language_modeling, by_layer)
    runs = tables.run_rows(params, metrics)

    folder = paths.report_folder(params.name) / "tables"
    written = {folder / f"{name}.csv" for name in ACCOUNTING}
    for path in written:
        _copy(paths.evaluation_folder(params.name, "accounting") / path.name, path)

    def write(name: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        path = folder / f"{name}.csv"
        write_table(path, columns, rows)
        written.add(path)

    write("runs", tables.RUNS, runs)
    write("parameters", tables.PARAMETERS, parameters)
    write("language_modeling", tables.LANGUAGE_MODELING, language_modeling)
    write("learning_curves", tables.LEARNING_CURVES, tables.learning_curve_rows(metrics))
    write("retrieval", searches.RETRIEVAL, retrieval)
    write("retrieval_by_layer", searches.BY_LAYER, by_layer)
    write("retrieval_sentences", searches.SENTENCES, sentences)
    write("retrieval_sets", searches.RETRIEVAL_SETS, searches.set_rows(params, metrics))
    write("corpus", tables.CORPUS, tables.corpus_rows(params))
    write("provenance", tables.PROVENANCE, tables.provenance_rows(params, metrics))
    summary = summarize(headline, (), baselines)
    write("summary", summary_columns(()), summary)
    for name, rows, keys in (
        ("language_modeling_summary", language_modeling, ("language", "bin")),
        ("retrieval_summary", retrieval, searches.RETRIEVAL_KEYS),
    ):
        write(name, summary_columns(keys), summarize(rows, keys, baselines))
    write("published", COMPARISONS, compare(runs, headline, searches.published_pair(params)))
    write("published_curves", CURVES, published_curves())
    for stale in set(folder.glob("*.csv")) - written:
        stale.unlink()
    write_json(paths.report_folder(params.name) / "metrics.json", flat(summary, parameters))


def headline_rows(language_modeling: list[Row], by_layer: list[Row]) -> list[Row]:
    """The few numbers per cell that a run is judged by, those of the retrieval included."""
    rows = [
        {key: row[key] for key in ("family", "run", "seed", "metric", "value")}
        for row in language_modeling
        if (row["language"], row["bin"]) == ("all", "all") and row["metric"] in HEADLINES
    ]
    return [*rows, *searches.headline_rows(by_layer)]


def flat(summary: list[Row], parameters: list[Row]) -> dict[str, dict[str, dict[str, float]]]:
    """metrics.json: family -> run -> metric -> mean over seeds."""
    metrics: dict[str, dict[str, dict[str, Any]]] = {}
    for row in summary:
        runs = metrics.setdefault(row["family"], {})
        runs.setdefault(row["run"], {})[row["metric"]] = rounded(row["mean"])
    for row in parameters:
        if row["metric"] in ("pretraining", "fine_tuning"):
            metrics[row["family"]][row["run"]][f"parameters_{row['metric']}"] = row["value"]
    return metrics


def _copy(source: Path, target: Path) -> None:
    try:
        write_text(target, source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(
            source,
            found="no such file",
            expected="a table of the accounting",
            mend="run `dvc repro accounting`",
        ) from None
