"""The 2-gram laboratory: every coupling on an identity body, trained on pair counts.

Su (2023) explains a shared table's high initial loss on a model whose residual branches are zero:
the input's normalized row times the output table. Here that model is trained. Its corpus is a
matrix of counts, so that each update has the exact gradient of the whole text.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiebench import paths
from tiebench.analysis.tables import write_table
from tiebench.corpus.tokenizer import UNKNOWN
from tiebench.corpus.tokens import read_tokens
from tiebench.digests import stage_digest
from tiebench.errors import TrainingError
from tiebench.experiments.bigram_counts import (
    Pairs,
    asymmetry,
    count_pairs,
    most_frequent,
    references,
)
from tiebench.experiments.bigram_settings import (
    NEXT,
    TABLES,
    WINDOW,
    BigramSettings,
    bigram_settings,
)
from tiebench.experiments.bigram_training import Objective, Trained, train
from tiebench.files import digest_of, holding, remembered, replacing_folder
from tiebench.progress import progress
from tiebench.runtime import prepare_runtime

if TYPE_CHECKING:
    import torch

    from tiebench.corpus.settings import CorpusSettings
    from tiebench.settings import Params

Row = dict[str, Any]
GROWTH = 1.3
"""Ratio of the updates of two points of a curve."""


def run(params: Params) -> None:
    """Write evals/<name>/bigram/*.csv, all or none: a table for each of TABLES.

    Finished runs wait in .scratch/bigram-<name>/, so that a killed process goes on after the last
    one and ends with the same bytes.

    Raises:
        DataError: a token file is missing or damaged.
        SettingsError: the corpus has fewer tokens than the vocabulary.
        TrainingError: a run diverges at every rate of the pilot, or with a seed.
        BusyError: another process is at work on the same report's laboratory.
    """
    folder = paths.evaluation_folder(params.name, "bigram")
    lock = paths.SCRATCH / f"bigram-{params.name}.lock"
    with holding(lock, f"the 2-gram laboratory of {params.name}"):
        cache = paths.SCRATCH / f"bigram-{params.name}"
        rows = _rows(params, cache)
        with replacing_folder(folder) as partial:
            for name, columns in TABLES.items():
                write_table(partial / f"{name}.csv", columns, rows[name])
        shutil.rmtree(cache, ignore_errors=True)


def _rows(params: Params, cache: Path) -> dict[str, list[Row]]:
    settings, device = bigram_settings(params), prepare_runtime()
    rows: dict[str, list[Row]] = {name: [] for name in TABLES}
    each = len(settings.learning_rates) + len(settings.seeds)
    count = each * (len(settings.runs) + len(settings.window_runs))
    with progress(total=count, desc="2-gram laboratory", unit="run") as bar:
        for name, pairs in read_pairs(settings, params.corpora[settings.corpus]).items():
            laboratory = Laboratory(settings, name, pairs, device, cache, bar)
            for run in settings.runs if name == NEXT else settings.window_runs:
                for table, held in laboratory.run(run).items():
                    rows[table] += held
            rows["objectives"] += laboratory.objective_rows()
    return rows


def read_pairs(settings: BigramSettings, corpus: CorpusSettings) -> dict[str, Pairs]:
    """The pairs of each objective that is trained on."""
    folder = paths.corpus_folder(settings.corpus)
    train_ids, valid_ids = (
        read_tokens(folder / f"{part}.safetensors", folder / "tokenizer.json", corpus.languages)
        for part in ("train", "valid")
    )
    words = corpus.tokenizer is not None and corpus.tokenizer.kind == "words"
    kept = most_frequent(train_ids.values(), settings.vocabulary, left_out=[UNKNOWN] * words)
    reaches = {NEXT: None} | ({WINDOW: settings.window} if settings.window_runs else {})
    pairs = {}
    for name, window in reaches.items():
        counts, coverage = count_pairs(train_ids, kept, window)
        pairs[name] = Pairs(counts, count_pairs(valid_ids, kept, window)[0], coverage)
    return pairs


@dataclass
class Laboratory:
    """The runs of one objective."""

    settings: BigramSettings
    objective: str
    pairs: Pairs
    device: torch.device
    cache: Path
    bar: Any

    def __post_init__(self) -> None:
        self.held = (
            Objective(self.pairs.train, self.device),
            Objective(self.pairs.valid, self.device),
        )
        self.references = references(self.pairs)
        self.points = curve_points(self.settings.updates)
        self.key = digest_of(
            {
                "settings": self.settings.model_dump(
                    include={"vocabulary", "width", "updates", "betas", "epsilon"}
                ),
                "counts": [
                    hashlib.sha256(counts.tobytes()).hexdigest()
                    for counts in (self.pairs.train, self.pairs.valid)
                ],
                "code": stage_digest("bigram"),
            }
        )

    def run(self, run: str) -> dict[str, list[Row]]:
        """Rows of `runs`, `curves` and `rates`: the pilot, then every seed at the rate it chose."""
        settings, at = self.settings, {"objective": self.objective, "run": run}
        pilot = {
            rate: self.trained(run, settings.pilot_seed, rate) for rate in settings.learning_rates
        }
        best = choose(pilot, settings.pilot_tolerance)
        if best is None:
            raise self.diverged(run, settings.pilot_seed, "every learning rate")
        rows: dict[str, list[Row]] = {"runs": [], "curves": []}
        rows["rates"] = [
            {
                **at, "learning_rate": rate, "loss": tried and tried.losses[-1],
                "area": tried and area(tried.losses), "chosen": rate == best,
            }
            for rate, tried in pilot.items()
        ]  # fmt: skip
        for seed in settings.seeds:
            trained = self.trained(run, seed, best)
            if trained is None:
                raise self.diverged(run, seed, f"learning rate {best:g}")
            for metric, value in self.metrics(trained).items():
                rows["runs"].append({**at, "seed": seed, "metric": metric, "value": value})
            for metric, update, value in self.curves(trained):
                point = {"update": update, "metric": metric, "value": value}
                rows["curves"].append({**at, "seed": seed, **point})
        return rows

    def trained(self, run: str, seed: int, rate: float) -> Trained | None:
        """A run, from the cache where it is done; None where it diverged."""
        settings = self.settings
        key = digest_of(
            {"run": settings.runs[run].model_dump(), "seed": seed, "rate": rate, "in": self.key}
        )
        points = () if seed == settings.pilot_seed else self.points

        def work() -> dict[str, Any] | None:
            done = train(settings, settings.runs[run], seed, rate, self.held, self.device, points)
            return asdict(done) if done else None

        held = remembered(self.cache / f"{key}.json", work)
        self.bar.update()
        return Trained(**held) if held else None

    def diverged(self, run: str, seed: int, rate: str) -> TrainingError:
        """The error of a run that has no result."""
        return TrainingError(
            f"bigram.runs.{run}, {self.objective}, seed {seed}",
            found=f"a loss that is not finite, at {rate}",
            expected="a finite loss",
            mend="lower bigram.learning_rates",
        )

    def levels(self) -> dict[str, float]:
        """The milestones as losses in nats, fixed by the corpus before any run."""
        start, floor = self.references["train_unigram"], self.references["train_bigram"]
        return {f"{x:g}": start - x * (start - floor) for x in self.settings.milestones}

    def metrics(self, trained: Trained) -> dict[str, float]:
        """What is reported of one run and seed; a milestone that is never passed is absent.

        `updates_to_X`: updates until the training loss is at milestone X or below.
        """
        losses = trained.losses
        held = {
            "initial_loss": losses[0],
            "loss": losses[-1],
            "valid_loss": trained.valid[-1][1],
            "area": area(losses),
        }
        for share, level in self.levels().items():
            passed = next((update for update, loss in enumerate(losses) if loss <= level), None)
            if passed is not None:
                held[f"updates_to_{share}"] = passed
        return held | trained.measures

    def curves(self, trained: Trained) -> Iterator[tuple[str, int, float]]:
        """(metric, update, value) at the points of a curve."""
        for update in self.points:
            yield "train_loss", update, trained.losses[update]
        for update, loss in trained.valid:
            yield "valid_loss", update, loss

    def objective_rows(self) -> Iterator[Row]:
        """What the pairs are, and what losses are held against."""
        counts = self.pairs.train
        values: Mapping[str, float] = {
            "vocabulary": len(counts),
            "train_pairs": counts.sum(),
            "valid_pairs": self.pairs.valid.sum(),
            "coverage": self.pairs.coverage,
            "repeats": counts.trace() / counts.sum(),
            "asymmetry": asymmetry(counts / counts.sum()),
            **self.references,
            **{f"level_{share}": level for share, level in self.levels().items()},
        }
        for metric, value in values.items():
            yield {"objective": self.objective, "metric": metric, "value": float(value)}


def choose(pilot: Mapping[float, Trained | None], tolerance: float) -> float | None:
    """The learning rate of a run, by the results of its pilot; None where all diverged.

    Of those whose final training loss is within `tolerance` of the lowest, the one with the lowest
    area.
    """
    finite = {rate: tried.losses for rate, tried in pilot.items() if tried is not None}
    lowest = min((losses[-1] for losses in finite.values()), default=0.0)
    near = [rate for rate, losses in finite.items() if losses[-1] <= lowest + tolerance]
    return min(near, key=lambda rate: area(finite[rate]), default=None)


def area(losses: Sequence[float]) -> float:
    """The area under a training curve, by trapezoids, over the number of updates: a mean loss."""
    return (sum(losses) - (losses[0] + losses[-1]) / 2) / (len(losses) - 1)


def curve_points(updates: int) -> list[int]:
    """Updates at which a curve is kept: the first ones, then GROWTH times apart, and the last."""
    points, at = [0], 1.0
    while at < updates:
        points.append(round(at))
        at *= GROWTH
    tail = round(0.75 * updates)
    return sorted({*points, tail, updates})
