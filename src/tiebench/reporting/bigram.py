"""The 2-gram laboratory: what Su's countermeasures do once trained, and what tying shares."""

from __future__ import annotations

import math
from functools import partial

from tiebench.analysis.statistics import MINIMUM_SEEDS
from tiebench.reporting import bigram_figures as figures
from tiebench.reporting.bigram_findings import findings
from tiebench.reporting.bigram_results import NEXT, WINDOW, Laboratory, laboratories
from tiebench.reporting.estimates import PERCENT, seeds_of
from tiebench.reporting.naming import number, plain, signed, whole, with_interval
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results, Row

OBJECTIVES = {NEXT: "next token", WINDOW: "window"}
METRICS = {"loss": "final training loss", "valid_loss": "final validation loss",
           "area": "mean training loss over the updates"}  # fmt: skip


def section(results: Results) -> Section:
    """Curves, finals, the dial and the form of the logits."""
    held = laboratories(results)
    first = held[0]
    shown = [
        Figure(
            "bigram_curves",
            f"Training loss by update: {_what(first)}. {_bands(first, 'Bands')} Levels: loss of "
            "target frequencies (dashed), and the lowest of any model of pairs (dotted).",
            partial(figures.curves, first),
        ),
        Figure(
            "bigram_finals",
            f"Final training loss. {_bands(first, 'Lines')} Levels: one table and two, and the "
            "lowest loss of any model of pairs (dotted).",
            partial(figures.finals, first),
        ),
        Figure(
            "bigram_dial",
            "Final losses of two tables by the penalty that draws them together, between those of "
            f"two free tables (dotted) and one (dashed). {_bands(first, 'Bands')}",
            partial(figures.dial, first),
        ),
        Figure(
            "bigram_symmetry",
            "Final training loss against the asymmetry of the logits: 0 for a symmetric form, 1.41 "
            "for independent entries.",
            partial(figures.symmetry, first),
        ),
        Figure(
            "bigram_parameters",
            "Final training loss against the parameters of the coupling.",
            partial(figures.parameters, first),
        ),
    ]
    shown += [
        Figure(
            f"bigram_finals_{other.objective}",
            f"Final training loss with {_what(other)}. {_bands(other, 'Lines')} Levels as above.",
            partial(figures.finals, other),
        )
        for other in held[1:]
    ]
    tables = [table for x in held for table in (losses(x), forms(x))]
    return Section(
        "bigram",
        "The 2-gram laboratory",
        findings(held),
        shown,
        [*tables, verdicts(results), references(held)],
        notes(first),
    )


def _what(held: Laboratory) -> str:
    return "pairs of a token and the next" if held.objective == NEXT else "pairs within a window"


def _bands(held: Laboratory, what: str) -> str:
    if held.seeds == 1:
        return "One seed: no interval."
    return f"{what}: {PERCENT} t interval over {seeds_of(held.seeds)}."


def notes(held: Laboratory) -> list[str]:
    """How it was done."""
    edges = [f"{held.called(run)} ({row['edge']})" for run, row in held.rows.items() if row["edge"]]
    return [
        "The model is the input table's row, divided by its root mean square (the last norm, whose "
        "gain stays 1), and the head: Su's object. The loss is over all pairs of tokens inside a "
        "string at each update, with the exact gradient; Adam without weight decay, the learning "
        "rate falling linearly to zero.",
        "Each run has the learning rate that was best on a pilot seed, which is not reported: the "
        "lowest final training loss, and among rates that come within the tolerance of the "
        "settings the lowest mean loss over the updates."
        + (f" At an end of the grid: {'; '.join(edges)}." if edges else ""),
        f"Verdicts need {MINIMUM_SEEDS} seeds; p values are corrected over the pairs of a metric. "
        f"Alike: the corrected test of equivalence within {held.margin:g} nats, stated before any "
        "run.",
    ]


def losses(held: Laboratory) -> Table:
    """Losses on the way and at the end."""
    levels = [m for m in held.reference if m.startswith("level_")]
    rows = []
    for run, about in held.rows.items():
        cells = [held.called(run), whole(about["parameters"]), f"{float(about['learning_rate']):g}"]
        cells.append(number(about["predicted"], 3))
        cells += [_shown(held.summary(run, m), 3) for m in ("initial_loss", "area")]
        cells += [_reached(held, run, m.removeprefix("level_")) for m in levels]
        cells += [_shown(held.summary(run, m), 3) for m in ("loss", "valid_loss")]
        rows.append([*cells, *(_against(held, run, role) for role in ("tied", "untied"))])
    header = [
        "run",
        "parameters",
        "learning rate",
        "initial by theory",
        "initial loss",
        "mean over the updates",
    ]
    header += [f"updates to {held.reference[m]:.2f}" for m in levels]
    header += ["final loss", "validation", "final minus one table", "final minus two tables"]
    caption = (
        f"Losses in nats per pair ({_what(held)}), mean{_half(held)}. The losses that updates are "
        "counted to were fixed by the corpus beforehand; –: never reached."
    )
    return Table(f"bigram_losses_{held.objective}", caption, header, rows)


def _half(held: Laboratory) -> str:
    if held.seeds == 1:
        return " of one seed"
    return f" ± half of the {PERCENT} t interval over {seeds_of(held.seeds)}"


def _shown(row: Row | None, digits: int) -> str:
    return "" if row is None else with_interval(row, digits)


def _reached(held: Laboratory, run: str, share: str) -> str:
    row = held.summary(run, f"updates_to_{share}")
    if row is None:
        return "–"
    some = "" if int(row["seeds"]) == held.seeds else f" ({row['seeds']} of {held.seeds} seeds)"
    return f"{number(row['mean'], 1)}{some}"


def _against(held: Laboratory, run: str, role: str) -> str:
    other = held.role(role)
    if run == other:
        return ""
    size, standing, _ = held.pair("loss", run, other)
    return f"{size:+.3f} ({standing})"


def forms(held: Laboratory) -> Table:
    """What the final logits are."""
    columns = {
        "rank": ("rank", 1), "effective_rank": ("effective rank", 1),
        "asymmetry": ("asymmetry", 3), "form_asymmetry": ("asymmetry of the form", 3),
        "form_negative": ("negative share", 3), "repeats": ("repeats expected", 4),
        "distance": ("distance of the tables", 3),
    }  # fmt: skip
    rows = [
        [held.called(run), *(_shown(held.summary(run, m), d) for m, (_, d) in columns.items())]
        for run in held.rows
    ]
    caption = (
        f"The final logits ({_what(held)}): numerical and effective rank, rows centred; "
        "|L - L^T| / |L|, centred, as they are and (the form) without bias and with each row "
        "multiplied by the size that the norm divided out; the share of negative eigenvalues, by "
        "size, in the form's symmetric part; the share of pairs of a token with itself that the "
        "model expects "
        f"({held.reference['repeats']:.4f} in the text); the distance of the two sides' tables "
        "over their mean norm."
    )
    return Table(
        f"bigram_forms_{held.objective}", caption, ["run", *(name for name, _ in columns.values())],
        rows,
    )  # fmt: skip


def verdicts(results: Results) -> Table:
    """Every pair that was judged."""
    called = {x.objective: x.called for x in laboratories(results)}
    rows = [
        [
            OBJECTIVES[row["objective"]],
            METRICS[row["metric"]],
            f"{called[row['objective']](row['first'])} − {called[row['objective']](row['second'])}",
            signed(row["difference"], 4),
            f"{signed(row['low'], 4)} to {signed(row['high'], 4)}" if row["low"] else "",
            number(row["detectable"], 4),
            row["p_adjusted"],
            row["p_equivalence_adjusted"],
            row["verdict"] + (f" ({plain(row['reason'])})" if row["reason"] else ""),
        ]
        for row in results["bigram_pairs"]
    ]
    header = [
        "objective", "metric", "pair", "difference (nats)", f"{PERCENT} interval",
        "smallest detectable", "p, corrected", "p of equivalence, corrected", "verdict",
    ]  # fmt: skip
    caption = "Differences between runs, paired by seed; different comes before equivalent."
    return Table("bigram_pairs", caption, header, rows, long=True)


def references(held: list[Laboratory]) -> Table:
    """The corpus as pairs."""
    names = {
        "train_pairs": "training pairs", "valid_pairs": "validation pairs",
        "coverage": "share of all pairs", "repeats": "share of a token with itself",
        "asymmetry": "asymmetry of the shares", "train_unigram": "unigram entropy",
        "train_bigram": "bigram entropy", "valid_unigram": "validation loss of frequencies",
        "valid_bigram": "validation loss of smoothed pairs",
    }  # fmt: skip
    rows = [
        [OBJECTIVES[x.objective], *(_plain_number(x.reference[name]) for name in names)]
        for x in held
    ]
    vocabulary = held[0].reference["vocabulary"]
    caption = (
        f"The pairs of the {vocabulary:.0f} most frequent tokens inside strings (ln n = "
        f"{math.log(vocabulary):.2f}). Entropies are of the training pairs; smoothing is Witten "
        "and Bell's."
    )
    return Table("bigram_references", caption, ["objective", *names.values()], rows)


def _plain_number(value: float) -> str:
    return f"{value:,.0f}" if value > 1000 else f"{value:.4f}"
