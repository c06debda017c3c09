"""A tied model that goes on in another domain, tied or untied: does freedom help, or overfit?"""

from __future__ import annotations

from functools import partial
from typing import Any

from tiebench.analysis.statistics import LEVEL
from tiebench.reporting.curves import line
from tiebench.reporting.naming import (
    amount,
    capital,
    joined,
    language,
    number,
    signed,
    with_interval,
)
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.plotting import COLOURS, DASHES, WIDTH, legend, new_figure
from tiebench.reporting.results import Results, Row

PERCENT = f"{100 * LEVEL:g}%"
ARMS = {"tied": "one table", "untied": "two tables"}
PARTS = {"new": "new domain", "train": "text trained on", "old": "own domain"}
METRICS = {
    "new": "loss on the new domain, at the end",
    "lowest_new": "lowest loss on the new domain on the way",
    "gap": "gap between the new domain and the text trained on",
    "forgotten": "rise of the loss on the own domain",
}  # fmt: skip
SUMMARIZED = {
    "start": "new domain, before", "train": "text trained on", "new": "new domain",
    "lowest_new": "lowest on the way", "gap": "gap", "old": "own domain", "forgotten": "forgotten",
}  # fmt: skip


def section(results: Results) -> Section:
    """Curves by share of the text, verdicts, sizes."""
    shown = [
        Figure(
            f"domains_{number_of(share)}",
            f"Losses on the way with {percent(share)} of the new domain's text, which is "
            f"{_passes(results, share)} passes over it. Solid: {PARTS['new']}; dashed: "
            f"{PARTS['train']}; dotted: {PARTS['old']}. Bands: {PERCENT} t interval over seeds.",
            partial(curves, results, share),
        )
        for share in shares(results)
    ]
    return Section(
        "domains",
        "Untied in another domain",
        findings(results),
        shown,
        [pairs_table(results), summary_table(results), texts_table(results)],
        notes(),
    )


def shares(results: Results) -> list[str]:
    """Shares of the text, in order."""
    return list(dict.fromkeys(row["share"] for row in results["domains_summary"]))


def percent(share: str) -> str:
    """`0.03` as `3%`."""
    return f"{100 * float(share):g}%"


def number_of(share: str) -> str:
    """A share as part of a file's name."""
    return share.replace(".", "_").replace("-", "_")


def _passes(results: Results, share: str) -> str:
    most = max(float(row["epochs"]) for row in results.where("domains", share=share))
    return f"{most:.1f}" if most >= 0.1 else f"{most:.2g}"


def findings(results: Results) -> list[str]:
    """What two tables change, by share, and whether it is decided."""
    said = []
    for share in shares(results):
        held = {row["metric"]: row for row in results.where("domains_pairs", share=share)}
        parts = [f"{METRICS[metric]} {_measured(row)}" for metric, row in held.items()]
        said.append(
            f"With {percent(share)} of the text ({_passes(results, share)} passes), two tables "
            f"instead of one change (in nats): {joined(parts)}. {_verdict(held)}"
        )
        said += _overfits(results, share)
    return said


def _measured(row: Row) -> str:
    text = signed(row["difference"], 3)
    if row["low"]:
        text += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
    return text


def _verdict(held: dict[str, Row]) -> str:
    """Does freedom help or overfit, by the verdicts."""
    new, gap = held["lowest_new"], held["gap"]
    if new["verdict"] == "different":
        helped = "freedom helps" if float(new["difference"]) < 0 else "freedom hurts"
    elif new["verdict"] == "equivalent":
        helped = f"freedom neither helps nor hurts by {number(new['margin'], 2)} nats"
    else:
        helped = f"whether freedom helps is not decided ({new['reason']})"
    if gap["verdict"] == "different":
        overfits = "more" if float(gap["difference"]) > 0 else "less"
        fits = f"two tables overfit {overfits} than one"
    elif gap["verdict"] == "equivalent":
        fits = f"the gap is the same within {number(gap['margin'], 2)} nats"
    elif new["verdict"] == "undecided" and gap["reason"] == new["reason"]:
        return capital(f"{helped}, nor is whether it overfits.")
    else:
        fits = f"whether it overfits is not decided ({gap['reason']})"
    return capital(f"{helped}; {fits}.")


def _overfits(results: Results, share: str) -> list[str]:
    """Arms whose loss on the new domain ends above its lowest, in the mean."""
    found = []
    for arm in ARMS:
        end, lowest = (
            results.one("domains_summary", share=share, arm=arm, metric=metric)
            for metric in ("new", "lowest_new")
        )
        if end and lowest and float(end["mean"]) - float(lowest["mean"]) > 5e-4:
            rise = number(str(float(end["mean"]) - float(lowest["mean"])), 3)
            found.append(f"{rise} above its lowest with {ARMS[arm]}")
    return [f"The loss on the new domain ends {joined(found)}."] if found else []


def curves(results: Results, share: str) -> Any:
    """Losses of both arms against updates."""
    figure, axes = new_figure(WIDTH, 3.4)
    dashes = dict(zip(PARTS, DASHES, strict=True))
    for colour, (arm, name) in zip(COLOURS, ARMS.items(), strict=False):
        for part, words in PARTS.items():
            rows = results.where("domains_curves", share=share, arm=arm, part=part)
            points = [(float(row["step"]), row) for row in rows]
            style = {"color": colour, "linestyle": dashes[part]}
            line(axes, points, f"{name}, {words}", style)
    if not axes.lines:
        return None
    axes.set_xlabel("updates on the new domain")
    axes.set_ylabel("nats per predicted token")
    legend(figure, axes)
    return figure


def pairs_table(results: Results) -> Table:
    """Differences with verdicts."""
    rows = [
        [
            percent(row["share"]), METRICS[row["metric"]], row["seeds"], _measured(row),
            number(row["p_adjusted"], 4), number(row["detectable"], 3), number(row["margin"], 2),
            number(row["p_equivalence_adjusted"], 4), row["verdict"], row["reason"],
        ]
        for row in results["domains_pairs"]
    ]  # fmt: skip
    header = ["text used", "measure", "seeds", "two tables minus one", "p, corrected",
              "smallest detectable", "margin", "p of equivalence", "verdict", "why"]  # fmt: skip
    caption = (
        f"Two tables minus one, in nats, paired by seed, with the {PERCENT} t interval over seeds; "
        "p values are corrected over the shares of the text."
    )
    return Table("domains_pairs", caption, header, rows)


def summary_table(results: Results) -> Table:
    """Losses at the end."""
    held: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results["domains_summary"]:
        held.setdefault((row["share"], row["arm"]), {})[row["metric"]] = row
    rows = [
        [percent(share), ARMS[arm], *(with_interval(cells[metric], 3) for metric in SUMMARIZED)]
        for (share, arm), cells in held.items()
    ]
    caption = (
        f"Losses after the last update, in nats: mean ± half of the {PERCENT} t interval over "
        "seeds. Gap: new domain minus text trained on. Forgotten: rise on the own domain."
    )
    header = ["text used", "model", *SUMMARIZED.values()]
    return Table("domains_summary", caption, header, rows)


def texts_table(results: Results) -> Table:
    """Sizes of the new domain."""
    held: dict[tuple[str, str], dict[str, str]] = {}
    for row in results["domains_texts"]:
        held.setdefault((row["part"], row["language"]), {})[row["metric"]] = row["value"]
    names = {"seen": "left out: in the model's corpus", "train": "training", "valid": "validation"}
    rows = [
        [names[part], language(code), *(_amount(sizes.get(x)) for x in ("strings", "tokens"))]
        for (part, code), sizes in held.items()
    ]
    header = ["part", "language", "strings", "tokens"]
    return Table("domains_texts", "Text of the new domain.", header, rows, long=True)


def _amount(value: str | None) -> str:
    return amount(float(value)) if value else ""


def notes() -> list[str]:
    """What is the same in both."""
    return [
        "Both models of a seed start from the same saved tied model, and give the same predictions "
        "before the first update; the optimizer starts anew, and both see the same batches. The "
        "second table adds parameters, so that this is a comparison of freedom and size together.",
        "Strings of the new domain that the model's corpus trains or validates on, up to case, "
        "digits, punctuation and placeholders, are left out. Both domains are interface strings "
        "of one project unless the settings name another source.",
    ]
