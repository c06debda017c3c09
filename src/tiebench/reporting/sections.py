"""The parts of the page: which findings, figures and tables stand where, and what is said below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tiebench.reporting import bars, curves, findings, presented
from tiebench.reporting.naming import DISTANCES, OFFSETS, direction, plain
from tiebench.reporting.presented import Table
from tiebench.reporting.results import Results


@dataclass(frozen=True)
class Figure:
    """A figure: how it is drawn, and what is said below it. `small` ones stand in rows."""

    name: str
    caption: str
    draw: Callable[[], Any]
    small: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the page: findings first, then figures, then tables."""

    anchor: str
    title: str
    findings: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def sections(results: Results) -> Iterator[Section]:
    """The parts of the page in order."""
    for family in results.families:
        title = "" if len(results.families) == 1 else f", {family}"
        yield _language_modeling(results, family, title)
        if results["retrieval"] and family == "encoders":
            yield _retrieval(results, family, title)
        if any(results.where("published", family=family)):
            yield _published(results, family, title)
        yield Section(
            f"{family}-parameters",
            f"Parameters{title}",
            findings.parameters(results, family),
            [
                Figure(
                    f"{family}_parameters",
                    "Parameters by part; fine-tuning drops the output table and the head.",
                    partial(bars.parameters_of_runs, results, family),
                )
            ],
            [presented.parameters_table(results, family), presented.runs_table(results, family)],
        )
    yield _savings(results)
    yield _rembert(results)
    for corpus in dict.fromkeys(row["corpus"] for row in results["corpus"]):
        yield Section(
            f"corpus-{corpus}",
            f"Corpus: {plain(corpus)}",
            findings.corpus(results, corpus),
            [
                Figure(
                    f"corpus_{corpus}",
                    "What became of the strings read, by language.",
                    partial(bars.corpus_strings, results, corpus),
                )
            ],
            list(presented.corpus_tables(results, corpus)),
        )
    yield Section(
        "made",
        "How this was made",
        [
            "The command below reproduces this report from the params.yaml and dvc.lock that lie "
            "beside it; the hashes of every input, model and output are in that dvc.lock. Every "
            "number here is in tables/ as CSV, each table in rendered/ as Markdown and LaTeX, and "
            "each figure in figures/ as SVG."
        ],
        [],
        [presented.provenance_table(results)],
    )


def _language_modeling(results: Results, family: str, title: str) -> Section:
    shown = [
        Figure(
            f"{family}_{split}_loss",
            f"{split.capitalize()} loss against training tokens; the dashed line is the unigram "
            f"loss. {_bands(results, family)} The start, near the logarithm of the vocabulary, "
            "is cut off once the runs are below the unigram loss.",
            partial(curves.learning_curves, results, family, f"{split}_loss"),
        )
        for split in ("validation", "training")
    ]
    shown += (
        Figure(
            f"{family}_loss_by_{group}",
            f"Validation loss by {what}.",
            partial(curves.loss_by_group, results, family, group),
        )
        for group, what in (
            ("bin", "the frequency of the predicted token in the training part"),
            ("language", "language, trained runs"),
        )
    )
    by_group = (presented.loss_by_group_table(results, family, g) for g in ("bin", "language"))
    return Section(
        f"{family}-language-modeling",
        f"Language modeling{title}",
        findings.language_modeling(results, family),
        shown,
        [presented.language_modeling_table(results, family), *filter(None, by_group)],
    )


def _bands(results: Results, family: str) -> str:
    seeds = len(next(results.where("runs", family=family))["seeds"].split())
    if seeds == 1:
        return "One seed: no interval."
    return f"Bands: 95% t interval over {seeds} seeds; thin lines: the seeds."


def _retrieval(results: Results, family: str, title: str) -> Section:
    first, *others = results.pairs
    distance, offset = results.protocol
    how = f"{DISTANCES[distance]}, {OFFSETS[offset]}"
    offsets = {row["offset"] for row in results["retrieval"]}
    shown = [
        Figure(
            f"{family}_retrieval",
            f"Nearest-neighbour translation, {direction(*first[1:])} ({how}). "
            f"{presented.pool_note(results, first)}",
            partial(curves.retrieval_by_layer, results, family, first),
        ),
        Figure(
            f"{family}_retrieval_no_shared_token",
            "The same among the pairs that share no token: names and placeholders cannot help.",
            partial(curves.retrieval_by_layer, results, family, first, subset="no_shared_token"),
        ),
    ]
    if offset == "scored_pairs" and "other_half" in offsets:
        shown.append(
            Figure(
                f"{family}_retrieval_other_half",
                "The same with the offset fitted on the half of the pairs that is not scored.",
                partial(curves.retrieval_by_layer, results, family, first, offset="other_half"),
            )
        )
    shown.append(
        Figure(
            "published_retrieval",
            "Published, for comparison: RemBERT's figure 2, English to German over WMT16 pairs, "
            "12 layers, by width of the output table. Read off the figure: approximate.",
            partial(curves.published_retrieval, results),
        )
    )
    shown += (
        Figure(
            f"{family}_retrieval_{'_'.join(pair)}",
            f"{direction(*pair[1:])}, set {pair[0]}; lines as in the first figure.",
            partial(curves.retrieval_by_layer, results, family, pair, small=True),
            small=True,
        )
        for pair in others
    )
    return Section(
        f"{family}-retrieval",
        f"Translation by nearest neighbour{title}",
        findings.retrieval(results, family),
        shown,
        [
            presented.retrieval_table(results, family, first),
            presented.retrieval_variants_table(results, family),
        ],
    )


def _published(results: Results, family: str, title: str) -> Section:
    metrics = dict.fromkeys(row["metric"] for row in results.where("published", family=family))
    return Section(
        f"{family}-published",
        f"Beside RemBERT{title}",
        findings.published(results, family),
        [
            Figure(
                f"{family}_published",
                "Our differences with 95% intervals, paired by seed. Green disc: agrees with the "
                "published direction; red cross: disagrees at this scale; grey diamond: "
                "inconclusive.",
                partial(bars.published_directions, results, family, metrics),
            )
        ],
        [presented.published_table(results, family)],
    )


def _savings(results: Results) -> Section:
    return Section(
        "savings",
        "What tying saves, by scale",
        findings.savings(results),
        [
            Figure(
                "savings_by_scale",
                "One matrix as a share of the total with two tables, from the published shapes.",
                partial(bars.savings_by_scale, results),
            )
        ],
        [presented.savings_table(results), presented.scale_table(results)],
    )


def _rembert(results: Results) -> Section:
    return Section(
        "rembert-parameters",
        "RemBERT's parameter counts",
        findings.rembert(results),
        [
            Figure(
                "rembert_parameters",
                "Pretraining parameters counted from the shapes, against those printed.",
                partial(bars.rembert_differences, results),
            )
        ],
        [presented.rembert_table(results), presented.conventions_table(results)],
    )
