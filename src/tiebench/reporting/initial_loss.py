"""The loss before the first update: measured points on the curves of theory."""

from __future__ import annotations

from functools import partial

from tiebench.reporting import initial_loss_figures as figures
from tiebench.reporting.initial_loss_findings import findings
from tiebench.reporting.initial_loss_results import (
    SU,
    branches,
    called,
    deep,
    identity,
    one_table,
    own_share,
    sizes,
)
from tiebench.reporting.naming import number, plain, signed, whole, with_interval
from tiebench.reporting.parts import Figure, Section, Table
from tiebench.reporting.results import Results


def section(results: Results) -> Section:
    """Figures by vocabulary and of the deep body, what they say, and the moments."""
    drawn = [
        Figure(
            f"initial_loss_{size}",
            f"Initial loss with no layers by width, {whole(size)} tokens. Points are measured "
            "(mean and 95% interval over seeds), lines are theory to second order; the dotted "
            "line is ln n. Runs of one line start alike.",
            partial(figures.by_width, results, size),
            small=True,
        )
        for size in sizes(results)
    ]
    rows = one_table(results)
    if rows:
        drawn.append(
            Figure(
                "initial_loss_deep",
                f"Initial loss of one table with std {float(rows[0]['std']):g} and "
                f"{rows[0]['layers']} layers, "
                f"{whole(rows[0]['vocabulary'])} tokens, by the initialization of the branches. "
                "The broad grey line is theory for no layers; dotted: ln n.",
                partial(figures.by_branch, results),
                small=True,
            )
        )
    tables = [losses(results), *([deep_table(results)] if deep(results) else []), moments(results)]
    return Section(
        "initial-loss", "The loss before the first update", findings(results), drawn, tables
    )


def losses(results: Results) -> Table:
    """Every point on the identity body."""
    rows = [
        [
            called(row["run"]), whole(row["vocabulary"]), row["width"], number(row["std"], 4),
            number(row["d_sigma"], 1), number(row["log_vocabulary"], 2), with_interval(row, 3),
            number(row["theory"], 3), number(row["theory_second_order"], 3),
            signed(row["relative_difference"], 2, 100),
        ]
        for row in identity(results)
    ]  # fmt: skip
    header = ["run", "n", "d", "std", "dσ", "ln n", "measured", "first order", "second order",
              "difference (%)"]  # fmt: skip
    caption = (
        "Initial loss (nats, with half of the 95% interval over seeds) with no layers: n tokens, "
        "width d. First order: log(e^m + n - 1), where m is the mean logit of the input token "
        "itself; second order: with the variance of all logits. The difference is from the second."
    )
    return Table("initial_loss", caption, header, rows, long=True)


def deep_table(results: Results) -> Table:
    """Every point with a deep body."""
    rows = [
        [
            called(row["run"]), branches(row["branch"]), row["width"], number(row["d_sigma"], 1),
            with_interval(row, 3), number(row["theory_second_order"], 3),
            number(row["own_logit"], 2), number(row["own_logit_theory"], 2), _kept(row),
        ]
        for row in deep(results)
    ]  # fmt: skip
    header = ["run", "branches", "d", "dσ", "measured", "no layers", "own logit",
              "own logit, no layers", "kept (%)"]  # fmt: skip
    first = deep(results)[0]
    caption = (
        f"Initial loss (nats), {first['layers']} layers and {whole(first['vocabulary'])} tokens "
        f"(ln n = {number(first['log_vocabulary'], 2)}) beside theory for no layers; the logit of "
        "the input token itself, and how much of it the layers keep."
    )
    return Table("initial_loss_deep", caption, header, rows)


def _kept(row: dict[str, str]) -> str:
    share = own_share(row)
    return "" if share is None else f"{100 * share:.1f}"


def moments(results: Results) -> Table:
    """Moments of the rows beside the formulas."""
    rows = [
        [
            plain(row["distribution"]), row["width"],
            f"{row['metric']} of {'|w|²' if row['quantity'] == 'squared_norm' else 'w·v'}",
            with_interval(row, 5), number(row["theory"], 5),
        ]
        for row in results["initial_loss_moments"]
    ]  # fmt: skip
    caption = f"Rows with std 1/sqrt(d) ({SU}, equations 1 to 4): dσ², d(E w⁴ - σ⁴), 0 and dσ⁴."
    header = ["distribution", "d", "moment", "measured", "formula"]
    return Table("initial_loss_moments", caption, header, rows, long=True)
