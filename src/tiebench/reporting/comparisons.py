"""Published differences between couplings beside ours."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tiebench.analysis.published import ABLATION
from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting import bars
from tiebench.reporting.estimates import DETECTABLE, PERCENT, alone
from tiebench.reporting.naming import counted, difference, joined, metric_name, number, signed
from tiebench.reporting.pairs import CURVES, UNSETTLED
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row

ORDER = ("first", "second")
VERDICTS = {
    "agrees": "in agreement in direction",
    "disagrees at this scale": "in disagreement at this scale",
    "inconclusive": "inconclusive",
}


def section(results: Results, family: str, title: str) -> Section:
    """Verdicts on directions."""
    return Section(
        f"{family}-published",
        f"Beside RemBERT{title}",
        findings(results, family),
        [
            Figure(
                f"{family}_published",
                f"{_ours(results, family)} Green disc: agrees "
                "with the published direction; red cross: disagrees at this scale; grey diamond: "
                f"inconclusive; grey dot: no verdict. {_basis(results, family)}",
                partial(bars.published_directions, results, family),
            )
        ],
        [comparisons(results, family)],
    )


def _ours(results: Results, family: str) -> str:
    if alone(results, family):
        return "Our differences at one seed."
    return f"Our differences with {PERCENT} t intervals, paired by seed."


def findings(results: Results, family: str) -> list[str]:
    """How the verdicts fall, what has none, and how far the set-up is from the published one."""
    rows = list(results.where("published", family=family))
    judged = [row for row in rows if row["verdict"]]
    sentences = []
    if judged:
        found = Counter(row["verdict"] for row in judged)
        said = [f"{found[x]} {words}" for x, words in VERDICTS.items() if found[x]]
        comparisons = len({(row["first"], row["second"]) for row in judged})
        measures = len({row["measure"] for row in judged})
        sentences.append(
            f"Verdicts: {joined(said)}; {counted(comparisons, 'comparison')} of two couplings, "
            f"{counted(measures, 'measure')}, {counted(len(judged), 'verdict')}."
        )
    elif any(row["metric"] for row in rows):
        sentences.append(f"No verdict: {_hindrance(results, family, rows)}.")
    else:
        sentences.append("No published difference has a counterpart of the same kind here.")
    reasons = Counter(
        UNSETTLED if row["reason"].startswith(CURVES) else results.reason(family, row["reason"])
        for row in rows
        if not row["verdict"] and (judged or not row["metric"])
    )
    if reasons:
        count = reasons.total()
        verb = "has" if count == 1 else "have"
        said = [f"{reason} ({n})" if len(reasons) > 1 else reason for reason, n in reasons.items()]
        sentences.append(
            f"{counted(count, 'difference')} that RemBERT prints {verb} no verdict: "
            f"{'; '.join(said)}."
        )
    return [*sentences, set_up(results, family)]


def _hindrance(results: Results, family: str, rows: list[Row]) -> str:
    """Why no difference that we have measured carries a verdict."""
    held = [row for row in rows if row["metric"]]
    if all(row["reason"].startswith(CURVES) for row in held):
        runs = {row[f"{x}_run"] for row in held for x in ORDER}
        moving = [
            row
            for row in results.where("flattened", family=family)
            if row["run"] in runs and row["flat"] != "true"
        ]
        names = joined([results.called(family, row["run"]) for row in moving])
        several = len(moving) != 1
        if all(float(row["drop"]) > 0 for row in moving):
            verb = "still fall" if several else "still falls"
        else:
            verb = "are not flat" if several else "is not flat"
        return f"the learning curve{'s' * several} of {names} {verb}"
    return "; ".join(dict.fromkeys(results.reason(family, row["reason"]) for row in held))


def set_up(results: Results, family: str) -> str:
    """What of the published ablation's set-up the runs have."""
    row = next(r for r in results.runs(family) if r["baseline"] == "true")
    languages = {
        r["language"] for r in results.where("corpus", corpus=row["corpus"], part="read")
    } - {"all"}
    ours = {**{key: int(row[key]) for key in ABLATION if key in row}, "languages": len(languages)}
    words = {"layers": "layers", "width": "wide", "vocabulary": "vocabulary entries",
             "languages": "languages"}  # fmt: skip
    words |= {key: key.removesuffix("s") for key, count in ours.items() if count == 1}
    other = [
        f"{ours[key]:,} {word} (published: {ABLATION[key]:,})"
        for key, word in words.items()
        if ours[key] != ABLATION[key]
    ]
    if other:
        return (
            f"None is a reproduction: the runs have {joined(other)}, and a small model at a small "
            "budget compares how fast the couplings learn."
        )
    return (
        "Layers, width, vocabulary and number of languages are the published ones; text, steps "
        "and batches are not compared here."
    )


def _basis(results: Results, family: str) -> str:
    """What stands behind a published difference, and behind ours."""
    text = (
        "A published difference comes from one pretraining per row (averages: the mean of three "
        "fine-tunings) and has no printed spread."
    )
    runs = results.trained(family)
    corpus = list(results.where("corpus", corpus=runs[0]["corpus"])) if runs else []
    aligned = any(row["part"] == "heldout" and int(row["value"]) for row in corpus)
    if aligned and not any(row["metric"] == "other_language" for row in corpus):
        text += " Ours are trained on translations of the same strings, not on separate texts."
    ratios = {
        int(row[f"{end}_width"]) / int(row["width"]) for row in runs for end in ("input", "output")
    } - {1.0}
    if ratios - {128 / 768, 3072 / 768}:
        shown = joined([f"{ratio:.3g}" for ratio in sorted(ratios)])
        text += (
            f" Tables of other widths than the body are {shown} times as wide here, 0.167 and 4 "
            "times there."
        )
    return text


def comparisons(results: Results, family: str) -> Table:
    """Published differences beside ours, with the verdict on the direction."""
    rows = []
    for row in results.where("published", family=family):
        ours = {
            f"difference{end}": row[key]
            for end, key in (("", "difference"), ("_low", "low"), ("_high", "high"))
        }
        reason = f"({results.reason(family, row['reason'])})" if row["reason"] else ""
        rows.append(
            [
                f"{row['first']} against {row['second']}",
                f"{row['verdict'] or 'no verdict'} {reason}".strip(),
                " against ".join(results.called(family, row[f"{x}_run"]) for x in ORDER),
                f"{metric_name(row['metric'])}, points ({row['better']} is better)"
                if row["metric"]
                else "none of the same kind",
                difference(ours, 1, 100),
                f"{signed(row['published_difference'], 1)} ({row['published_first']} against "
                f"{row['published_second']})",
                f"{row['measure']}, {row['source']}",
                number(row["detectable"], 1, 100),
            ]
        )
    layers, width, vocabulary, languages = ABLATION.values()
    one = alone(results, family)
    caption = (
        f"Published differences and ours, in direction only; the published set-up has {layers} "
        f"layers, {width} wide, {vocabulary:,} vocabulary entries and {languages} languages. A "
        f"verdict needs at least {MINIMUM_SEEDS} seeds, learning curves that have flattened, both "
        "runs below the unigram loss, for retrieval, probing and transfer also both above their "
        f"untrained control, a {PERCENT} interval of our difference, paired by seed, that excludes "
        "zero, and the verdict “different” in Differences between runs"
        f"{'' if one else '; the intervals shown are single ones'}. {_basis(results, family)}"
        f"{'' if one else f' {DETECTABLE}'}"
    )
    header = ["comparison", "verdict", "our runs", "our measure", "our difference",
              "published difference", "published measure",
              "ours: smallest detectable"]  # fmt: skip
    return Table(f"{family}_published", caption, header, rows)
