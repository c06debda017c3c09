"""Training: our update against transformers' BertForMaskedLM, in speed and memory.

The contenders (support/contenders.py) make the same update from the same weights, which is checked
first: equal losses on the first batch, or nothing is measured.

Speed, in tokens per second: all contenders in one process, in turns of two updates, each turn in
another order; the median of the turns, after two updates to warm up.

Floating-point rate: the operations of our update (training/flops.py: matrix products alone, with
attention's) over its time, against the rate of a matrix product of 2048 x 2048 by 2048 x 2048 that
takes its turn among the contenders.

Memory: one process for each contender, since a process keeps what it has once touched. After two
updates to warm up, gradients are dropped, free pages go back to the system, and the peak of the
resident size is reset: that size counts as loaded (program, parameters and Adam's two moments for
each of them, one batch). What is counted is the peak of the resident size in the next updates less
that: gradients, activations, logits, and all that is held for a moment only. It needs Linux's
/proc/self/clear_refs; elsewhere it says "not measured".

Profile: where the time of our update goes, by kind of operation, from torch's profiler. About four
fifths are products of matrices (a quarter of all is the output table's); the rest is softmax and
loss over the logits (5%), attention (4%), biases, sums and fresh buffers in the body (4%), GELU and
layer norms (3%), the table's gradient beside its products (2%), the optimizer and the gradient's
norm (1%), autograd and Python (1%).

Run: python benchmarks/training.py [--steps N]
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import math
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from statistics import median

import torch
from torch.profiler import ProfilerActivity, profile

from support.contenders import (
    CONTENDERS,
    Batch,
    Contender,
    Shape,
    batches,
    body_settings,
    coupling_settings,
)
from support.results import record
from tiebench.runtime import prepare_runtime
from tiebench.training.flops import training_flops
from tiebench.training.settings import MaskingSettings, TrainingSettings

TURN = 2
"""Updates at a time."""
PRODUCT = 2048
"""Rows and columns of the matrices whose product is the measure of the machine."""
TOLERANCE = 1e-5
"""Largest relative difference of losses that are called equal."""
AGAINST = {
    "as shipped": "BertForMaskedLM as shipped",
    "masked only": "BertForMaskedLM with logits at masked positions only",
}


def update_flops(shape: Shape) -> float:
    """Floating-point operations of one update."""
    training = TrainingSettings(
        objective="masked", masking=MaskingSettings(probability=shape.predicted / shape.tokens),
        steps=1, batch_size=shape.batch, sequence_length=shape.sequence, sampling_exponent=1.0,
        learning_rate=1e-3, warmup_steps=0, validate_every=1, validation_windows=1,
    )  # fmt: skip
    return training_flops(coupling_settings(), body_settings(shape), shape.vocabulary, training)


def check_equal_losses(contenders: dict[str, Contender], batch: Batch) -> None:
    """Refuse to compare what computes different things."""
    losses = {name: float(x.loss(batch).detach()) for name, x in contenders.items()}
    if not all(math.isclose(x, losses["ours"], rel_tol=TOLERANCE) for x in losses.values()):
        sys.exit(f"error: the contenders have different losses on the same batch: {losses}")


def seconds_in_turns(works: dict[str, Callable[[], None]], turns: int) -> dict[str, float]:
    """Median seconds of each work; they take turns, and a different one is first each time."""
    taken: dict[str, list[float]] = defaultdict(list)
    names = list(works)
    for turn in range(turns):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            works[name]()
            taken[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in taken.items()}


def measure_speed(shape: Shape, steps: int) -> None:
    """Tokens per second of each contender, and the rate of ours as a share of the machine's."""
    data = batches(shape)
    contenders = {name: make(shape) for name, make in CONTENDERS.items()}
    check_equal_losses(contenders, next(data))

    def updates(contender: Contender) -> Callable[[], None]:
        def work() -> None:
            for batch in islice(data, TURN):
                contender.step(batch)

        return work

    left, right, out = (torch.randn(PRODUCT, PRODUCT) for _ in range(3))

    def product() -> None:
        for _ in range(TURN):
            torch.mm(left, right, out=out)

    works = {name: updates(x) for name, x in contenders.items()} | {"product": product}
    for work in works.values():
        work()
    seconds = seconds_in_turns(works, max(1, steps // TURN))
    rates = {name: TURN * shape.tokens / seconds[name] for name in contenders}
    for name, peer in AGAINST.items():
        target = "at least 3" if name == "as shipped" else "at least 1"
        said = f"training, {shape}, against {peer}"
        record(said, rates["ours"], rates[name], "tokens/s", target)
    ours = TURN * update_flops(shape) / seconds["ours"]
    machine = TURN * 2 * PRODUCT**3 / seconds["product"]
    record(
        f"training, floating-point rate of the whole update, against a product of {PRODUCT} x "
        f"{PRODUCT} matrices, threads: {torch.get_num_threads()}",
        ours / 1e9,
        machine / 1e9,
        "GFLOP/s",
        "at least 0.6",
    )
    print(profile_table(contenders["ours"], data, seconds["ours"] / TURN))


KINDS = (
    ("products in the body and the head's transform", r"aten::(mm|addmm|bmm)"),
    ("attention", r"scaled_dot_product"),
    ("GELU and layer norms", r"gelu|layer_norm"),
    ("optimizer and the gradient's norm", r"adamw|AdamW|_foreach|linalg_vector_norm"),
    ("embedding", r"embedding|aten::index"),
    ("copies, sums and new buffers in the body", r"aten::(copy|sum|add|cat|mul|fill|empty|div)"),
)
"""By name: what the rest of the operations are called."""


def kind_of(operation: str, sizes: list[list[int]], vocabulary: int) -> str:
    """The kind of an operation, by its name and the sizes of what it is given."""
    matrices = [x for x in sizes if len(x) == 2 and vocabulary in x]
    kind = next((kind for kind, pattern in KINDS if re.search(pattern, operation)), None)
    if matrices and kind == KINDS[0][0]:
        return "products with the output table"
    if matrices and operation.startswith("aten::"):
        logits = any(x[1] == vocabulary for x in matrices)
        return "softmax and loss over the logits" if logits else "sums and buffers of the table"
    return kind or "the rest (autograd and Python)"


def profile_table(contender: Contender, data: Iterator[Batch], seconds: float) -> str:
    """The share of each kind of operation in our update, and its milliseconds at this speed."""
    vocabulary = contender.model.vocabulary
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as run:
        for batch in islice(data, 2 * TURN):
            contender.step(batch)
    shares: dict[str, float] = defaultdict(float)
    for event in run.key_averages(group_by_input_shape=True):
        sizes = [x for x in event.input_shapes if isinstance(x, list)]
        shares[kind_of(event.key, sizes, vocabulary)] += event.self_cpu_time_total
    whole = sum(shares.values())
    lines = [f"Our update takes {1e3 * seconds:.0f} ms; where they go:"]
    for kind, share in sorted(shares.items(), key=lambda x: -x[1]):
        lines.append(f"  {share / whole:6.1%} {1e3 * seconds * share / whole:6.1f} ms  {kind}")
    return "\n".join(lines)


def resident(key: str) -> int:
    """VmRSS or VmHWM of this process, in bytes."""
    text = Path("/proc/self/status").read_text("ascii")
    found = re.search(rf"^{key}:\s+(\d+) kB$", text, re.M)
    assert found
    return 1024 * int(found[1])


def peak_above_loaded(contender: Contender, data: Iterator[Batch], steps: int) -> int:
    """Bytes that updates need beyond what is loaded (see above)."""
    for batch in islice(data, TURN):
        contender.step(batch)
    contender.optimizer.zero_grad()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    loaded = resident("VmRSS")
    for batch in islice(data, steps):
        contender.step(batch)
    return resident("VmHWM") - loaded


def measure_memory(steps: int) -> None:
    """Peak above the loaded model and optimizer of each contender, in a process of its own."""
    if not Path("/proc/self/clear_refs").exists():
        print("memory of training: not measured (needs Linux's /proc/self/clear_refs)")
        return
    peaks = {}
    for name in CONTENDERS:
        command = [sys.executable, __file__, "--memory", name, "--steps", str(steps)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        peaks[name] = int(said) / 2**20
    for name, peer in AGAINST.items():
        target = "at most 0.5" if name == "as shipped" else None
        said = f"training, peak memory above the loaded model and optimizer, against {peer}"
        record(said, peaks["ours"], peaks[name], "MiB", target)


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="updates measured of each contender")
    parser.add_argument("--memory", choices=CONTENDERS, help="print the peak of one, in bytes")
    arguments = parser.parse_args()
    prepare_runtime()
    shape = Shape()
    if arguments.memory is not None:
        contender = CONTENDERS[arguments.memory](shape)
        print(peak_above_loaded(contender, batches(shape), min(arguments.steps, 5)))
        return
    measure_speed(shape, arguments.steps)
    measure_memory(arguments.steps)


if __name__ == "__main__":
    main()
