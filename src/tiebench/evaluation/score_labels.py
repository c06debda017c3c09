"""What the label sets hold, and how far one comes without a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tiebench.evaluation.score_transfer import OTHERS
from tiebench.evaluation.scoring import Scorer, codes
from tiebench.labels.read import read_baselines
from tiebench.labels.settings import TreebankSettings
from tiebench.paths import labels_folder
from tiebench.settings import Params

Row = dict[str, Any]

LABEL_SETS = ("labels", "kind", "part", "language", "task", "label", "metric", "value")
LABEL_BASELINES = ("labels", "kind", "task", "language", "baseline", "metric", "value", "n")


def set_rows(params: Params) -> Iterator[Row]:
    """Sizes of each label set by part, and what was dropped and why."""
    for name, settings in params.labels.items():
        meta = read_baselines(labels_folder(name)).meta

        def row(
            metric: str, value: int, of: str = name, kind: str = settings.kind, **at: str
        ) -> Row:
            cells = dict.fromkeys(LABEL_SETS[2:6], "") | at
            return {"labels": of, "kind": kind, **cells, "metric": metric, "value": value}

        if isinstance(settings, TreebankSettings):
            language = settings.languages[0]
            for part, n in meta["sentences"].items():
                yield row("sentences", n, part=part, language=language)
            for task, parts in meta["targets"].items():
                for part, n in parts.items():
                    yield row("targets", n, part=part, language=language, task=task)
            for item in meta["dropped"]:
                yield row("dropped", item["targets"], task=item["task"] or "", label=item["reason"])
        else:
            for part, languages in meta["examples"].items():
                for language, counts in languages.items():
                    for label, n in counts.items():
                        yield row("examples", n, part=part, language=language, label=label)
            for item in meta["dropped"]:
                yield row("dropped", item["examples"], language=item["lang"], label=item["reason"])


def baseline_rows(params: Params, scorer: Scorer) -> Iterator[Row]:
    """Accuracy and macro-averaged F1 of each baseline on the test part."""
    import pyarrow as pa

    for name, settings in params.labels.items():
        treebank = isinstance(settings, TreebankSettings)
        table = pa.table(read_baselines(labels_folder(name)).columns)
        baselines, baseline = codes(table["baseline"])
        of, at = codes(table["task" if treebank else "lang"])
        found = scorer.score(table, baseline * len(of) + at, len(baselines) * len(of))
        for b, which in enumerate(baselines):
            held = {x: b * len(of) + i for i, x in enumerate(of)}
            rows = {x: [i] for x, i in held.items()}
            if not treebank:
                rows[OTHERS] = [i for x, i in held.items() if x != settings.languages[0]]
            for x, places in rows.items():
                for metric in ("accuracy", "macro_f1"):
                    yield {
                        "labels": name, "kind": settings.kind,
                        "task": x if treebank else "",
                        "language": settings.languages[0] if treebank else x,
                        "baseline": which, "metric": metric,
                        "value": float(np.mean(found[metric][places])),
                        "n": int(found["n"][places].sum()),
                    }  # fmt: skip
