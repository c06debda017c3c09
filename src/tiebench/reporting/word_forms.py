"""Forms of one lemma: how close they are in either table, and how often the right one is chosen."""

from __future__ import annotations

from functools import partial

from tiebench.experiments.word_forms_settings import ALL, DIFFERENCE, UNIGRAM
from tiebench.reporting import word_forms_figures as figures
from tiebench.reporting.estimates import DETECTABLE, PERCENT, seeds_of
from tiebench.reporting.naming import capital, difference, language, number, percent, with_interval
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row
from tiebench.reporting.word_forms_findings import findings
from tiebench.reporting.word_forms_results import WordForms, language_names

ONE = "one seed: no interval"


def section(results: Results) -> Section:
    """Geometry of both tables, the choice of forms, and what of the text both are about."""
    held = WordForms(results)
    return Section(
        "word-forms",
        "Word forms: do the two ends want different tables?",
        findings(held),
        [
            Figure(
                "word_forms_contrast",
                "Cosine of the forms of a lemma less that of pairs of words that are as frequent, "
                f"rows centred; above zero, forms are closer. {spread(held)}",
                partial(figures.contrast, held),
            ),
            Figure(
                "word_forms_choice",
                "Share of the positions whose next word is a form with other forms, at which no "
                f"other form has as high a probability. {spread(held)}",
                partial(figures.accuracy, held),
            ),
        ],
        [geometry(held), geometry_by_language(held), choice(held), coverage(held)],
    )


def spread(held: WordForms) -> str:
    """What the bars of a figure are."""
    if held.seeds == 1:
        return "One seed: no interval."
    return f"Bars: {PERCENT} t interval over {seeds_of(held.seeds)}."


def _over(held: WordForms) -> str:
    if held.seeds == 1:
        return ONE
    return f"mean ± half of the {PERCENT} t interval over {seeds_of(held.seeds)}"


def geometry(held: WordForms) -> Table:
    """Every run and side, with raw and with centred rows."""
    rows = []
    for run in held.runs:
        for side in held.sides(run):
            for centring, words in (("raw", "as they are"), ("centred", "centred")):
                cells = [
                    held.geometry(run, side, metric, centring=centring)
                    for metric in ("forms", "matched", "contrast", "auc")
                ]
                lemmas = held.lemmas(run, side, centring)
                rows.append(
                    [
                        held.called(run),
                        held.table_name(run, side),
                        words,
                        *("" if side == DIFFERENCE else _cell(x) for x in cells[:2]),
                        _cell(cells[2]) + _sampled(lemmas),
                        "" if cells[3] is None else with_interval(cells[3], 1, 100),
                    ]
                )
    caption = (
        "Cosine of pairs of forms of one lemma, of all pairs of words of two lemmas that are as "
        "frequent (one from the frequency bin of each form), the first less the second, and the "
        "share of these pairs that are farther apart than the forms (AUC, 50 by chance); each the "
        f"mean over lemmas; {_over(held)}. In brackets: {PERCENT} bootstrap interval over lemmas "
        "of the mean over seeds."
    )
    header = ["run", "table", "rows", "forms", "matched pairs", "forms less matched", "AUC (%)"]
    return Table("word_forms", caption, header, rows)


def _cell(row: Row | None) -> str:
    return with_interval(row, 3) if row else ""


def _sampled(row: Row | None) -> str:
    if row is None or not row["low"]:
        return ""
    return f" [{number(row['low'], 3)}, {number(row['high'], 3)}]"


def geometry_by_language(held: WordForms) -> Table:
    """What forms are closer by than matched pairs, by language, rows centred."""
    rows = [
        [
            held.called(run),
            held.table_name(run, side),
            *(_cell(held.geometry(run, side, "contrast", code=code)) for code in held.languages),
        ]
        for run in held.runs
        for side in held.sides(run)
    ]
    caption = f"Forms less matched pairs by language, rows centred; {_over(held)}."
    header = ["run", "table", *language_names(held.languages)]
    return Table("word_forms_by_language", caption, header, rows, long=True)


def choice(held: WordForms) -> Table:
    """Choice of the right form, by language and in all."""
    rows = []
    for code in (*held.languages, ALL):
        name = "all" if code == ALL else language(code)
        for run in held.runs:
            odds, right, form, lemma = (
                held.choice(run, metric, code=code)
                for metric in ("log_odds", "accuracy", "form_loss", "lemma_loss")
            )
            rows.append(
                [
                    name,
                    held.called(run),
                    with_interval(odds, 3),
                    percent(right),
                    difference(right, 1, 100),
                    with_interval(form, 3),
                    difference(form, 3),
                    number(form["detectable"], 3),
                    with_interval(lemma, 3),
                    difference(lemma, 3),
                ]
            )
        base = [held.unigram(metric, code) for metric in ("log_odds", "accuracy", "form_loss")]
        shown = [number(base[0], 3), number(base[1], 1, 100), "", number(base[2], 3), "", ""]
        rows.append([name, UNIGRAM, *shown, number(held.unigram("lemma_loss", code), 3), ""])
    caption = (
        "Where the next word is a form of a lemma with other forms: log p of the right form minus "
        "the log of the summed p of the others, in nats; whether it has the highest p of them; and "
        "the loss in two parts, that of the form given its lemma and that of the lemma. Means over "
        f"positions; {_over(held)}. {'' if held.seeds == 1 else DETECTABLE}"
    ).strip()
    header = ["language", "run", "log odds (nats)", "right form (%)", "minus baseline (points)",
              "loss of the form (nats)", "minus baseline", "smallest detectable",
              "loss of the lemma (nats)", "minus baseline"]  # fmt: skip
    return Table("form_choice", caption, header, rows)


COVERAGE = {
    "words": "words of letters in the vocabulary",
    "without_lemma": "of these without a lemma in the tables",
    "ambiguous": "of these with several lemmas",
    "rare": "of these too rare in training",
    "compared": "of these with one lemma, compared",
    "types": "words that are forms with other forms",
    "lemmas": "their lemmas",
    "pairs": "pairs of forms",
    "matched_pairs": "pairs of forms with matched pairs",
    "validation_tokens": "validation tokens",
    "unknown": "of these unknown words",
    "positions": "of these forms with other forms",
}


def coverage(held: WordForms) -> Table:
    """What is compared, and what is left out."""
    rows = [
        [capital(words), *(number(held.coverage(code, metric), 0) for code in held.languages)]
        for metric, words in COVERAGE.items()
    ]
    caption = "What the word forms are about, and what is left out."
    return Table("word_forms_coverage", caption, ["", *language_names(held.languages)], rows)
