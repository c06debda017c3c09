"""Stage `sweeps`: train some runs over a grid of settings. Argument: sweep."""

import sys

from tiebench.experiments.sweep import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main(sweep: str) -> None:
    """Train and measure all points."""
    run(load_params(), sweep)


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
