"""Stage `pretrain_<family>`: train one cell. Arguments: family, run, seed."""

import sys

from tiebench.settings import load_params
from tiebench.stage import run_stage
from tiebench.training.pretrain import pretrain


def main(family: str, run: str, seed: str) -> None:
    """Train one cell."""
    pretrain(load_params(), family, run, int(seed))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
