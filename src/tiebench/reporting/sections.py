"""The parts of the page in order."""

from __future__ import annotations

from collections.abc import Iterator

from tiebench.paths import RECURRENT
from tiebench.reporting import (
    accounts,
    against_loss,
    alignment,
    alignment_by_step,
    bigram,
    claims,
    comparisons,
    corpora,
    domains,
    gradients,
    imported,
    initial_loss,
    language_modeling,
    pairs,
    probing,
    recurrent,
    remedies,
    retrieval,
    runs,
    scale,
    similarity,
    subspaces,
    sweeps,
    transfer,
    views,
    vocabulary,
    word_forms,
)
from tiebench.reporting.naming import plain
from tiebench.reporting.parts import Section, Table
from tiebench.reporting.results import Results


def sections(results: Results) -> Iterator[Section]:
    """Claims, families of runs, imported models, published counts, corpora, how all was made."""
    searched, probed, moved, viewed, paired = (
        {row["family"] for row in results[table]}
        for table in ("retrieval", "probing", "transfer", "views", "pairs")
    )
    yield claims.section(results)
    for family in results.families:
        title = "" if len(results.families) == 1 else f", {plain(family)}"
        yield language_modeling.section(results, family, title)
        if any(results.where("remedies_runs", family=family)):
            yield remedies.section(results, family, title)
        if family in gradients.families(results):
            yield gradients.section(results, family, title)
        if family in searched:
            yield retrieval.section(results, family, title)
        if family in probed:
            yield probing.section(results, family, title)
        if family in moved:
            yield transfer.section(results, family, title)
        if family in viewed:
            yield views.section(results, family, title)
        if family in paired:
            yield pairs.section(results, family, title)
        if results.trained(family) and family in searched | probed | moved:
            yield against_loss.section(results, family, title)
        if any(results.where("logit_lens", family=family)):
            yield alignment.section(results, family, title)
        if any(results.where("similarity_sets", family=family)):
            yield similarity.section(results, family, title)
        if any(results.where("published", family=family)):
            yield comparisons.section(results, family, title)
        yield runs.section(results, family, title)
    if results["recurrent_runs"]:
        yield recurrent.section(results)
        if any(results.where("table_geometry", family=RECURRENT)):
            yield alignment.section(results, RECURRENT, ", recurrent")
        if any(results.where("alignment_by_step_differences", family=RECURRENT)):
            yield alignment_by_step.section(results, RECURRENT)
        if any(results.where("similarity_sets", family=RECURRENT)):
            yield similarity.section(results, RECURRENT, ", recurrent")
    if results["subspaces_summary"]:
        yield subspaces.section(results)
    if results["sweeps"]:
        yield sweeps.section(results)
    if results["domains"]:
        yield domains.section(results)
    if results["imported"]:
        yield imported.section(results)
    if results["initial_loss"]:
        yield initial_loss.section(results)
    if results["bigram"]:
        yield bigram.section(results)
    if results["word_forms"]:
        yield word_forms.section(results)
    yield accounts.savings_section(results)
    yield scale.models_section(results)
    yield scale.pipeline_section(results)
    yield accounts.rembert_section(results)
    yield vocabulary.section(results)
    for corpus in dict.fromkeys(row["corpus"] for row in results["corpus"]):
        yield corpora.section(results, corpus)
    yield made(results)


def made(results: Results) -> Section:
    """Command, data, versions."""
    rows = [[row["item"], row["value"]] for row in results["provenance"]]
    table = Table("provenance", "What the tables were made from.", ["item", "value"], rows)
    said = (
        "The command below makes this report again from a params.yaml whose settings have the "
        "sha256 given; `make repro` keeps it beside the report, with dvc.lock, which holds the "
        "hashes of every input, model and output. Every number here is in tables/ as CSV, each "
        "table in rendered/ as Markdown and LaTeX, and each figure in figures/ as SVG."
    )
    return Section("made", "How this was made", [said], [], [table])
