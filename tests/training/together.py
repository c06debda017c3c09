"""What two processes do, for test_parallel.py: `python together.py`, in the folder of a corpus.

Each check writes what it found as `<check>-<rank>.json`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from tests.couplings import COUPLINGS, composed_coupling
from tests.training.cells import make_params, steps_of, stop_before
from tiebench.errors import TiebenchError
from tiebench.model.lm import TABLES, LanguageModel
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.training import parallel
from tiebench.training import pretrain as module
from tiebench.training.batches import Batch
from tiebench.training.optimizer import make_optimizer
from tiebench.training.pretrain import Loop, pretrain
from tiebench.training.workers import is_worker

RANK = os.environ.get("RANK")
STOPPED_AT = 12


def write(check: str, value: object) -> None:
    Path(f"{check}-{RANK}.json").write_text(json.dumps(value))


def gradients(model: LanguageModel, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of the mean loss of predicting each token from its own place."""
    model.zero_grad()
    cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}


def wrapped() -> None:
    """torch's own data-parallel wrapper: a tied table is one parameter with both uses."""
    body = make_params().encoders.body
    write("wrapped", {x.stem: wrapped_update(composed_coupling(x), body) for x in COUPLINGS})


def wrapped_update(coupling: CouplingSettings, body: BodySettings) -> dict[str, object]:
    """One update of a model in that wrapper, and its gradients against those of two tables."""
    model = LanguageModel(coupling, body, 300).initialize(0)
    loose = LanguageModel(coupling.model_copy(update={"tied": False}), body, 300)
    tensors = {name: p.detach().clone() for name, p in model.named_parameters()}
    tensors.setdefault("coupling.untied_output_table", tensors["coupling.input_table"].clone())
    loose.load_state_dict(tensors)
    ids = torch.arange(4, 36).reshape(4, 8)  # two windows of equal length for each
    expected = gradients(loose, ids)
    if coupling.tied:
        expected["coupling.input_table"] += expected.pop("coupling.untied_output_table")

    group = DistributedDataParallel(model)
    share = ids[2 * int(RANK) : 2 * int(RANK) + 2]
    optimizer = torch.optim.AdamW(group.parameters(), lr=1e-3)
    cross_entropy(group(share).flatten(0, 1), share.flatten()).backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    optimizer.step()
    return {
        "names": found.keys() == expected.keys(),
        "difference": max(
            float((found[x] - expected[x]).abs().max() / expected[x].abs().max().clamp(min=1e-6))
            for x in expected
        ),
        "states": len(optimizer.state),
        "trained": len([p for p in group.parameters() if p.requires_grad]),
        "tables": len({p.data_ptr() for name, p in model.named_parameters() if name in TABLES}),
        "tied": model.coupling.output_table is model.coupling.input_table,
    }


def resumed() -> None:
    """Goes on from the checkpoint of a single process."""
    with pytest.MonkeyPatch.context() as patch:
        steps = steps_of(patch)
        pretrain(make_params(), "encoders", "tied", 0)
    write("resumed", steps)


def stopped() -> None:
    """Leaves the checkpoint of two processes to a single one."""
    with pytest.MonkeyPatch.context() as patch:
        stop_before(patch, STOPPED_AT, "wide")
    write("stopped", True)


def broken() -> None:
    """A loss that is not finite in the share of one process."""
    share = parallel.Team.share
    seen = []

    def poisoned(self: parallel.Team, batch: object) -> object:
        seen.append(batch)
        if len(seen) == 8 and self.rank == 1:
            loop_models[-1].coupling.input_table.data.fill_(float("inf"))
        return share(self, batch)

    loop_models, make = [], Loop.__init__

    def noting(self: Loop, model: LanguageModel, *arguments: object) -> None:
        loop_models.append(model)
        make(self, model, *arguments)

    parallel.Team.share, Loop.__init__ = poisoned, noting
    try:
        pretrain(make_params(), "encoders", "tied", 1)
    except TiebenchError as error:
        write("broken", str(error))
    parallel.Team.share, Loop.__init__ = share, make


ADDED = {
    "tie_penalty": 0.5,
    "projection_penalty": 0.5,
    "augmented": {"weight": 0.5, "temperature": 2.0},
}
"""What adds to the loss."""
UNTYING = {"untie_after": 0.4, "input_gradient_scale": 2.0}


def idle() -> None:
    """An update in which the second share is separators only, which are never predicted."""
    ids = np.stack([np.arange(4, 20), np.full(16, 3)])
    compare_update("idle", Batch(ids, np.arange(1, 9), ids[0, 1:9] + 20))


def added() -> None:
    """An update with penalties, and uneven shares of the predictions."""
    ids = np.arange(4, 36).reshape(2, 16)
    batch = Batch(ids, np.arange(4, 20), ids.flatten()[4:20] + 20)
    frozen = {"kind": "linear", "bias": False, "initialization": "orthogonal", "trained": False}
    transform = [{"kind": "linear"}, {"kind": "tanh"}, frozen]
    coupling = CouplingSettings(option="t", tied=False, transform=transform)
    compare_update("added", batch, coupling, **ADDED)


def compare_update(
    check: str, batch: Batch, coupling: CouplingSettings | None = None, **training: object
) -> None:
    """The gradients and the loss of an update, in two processes and in one."""
    family = make_params(batch_size=2, **training).encoders
    coupling = coupling or family.runs["wide"].coupling
    team = parallel.here()
    found = {}
    for name, held in (("team", team), ("alone", parallel.Team())):
        model = LanguageModel(coupling, family.body, 300).initialize(0)
        loop = Loop(model, family.training, {}, held)
        loop.optimizer = make_optimizer(model, family.training)
        loop._update(batch, check)
        gradients = {x: p.grad for x, p in model.named_parameters() if p.requires_grad}
        found[name] = {"loss": torch.tensor(loop.pending), **gradients}
    pairs = [(found["team"][x], found["alone"][x]) for x in found["alone"]]
    write(
        check,
        {
            "predictions": len(team.share(batch).targets),
            "largest": max(float(b.abs().max()) for _, b in pairs),
            "difference": max(float((a - b).abs().max()) for a, b in pairs),
        },
    )


def untying() -> None:
    """One table becomes two on the way."""
    pretrain(make_params(**UNTYING), "encoders", "tied", 2)
    write("untying", True)


def disagreeing() -> None:
    team = parallel.here()
    try:
        team.agree("cell", 5 + team.rank)
    except TiebenchError as error:
        write("disagreeing", str(error))


def main() -> None:
    if not is_worker():
        parallel.launch(2, sys.argv)
        return
    with parallel.connected(parallel.here()):  # once: torch does not connect twice this way
        module.connected = lambda team: nullcontext()
        for check in (resumed, stopped, broken, wrapped, idle, added, untying, disagreeing):
            check()


if __name__ == "__main__":
    main()
