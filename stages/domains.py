"""Stage `domains`: tied models go on in another domain, tied or untied."""

from tiebench.experiments.domains import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Train and measure."""
    run(load_params())


if __name__ == "__main__":
    run_stage(main)
