"""Two or three plain sentences per section, made from the tables."""

from __future__ import annotations

from collections import Counter

from tiebench.reporting.naming import direction, joined, language, number, plain
from tiebench.reporting.results import Results, Row


def language_modeling(results: Results, family: str) -> list[str]:
    """What was learned, and how the runs differ from the baseline."""
    trained = [row for row in results.runs(family) if row["trained"] == "true"]
    losses = {row["run"]: results.summary(family, row["run"], "loss") for row in trained}
    held = {run: row for run, row in losses.items() if row is not None}
    if not held:
        return ["No run of this report is trained."]
    unigram = results.summary(family, next(iter(held)), "unigram_loss")
    assert unigram is not None
    best = min(held, key=lambda run: float(held[run]["mean"]))
    millions = float(trained[0]["tokens"]) / 1e6
    gap = float(unigram["mean"]) - float(held[best]["mean"])
    sentences = [
        f"After {millions:,.3g} million tokens the lowest validation loss is that of "
        f"{plain(best)}, {_value(held[best], 3)} nats per predicted token, "
        f"{abs(gap):.2f} {'below' if gap > 0 else 'above'} what token frequencies alone give "
        f"({number(unigram['mean'], 2)})."
    ]
    above = [
        plain(run) for run, row in held.items() if float(row["mean"]) >= float(unigram["mean"])
    ]
    if above:
        verb = "has" if len(above) == 1 else "have"
        sentences.append(
            f"{_capital(joined(above))} {verb} not passed the unigram loss: at this budget "
            "the comparison says nothing about what these couplings can learn."
        )
    return sentences + _differences(results, family, held, "nats", 3, 1.0)


def _differences(
    results: Results, family: str, held: dict[str, Row], unit: str, digits: int, scale: float
) -> list[str]:
    baseline = plain(results.baseline(family))
    shown, unclear, single = [], [], []
    for run, row in held.items():
        if not row["difference"]:
            continue
        size = scale * float(row["difference"])
        text = f"{plain(run)} {abs(size):.{digits}f} {unit} {'above' if size > 0 else 'below'}"
        if not row["difference_low"]:
            single.append(text)
            continue
        low, high = (scale * float(row[f"difference_{end}"]) for end in ("low", "high"))
        text += f" ({low:+.{digits}f} to {high:+.{digits}f})"
        if low > 0 or high < 0:
            shown.append(text)
        else:
            needed = number(row["detectable"], digits, scale)
            unclear.append(f"{text}, where {needed} would have been found with power 0.8")
    sentences = []
    if shown:
        sentences.append(f"Against {baseline}, paired by seed: {joined(shown)}.")
    if unclear:
        sentences.append(f"No difference from {baseline} is shown for {joined(unclear)}.")
    if single:
        sentences.append(
            f"Against {baseline}, one seed and so without an interval: {joined(single)}."
        )
    return sentences


def retrieval(results: Results, family: str) -> list[str]:
    """How far the best layer is above the controls, and how the last layer compares."""
    pair = results.pairs[0]
    layers, runs = results.layers(family), results.runs(family)
    trained = [row["run"] for row in runs if row["trained"] == "true"]
    if not trained:
        return ["No run of this report is trained."]
    best = {}
    for run in (row["run"] for row in runs):
        found = results.retrieval(family, run, pair)
        layer = max(layers, key=lambda x: float(found[x]["mean"]))
        best[run] = (float(found[layer]["mean"]), layer, found[layer])
    top = max(trained, key=lambda run: best[run][0])
    controls = [
        f"{number(str(best[run][0]), 1, 100)}% for the {plain(run)} model"
        for run in best
        if run not in trained
    ]
    bag = results.retrieval(family, top, pair).get("tokens")
    if bag:
        controls.append(f"{number(bag['mean'], 1, 100)}% for bags of tokens")
    sentences = [
        f"{direction(*pair[1:])}: the highest accuracy is that of {plain(top)} at layer "
        f"{best[top][1]}, {_value(best[top][2], 1, 100, '%')}"
        + (f", against {joined(controls)}." if controls else ".")
    ]
    separate = results.retrieval(family, top, pair, subset="no_shared_token")
    if best[top][1] in separate:
        sentences.append(
            f"Among the pairs that share no token it finds "
            f"{_value(separate[best[top][1]], 1, 100, '%')} at that layer."
        )
    metric = "_".join(("retrieval", *pair, "last"))
    last = {run: results.summary(family, run, metric) for run in trained}
    held = {run: row for run, row in last.items() if row is not None}
    return sentences + [
        sentence.replace("Against", "At the last layer, against", 1).replace(
            "No difference", "At the last layer, no difference", 1
        )
        for sentence in _differences(results, family, held, "points", 1, 100.0)
    ]


def published(results: Results, family: str) -> list[str]:
    """How the verdicts fall."""
    rows = list(results.where("published", family=family))
    if not rows:
        return ["No two runs of this report stand for two rows of RemBERT's tables."]
    counted = Counter(row["verdict"] for row in rows)
    said = [
        f"{counted[verdict]} {text}"
        for verdict, text in (
            ("agrees", "in agreement in direction"),
            ("disagrees at this scale", "in disagreement at this scale"),
            ("inconclusive", "inconclusive"),
        )
        if counted[verdict]
    ]
    return [
        f"Comparisons with a published difference: {joined(said)}, of {len(rows)}.",
        "None is a reproduction: the published configuration was not run, and a small model "
        "at a small budget compares how fast the couplings learn.",
    ]


def parameters(results: Results, family: str) -> list[str]:
    """What the couplings cost at pretraining and at fine-tuning."""
    counts: dict[str, dict[str, int]] = {}
    for row in results.where("parameters", family=family):
        counts.setdefault(row["run"], {})[row["metric"]] = int(row["value"])
    baseline = results.baseline(family)
    base = counts[baseline]
    changes = []
    for run in (row["run"] for row in results.runs(family)):
        ratios = [counts[run][stage] / base[stage] for stage in ("pretraining", "fine_tuning")]
        if run != baseline and ratios != [1.0, 1.0]:
            changes.append(
                f"{plain(run)} has {ratios[0]:.2f} times its parameters at pretraining and "
                f"{ratios[1]:.2f} times at fine-tuning"
            )
    start = f"{_capital(plain(baseline))} has {base['pretraining'] / 1e6:.3g} million parameters"
    return [f"{start}; {joined(changes)}." if changes else f"{start}, as every other run."]


def savings(results: Results) -> list[str]:
    """What is wrong in the tutorial, and how the share falls with size."""
    table = list(results.where("parameter_savings", place="table"))
    wrong = [row for row in table if row["wrong"] != "nothing"]
    rows = sorted(results["savings_by_scale"], key=lambda row: float(row["saving_percent"]))
    parts = [f"{row['label']} ({row['wrong'].replace(' ', ', ')})" for row in wrong]
    hypothetical = [row["label"] for row in table if row["ties_as_shipped"] == "false"]
    example = next(results.where("parameter_savings", place="worked example"))
    return [
        f"{len(wrong)} of the tutorial's {len(table)} rows print a wrong figure: {joined(parts)}; "
        f"in its worked example of {example['label']}: {example['wrong'].replace(' ', ', ')}.",
        f"For {joined(hypothetical)} nothing is saved in fact: the model ships two tables.",
        f"The share saved falls from {number(rows[-1]['saving_percent'], 1)}% of the untied total "
        f"({rows[-1]['model']}) to {number(rows[0]['saving_percent'], 1)}% ({rows[0]['model']}).",
    ]


def rembert(results: Results) -> list[str]:
    """Which convention gives the printed counts."""
    best, rows = results["rembert_conventions"][0], results["rembert_parameters"]
    full = sum(
        row[f"full_{s}_agrees"] == "true" for row in rows for s in ("pretraining", "fine_tuning")
    )
    alike = [
        row for row in results["rembert_conventions"]
        if row["agreeing_figures"] == best["agreeing_figures"]
    ]  # fmt: skip
    checkpoint = {row["output_width"]: row for row in rows if row["table"] == "7"}
    off = [
        f"{number(row['full_pretraining'], 0)}M with output width {width}"
        for width, row in checkpoint.items()
    ]
    return [
        f"{best['agreeing_figures']} of RemBERT's {best['figures']} printed figures come out when "
        f"{best['convention'].replace(', ', ' are counted and ')} to millions"
        + (f" ({len(alike) - 1} other ways to count do as well)" if len(alike) > 1 else "")
        + f"; counting every parameter and rounding gives {full}.",
        f"Rows that do not come out: {best['rows_not_fitting']}.",
        f"The printed {checkpoint and next(iter(checkpoint.values()))['printed_pretraining']}M of "
        f"RemBERT itself is {joined(off)}: the printed width does not give the printed count.",
    ]


def corpus(results: Results, name: str) -> list[str]:
    """How much was dropped and why, and how often a token repeats the one before."""
    rows = list(results.where("corpus", corpus=name))
    read = sum(float(row["value"]) for row in rows if row["part"] == "read")
    dropped: Counter[str] = Counter()
    for row in rows:
        if row["part"] == "dropped":
            dropped[row["metric"]] += int(row["value"])
    total = sum(dropped.values())
    sentences = []
    if total:
        leading = [
            f"{100 * count / read:.1f}% {plain(reason)}" for reason, count in dropped.most_common(2)
        ]
        sentences.append(
            f"Of {read:,.0f} strings read, {100 * total / read:.1f}% were dropped, "
            f"most of them as {joined(leading)}."
        )
    repeated = {r["language"]: r["value"] for r in rows if r["metric"] == "repeated_token_share"}
    if repeated:
        sentences.append(
            f"{number(repeated['all'], 2, 100)}% of the training tokens repeat the one before."
        )
    per_token = {
        r["language"]: float(r["value"])
        for r in rows
        if r["metric"] == "bytes_per_token" and r["part"] == "train"
    }
    if per_token:
        low, high = (f(per_token, key=lambda x: per_token[x]) for f in (min, max))
        sentences.append(
            f"A token stands for {per_token[low]:.2f} ({language(low)}) to {per_token[high]:.2f} "
            f"({language(high)}) bytes."
        )
    return sentences


def _value(row: Row, digits: int, scale: float = 1.0, unit: str = "") -> str:
    text = number(row["mean"], digits, scale) + unit
    if row["low"]:
        text += f" ({number(row['low'], digits, scale)} to {number(row['high'], digits, scale)})"
    return text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
