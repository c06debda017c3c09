"""Zero-shot transfer: fine-tuned on one language, tested on the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting import dots, label_sets
from tiebench.reporting.estimates import (
    CUT,
    MEAN,
    against_controls,
    alone,
    apart,
    both,
    claim,
    differences,
    direction_of,
    drawn_over,
    over,
    percent_and_sampled,
    seeds_of,
    spread,
    standing,
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
UNCLEAR = "not shown to be above"
HEADLINE = {"language": "others", "subset": "all", "metric": "accuracy"}


def section(results: Results, family: str, title: str) -> Section:
    """Accuracy and excess over the surface baseline by language, and what the labels are."""
    labels = next(results.where("transfer_summary", family=family))["labels"]
    bars = spread(results, family, "Bars")
    shown = [
        Figure(
            f"{family}_transfer",
            "Test accuracy by language after fine-tuning on the first one alone. Short lines: "
            f"{BASELINES['surface']}; dotted: {BASELINES['majority']}. {bars}",
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
        notes(results, family, labels),
    )


def findings(results: Results, family: str, labels: str) -> list[str]:
    """The best trained run against baseline and control, the couplings, and where form wins."""
    held = _accuracies(results, family, labels)
    if not held:
        return ["No run of this report is trained."]
    return [
        _against_baseline(results, family, labels, held),
        *differences(
            results, family, held, "points", 1, 100.0, where="in the mean of the other languages"
        ),
        _caveat(results, family, labels, list(held)),
    ]


def notes(results: Results, family: str, labels: str) -> list[str]:
    """The task; by language and control, who is above; strings that were not trained on."""
    sentences, held = [label_sets.purposes(results, labels)], _accuracies(results, family, labels)
    if not held:
        return sentences
    best = _best(held)
    drawn = strings(results, family, best, labels, "others", "accuracy")
    levels = [f"{number(row['value'], 1, 100)}% {words}" for words, row in _levels(results, labels)]
    sentences.append(
        "In the mean of the languages that were not trained on, the best trained run is "
        f"{results.called(family, best)}, {both(held[best], drawn, 'strings')}"
        + (f"; baselines: {joined(levels)}." if levels else ".")
    )
    sentences += _excess(results, family, labels, list(held))
    controls = against_controls(results, "transfer", family, labels=labels, **HEADLINE)
    sentences += (
        f"Over the other languages, {relation} the untrained control, in points: {joined(said)}"
        f"{claim([relation])}."
        for relation, said in controls.items()
    )
    return [*sentences, *_unseen(results, family, labels, best)]


def _accuracies(results: Results, family: str, labels: str) -> dict[str, Row]:
    """By trained run, its accuracy in the mean of the languages that were not trained on."""
    found = {
        row["run"]: results.transferred(family, row["run"], labels, "others", "accuracy")
        for row in results.trained(family)
    }
    return {run: row for run, row in found.items() if row is not None}


def _best(held: dict[str, Row]) -> str:
    return max(held, key=lambda run: float(held[run]["mean"]))


def _levels(results: Results, labels: str) -> Iterator[tuple[str, Row]]:
    """The baselines in the mean of the languages that were not trained on."""
    for baseline, words in BASELINES.items():
        row = results.one(
            "label_baselines", labels=labels, language="others", baseline=baseline,
            metric="accuracy",
        )  # fmt: skip
        if row:
            yield words, row


def _against_baseline(results: Results, family: str, labels: str, held: dict[str, Row]) -> str:
    """How the best trained run stands to what form alone gives, and to its untrained control."""
    best, first = _best(held), results.tested_languages(labels)[0]
    control = results.run(family, best)["control"]
    found = control and results.paired("transfer", family, best, control, labels=labels, **HEADLINE)
    excess = results.transferred(family, best, labels, "others", "excess")
    drawn = strings(results, family, best, labels, "others", "excess")
    relation = _relation(excess, drawn) if excess else ""
    said = [f"{relation} the surface baseline, which knows only a string's form,"] if excess else []
    said += [f"{standing(found)} its untrained control ({apart(found)})"] if found else []
    even = "even " if relation in ("below", UNCLEAR) else ""
    text = (
        f"Fine-tuned on {language(first)} and tested on the other languages, {even}the best "
        f"trained run, {results.called(family, best)}, is {' and '.join(said).rstrip(',')}"
        f"{claim(said)}."
        if said
        else f"The best trained run is {results.called(family, best)}."
    )
    levels = "".join(
        f", {words} {number(row['value'], 1, 100)}%" for words, row in _levels(results, labels)
    )
    return f"{text} In the mean it gets {number(held[best]['mean'], 1, 100)}%{levels}."


def _relation(row: Row, drawn: Row | None) -> str:
    """What the intervals of an excess, over seeds and over strings, both show."""
    mean, seeds = float(row["mean"]), int(row["seeds"])
    if seeds < MINIMUM_SEEDS:
        return f"{MEAN} over {seeds_of(seeds)} {direction_of(mean)}"
    signs = {
        (float(x["low"]) > 0) - (float(x["high"]) < 0) if x["low"] else 0
        for x in (row, drawn)
        if x is not None
    }
    if signs in ({1}, {-1}):
        return direction_of(mean)
    return UNCLEAR


def _caveat(results: Results, family: str, labels: str, runs: list[str]) -> str:
    """In how many languages form wins, and that the best run is picked after the fact."""
    own = language(results.tested_languages(labels)[0])
    sizes = {
        relation: sum(name != own for names in found.values() for name in names)
        for relation, found in _by_language(results, family, labels, runs).items()
    }
    count = sizes.get("above", 0)
    none = f"{count} of {sum(sizes.values())}" if count else "no"
    over_seeds = "" if alone(results, family) else ", over seeds and over strings"
    return (
        f"By trained run and language, {own} left out, {none} accuracies "
        f"{'is' if count == 1 else 'are'} shown to be above the surface baseline{over_seeds}. The "
        "best run is picked on the test strings that it is scored on."
    )


def _excess(results: Results, family: str, labels: str, runs: list[str]) -> list[str]:
    """In which languages each trained run is above the surface baseline, below it, or neither.

    Above and below ask for both intervals, over seeds and over strings, on that side of zero.
    """
    held = _by_language(results, family, labels, runs)
    first = results.tested_languages(labels)[0]
    sentences = []
    for relation, by_run in held.items():
        said = [f"{results.called(family, run)} in {joined(x)}" for run, x in by_run.items()]
        how = "" if relation == UNCLEAR else " by the intervals over seeds and over strings"
        sentences.append(
            f"{capital(relation)} the surface baseline{how}, in points: {'; '.join(said)}."
        )
    if sentences:
        sentences[0] += f" {language(first)} is the language trained on."
    return sentences


def _by_language(
    results: Results, family: str, labels: str, runs: list[str]
) -> dict[str, dict[str, list[str]]]:
    """By relation to the surface baseline and run, languages; no relation without a claim."""
    held: dict[str, dict[str, list[str]]] = {}
    for run in runs:
        for code in results.tested_languages(labels):
            row = results.transferred(family, run, labels, code, "excess")
            drawn = strings(results, family, run, labels, code, "excess")
            if row is None:
                continue
            text = f"{language(code)} ({signed(row['mean'], 1, 100)})"
            relation = _relation(row, drawn) if drawn else UNCLEAR
            if relation.startswith(MEAN):
                relation = UNCLEAR
            held.setdefault(relation, {}).setdefault(run, []).append(text)
    order = ("above", "below", UNCLEAR)
    return {relation: held[relation] for relation in order if relation in held}


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
    drawn = "strings (those with one key are drawn together)"
    caption = (
        f"{words} {capital(sentence)}. {drawn_over(results, family, drawn)}. A string is in the "
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
            rows.append([BASELINES[baseline], SUBSETS["all"], *cells])
    return rows


def fine_tuning(results: Results, family: str, labels: str) -> Table:
    """What was fine-tuned, which learning rates were chosen, and macro-F1."""
    first = results.tested_languages(labels)[0]
    rows = []
    for run in (row["run"] for row in results.all_runs(family)):
        rates = Counter(
            row["value"]
            for row in results.where(
                "transfer_cells", family=family, run=run, labels=labels, metric="learning_rate"
            )
        )
        development = results.transferred(family, run, labels, first, "development_accuracy")
        f1 = results.transferred(family, run, labels, "others", "macro_f1")
        parameters = results.one(
            "transfer_cells", family=family, run=run, labels=labels, metric="parameters"
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
