"""Stage `accounting`: parameter counts of published shapes next to the printed ones."""

from tiebench.analysis.accounting import account
from tiebench.paths import evaluation_folder
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Write the tables."""
    account(evaluation_folder(load_params().name, "accounting"))


if __name__ == "__main__":
    run_stage(main)
