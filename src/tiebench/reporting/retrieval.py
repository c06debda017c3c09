"""Translation by nearest neighbour, held against untrained models and bags of tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tiebench.reporting import curves
from tiebench.reporting.estimates import (
    CUT,
    accuracy,
    alone,
    both,
    differences,
    direction_of,
    drawn_over,
    over,
    sampled,
)
from tiebench.reporting.naming import (
    DISTANCES,
    OFFSETS,
    SUBSETS,
    counted,
    direction,
    joined,
    number,
    percent,
    plain,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Chosen, Pair, Results, Row


def section(results: Results, family: str, title: str) -> Section:
    """Curves by layer, the headline's table, and every variant."""
    first, *others = results.pairs
    distance, offset = results.protocol
    how = f"{DISTANCES[distance]}, {OFFSETS[offset]}"
    offsets = {row["offset"] for row in results["retrieval"]}
    separate = results.sizes(family, first).get("no_shared_token", "0")
    shown = [
        Figure(
            f"{family}_retrieval",
            f"Nearest-neighbour translation, {direction(*first[1:])}, {how}. "
            f"{pool_note(results, family, first)}",
            partial(curves.retrieval_by_layer, results, family, first),
        ),
        Figure(
            f"{family}_retrieval_no_shared_token",
            f"The same among the {counted(int(separate), 'pair')} with no identical token (letters "
            "or digits).",
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
            "Published, for comparison: RemBERT's figure 2, English to German over 5,000 WMT16 "
            "pairs, 12 layers, input table 128 wide, by width of the output table. Read off the "
            "figure: approximate.",
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
        findings(results, family),
        shown,
        [headline(results, family, first), variants(results, family)],
        notes(results, family),
    )


def findings(results: Results, family: str) -> list[str]:
    """The best trained run against every control, the couplings, and what to hold against it."""
    pair, (distance, offset) = results.pairs[0], results.protocol
    trained = results.trained(family)
    if not trained:
        return ["No run of this report is trained."]
    best = results.chosen(family, pair)
    top, layer, drawn = _top(results, family, best)
    first = (
        f"{direction(*pair[1:])}, with {DISTANCES[distance]} and {OFFSETS[offset]}: the best "
        f"trained run is {results.called(family, top)} at layer {layer}, "
        f"{both(best[top][1], drawn)}."
    )
    controls = [
        (f"{results.called(family, run)} (its best layer is {best[run][0]})", best[run][1])
        for run in best
        if run not in {row["run"] for row in trained}
    ]
    bag = results.retrieval(family, top, pair).get("tokens")
    controls += [("bags of tokens", bag)] if bag else []
    if controls:
        against = (
            f"{direction_of(_mean(best[top]) - float(control['mean']))} {words}, "
            f"{number(control['mean'], 1, 100)}%{_inside(control, drawn)}"
            for words, control in controls
        )
        first += f" In the mean that is {'; '.join(against)}."
    metric = "_".join(("retrieval", *pair, "last"))
    found = {row["run"]: results.summary(family, row["run"], metric) for row in trained}
    held = {run: row for run, row in found.items() if row is not None}
    couplings = differences(results, family, held, "points", 1, 100.0, where="at the last layer")
    fitted = ", on which the offset is fitted too" if offset == "scored_pairs" else ""
    caveat = f"Run and layer were picked on the same pairs that are scored{fitted}."
    last = results.chosen(family, pair, last=True)
    below = [
        f"at the {where} layer {joined(said)}"
        for where, chosen in (("best", best), ("last", last))
        if (said := _below_controls(results, family, trained, chosen))
    ]
    if below:
        caveat = f"In the mean not above the untrained control: {'; '.join(below)}. {caveat}"
    return [first, *couplings, f"{caveat}{_strongest_bag(results, family, trained)}"]


def _strongest_bag(results: Results, family: str, trained: list[Row]) -> str:
    """The best search without a model over all distances and offsets, beside the best with one."""
    pair, tried = results.pairs[0], dict.fromkeys(
        (row["distance"], row["offset"]) for row in results["retrieval"]
    )  # fmt: skip
    bags: list[tuple[float, str, Row]] = []
    runs: list[tuple[float, str, Row]] = []
    for distance, offset in tried:
        how = {"distance": distance, "offset": offset}
        for row in trained:
            found = results.retrieval(family, row["run"], pair, **how)
            where = f"{DISTANCES[distance]}, {OFFSETS[offset]}"
            for layer, held in found.items():
                (bags if layer == "tokens" else runs).append((float(held["mean"]), where, row))
    if not bags or not runs or max(bags, key=lambda x: x[0])[0] <= max(x[0] for x in runs):
        return ""
    level, where, _ = max(bags, key=lambda x: x[0])
    best, other, row = max(runs, key=lambda x: x[0])
    return (
        f" Over all distances and offsets, bags of tokens find most: {100 * level:.1f}% ({where}), "
        f"the best trained run {100 * best:.1f}% ({results.called(family, row['run'])}, {other})."
    )


def notes(results: Results, family: str) -> list[str]:
    """What other distances and offsets reverse, and the pairs that no identical token helps."""
    trained = results.trained(family)
    if not trained:
        return []
    best = results.chosen(family, results.pairs[0])
    last = results.chosen(family, results.pairs[0], last=True)
    top, layer, _ = _top(results, family, best)
    controlled = any(row["control"] for row in trained)
    above = [
        f"At the {where} layers every trained run is in the mean above its untrained control."
        for where, chosen in (("best", best), ("last", last))
        if controlled and not _below_controls(results, family, trained, chosen)
    ]
    return [
        *above,
        *_reversals(results, family, trained, best),
        *_separate(results, family, top, layer),
    ]


def _top(results: Results, family: str, best: Chosen) -> tuple[str, str, Row]:
    """The best trained run, its best layer, and its interval over sentences there."""
    top = max((row["run"] for row in results.trained(family)), key=lambda run: _mean(best[run]))
    layer = best[top][0]
    return top, layer, results.sentences(family, top, results.pairs[0])[layer]


def _mean(chosen: tuple[str, Row]) -> float:
    return float(chosen[1]["mean"])


def _below_controls(results: Results, family: str, trained: list[Row], chosen: Chosen) -> list[str]:
    """Every trained run that is not above its control in the mean."""
    return [
        f"{results.called(family, row['run'])} ({number(chosen[row['run']][1]['mean'], 1, 100)}% "
        f"against {number(chosen[row['control']][1]['mean'], 1, 100)}% of "
        f"{results.called(family, row['control'])})"
        for row in trained
        if row["control"] and _mean(chosen[row["run"]]) <= _mean(chosen[row["control"]])
    ]


def _reversals(results: Results, family: str, trained: list[Row], best: Chosen) -> Iterator[str]:
    """Where another distance, or an offset fitted on the other half, turns a run against its
    control."""
    pair, (distance, offset) = results.pairs[0], results.protocol
    for other in dict.fromkeys((r["distance"], r["offset"]) for r in results["retrieval"]):
        if other == (distance, offset) or other[1] not in (offset, "other_half"):
            continue
        here = results.chosen(family, pair, distance=other[0], offset=other[1])
        turned = []
        for run, control in ((row["run"], row["control"]) for row in trained if row["control"]):
            before = direction_of(_mean(best[run]) - _mean(best[control]))
            after = direction_of(_mean(here[run]) - _mean(here[control]))
            if {before, after} == {"above", "below"}:
                turned.append(
                    f"{results.called(family, run)} is {after} {results.called(family, control)} "
                    f"({number(here[run][1]['mean'], 1, 100)}% against "
                    f"{number(here[control][1]['mean'], 1, 100)}%)"
                )
        if turned:
            yield (
                f"With {DISTANCES[other[0]]} and {OFFSETS[other[1]]}, trained against untrained is "
                f"reversed at the best layers: {joined(turned)}."
            )


def _separate(results: Results, family: str, run: str, layer: str) -> Iterator[str]:
    """The same run and layer among the pairs that no identical token helps."""
    pair = results.pairs[0]
    found = results.retrieval(family, run, pair, subset="no_shared_token")
    if layer not in found:
        return
    size = counted(int(results.sizes(family, pair)["no_shared_token"]), "pair")
    sentence = (
        f"Among the {size} with no identical token (letters or digits) "
        f"{results.called(family, run)} finds {accuracy(found[layer])} at that layer"
    )
    bags = found.get("tokens"), results.retrieval(family, run, pair).get("tokens")
    if bags[0] and bags[1] and float(bags[0]["mean"]) < float(bags[1]["mean"]):
        sentence += (
            f"; these are harder pairs than the rest: bags of tokens find "
            f"{number(bags[0]['mean'], 1, 100)}% of them, and {number(bags[1]['mean'], 1, 100)}% "
            "of all"
        )
    yield f"{sentence}."


def _inside(control: Row, sampled: Row) -> str:
    """Whether a control's mean is one that other sentences could have given the run."""
    low, high = sampled["low"], sampled["high"]
    inside = bool(low) and float(low) <= float(control["mean"]) <= float(high)
    return " (inside the interval over sentences)" if inside else ""


def pool_note(results: Results, family: str, pair: Pair) -> str:
    """How many sentences are searched, and how many pairs have no identical token."""
    sizes = results.sizes(family, pair)
    separate = sizes.get("no_shared_token", "0")
    note = (
        f"The pool has {counted(int(sizes['all']), 'sentence')}; {counted(int(separate), 'pair')} "
        f"{'has' if separate == '1' else 'have'} no identical token (letters or digits)."
    )
    for metric, noun, one, more, words in (
        ("equal_sentences", "sentence", "equals", "equal", "another (each is a correct answer)"),
        ("zero_vectors", "vector", "is", "are", "zero in a run (at distance 1 by angle)"),
        ("seen_in_training", "sentence", "has", "have",
         "a text that was trained on, in some language"),
    ):  # fmt: skip
        rows = results.where("retrieval_sets", family=family, set=pair[0], metric=metric)
        count = max(int(row["value"]) for row in rows)
        if count:
            note += f" {counted(count, noun)} {one if count == 1 else more} {words}."
    return note


def headline(results: Results, family: str, pair: Pair) -> Table:
    """Accuracy by layer for one direction, all sentences and those of each subset."""
    columns = [*results.layers(family), "tokens"]
    rows = []
    for subset, words in SUBSETS.items():
        for run in (row["run"] for row in results.all_runs(family)):
            found = results.retrieval(family, run, pair, subset=subset)
            drawn = results.sentences(family, run, pair, subset)
            if found:
                cells = [
                    percent(found[x]) + sampled(drawn.get(x)) if x in found else "" for x in columns
                ]
                rows.append([results.called(family, run), words, *cells])
    distance, offset = results.protocol
    name, source, target = pair
    caption = (
        f"Nearest-neighbour translation accuracy (%), {direction(source, target)}, set {name}, "
        f"{DISTANCES[distance]}, {OFFSETS[offset]}; {over(results, family, matched=True)}. "
        f"{drawn_over(results, family, 'sentences')}. {CUT} "
        f"{_controls(results, family)}{pool_note(results, family, pair)}"
    )
    header = ["run", "pairs", *(f"layer {x}" for x in columns[:-1]), "bag of tokens"]
    return Table(f"{family}_retrieval_{'_'.join(pair)}", caption, header, rows)


def _controls(results: Results, family: str) -> str:
    """Which untrained run each trained one is held against."""
    by_control: dict[str, list[str]] = {}
    for row in results.trained(family):
        if row["control"]:
            by_control.setdefault(row["control"], []).append(results.called(family, row["run"]))
    said = (f"{results.called(family, x)} for {joined(runs)}" for x, runs in by_control.items())
    return f"Controls: {'; '.join(said)}. " if by_control else ""


def variants(results: Results, family: str) -> Table:
    """Every direction, distance and offset: accuracy at the last layer and at the best."""
    held = dict.fromkeys((r["distance"], r["offset"]) for r in results["retrieval"])
    rows = []
    for pair in results.pairs:
        for distance, offset in held:
            pick = partial(
                results.chosen, family, pair, matched=True, distance=distance, offset=offset
            )
            last = pick(last=True)
            for run, (layer, best) in pick().items():
                found = results.retrieval(family, run, pair, distance=distance, offset=offset)
                bag = found.get("tokens")
                rows.append(
                    [
                        pair[0],
                        direction(*pair[1:]),
                        DISTANCES[distance],
                        plain(offset),
                        results.called(family, run),
                        number(last[run][1]["mean"], 1, 100),
                        number(best["mean"], 1, 100),
                        layer,
                        number(bag["mean"], 1, 100) if bag else "",
                    ]
                )
    header = ["set", "direction", "distance", "offset", "run", "last layer", "best layer", "at",
              "bag of tokens"]  # fmt: skip
    caption = (
        "Accuracy (%) in every direction, with every distance and offset"
        f"{'' if alone(results, family) else '; mean over seeds'}. The "
        "last layer is the run's own; the best is chosen on the pairs it is scored on."
    )
    return Table(f"{family}_retrieval_variants", caption, header, rows, long=True)
