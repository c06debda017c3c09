"""Stage `retrieval`: search translations with one model. Arguments: family, run, seed, set."""

import sys

from tiebench.evaluation.retrieval import retrieve
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main(family: str, run: str, seed: str, name: str) -> None:
    """Search one set with one model."""
    retrieve(load_params(), family, run, int(seed), name)


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
