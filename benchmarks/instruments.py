"""Training with the gradient instruments against the same training without them.

Model, batches and instruments are those of the tied decoder of `small`; the text is made up. Both
trainings stand in one process and take turns, each turn as many updates as there are from one
measurement to the next; a different one is first each time, and the median of the turns counts.

The large batch is timed alone, and set against the updates of a quarter of the training, after
which it is measured again.

Run: python benchmarks/instruments.py [--turns N]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from support.results import record
from tiebench.composition import compose, parse
from tiebench.model.lm import LanguageModel
from tiebench.runtime import prepare_runtime
from tiebench.schema import validate
from tiebench.settings import Params
from tiebench.training.batches import Schedule
from tiebench.training.instruments import QUARTERS, Instruments, side_gradients
from tiebench.training.loop import Loop
from tiebench.training.optimizer import make_optimizer
from tiebench.training.settings import InstrumentSettings, TrainingSettings

CONF = Path(__file__).parents[1] / "conf"
EVERY = 10
"""Updates from one measurement to the next."""
TOKENS = 200_000
"""Of the made-up text."""


def decoder(steps: int) -> tuple[LanguageModel, TrainingSettings]:
    """The tied decoder of `small`, and its training for so many updates without instruments."""
    params = validate(Params, parse(compose(["size=small"], CONF)[0]))
    group = params.decoders
    tokenizer = None if group is None else params.corpora[group.corpus].tokenizer
    assert group is not None and tokenizer is not None, "conf/ has decoders"
    run = group.baseline
    model = LanguageModel(group.runs[run].coupling, group.body_of(run), tokenizer.vocabulary)
    changed = {"steps": steps, "warmup_steps": 1, "validate_every": steps, "instruments": None}
    return model.initialize(0), group.training_of(run).model_copy(update=changed)


def made_up(vocabulary: int) -> dict[str, np.ndarray]:
    """Ids with the frequencies of Zipf's law."""
    shares = 1 / np.arange(1, vocabulary - 3)
    drawn = np.random.default_rng(0).choice(vocabulary - 4, TOKENS, p=shares / shares.sum())
    return {"xx": (4 + drawn).astype(np.int64)}


def started(turns: int, instruments: InstrumentSettings | None) -> tuple[Loop, Schedule]:
    """A training before its first update, long enough for a turn to warm up and `turns` more."""
    model, training = decoder((turns + 1) * EVERY + 1)  # the last update validates
    training = training.model_copy(update={"instruments": instruments})
    schedule = Schedule(made_up(model.vocabulary), training, model.vocabulary, 0)
    loop = Loop(model, training, {})
    loop.optimizer = make_optimizer(model, training)
    if instruments is not None:
        loop.instruments = Instruments(model, training, schedule)
        loop.record["instruments"] = []
    return loop, schedule


def turn_of(loop: Loop, schedule: Schedule) -> Callable[[], None]:
    """The updates of one turn."""

    def work() -> None:
        for _ in range(EVERY):
            loop._update(schedule.batch(loop.steps_done), "benchmark")

    return work


def seconds_of(work: Callable[[], object]) -> float:
    """How long a work takes once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(turns: int) -> None:
    """Milliseconds of an update with and without measurements, and of a large batch."""
    trainings = {
        name: started(turns, held)
        for name, held in (("off", None), ("on", InstrumentSettings(every=EVERY)))
    }
    works = {name: turn_of(*held) for name, held in trainings.items()}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name in list(works) if turn % 2 else list(works)[::-1]:
            taken[name].append(seconds_of(works[name]))
    update = {name: 1e3 * median(values[1:]) / EVERY for name, values in taken.items()}
    loop, schedule = trainings["off"]
    shape = f"{loop.training.batch_size} x {loop.training.sequence_length} tokens"
    record(
        f"an update of the tied decoder of `small`, {loop.model.vocabulary} entries, {shape}, with "
        f"gradients measured every {EVERY}, against one without",
        update["on"],
        update["off"],
        "ms",
        "at most 1.1",
    )
    count = len(taken["on"])
    assert len({row["step"] for row in trainings["on"][0].record["instruments"]}) == count
    params = validate(Params, parse(compose(["size=small"], CONF)[0]))
    assert params.decoders is not None and params.decoders.training.instruments is not None
    batches = params.decoders.training.instruments.large_batches
    large = [schedule.batch(index) for index in range(batches)]
    seconds = median(seconds_of(lambda: side_gradients(loop.model, large)) for _ in range(3))
    quarter = params.decoders.training.steps // QUARTERS
    record(
        f"gradients of a large batch ({batches} of these), against the {quarter} updates from one "
        "to the next",
        1e3 * seconds,
        quarter * update["off"],
        "ms",
        None,
    )


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=10, help="turns of either training")
    arguments = parser.parse_args()
    prepare_runtime()
    measure(arguments.turns)


if __name__ == "__main__":
    main()
