"""Stage `score`: every table and metrics.json, from the cells that params.yaml names."""

from tiebench.evaluation.score import score
from tiebench.settings import load_params

if __name__ == "__main__":
    score(load_params())
