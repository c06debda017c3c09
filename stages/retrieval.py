"""Stage `retrieval`: search translations with one model. Arguments: family, run, seed, set."""

import sys

from tiebench.evaluation.retrieval import retrieve
from tiebench.settings import load_params

if __name__ == "__main__":
    family, run, seed, name = sys.argv[1:]
    retrieve(load_params(), family, run, int(seed), name)
