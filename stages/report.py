"""Stage `report`: the page, the figures and the rendered tables, from the CSV tables."""

from tiebench.reporting.report import render
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Render the report."""
    render(load_params())


if __name__ == "__main__":
    run_stage(main)
