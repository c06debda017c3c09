"""Stage `bigram`: the 2-gram laboratory, every coupling on an identity body."""

from tiebench.experiments.bigram import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Train and measure all runs."""
    run(load_params())


if __name__ == "__main__":
    run_stage(main)
