"""Zero-shot transfer: fine-tuned on one language, tested on the others."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tiebench.reporting import dots, label_sets
from tiebench.reporting.estimates import (
    CUT,
    PERCENT,
    against_controls,
    both,
    differences,
    over,
    percent_and_sampled,
    spread,
)
from tiebench.reporting.naming import (
    BASELINES,
    capital,
    joined,
    language,
    number,
    percent,
    signed,
    whole,
    with_interval,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row

SUBSETS = {"all": "all strings", "not_in_training": "strings not in the pretraining text"}
HEADLINE = {"language": "others", "subset": "all", "metric": "accuracy"}


def section(results: Results, family: str, title: str) -> Section:
    """Accuracy and excess over the surface baseline by language, and what the labels are."""
    labels = next(results.where("transfer_summary", family=family))["labels"]
    bars = spread(results, family, "Bars")
    shown = [
        Figure(
            f"{family}_transfer",
            "Test accuracy by language after fine-tuning on the first one alone. Short lines: the "
            f"surface baseline, dotted the most frequent label. {bars}",
            partial(dots.transfer_by_language, results, family, labels, "accuracy"),
        ),
        Figure(
            f"{family}_transfer_excess",
            "Accuracy minus that of the surface baseline on the same strings: above zero is more "
            f"than the form of a string gives. {bars}",
            partial(dots.transfer_by_language, results, family, labels, "excess"),
        ),
    ]
    return Section(
        f"{family}-transfer",
        f"Transfer to other languages{title}",
        findings(results, family, labels),
        shown,
        [
            by_language(results, family, labels, "accuracy"),
            by_language(results, family, labels, "excess"),
            fine_tuning(results, family, labels),
            *label_sets.purposes_tables(results, labels),
        ],
    )


def findings(results: Results, family: str, labels: str) -> list[str]:
    """The task; the best run against baseline and control; what is not above them; couplings."""
    trained = results.trained(family)
    find = partial(results.transferred, family, labels=labels)
    found = {row["run"]: find(row["run"], code="others", metric="accuracy") for row in trained}
    held = {run: row for run, row in found.items() if row is not None}
    sentences = [label_sets.purposes(results, labels)]
    if not held:
        return [*sentences, "No run of this report is trained."]
    best = max(held, key=lambda run: float(held[run]["mean"]))
    drawn = strings(results, family, best, labels, "others", "accuracy")
    levels = [
        f"{number(row['value'], 1, 100)}% {words}"
        for baseline, words in BASELINES.items()
        if (row := results.one(
            "label_baselines", labels=labels, language="others", baseline=baseline,
            metric="accuracy",
        ))
    ]  # fmt: skip
    sentences.append(
        "In the mean of the languages that were not trained on, the best trained run is "
        f"{results.called(family, best)}, {both(held[best], drawn)}"
        + (f"; baselines: {joined(levels)}." if levels else ".")
    )
    sentences += _excess(results, family, labels, list(held))
    sentences += (
        f"In that mean, {words}."
        for words in against_controls(results, "transfer", family, labels=labels, **HEADLINE)
    )
    sentences += differences(
        results, family, held, "points", 1, 100.0, where="in the mean of the other languages"
    )
    return [*sentences, *_unseen(results, family, labels, best)]


def _excess(results: Results, family: str, labels: str, runs: list[str]) -> list[str]:
    """In which languages each trained run is above the surface baseline.

    That asks for both intervals, over seeds and over strings, above zero.
    """
    above: dict[str, list[str]] = {}
    other, first = [], results.tested_languages(labels)[0]
    for run in runs:
        for code in results.tested_languages(labels):
            row = results.transferred(family, run, labels, code, "excess")
            drawn = strings(results, family, run, labels, code, "excess")
            if row is None:
                continue
            shown = [float(x["low"]) > 0 for x in (row, drawn) if x is not None and x["low"]]
            text = f"{language(code)} ({signed(row['mean'], 1, 100)})"
            if len(shown) == 2 and all(shown):
                above.setdefault(run, []).append(text)
            else:
                other.append(f"{results.called(family, run)} in {text}")
    sentences = []
    if above:
        said = [f"{results.called(family, run)} in {joined(x)}" for run, x in above.items()]
        sentences.append(
            "Above the surface baseline by the intervals over seeds and over strings, in points: "
            f"{'; '.join(said)}. {language(first)} is the language trained on."
        )
    if other:
        sentences.append(f"Not shown to be above the surface baseline: {joined(other)}.")
    return sentences


def _unseen(results: Results, family: str, labels: str, best: str) -> list[str]:
    """The same run among the strings that the pretraining text does not hold."""
    row = results.transferred(family, best, labels, "others", "accuracy", "not_in_training")
    excess = results.transferred(family, best, labels, "others", "excess", "not_in_training")
    if row is None or excess is None:
        return []
    sizes = [
        f"{whole(found['n'])} {language(code)}"
        for code in results.tested_languages(labels)[1:]
        if (found := results.one(
            "transfer", family=family, run=best, labels=labels, language=code,
            subset="not_in_training", metric="accuracy",
        ))
    ]  # fmt: skip
    return [
        f"On strings that the pretraining text does not hold ({joined(sizes)}), "
        f"{results.called(family, best)} gets {number(row['mean'], 1, 100)}%, "
        f"{signed(excess['mean'], 1, 100)} points against the surface baseline on the same strings."
    ]


def strings(
    results: Results, family: str, run: str, labels: str, code: str, metric: str,
    subset: str = "all",
) -> Row | None:  # fmt: skip
    """The interval over strings of a metric."""
    return results.one(
        "transfer_sentences", family=family, run=run, labels=labels, language=code,
        subset=subset, metric=metric,
    )  # fmt: skip


def by_language(results: Results, family: str, labels: str, metric: str) -> Table:
    """Accuracy or excess of every run in every language, for both subsets."""
    codes = [*results.tested_languages(labels), "others"]
    rows = []
    for subset, words in SUBSETS.items():
        for run in (row["run"] for row in results.all_runs(family)):
            find = partial(results.transferred, family, run, labels, metric=metric, subset=subset)
            found = {code: find(code=code) for code in codes}
            if not any(found.values()):
                continue
            cells = [
                _cell(row, strings(results, family, run, labels, code, metric, subset), metric)
                for code, row in found.items()
            ]
            rows.append([results.called(family, run), words, *cells])
    if metric == "accuracy":
        rows += _baselines(results, labels, codes)
    words = {
        "accuracy": f"Transfer: test accuracy (%) by language. {CUT}",
        "excess": "Transfer: accuracy minus that of the surface baseline, in points.",
    }[metric]
    sentence = over(results, family, matched=True)
    caption = (
        f"{words} {capital(sentence)}. In brackets: {PERCENT} bootstrap interval over strings "
        "(those with one key are drawn together) of the mean over seeds. A string is in the "
        "pretraining text if its own text is."
    )
    header = ["run", "strings", f"{language(codes[0])} (trained on)",
              *(language(x) for x in codes[1:-1]), "mean of the others"]  # fmt: skip
    return Table(f"{family}_transfer_{metric}", caption, header, rows)


def _cell(row: Row | None, drawn: Row | None, metric: str) -> str:
    if row is None or metric == "accuracy":
        return percent_and_sampled(row, drawn)
    text = signed(row["mean"], 1, 100)
    if row["low"]:
        text += f" ± {100 * (float(row['high']) - float(row['low'])) / 2:.1f}"
    if drawn is not None and drawn["low"]:
        text += f" [{signed(drawn['low'], 1, 100)}, {signed(drawn['high'], 1, 100)}]"
    return text


def _baselines(results: Results, labels: str, codes: list[str]) -> list[list[str]]:
    rows = []
    for baseline in ("surface", "majority"):
        values = {
            row["language"]: number(row["value"], 1, 100)
            for row in results.where(
                "label_baselines", labels=labels, baseline=baseline, metric="accuracy"
            )
        }
        if values:
            cells = [values.get(code, "") for code in codes]
            rows.append([f"{baseline} baseline", SUBSETS["all"], *cells])
    return rows


def fine_tuning(results: Results, family: str, labels: str) -> Table:
    """What was fine-tuned, which learning rates were chosen, and macro-F1."""
    first = results.tested_languages(labels)[0]
    rows = []
    for run in (row["run"] for row in results.all_runs(family)):
        rates = Counter(
            row["value"]
            for row in results.where(
                "transfer", family=family, run=run, labels=labels, metric="learning_rate"
            )
        )
        development = results.transferred(family, run, labels, first, "development_accuracy")
        f1 = results.transferred(family, run, labels, "others", "macro_f1")
        parameters = results.one(
            "transfer", family=family, run=run, labels=labels, metric="parameters"
        )
        if rates:
            chosen = [f"{float(x):g} ({n} seed{'s' * (n > 1)})" for x, n in sorted(rates.items())]
            rows.append(
                [
                    results.called(family, run),
                    number(parameters["value"], 0) if parameters else "",
                    ", ".join(chosen),
                    percent(development) if development else "",
                    with_interval(f1, 1, 100) if f1 else "",
                ]
            )
    caption = (
        "Fine-tuning of each run: its parameters (the encoder without output table and head, as "
        "RemBERT counts, and the classifier), the learning rate chosen in each seed, and macro-F1; "
        f"{over(results, family, matched=True)}."
    )
    header = ["run", "parameters fine-tuned", "learning rate chosen",
              f"development accuracy, {language(first)} (%)",
              "macro-F1, mean of the others (%)"]  # fmt: skip
    return Table(f"{family}_fine_tuning", caption, header, rows)
