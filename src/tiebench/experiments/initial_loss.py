"""The loss before the first update, of every coupling at many widths and vocabularies.

No text: inputs are tokens drawn at random, and each target is another token than its input, as Su
2023 assumes. How often a text's token repeats the one before is a metric of each corpus.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tiebench import paths
from tiebench.analysis.tables import write_table
from tiebench.experiments.initial_loss_settings import (
    DISTRIBUTIONS,
    METRICS,
    RAW,
    InitialLossSettings,
)
from tiebench.files import holding, replacing_folder
from tiebench.progress import progress

if TYPE_CHECKING:
    from torch import Tensor

    from tiebench.model.lm import LanguageModel
    from tiebench.settings import Params

Row = dict[str, Any]


def run(params: Params) -> None:
    """Write evals/<name>/initial_loss/{losses,moments}.csv, both or none.

    Raises:
        BusyError: another process measures for the same report.
        WriteError: no room, or no permission.
    """
    settings = params.initial_loss
    assert settings is not None, "the stage is part of the pipeline with its settings only"
    folder = paths.evaluation_folder(params.name, "initial_loss")
    lock = paths.SCRATCH / f"initial_loss-{params.name}.lock"
    with holding(lock, f"initial losses of {params.name}"), replacing_folder(folder) as partial:
        write_table(partial / "losses.csv", RAW["losses"], list(loss_rows(settings)))
        write_table(partial / "moments.csv", RAW["moments"], list(moment_rows(settings)))


def loss_rows(settings: InitialLossSettings) -> Iterator[Row]:
    """The METRICS of each model and seed."""
    import torch

    from tiebench.model.lm import LanguageModel
    from tiebench.runtime import prepare_runtime

    device = prepare_runtime()
    held = settings.points()
    with progress(total=len(held) * len(settings.seeds), desc="initial loss", unit="model") as bar:
        for point in held:
            for seed in settings.seeds:
                coupling = settings.runs[point.run].coupling
                with torch.device("meta"):  # every parameter is drawn below
                    model = LanguageModel(coupling, point.body, point.vocabulary)
                model.to_empty(device="cpu").initialize(seed).to(device)
                sequences = settings.deep.sequences if point.branch else settings.sequences
                shape = sequences, settings.sequence_length
                ids, targets = (x.to(device) for x in draw_tokens(seed, point.vocabulary, shape))
                at = {
                    "run": point.run, "body": point.body.option, "branch": point.branch,
                    "layers": point.body.layers, "vocabulary": point.vocabulary,
                    "width": point.body.width, "seed": seed,
                }  # fmt: skip
                for metric, value in zip(METRICS, measure(model, ids, targets), strict=True):
                    yield {**at, "metric": metric, "value": value}
                bar.update()


def draw_tokens(seed: int, vocabulary: int, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Inputs of `shape` and as many targets `[n]`, none of them its own input."""
    import numpy as np
    import torch

    rng = np.random.default_rng([seed, vocabulary])
    ids = rng.integers(vocabulary, size=shape)
    others = rng.integers(1, vocabulary, size=ids.size)
    return torch.from_numpy(ids), torch.from_numpy((ids.reshape(-1) + others) % vocabulary)


def measure(model: LanguageModel, ids: Tensor, targets: Tensor) -> tuple[float, float]:
    """Mean loss in nats, and mean logit of the token that is the input."""
    import torch

    from tiebench.model.loss import cross_entropy_outcomes

    with torch.no_grad():
        where = torch.arange(ids.numel(), device=ids.device)
        states = model.predicting_states(ids, where)
        table = model.coupling.output_matrix()
        loss, _ = cross_entropy_outcomes(states, table, model.coupling.bias, targets)
        own = (states.double() * table[ids.flatten()].double()).sum(dim=1)
    return float(loss.double().mean()), float(own.mean())


def moment_rows(settings: InitialLossSettings) -> Iterator[Row]:
    """Sample mean and variance of |w|^2 and w.v for rows with standard deviation 1/sqrt(d)."""
    import torch

    from tiebench.model.lm import draw
    from tiebench.model.tensors import generator_of

    for distribution in DISTRIBUTIONS:
        for width in settings.moment_widths:
            for seed in settings.seeds:
                shape = torch.Size((2 * settings.moments, width))
                generator = generator_of(seed, "moments", distribution)
                drawn = draw(shape, width**-0.5, distribution, generator).double()
                first, second = drawn.chunk(2)
                products = (first * second).sum(dim=1)
                values = {"squared_norm": drawn.square().sum(dim=1), "product": products}
                for quantity, held in values.items():
                    for metric, value in (("mean", held.mean()), ("variance", held.var())):
                        yield {
                            "distribution": distribution, "width": width, "seed": seed,
                            "quantity": quantity, "metric": metric, "value": float(value),
                        }  # fmt: skip
