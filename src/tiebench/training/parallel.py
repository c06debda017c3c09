"""Several processes that train one model: each takes its share of the windows of every batch.

The batch is the one that a single process would take, and the loss its sum over all predictions
divided by their number, so that the number of processes changes the rounding and nothing else.
Weights and moments are held by each process and stay equal, since all make the same update.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tiebench.errors import LostError, SettingsError, TrainingError
from tiebench.runtime import prepare_runtime, wanted_processes
from tiebench.training.batches import Batch
from tiebench.training.workers import LAUNCHER, LOST, is_worker

CPU = torch.device("cpu")
PATIENCE = timedelta(days=1)
"""How long a process waits for the others: the first one validates while they wait."""
END_SECONDS = 10
"""How long a worker has to end when it is told to."""
NO_ANSWER = re.compile(r"connect|broken pipe|timed? ?out|ncclRemoteError|ncclSystemError", re.I)
"""In what gloo and NCCL say of a process that does not answer, and of no defect of this one."""
NO_MEMORY = re.compile("out of memory", re.I)


@dataclass(frozen=True)
class Team:
    """This process among those that train one model; alone by default.

    Attributes:
        rank: its number, from 0.
        size: how many they are.
        local: its number among those of its machine.
        beside: how many of them are on its machine.
        device: where it computes.
    """

    rank: int = 0
    size: int = 1
    local: int = 0
    beside: int = 1
    device: torch.device = CPU

    @property
    def is_first(self) -> bool:
        """The one that validates and writes."""
        return self.rank == 0

    def share(self, batch: Batch) -> Batch:
        """The windows of a batch that are this process' own, with what is predicted in them."""
        if self.size == 1:
            return batch
        rows, seq = batch.ids.shape
        start, end = (rows * x // self.size for x in (self.rank, self.rank + 1))
        inside = (batch.where >= start * seq) & (batch.where < end * seq)
        where = batch.where[inside] - start * seq
        return Batch(batch.ids[start:end], where, batch.targets[inside])

    def sum_gradients(self, model: nn.Module, loss: Tensor) -> Tensor:
        """Give every process the sum of all gradients, and return that of all losses.

        One exchange, of all gradients and the loss side by side.

        Args:
            model: gradients are those of its own share's loss.
            loss: a number, the share's.

        Raises:
            LostError: another process has ended.
        """
        if self.size == 1:
            return loss
        parameters = [p for p in model.parameters() if p.requires_grad]
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([*(part.reshape(-1) for part in parts), loss.detach().reshape(1)])
        _exchange(flat, dist.ReduceOp.SUM)
        sizes = [p.numel() for p in parameters]
        for parameter, part in zip(parameters, flat[:-1].split(sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        return flat[-1]

    def agree(self, cell: str, value: int) -> None:
        """Check that all processes hold the same number (an update, a digest), and wait for all.

        Raises:
            TrainingError: they do not.
            LostError: another process has ended.
        """
        if self.size == 1:
            return
        bounds = torch.tensor([value, -value], dtype=torch.int64, device=self.device)
        _exchange(bounds, dist.ReduceOp.MAX)
        if int(bounds[0]) != -int(bounds[1]):
            raise TrainingError(
                cell,
                found=f"other settings, data or checkpoints in another of {self.size} processes",
                expected="the same in all",
                mend="start all in one folder, on one file system",
            )


ALONE = Team()
"""One process, on the CPU."""


def here() -> Team:
    """The place of this process, as the launcher tells it, with threads and device set.

    Raises:
        SettingsError: as `prepare_runtime`.
    """
    if not is_worker():
        return Team(device=prepare_runtime())
    rank, size, local, beside = (
        int(os.environ[x]) for x in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    )
    return Team(rank, size, local, beside, prepare_runtime(local, beside))


@contextmanager
def connected(team: Team) -> Iterator[None]:
    """Connect a process with the others, if there are any.

    Raises:
        TrainingError: they do not reach each other.
    """
    if team.size == 1:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # its launcher stops it; no traceback of each
    backend = "nccl" if team.device.type == "cuda" else "gloo"
    try:
        dist.init_process_group(
            backend,
            timeout=PATIENCE,
            device_id=team.device if backend == "nccl" else None,
        )
    except RuntimeError as error:
        if NO_MEMORY.search(str(error)):
            raise
        raise TrainingError(
            f"{team.size} processes of one training",
            found=f"no connection ({_first_line(error)})",
            expected="all to reach each other",
            mend="unset GLOO_SOCKET_IFNAME and NCCL_*, or train in one (TIEBENCH_PROCESSES=1)",
        ) from None
    yield
    dist.destroy_process_group()


def _exchange(tensor: Tensor, how: dist.ReduceOp.RedOpType) -> None:
    with _lost():
        dist.all_reduce(tensor, how)


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if NO_MEMORY.search(str(error)) or not NO_ANSWER.search(str(error)):
            raise
        raise LostError(
            "another process of the same training",
            found=f"no answer ({_first_line(error)})",
            expected="all to work to the end",
            mend="see what it said before; started again, the training goes on from its checkpoint",
        ) from None


def _first_line(error: RuntimeError) -> str:
    return str(error).partition("\n")[0]


def processes_to_start() -> int:
    """How many processes this one should start: 1 (none) where a launcher has started them.

    Raises:
        SettingsError: the environment names no number or another than the launcher, or accelerate
            does not tell it.
    """
    wanted, launched = wanted_processes(), _launched()
    if wanted is not None and launched is not None and wanted != launched:
        raise SettingsError(
            "TIEBENCH_PROCESSES",
            found=f"{wanted}, beside a launcher of {launched}",
            expected="one number of processes",
            mend="unset TIEBENCH_PROCESSES, or start without a launcher",
        )
    return 1 if is_worker() else wanted or launched or 1


def _launched() -> int | None:
    """How many processes a launcher has started or was told to start; None without one."""
    if is_worker():
        return int(os.environ["WORLD_SIZE"])
    if "ACCELERATE_MIXED_PRECISION" not in os.environ:
        return None
    # Without several GPUs, `accelerate launch --num_processes 2` starts one process, tells it where
    # the others would meet, and leaves starting them to it.
    import psutil

    words = " ".join(psutil.Process(os.getppid()).cmdline())
    asked = re.search(r"--num[-_]processes[ =](\d+)", words)
    if asked is None:
        if "MASTER_PORT" not in os.environ:
            return None
        raise SettingsError(
            "accelerate launch",
            found="one process, of several that it was told to start without naming the number",
            expected="the number of processes",
            mend="accelerate launch --num_processes 2 ..., or TIEBENCH_PROCESSES=2 without it",
        )
    return int(asked[1])


def launch(size: int, command: Sequence[str]) -> None:
    """Run a Python script in `size` processes of this machine, with torch's elastic launcher.

    What they print comes through. The first that fails ends all, and this process with status 1;
    a signal that ends this process ends them first.

    Args:
        command: the script and its arguments.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable(logging.CRITICAL)  # a worker says in a line what the launcher would in fifty
    os.environ[LAUNCHER] = str(os.getpid())
    if sys.platform in ("linux", "darwin"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=size,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
        run_id=f"tiebench-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        local_addr="127.0.0.1",
        max_restarts=0,
        shutdown_timeout=END_SECONDS,
    )
    try:
        elastic_launch(config, sys.executable)(*command)
    except SignalException as error:
        signal.signal(error.sigval, signal.SIG_DFL)
        os.kill(os.getpid(), error.sigval)
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        spoken = [code for code in codes.values() if code > 0 and code != LOST]
        if spoken:
            sys.exit(spoken[0])
        raise _cause(codes, size) from None


def _cause(codes: Mapping[int, int], size: int) -> LostError:
    """Which of `size` processes has ended, when none said why.

    Args:
        codes: by rank, in the order of their ends, the status of each that failed, or minus the
            signal that ended it. The launcher ends the rest by SIGTERM when one is gone.
    """
    again = "started again, the training goes on from its checkpoint"
    killed = {rank: -code for rank, code in codes.items() if code not in (LOST, -signal.SIGTERM)}
    if not killed:
        return LostError(
            f"{size} processes of one training",
            found="that each lost the others, or that SIGTERM ended one",
            expected="all to work to the end",
            mend=again,
        )
    rank, number = next(iter(killed.items()))
    return LostError(
        f"process {rank} of {size}",
        found=f"it ended by {signal.Signals(number).name}",
        expected="all to work to the end",
        mend=f"free memory if the system ended it; {again}",
    )
