"""The vocabulary tables of saved models: which are alike, their shape, and the logit lens."""

from __future__ import annotations

from functools import partial

from tiebench.analysis.alignment import MEASURES
from tiebench.analysis.statistics import LEVEL, MINIMUM_SEEDS
from tiebench.reporting import alignment_figures as figures
from tiebench.reporting.alignment_figures import pair_name
from tiebench.reporting.alignment_tables import (
    MAP_NAMES,
    alignment_table,
    differences,
    differences_table,
    geometry_table,
    lens_table,
    published_table,
    table_name,
)
from tiebench.reporting.estimates import seeds_of, spread, value
from tiebench.reporting.naming import capital, joined, number, signed
from tiebench.reporting.parts import Figure, Section
from tiebench.reporting.results import Results, Row


def section(results: Results, family: str, title: str) -> Section:
    """Alignment, norms and the lens of a family of runs."""
    drawn = [
        Figure(
            f"{family}_alignment_{metric}",
            f"{words} of tables of different seeds, in the mean over seeds. Orange marks: the "
            "floor, with rows permuted among tokens of like frequency. "
            f"{spread(results, family, 'Lines')}",
            partial(figures.alignment, results, family, metric),
        )
        for metric, words in (
            ("orthogonal", "Mean cosine after an orthogonal map, scored on held-out tokens,"),
            ("neighbours", "Share of the nearest neighbours in common"),
        )
    ]
    drawn.append(
        Figure(
            f"{family}_norm_by_frequency",
            "Length of the tables' rows by token frequency, in bins of equal numbers of tokens. "
            f"{spread(results, family, 'Bands')}",
            partial(figures.norms, results, family),
        )
    )
    drawn += (
        Figure(
            f"{family}_lens_{metric}",
            f"Logit lens: {words}, the last norm and the head applied to each layer's states at "
            f"fixed predictions. {spread(results, family, 'Bands')}",
            partial(figures.lens, results, family, metric),
        )
        for metric, words in (
            ("loss", "loss by layer"),
            ("divergence", "divergence of a layer's prediction from the last one's, by layer"),
        )
    )
    shown = [
        alignment_table(results, family),
        differences_table(results, family),
        published_table(results, family),
        geometry_table(results, family),
        lens_table(results, family),
    ]
    return Section(
        f"{family}-alignment",
        f"Tables of embeddings{title}",
        findings(results, family),
        drawn,
        [table for table in shown if table.rows],
        notes(),
    )


def findings(results: Results, family: str) -> list[str]:
    """Which table a shared one resembles, what seeds have in common, isotropy, norms, the lens."""
    said = []
    for row in differences(results, family, "orthogonal", "nothing"):
        said += _resemblance(results, family, row)
    said += _seeds(results, family)
    said += _shapes(results, family)
    return [*said, *_lens(results, family)]


def _summary(results: Results, found: Row, pair: str, metric: str) -> Row:
    row = results.one(
        "alignment_summary", family=found["family"], first=found["untied"], second=found["tied"],
        initialization=found["initialization"], pair=pair, metric=metric,
    )  # fmt: skip
    assert row is not None, "a difference is that of two pairs"
    return row


def _resemblance(results: Results, family: str, row: Row) -> list[str]:
    """Whether a shared table is more like the output or the input table of two."""
    outputs, inputs = (_summary(results, row, x, "orthogonal") for x in PAIRS_OF_TIED)
    tied, untied = (results.called(family, row[key]) for key in ("tied", "untied"))
    seeds = "of another seed" if row["initialization"] == "other" else "of the same seed"
    ceiling = results.one(
        "alignment_summary", family=family, first=row["tied"], pair="tied-tied",
        metric="orthogonal",
    )  # fmt: skip
    reach = f"; two tables of {tied} reach {number(ceiling['mean'], 2)}" if ceiling else ""
    said = [
        f"After an orthogonal map, the table of {tied} has a mean cosine of {value(outputs, 2)} "
        f"with the output table of {untied} {seeds}, and {value(inputs, 2)} with its input table. "
        f"With rows permuted among tokens of like frequency {number(outputs['floor'], 2)} and "
        f"{number(inputs['floor'], 2)} remain{reach}."
    ]
    above = next(x for x in differences(results, family, "orthogonal", "floor") if _same(x, row))
    said.append(
        f"Is the table of {tied} more like the output than like the input table of {untied}? "
        f"{_answer(row)}; above the floor: {_answer(above, first=False)}. "
        f"{_others(results, family, row)}"
    )
    return said


PAIRS_OF_TIED = ("output-tied", "input-tied")


def _same(first: Row, second: Row) -> bool:
    return all(first[key] == second[key] for key in ("untied", "tied", "initialization"))


def _answer(row: Row, *, first: bool = True) -> str:
    verdicts = {"output": "yes", "input": "no, more like the input table"}
    text = verdicts.get(row["verdict"], f"not decided ({row['reason']})")
    measured = signed(row["mean"], 3)
    if row["low"]:
        measured += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
    text = f"{text}, difference {measured}"
    return capital(text) if first else text


def _others(results: Results, family: str, row: Row) -> str:
    """What the other measures say above their floors."""
    held: dict[str, list[str]] = {}
    for metric in MEASURES:
        if metric in ("identity", "orthogonal"):
            continue
        for other in differences(results, family, metric, "floor"):
            if _same(other, row):
                held.setdefault(other["verdict"], []).append(MAP_NAMES[metric])
    words = {"output": "more like the output table", "input": "more like the input table",
             "undecided": "not decided"}  # fmt: skip
    parts = [f"{words[verdict]} by {joined(names)}" for verdict, names in held.items()]
    return f"By the other measures, above their floors: {'; '.join(parts)}." if parts else ""


def _seeds(results: Results, family: str) -> list[str]:
    """Whether tables meet without a map, in one and in different seeds."""
    parts = []
    for row in differences(results, family, "identity", "nothing"):
        for side in PAIRS_OF_TIED:
            other = _summary(results, row, side, "identity")
            text = f"{pair_name(results, other)}: {number(other['excess'], 2)}"
            same = results.one(
                "alignment_summary", family=family, first=other["first"], second=other["second"],
                pair=side, metric="identity", initialization="same",
            )  # fmt: skip
            if same and other["initialization"] == "other":
                text += f" with different seeds, {number(same['excess'], 2)} with the same"
            parts.append(text)
    if not parts:
        return []
    return [
        "Without a map, mean cosine above the floor: "
        f"{'; '.join(parts)}. Tables of one seed and name start with the same values, so that "
        "what they have in common without training counts too."
    ]


def _shapes(results: Results, family: str) -> list[str]:
    """Isotropy and norms of the trained runs' tables."""
    held = {
        metric: [
            (row, table_name(results, row))
            for row in results.where(
                "table_geometry_summary", family=family, bin="all", metric=metric
            )
            if results.run(family, row["run"])["trained"] == "true"
        ]
        for metric in ("mean_cosine", "norm_spearman")
    }
    if not held["mean_cosine"]:
        return []
    ordered = sorted(held["mean_cosine"], key=lambda x: float(x[0]["mean"]))
    (least, first), (most, last) = ordered[0], ordered[-1]
    said = [
        f"Mean cosine of two rows of a table: from {value(least, 2)} ({first}) to "
        f"{value(most, 2)} ({last}); 0 would be isotropic."
    ]
    norms = held["norm_spearman"]
    seeds = min(int(row["seeds"]) for row, _ in norms)
    if seeds < MINIMUM_SEEDS:
        shown = joined([f"{value(row, 2)} ({name})" for row, name in norms])
        told = (
            f"Correlation of a row's length with the frequency of its token, in the mean over "
            f"{seeds_of(seeds)}, without a claim: {shown}."
        )
        return [*said, told]
    signs: dict[str, list[str]] = {}
    for row, name in norms:
        shows = row["p_adjusted"] and float(row["p_adjusted"]) < 1 - LEVEL
        kind = "longer" if float(row["mean"]) > 0 else "shorter"
        kind = kind if shows else "neither clearly longer nor shorter"
        signs.setdefault(kind, []).append(name)
    parts = [f"{kind} in {joined(names)}" for kind, names in signs.items()]
    return [*said, f"Rows of frequent tokens are {'; '.join(parts)}."]


def _lens(results: Results, family: str) -> list[str]:
    """The embedding's own prediction in the tied and the untied run."""
    said = []
    for row in differences(results, family, "orthogonal", "nothing"):
        found = [
            results.one(
                "logit_lens_summary", family=family, run=row[key], layer="0", metric="divergence"
            )
            for key in ("tied", "untied")
        ]
        ours, theirs = found
        if ours is None or theirs is None:
            continue
        paired = results.one(
            "alignment_differences", family=family, untied=row["untied"], tied=row["tied"],
            metric="divergence",
        )  # fmt: skip
        more = ", without a claim"
        if paired is not None and int(paired["seeds"]) >= MINIMUM_SEEDS:
            kind = paired["verdict"]
            kind = "neither clearly farther nor nearer" if kind == "undecided" else kind
            ends = [signed(paired[key], 2) for key in ("mean", "low", "high") if paired[key]]
            more = f": {kind}, difference {ends[0]}"
            more += f" ({' to '.join(ends[1:])})" if ends[1:] else ""
        tied, untied = (results.called(family, row[key]) for key in ("tied", "untied"))
        said.append(
            f"Read by the head, the embedding of {tied} is {value(ours, 2)} nats from the final "
            f"prediction, that of {untied} {value(theirs, 2)}{more}."
        )
    return said


def notes() -> list[str]:
    """What the measures rest on."""
    return [
        "Compared are the tokens that occur in training, without special tokens, in the effective "
        "matrices: after what a coupling does to the stored table.",
        "A map that is fitted and scored on the same tokens finds structure in noise: of two "
        "tables of n independent normal rows of width d, the orthogonal map gives a mean cosine "
        "of about (8 / 3π) √(d / n) and the linear one √(d / n). Fitted on one half and scored on "
        "the other, both give 0.",
        "Tables of one frequency structure are alike without sharing more: rows of frequent and "
        "of rare tokens point to different places, and a mean row that all share gives every pair "
        "of rows a cosine. The floor keeps both and breaks the rest.",
        "Pairs of two seeds form a ring (each seed with the next), so that neighbouring pairs "
        "share a table: their intervals are a guide.",
    ]
