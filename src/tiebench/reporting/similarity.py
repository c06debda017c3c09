"""Word similarity of the vocabulary tables: which table of a run is closer to people's scores."""

from __future__ import annotations

from functools import partial

from tiebench.analysis.statistics import LEVEL, MINIMUM_SEEDS
from tiebench.experiments.word_similarity_settings import COSINE, DOT
from tiebench.reporting import similarity_figures as figures
from tiebench.reporting import similarity_published as published
from tiebench.reporting.alignment_figures import MOST, runs_shown
from tiebench.reporting.alignment_tables import small, table_name
from tiebench.reporting.estimates import CORRECTED, PERCENT, seeds_of, spread
from tiebench.reporting.naming import (
    capital,
    joined,
    language,
    number,
    signed,
    whole,
    with_interval,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row
from tiebench.reporting.similarity_figures import set_name

SIMILARITIES = {COSINE: "cosine", DOT: "dot product"}


def section(results: Results, family: str, title: str) -> Section:
    """Correlations by set and table, and the difference between a run's two tables."""
    lines = (
        f"{spread(results, family, 'Thick lines')} Thin lines: {PERCENT} bootstrap interval over "
        "pairs, of the mean over seeds."
    )
    drawn = [
        Figure(
            f"{family}_similarity_{kind}",
            "Spearman's correlation of people's scores with the similarity of the two words' rows, "
            f"by {words}. Hollow: input tables; grey: before training. {lines}",
            partial(figures.correlations, results, family, kind),
        )
        for kind, words in SIMILARITIES.items()
    ]
    drawn.append(
        Figure(
            f"{family}_similarity_difference",
            "The output table's correlation minus that of the input table, by cosine; above zero "
            f"the output table is closer to people's scores. {lines}",
            partial(figures.differences, results, family, COSINE),
        )
    )
    if published.besides(results, family):
        drawn.append(
            Figure(
                f"{family}_similarity_published",
                "The output table's correlation minus that of the input table, by dot product: "
                f"ours, and crosses for what is printed ({published.PLACE}). "
                + spread(results, family, "Lines"),
                partial(published.figure, results, family),
            )
        )
    shown = [
        correlations_table(results, family),
        differences_table(results, family),
        published.table(results, family),
        sets_table(results, family),
    ]
    return Section(
        f"{family}-similarity", f"Word similarity{title}", findings(results, family), drawn,
        [table for table in shown if table.rows], notes(),
    )  # fmt: skip


def findings(results: Results, family: str) -> list[str]:
    """The better table of each run, what is reached untrained, coverage, what is left out."""
    shown = runs_shown(results, family, MOST)
    runs = dict.fromkeys(
        row["run"]
        for row in results.where("word_similarity_differences", family=family)
        if row["run"] in shown
    )
    said = [_better(results, family, run, kind) for run in runs for kind in SIMILARITIES]
    said += [*published.finding(results, family), *_controls(results, family)]
    return [*said, *_coverage(results, family), *_left_out(results, family)]


def _better(results: Results, family: str, run: str, kind: str) -> str:
    held: dict[str, list[str]] = {}
    rows = list(
        results.where("word_similarity_differences", family=family, run=run, similarity=kind)
    )
    for row in rows:
        text = f"{set_name(row['set'])} {signed(row['difference'], 3)}"
        if row["low"]:
            text += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
        elif row["pair_low"]:
            text += f" {_pairs(row)}"
        held.setdefault(row["verdict"], []).append(text)
    start = f"By {SIMILARITIES[kind]}, the output table of {results.called(family, run)}"
    seeds = min(int(row["seeds"]) for row in rows)
    if seeds < MINIMUM_SEEDS:
        text = joined([x for several in held.values() for x in several])
        return (
            f"{start} less its input table, in the mean over {seeds_of(seeds)}, without a claim: "
            f"{text}. In square brackets: over pairs."
        )
    parts = []
    for verdict, words in (
        ("output", "is the better word representation on"),
        ("input", "is the worse word representation on"),
        ("undecided", "is not shown to differ from its input table on"),
    ):
        if verdict in held:
            parts.append(f"{words} {joined(held[verdict])}")
    return f"{start} {'; it '.join(parts)}."


def _controls(results: Results, family: str) -> list[str]:
    """What tables reach before training, where the report has untrained runs."""
    held: dict[str, list[Row]] = {}
    for row in results.where("word_similarity_summary", family=family, similarity=COSINE):
        if results.run(family, row["run"])["trained"] != "true":
            held.setdefault(table_name(results, row), []).append(row)
    if not held:
        return []
    parts = []
    for name, rows in held.items():
        least, *_, most = sorted([rows[0], *rows], key=lambda x: float(x["mean"]))
        parts.append(
            f"{name} from {number(least['mean'], 3)} ({set_name(least['set'])}) to "
            f"{number(most['mean'], 3)} ({set_name(most['set'])})"
        )
    text = f"Before training the tables reach by cosine: {joined(parts)}."
    pieces = [
        float(x["pieces"]) for x in results.where("similarity_sets", family=family, reason="")
    ]
    if max(pieces) > 1:
        text += " Words that share pieces have like rows from the start."
    return [text]


def _coverage(results: Results, family: str) -> list[str]:
    rows = list(results.where("similarity_sets", family=family, reason=""))
    if not rows:
        return []
    shares = [
        f"{set_name(row['set'])} {number(row['coverage'], 0, 100)}% of {whole(row['pairs'])} pairs"
        for row in rows
    ]
    pieces = [float(row["pieces"]) for row in rows]
    text = f"Known are both words of: {joined(shares)}."
    if max(pieces) > 1:
        ends = dict.fromkeys(f"{x:.1f}" for x in (min(pieces), max(pieces)))
        text += f" A word has {' to '.join(ends)} pieces in the mean of a set."
    return [text]


def _left_out(results: Results, family: str) -> list[str]:
    held: dict[str, list[str]] = {}
    for row in results.where("similarity_sets", family=family):
        if row["reason"]:
            held.setdefault(_reason(row), []).append(set_name(row["set"]))
    return [f"Not measured: {joined(names)} ({reason})." for reason, names in held.items()]


def _reason(row: Row) -> str:
    if row["reason"].startswith("the corpus has no text in"):
        return f"the corpus has no text in {language(row['language'])}"
    return row["reason"]


def correlations_table(results: Results, family: str) -> Table:
    """Every table and set, by both similarities."""
    held: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in results.where("word_similarity_summary", family=family):
        held.setdefault((row["set"], row["run"], row["table"]), {})[row["similarity"]] = row
    rows = [
        [set_name(name), table_name(results, next(iter(cells.values()))),
         whole(cells[COSINE]["used"]), number(cells[COSINE]["coverage"], 1, 100),
         *(_measured(cells[kind]) for kind in SIMILARITIES)]
        for (name, *_), cells in held.items()
    ]  # fmt: skip
    rows.sort(key=lambda row: row[0])
    caption = (
        "Spearman's correlation of people's scores with the similarity of the two words' rows. "
        f"{spread(results, family, '±')} In square brackets: {PERCENT} bootstrap interval over "
        "pairs, of the mean over seeds."
    )
    header = ["set", "table", "pairs", "coverage (%)", *SIMILARITIES.values()]
    return Table(f"{family}_similarity", caption, header, rows, long=True)


def _measured(row: Row) -> str:
    return f"{with_interval(row, 3)} {_pairs(row)}".strip()


def _pairs(row: Row) -> str:
    if not row["pair_low"]:
        return ""
    return f"[{number(row['pair_low'], 3)}, {number(row['pair_high'], 3)}]"


def differences_table(results: Results, family: str) -> Table:
    """Output minus input, with verdicts."""
    rows = []
    for row in results.where("word_similarity_differences", family=family):
        measured = signed(row["difference"], 3)
        if row["low"]:
            measured += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
        verdict = {"output": "output better", "input": "input better"}
        rows.append(
            [
                results.called(family, row["run"]), set_name(row["set"]),
                SIMILARITIES[row["similarity"]], row["seeds"], number(row["output"], 3),
                number(row["input"], 3), f"{measured} {_pairs(row)}".strip(),
                small(row["p_adjusted"]), number(row["detectable"], 3),
                verdict.get(row["verdict"], row["verdict"]), row["reason"],
            ]
        )  # fmt: skip
    header = ["run", "set", "similarity", "seeds", "output", "input", "difference", "p, corrected",
              "smallest detectable", "verdict", "why"]  # fmt: skip
    caption = (
        "The output table's correlation minus that of the input table, paired by seed, with the "
        f"{PERCENT} t interval over seeds and, in square brackets, the bootstrap interval over "
        f"pairs; p values are corrected over runs and sets. A table is better where p is below "
        f"{1 - LEVEL:.2g} and the interval over pairs is on the same side. {CORRECTED}"
    )
    return Table(f"{family}_similarity_differences", caption, header, rows, long=True)


def sets_table(results: Results, family: str) -> Table:
    """What the sets are and how much of each is known."""
    rows = [
        [set_name(row["set"]), row["file"], whole(row["pairs"]), row["repeated"],
         whole(row["used"]), number(row["coverage"], 1, 100), whole(row["words"]),
         whole(row["known_words"]), number(row["pieces"], 2), capital(_reason(row))]
        for row in results.where("similarity_sets", family=family)
    ]  # fmt: skip
    header = ["set", "file", "pairs", "of these repeated", "pairs used", "coverage (%)", "words",
              "known words", "pieces a word", "why not measured"]  # fmt: skip
    caption = (
        "Sets of word pairs, and how much of each the vocabulary knows. Coverage: pairs of which "
        "both words are known."
    )
    return Table(f"{family}_similarity_sets", caption, header, rows, long=True)


def notes() -> list[str]:
    """How words become rows, and what is left out."""
    return [
        "A word is read as in running text, after a blank, and in lower case where the vocabulary "
        "lacks it as it is written. A word of several pieces has the mean of their rows. It is "
        "known if all of its pieces occur in training and none is the unknown word; pairs with an "
        "unknown word are left out, so that correlations of two vocabularies are over different "
        "pairs.",
        "The bootstrap draws pairs as if they were independent. In MEN a word is in eight pairs in "
        "the mean, so that intervals over pairs are a guide.",
        "Rows are those of the effective matrices, after what a coupling does to the stored table. "
        "A pair that a set has twice counts twice, as in the published file.",
    ]
