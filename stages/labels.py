"""Stage `labels`: make the folder of a label set. Argument: label set."""

import sys

from tiebench.labels.prepare import prepare
from tiebench.paths import labels_folder
from tiebench.settings import known, load_params
from tiebench.stage import run_stage


def main(labels: str) -> None:
    """Prepare one label set."""
    held = load_params().labels
    prepare(held[known(labels, held, "labels")], labels_folder(labels))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
