"""What became of a corpus' strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from tiebench.reporting import bars
from tiebench.reporting.naming import REASONS, joined, language, number, plain, whole
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results


def section(results: Results, corpus: str) -> Section:
    """Sizes, what was dropped and why."""
    return Section(
        f"corpus-{corpus}",
        f"Corpus: {plain(corpus)}",
        findings(results, corpus),
        [
            Figure(
                f"corpus_{corpus}",
                "What became of the strings read, by language.",
                partial(bars.corpus_strings, results, corpus),
            )
        ],
        list(tables(results, corpus)),
    )


def findings(results: Results, corpus: str) -> list[str]:
    """How much was dropped and why, and how often a token repeats the one before."""
    rows = list(results.where("corpus", corpus=corpus))
    read = sum(float(row["value"]) for row in rows if row["part"] == "read")
    dropped: Counter[str] = Counter()
    for row in rows:
        if row["part"] == "dropped":
            dropped[row["metric"]] += int(row["value"])
    total = sum(dropped.values())
    sentences = []
    if total:
        leading = dropped.most_common(2)
        said = [f"{100 * count / read:.1f}% {REASONS[reason]}" for reason, count in leading]
        among = " (the two largest parts)" if dropped.keys() - dict(leading) else ""
        sentences.append(
            f"Of {read:,.0f} strings read, {100 * total / read:.1f}% were dropped: "
            f"{joined(said)}{among}."
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
    if len(per_token) == 1:
        ((code, size),) = per_token.items()
        sentences.append(f"A token stands for {size:.2f} bytes ({language(code)}).")
    elif per_token:
        low, high = (f(per_token, key=lambda x: per_token[x]) for f in (min, max))
        sentences.append(
            f"A token stands for {per_token[low]:.2f} ({language(low)}) to {per_token[high]:.2f} "
            f"({language(high)}) bytes."
        )
    return sentences


def tables(results: Results, corpus: str) -> Iterator[Table]:
    """Sizes by language, and what was dropped and why."""
    held: dict[tuple[str, str], dict[str, str]] = {}
    for row in results.where("corpus", corpus=corpus):
        held.setdefault((row["part"], row["metric"]), {})[row["language"]] = row["value"]
    languages = list(held["read", "strings"])
    names = [language(code) for code in languages]
    wanted = [
        ("read", "strings", "strings read", 0, 1.0),
        ("train", "strings", "training strings", 0, 1.0),
        ("train", "words", "training words", 0, 1.0),
        ("train", "tokens", "training tokens", 0, 1.0),
        ("train", "bytes_per_token", "bytes per token", 2, 1.0),
        ("train", "unknown_share", "unknown words in training (%)", 2, 100.0),
        ("train", "repeated_token_share", "tokens equal to the one before (%)", 3, 100.0),
        ("valid", "strings", "validation strings", 0, 1.0),
        ("valid", "tokens", "validation tokens", 0, 1.0),
        ("valid", "unknown_share", "unknown words in validation (%)", 2, 100.0),
        ("test", "strings", "test strings", 0, 1.0),
        ("test", "tokens", "test tokens", 0, 1.0),
        ("test", "unknown_share", "unknown words in test (%)", 2, 100.0),
    ]
    rows = [
        [label, *(number(held[part, metric].get(code, ""), digits, scale) for code in languages)]
        for part, metric, label, digits, scale in wanted
        if (part, metric) in held
    ]
    heldout = held["heldout", "strings"]["all"]
    if int(heldout):
        rows.append(["held-out sentences", *(whole(heldout) for _ in languages)])
    yield Table(f"corpus_{corpus}", f"Corpus {corpus} by language.", ["", *names], rows)
    dropped = [
        [REASONS[metric], *(number(by.get(code, "0"), 0) for code in languages)]
        for (part, metric), by in held.items()
        if part == "dropped"
    ]
    if dropped:
        caption = f"Corpus {corpus}: strings dropped, by reason."
        yield Table(f"corpus_{corpus}_dropped", caption, ["reason", *names], dropped)
