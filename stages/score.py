"""Stage `score`: every table and metrics.json, from the cells that params.yaml names."""

from tiebench.evaluation.score import score
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Score the cells."""
    score(load_params())


if __name__ == "__main__":
    run_stage(main)
