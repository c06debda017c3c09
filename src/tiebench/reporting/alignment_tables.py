"""Tables of how alike vocabulary tables are, and of their shape."""

from __future__ import annotations

from tiebench.analysis.alignment import MEASURES
from tiebench.reporting.alignment_figures import SIDES, aligned, pair_name
from tiebench.reporting.estimates import spread
from tiebench.reporting.naming import number, signed, with_interval
from tiebench.reporting.parts import Table
from tiebench.reporting.results import Results, Row

MAP_NAMES = {
    "identity": "no map", "orthogonal": "orthogonal map", "linear": "linear map",
    "neighbours": "common neighbours", "distances": "distances", "subspace": "subspace distance",
    "residual": "residual",
}  # fmt: skip
SHAPES = {
    "norm": "mean length", "norm_spearman": "length and frequency (Spearman)",
    "norm_slope": "slope of the logarithms", "mean_cosine": "mean cosine of pairs",
    "mean_norm": "length of the mean row over the mean length",
    "participation": "participation ratio", "width": "width",
}  # fmt: skip


def differences(results: Results, family: str, metric: str, over: str) -> list[Row]:
    """Of tables of different seeds, or of one where there is one seed."""
    for initialization in ("other", "same"):
        rows = list(
            results.where(
                "alignment_differences", family=family, metric=metric, over=over,
                initialization=initialization,
            )
        )  # fmt: skip
        if rows:
            return rows
    return []


def table_name(results: Results, row: Row) -> str:
    """A run's table in words."""
    name = results.called(row["family"], row["run"])
    return name if row["table"] == "tied" else f"{name}, {SIDES[row['table']]}"


def alignment_table(results: Results, family: str) -> Table:
    """Every pair with every measure, floors in brackets."""
    rows = []
    for initialization in ("other", "same"):
        for first in aligned(results, family, "linear", initialization):
            if first["initialization"] != initialization:
                continue
            cells = []
            for metric in MEASURES:
                row = results.one(
                    "alignment_summary", family=family, first=first["first"],
                    second=first["second"], pair=first["pair"], metric=metric,
                    initialization=initialization,
                )  # fmt: skip
                cells.append(
                    f"{with_interval(row, 2)} [{number(row['floor'], 2)}]" if row else "undefined"
                )
            rows.append([pair_name(results, first), initialization, *cells])
    header = ["tables", "seeds", *(MAP_NAMES[metric] for metric in MEASURES)]
    caption = (
        "How alike two tables are: mean cosine after a map that was fitted on half of the tokens "
        "and scored on the other half, share of nearest neighbours in common, Spearman's "
        "correlation of cosine distances, distance of the leading subspaces, and the share of the "
        "second table outside the columns of the first (the last two are small where tables are "
        "alike). In square brackets the floor: rows permuted among tokens of like frequency. "
        "Tables of different widths have no identity and no orthogonal map. "
        f"{spread(results, family, '±')}"
    )
    return Table(f"{family}_alignment", caption, header, rows, long=True)


def differences_table(results: Results, family: str) -> Table:
    """Output minus input, with verdicts."""
    rows = []
    for row in results.where("alignment_differences", family=family):
        if row["metric"] not in MAP_NAMES:
            continue
        measured = signed(row["mean"], 3)
        if row["low"]:
            measured += f" ({signed(row['low'], 3)} to {signed(row['high'], 3)})"
        rows.append(
            [
                f"{results.called(family, row['tied'])}, {results.called(family, row['untied'])}",
                row["initialization"],
                MAP_NAMES[row["metric"]],
                "its floor" if row["over"] == "floor" else "zero",
                measured,
                small(row["p_adjusted"]),
                row["verdict"] if not row["reason"] else f"{row['verdict']}: {row['reason']}",
            ]
        )
    header = ["runs", "seeds", "measure", "above", "output minus input", "p, corrected", "nearer"]
    caption = (
        "Is the tied table more like the output than the input table of the untied run? Above zero "
        "it is (the sign of distances is turned)."
    )
    return Table(f"{family}_alignment_differences", caption, header, rows, long=True)


def small(cell: str) -> str:
    """A p value; the smallest ones by their bound."""
    return "< 0.0001" if cell and float(cell) < 1e-4 else number(cell, 4)


def published_table(results: Results, family: str) -> Table:
    """Published values beside ours, which are held out; direction only."""
    ours = differences(results, family, "orthogonal", "nothing")[:1]
    rows = []
    for row in results["alignment_published"] if ours else []:
        found = results.one(
            "alignment_summary", family=family, first=ours[0]["untied"], metric=row["metric"],
            pair=row["pair"], initialization=ours[0]["initialization"],
        )  # fmt: skip
        rows.append(
            [
                f"{row['models']}, {row['pair'].replace('-', ' to ')}",
                MAP_NAMES[row["metric"]],
                number(row["value"], 3),
                number(row["chance"], 3),
                f"{with_interval(found, 3)} [{number(found['floor'], 3)}]" if found else "",
            ]
        )
    source = results["alignment_published"][0]["source"] if rows else ""
    caption = (
        f"{source}: mean cosine after a map, beside ours (in brackets our floor). Chance: of a fit "
        "scored on its own tokens, with tables of independent normal rows; not known for tables "
        "of two tokenizers. Ours are scored on other tokens, so that only the direction compares."
    )
    header = ["tables", "map", "published", "chance", "ours"]
    return Table(f"{family}_alignment_published", caption, header, rows, long=True)


def geometry_table(results: Results, family: str) -> Table:
    """Norms and isotropy of every table."""
    held: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results.where("table_geometry_summary", family=family, bin="all"):
        held.setdefault((row["run"], row["table"]), {})[row["metric"]] = row
    rows = [
        [table_name(results, cells["norm"]),
         *(with_interval(cells[metric], 0 if metric == "width" else 2) for metric in SHAPES),
         _drift(results, cells["norm"])]
        for cells in held.values()
    ]  # fmt: skip
    caption = (
        "Shape of the tables. Participation ratio: how many principal axes share the variance, at "
        "most the width. Kept: mean cosine of the rows with their own initial values, of the runs "
        f"that are aligned. {spread(results, family, '±')}"
    )
    header = ["table", *SHAPES.values(), "kept"]
    return Table(f"{family}_table_geometry", caption, header, rows, long=True)


def _drift(results: Results, row: Row) -> str:
    found = results.one(
        "alignment_summary", family=row["family"], first=row["run"],
        pair=f"{row['table']}-initial", metric="identity",
    )  # fmt: skip
    return with_interval(found, 2) if found else ""


def lens_table(results: Results, family: str) -> Table:
    """Loss and divergence by layer."""
    held: dict[tuple[str, str], dict[str, Row]] = {}
    for row in results.where("logit_lens_summary", family=family):
        held.setdefault((row["run"], row["layer"]), {})[row["metric"]] = row
    rows = [
        [results.called(family, run), layer,
         *(with_interval(cells[metric], 3) for metric in ("loss", "divergence"))]
        for (run, layer), cells in held.items()
    ]  # fmt: skip
    caption = (
        "Logit lens, in nats per predicted token: loss, and divergence from the final prediction. "
        f"{spread(results, family, '±')}"
    )
    header = ["run", "layer", "loss", "divergence"]
    return Table(f"{family}_logit_lens", caption, header, rows, long=True)
