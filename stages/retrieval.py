"""Stage `retrieval`: search translations with one model. Arguments: family, run, seed, set."""

import sys

from tiebench.evaluation.retrieval import retrieve
from tiebench.settings import find_seed, known, load_params
from tiebench.stage import run_stage


def main(family: str, run: str, seed: str, name: str) -> None:
    """Search one set with one model."""
    params = load_params()
    given = find_seed(params, family, run, seed)
    retrieve(params, family, run, given, known(name, params.retrieval.sets, "retrieval.sets"))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
