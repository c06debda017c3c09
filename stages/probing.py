"""Stage `probing`: train probes on one frozen model. Arguments: family, run, seed."""

import sys

from tiebench.evaluation.probing import probe
from tiebench.settings import find_seed, load_params
from tiebench.stage import run_stage


def main(family: str, run: str, seed: str) -> None:
    """Probe one model on the treebank that params.yaml names."""
    params = load_params()
    probe(params, family, run, find_seed(params, family, run, seed))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
