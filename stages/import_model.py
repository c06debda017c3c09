"""Stage `imported`: read a model that was trained elsewhere. Argument: model."""

import sys

from tiebench.evaluation.importing import import_model
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main(model: str) -> None:
    """Import one model."""
    import_model(load_params(), model)


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
