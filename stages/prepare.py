"""Prepare a corpus: `python stages/prepare.py CORPUS`."""

import sys

from tiebench.corpus.prepare import prepare
from tiebench.paths import corpus_folder
from tiebench.settings import load_params

if __name__ == "__main__":
    corpus = sys.argv[1]
    prepare(load_params().corpora[corpus], corpus_folder(corpus))
