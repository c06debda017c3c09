"""Which runs answer how near the two tables come under the augmented loss (Inan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from tiebench.errors import SettingsError
from tiebench.training.recurrent_settings import RecurrentFamilySettings


@dataclass(frozen=True)
class Mixture:
    """What a run minimizes.

    Attributes:
        share: of the augmented loss, beta in the paper.
        temperature: None without an augmented loss.
    """

    share: float
    temperature: float | None


def subspace_runs(group: RecurrentFamilySettings) -> dict[str, Mixture]:
    """The runs that give the augmented loss a share, and those without it beside them, by name.

    Only trained runs with two tables, of which neither is the other by construction.

    Raises:
        SettingsError: shares, and no run without the augmented loss that differs in it alone.
    """
    held = [run for run, x in group.all_runs.items() if x.trained and not x.coupling.tied]
    mixed, plain = {}, {}
    for run in held:
        soft = group.training_of(run).augmented
        if soft is None:
            plain[run] = _rest(group, run)
        elif soft.share is not None:
            mixed[run] = Mixture(soft.share, soft.temperature)
    found: dict[str, Mixture] = {}
    for run in mixed:
        rest = _rest(group, run)
        beside = [name for name, other in plain.items() if other == rest]
        if not beside:
            raise SettingsError(
                f"runs.{run}.training.augmented.share",
                found=f"{mixed[run].share:g}, and no run without it",
                expected="a run of the same coupling, body and training without the augmented "
                "loss: the end of the curve where the share is 0",
                mend="add one to the study in conf/ and run `tiebench params`",
            )
        found |= dict.fromkeys(beside, Mixture(0.0, None)) | {run: mixed[run]}
    return {run: found[run] for run in held if run in found}


def _rest(group: RecurrentFamilySettings, run: str) -> tuple[object, ...]:
    """All that a run is but for its augmented loss and its rates."""
    free = {"augmented", "learning_rate", "constant_epochs", "decay", "clip"}
    training = group.training_of(run).model_dump(exclude=free)
    coupling = group.all_runs[run].coupling.model_dump(exclude={"option"})
    return coupling, group.body_of(run).model_dump(exclude={"option"}), training
