"""From outcomes to numbers: every table of a report and its metrics.json, in one process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tiebench import paths
from tiebench.analysis.learning_curves import FLATTENED, unflattened
from tiebench.analysis.published import COMPARISONS, CURVES, compare, published_curves
from tiebench.analysis.tables import rounded, write_table
from tiebench.claims import ledger
from tiebench.claims.evidence import evidence_of
from tiebench.claims.read import FIGURES, figure_rows, read_sources
from tiebench.claims.schema import LEDGER, PRINTED
from tiebench.errors import DataError
from tiebench.evaluation import (
    judgements,
    score_alignment,
    score_alignment_by_step,
    score_bigram,
    score_domains,
    score_gradients,
    score_initial_loss,
    score_labels,
    score_recurrent,
    score_remedies,
    score_similarity,
    score_subspaces,
    score_sweeps,
    score_word_forms,
)
from tiebench.evaluation import score_imported as foreign
from tiebench.evaluation import score_probing as probes
from tiebench.evaluation import score_retrieval as searches
from tiebench.evaluation import score_tables as tables
from tiebench.evaluation import score_transfer as transfers
from tiebench.evaluation.cells import cells, imported_cells, recurrent_cells
from tiebench.evaluation.scoring import scorer
from tiebench.evaluation.summaries import Row, summarize, summary_columns
from tiebench.files import holding, replacing_folder, write_json, write_text
from tiebench.prune import strays
from tiebench.settings import Params, families

logger = logging.getLogger(__name__)

ACCOUNTING = (
    "parameter_savings", "savings_by_scale", "published_models",
    "rembert_parameters", "rembert_conventions", "three_way_sharing", "embedding_shares",
    "tutorial_pie", "vocabulary_by_width", "pipeline_parallel",
    "vocabulary_scaling", "vocabulary_tying", "vocabulary_matrices", "vocabulary_share",
    "vocabulary_exponents",
)  # fmt: skip


def score(params: Params) -> None:
    """Write reports/<name>/tables/*.csv, all or none, and reports/<name>/metrics.json.

    Reads exactly the cells that params.yaml names. What else lies beside them is named in the
    log and ignored.

    Raises:
        DataError: a cell's artefact is missing, damaged, of other settings, or holds a number
            that is not finite; with the command that makes it.
        BusyError: another process scores the same report.
        WriteError: no room, or no permission.
    """
    report = paths.report_folder(params.name)
    lock = paths.SCRATCH / f"score-{params.name}.lock"
    with holding(lock, f"report {params.name}"), replacing_folder(report / "tables") as folder:
        held = _write_tables(params, folder)
    write_json(report / "metrics.json", held)


def _write_tables(params: Params, folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Write every table into an empty folder; what metrics.json holds."""
    for path in strays(params):
        logger.warning("%s is not a cell of params.yaml: ignored (`tiebench prune`)", path)
    metrics = {cell: cell.metrics() for cell in cells(params)}
    recurrent = {cell: cell.metrics() for cell in recurrent_cells(params)}
    every = metrics | recurrent
    evaluated = [*metrics, *imported_cells(params)]
    baselines = {family: group.baseline for family, group in families(params).items()}
    parameters = tables.parameter_rows(params, every)
    imported = list(foreign.model_rows(params))
    language_modeling = list(tables.language_modeling_rows(metrics))
    curves = list(tables.learning_curve_rows(every))
    retrieval, sentences, searched = searches.retrieval_rows(params, evaluated)
    with scorer() as labels:
        probing = probes.score_probing(params, evaluated, labels)
        transfer = transfers.score_transfer(params, evaluated, labels)
        label_baselines = list(score_labels.baseline_rows(params, labels))
    by_layer = searches.by_layer(params, retrieval)
    headline = [
        *tables.headline_rows(language_modeling),
        *searches.headline_rows(by_layer),
        *probes.headline_rows(probing.rows),
        *transfers.headline_rows(transfer.rows),
    ]
    runs = tables.run_rows(params, every)
    flattened = list(judgements.flattened_rows(params, curves))
    unsettled = unflattened(flattened)
    sampled = {**searched, **probing.sampled, **transfer.sampled}
    judged = judgements.judge_pairs(params, headline, sampled, unsettled)
    pairs = list(judgements.pair_rows(judged))

    for name in ACCOUNTING:
        source = paths.evaluation_folder(params.name, "accounting") / f"{name}.csv"
        _copy(source, folder / source.name)

    def write(name: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        write_table(folder / f"{name}.csv", columns, rows)

    write("runs", tables.RUNS, runs)
    write("parameters", tables.PARAMETERS, parameters)
    words = score_recurrent.language_modeling_rows(recurrent)
    write("language_modeling", tables.LANGUAGE_MODELING, [*language_modeling, *words])
    write("learning_curves", tables.LEARNING_CURVES, curves)
    write("retrieval", searches.RETRIEVAL, retrieval)
    write("retrieval_by_layer", searches.BY_LAYER, by_layer)
    write("retrieval_sentences", searches.SENTENCES, sentences)
    write("retrieval_sets", searches.RETRIEVAL_SETS, searches.set_rows(params, evaluated))
    write("probing", probes.PROBING, probing.rows)
    weights = ({key: row[key] for key in probes.WEIGHTS} for row in probing.weights)
    write("probing_weights", probes.WEIGHTS, weights)
    write("probing_sentences", probes.SENTENCES, probing.sentences)
    write("transfer", transfers.TRANSFER, transfer.rows)
    write("transfer_cells", transfers.CELLS, transfer.cells)
    write("transfer_sentences", transfers.SENTENCES, transfer.sentences)
    write("label_sets", score_labels.LABEL_SETS, score_labels.set_rows(params))
    write("label_baselines", score_labels.LABEL_BASELINES, label_baselines)
    write("corpus", tables.CORPUS, tables.corpus_rows(params))
    provenance = [*tables.provenance_rows(params, every), *foreign.provenance_rows(params)]
    write("provenance", tables.PROVENANCE, provenance)
    write("imported", foreign.IMPORTED_MODELS, imported)
    summary = summarize(headline, (), baselines)
    write("summary", summary_columns(()), summary)
    streams = score_recurrent.tables(params, recurrent, unsettled)
    studies = {
        **streams,
        **score_gradients.tables(params, metrics),
        **score_alignment.tables(params),
        **score_subspaces.tables(params),
        **score_alignment_by_step.tables(params),
        **score_similarity.tables(params),
        **score_domains.tables(params),
        **score_initial_loss.tables(params),
        **score_bigram.tables(params),
        **score_word_forms.tables(params, unsettled),
        **score_sweeps.tables(params),
        **score_remedies.tables(params, headline, curves, unsettled),
    }
    for study, (header, held) in studies.items():
        write(study, header, held)
    for name, rows, keys in (
        ("language_modeling_summary", language_modeling, ("language", "bin")),
        ("retrieval_summary", retrieval, searches.RETRIEVAL_KEYS),
        ("probing_summary", probing.rows, probes.PROBING_KEYS),
        ("probing_weights_summary", probing.weights, probes.WEIGHTS_KEYS),
        ("transfer_summary", transfer.rows, transfers.TRANSFER_KEYS),
    ):
        write(name, summary_columns(keys), summarize(rows, keys, baselines))
    write("flattened", FLATTENED, flattened)
    write("pairs", judgements.PAIRS, pairs)
    views = judgements.view_rows(
        params, headline, curves, parameters, runs, unsettled, sampled, judged
    )
    write("views", judgements.VIEWS, views)
    compared = compare(runs, headline, searches.published_pair(params), unsettled, pairs)
    write("published", COMPARISONS, compared)
    write("published_curves", CURVES, published_curves())
    sources = read_sources()
    write(PRINTED, FIGURES, figure_rows(sources))
    evidence = evidence_of(params.name, folder, params.claims.reports)
    write(LEDGER, ledger.COLUMNS, ledger.verdicts(sources, evidence))
    perplexities = score_recurrent.headline_rows(streams["recurrent_summary"][1])
    return flat([*summary, *perplexities], [*parameters, *foreign.parameter_rows(imported)])


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
