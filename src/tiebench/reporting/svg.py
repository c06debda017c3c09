"""Figures as SVG with fixed bytes, and the same SVG to be set into the page."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STYLE = Path(__file__).with_name("tiebench.mplstyle")

TEXT, GRID, BACKGROUND = "#16191d", "#d3d6da", "#ffffff"
"""Colours of the style that the page replaces, so that figures follow light and dark."""


@contextmanager
def styled() -> Iterator[None]:
    """Draw with the one style file over matplotlib's defaults, whatever the user's are."""
    from matplotlib import style

    with style.context(["default", STYLE]):
        yield


def svg_of(figure: Any) -> str:
    """The SVG text of a figure: no date, no creator, ids from its content alone."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    FigureCanvasSVG(figure)
    text = io.StringIO()
    empty = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", metadata=empty)
    cleaned = re.sub(r"\s*<metadata>.*?</metadata>", "", text.getvalue(), flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in cleaned.splitlines()) + "\n"


def inline(svg: str, name: str, description: str) -> str:
    """The SVG as an element of the page: its ids made unique, its text in the page's colour."""
    from markupsafe import escape

    element = svg[svg.index("<svg") :]
    referred = set(re.findall(r'(?:url\(|href=")#([^")]+)', element))
    element = re.sub(
        r'\sid="([^"]*)"',
        lambda found: f' id="{name}-{found[1]}"' if found[1] in referred else "",
        element,
    )
    element = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", element)
    element = element.replace(TEXT, "currentColor").replace(GRID, "var(--grid)")
    element = element.replace(f"fill: {BACKGROUND}", "fill: none")
    opening = re.match(r"<svg[^>]*>", element)
    assert opening is not None
    view = re.search(r'viewBox="[^"]*"', opening.group())
    assert view is not None
    head = f'<svg {view.group()} role="img" aria-label="{escape(description)}">'
    return head + element[opening.end() :].replace("xlink:href", "href")
