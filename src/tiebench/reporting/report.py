"""The report: figures, rendered tables and two self-contained pages, from the CSV tables alone."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tiebench import paths
from tiebench.files import holding, replacing_folder, write_text
from tiebench.reporting import claims
from tiebench.reporting.claims_page import context
from tiebench.reporting.parts import Section, Table
from tiebench.reporting.results import Results, read_results
from tiebench.reporting.runs import lead
from tiebench.reporting.sections import sections
from tiebench.reporting.svg import inline, styled, svg_of
from tiebench.settings import Params

TEMPLATES = Path(__file__).with_name("templates")


def render(params: Params) -> None:
    """Write index.html, claims.html, figures/*.svg and rendered/*.{md,tex} into reports/<name>/.

    Reads the report's tables only, so that any machine renders a committed report. Each of the
    four is whole or as it was before; the page, which has everything in it, comes last.

    Raises:
        DataError: a table is missing or damaged.
        BusyError: another process renders the same report.
        WriteError: no room, or no permission.
    """
    with holding(paths.SCRATCH / f"report-{params.name}.lock", f"report {params.name}"):
        _render(params)


def _render(params: Params) -> None:
    folder = paths.report_folder(params.name)
    results = read_results(folder / "tables", params.name)
    content = list(sections(results))
    drawn: dict[str, str] = {}
    with styled(), replacing_folder(folder / "figures") as figures:
        for figure in (figure for section in content for figure in section.figures):
            picture = figure.draw()
            if picture is not None:
                svg = svg_of(picture)
                write_text(figures / f"{figure.name}.svg", svg)
                drawn[figure.name] = inline(svg, figure.name, figure.caption)
    with replacing_folder(folder / "rendered") as rendered:
        shown = [table for section in content for table in section.tables]
        for table in (*shown, claims.ledger(results)):
            for suffix, text in (("md", markdown(table)), ("tex", latex(table))):
                write_text(rendered / f"{table.name}.{suffix}", text)
    write_text(folder / claims.PAGE, claims_page(results, drawn))
    write_text(folder / "index.html", page(results, content, drawn))


def markdown(table: Table) -> str:
    """A table as GitHub Markdown, its caption above."""
    from tabulate import tabulate

    header, *rows = [
        [cell.replace("|", "\\|") for cell in row] for row in (table.header, *table.rows)
    ]
    body = tabulate(rows, header, "github", colalign=_alignment(table), disable_numparse=True)
    return f"{table.caption}\n\n{body}\n"


def latex(table: Table) -> str:
    """A table as a LaTeX tabular (booktabs), its caption as a comment."""
    from tabulate import tabulate

    body = tabulate(
        table.rows,
        table.header,
        "latex_booktabs",
        colalign=_alignment(table),
        disable_numparse=True,
    )
    body = body.replace("±", "$\\pm$")
    return f"% {table.caption}\n{body}\n"


def _alignment(table: Table) -> list[str]:
    return ["right" if table.numeric(i) else "left" for i in range(len(table.header))]


def page(results: Results, content: list[Section], drawn: dict[str, str]) -> str:
    """The HTML page, with everything in it."""
    from markupsafe import Markup

    return _template("report.html").render(
        name=results.name,
        lead=[lead(results, family) for family in results.families],
        sections=content,
        drawn={name: Markup(svg) for name, svg in drawn.items()},
    )


def claims_page(results: Results, drawn: Collection[str]) -> str:
    """The HTML page of claims.

    Args:
        drawn: names of the figures on the other page.
    """
    return _template("claims.html").render(context(results, drawn))


def _template(name: str) -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)
