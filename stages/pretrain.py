"""Stage `pretrain_<family>`: train one cell. Arguments: family, run, seed."""

import sys

from tiebench.settings import load_params
from tiebench.training.pretrain import pretrain

if __name__ == "__main__":
    family, run, seed = sys.argv[1:]
    pretrain(load_params(), family, run, int(seed))
