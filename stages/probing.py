"""Stage `probing`: train probes on one frozen model. Arguments: family, run, seed."""

import sys

from tiebench.evaluation.probing import probe
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main(family: str, run: str, seed: str) -> None:
    """Probe one model on the treebank that params.yaml names."""
    probe(load_params(), family, run, int(seed))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
