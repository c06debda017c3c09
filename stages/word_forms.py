"""Stage `word_forms`: forms of one lemma in both vocabulary tables, and the choice between them."""

from tiebench.experiments.word_forms import run
from tiebench.settings import load_params
from tiebench.stage import run_stage


def main() -> None:
    """Measure all models of the family."""
    run(load_params())


if __name__ == "__main__":
    run_stage(main)
