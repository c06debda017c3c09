"""Stage `initial_loss`: the loss before the first update, of every coupling."""

from tiebench.experiments.initial_loss import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Measure every model."""
    run(load_params())


if __name__ == "__main__":
    run_stage(main)
