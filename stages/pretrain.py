"""Stage `pretrain_<family>`: train one cell. Arguments: family, run, seed.

With TIEBENCH_PROCESSES=2, or started by `accelerate launch --num_processes 2`, two processes train
it together.
"""

import sys

from tiebench.settings import find_seed, load_params
from tiebench.stage import run_stage
from tiebench.training.parallel import launch, processes_to_start
from tiebench.training.pretrain import pretrain, processes_of


def main(family: str, run: str, seed: str) -> None:
    """Train one cell, here or in processes of its own."""
    params = load_params()
    given = find_seed(params, family, run, seed)
    size = processes_of(params, family, run, processes_to_start())
    if size > 1:
        launch(size, sys.argv)
    else:
        pretrain(params, family, run, given)


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
