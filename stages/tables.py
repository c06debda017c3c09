"""Stage `tables`: the vocabulary tables of saved models compared. Argument: family."""

import sys

from tiebench.experiments.tables import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main(family: str) -> None:
    """Compare and measure."""
    run(load_params(), family)


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
