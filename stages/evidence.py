"""Stage `evidence`: tables of another report that decide claims. Argument: report."""

import sys

from tiebench.claims.evidence import set_aside
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main(report: str) -> None:
    """Set the tables aside."""
    set_aside(load_params().name, report)


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
