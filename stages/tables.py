"""Stage `tables`: the vocabulary tables of saved models compared."""

from tiebench.experiments.tables import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Compare and measure."""
    run(load_params())


if __name__ == "__main__":
    run_stage(main)
