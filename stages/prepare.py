"""Stage `prepare`: make a corpus folder. Argument: corpus."""

import sys

from tiebench.corpus.prepare import prepare
from tiebench.paths import corpus_folder
from tiebench.settings import known, load_params
from tiebench.stage import run_stage


def main(corpus: str) -> None:
    """Prepare one corpus."""
    corpora = load_params().corpora
    prepare(corpora[known(corpus, corpora, "corpora")], corpus_folder(corpus))


if __name__ == "__main__":
    run_stage(main, *sys.argv[1:])
