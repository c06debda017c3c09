"""Stage `transfer_<family>`: fine-tune one model and test it. Arguments: family, run, seed."""

import sys

from tiebench.evaluation.transfer import transfer
from tiebench.settings import find_seed, load_params
from tiebench.stage import run_stage


def main(family: str, run: str, seed: str) -> None:
    """Fine-tune one model and test it in every language."""
    params = load_params()
    transfer(params, family, run, find_seed(params, family, run, seed))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
