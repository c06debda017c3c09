"""A language model: embedding, body and head put together, initialized, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from tiebench.errors import DataError
from tiebench.files import read_json, write_json
from tiebench.model.body import Body
from tiebench.model.coupling import Coupling
from tiebench.model.initialization import TABLES as TABLES
from tiebench.model.initialization import draw as draw
from tiebench.model.initialization import initial
from tiebench.model.joint import check_joint
from tiebench.model.loss import cross_entropy_outcomes, summed_cross_entropy
from tiebench.model.recurrent import Dropout, Recurrent, State
from tiebench.model.settings import BodySettings, CouplingSettings
from tiebench.model.tensors import save_tensors
from tiebench.schema import Settings, validate

FORMAT = 1
"""Version of config.json."""


class ModelSettings(Settings):
    """What config.json holds beside the vocabulary's size."""

    coupling: CouplingSettings
    body: BodySettings


class LanguageModel(nn.Module):
    """`embed -> body -> head`.

    Args:
        coupling: both ends.
        body: what stands between them.
        vocabulary: rows of the tables.

    Raises:
        SettingsError: coupling and body do not suit each other (`check_joint`).
    """

    def __init__(self, coupling: CouplingSettings, body: BodySettings, vocabulary: int) -> None:
        super().__init__()
        check_joint(coupling, body)
        self.settings = ModelSettings(coupling=coupling, body=body)
        self.vocabulary = vocabulary
        self.coupling = Coupling(coupling, vocabulary, body.width)
        self.body: Body | Recurrent = (
            Recurrent(body) if body.kind == "lstm" else Body(body, coupling.widths(body.width)[0])
        )

    def states(self, ids: Tensor, attended: Tensor | None = None) -> list[Tensor]:
        """States of every layer, layers + 1 tensors `[batch, seq, hidden]` (see `Body.forward`).

        Args:
            ids: `[batch, seq]`.
            attended: `[batch, seq]`, True at real tokens; None when there is no padding.
        """
        return self.body(self.coupling.lookup(ids), attended, self.coupling.input_map)

    def advance(
        self, ids: Tensor, state: State | None = None, dropout: Dropout | None = None
    ) -> tuple[Tensor, State]:
        """What the output matrix is applied to in a chunk of text, by a recurrent body.

        Args:
            ids: `[seq, batch]`: the steps come first.
            state: what the chunk before left; None at the beginning of a text.
            dropout: of this chunk; None in evaluation.

        Returns:
            `[seq * batch, output_width]`, step by step, and the state after the last step.
        """
        assert isinstance(self.body, Recurrent), "other bodies carry no state"
        values = self.coupling.input_map(self.coupling.lookup(ids))
        states, state = self.body.advance(values, state, dropout)
        return self.coupling.head_states(states[-1].flatten(0, 1)), state

    def forward(self, ids: Tensor, attended: Tensor | None = None) -> Tensor:
        """Logits at every position, `[batch, seq, vocabulary]`."""
        return self.coupling.logits(self.states(ids, attended)[-1])

    def summed_loss(self, ids: Tensor, where: Tensor, targets: Tensor) -> Tensor:
        """Sum of the losses in nats at chosen positions.

        Args:
            ids: `[batch, seq]`.
            where: `[n]`, positions in the flattened `[batch * seq]`.
            targets: `[n]` ids.
        """
        return self.loss_of(self.predicting_states(ids, where), targets)

    def loss_of(self, states: Tensor, targets: Tensor) -> Tensor:
        """Sum of the losses in nats of `[n, output_width]` states for `[n]` targets."""
        table, bias = self.coupling.output_matrix(), self.coupling.bias
        return summed_cross_entropy(states, table, bias, targets)

    @torch.no_grad()
    def loss_beside(self, states: Tensor, targets: Tensor) -> Tensor:
        """`loss_of` where nothing descends it: without the work of its gradients."""
        table, bias = self.coupling.output_matrix(), self.coupling.bias
        return cross_entropy_outcomes(states, table, bias, targets)[0].sum()

    @torch.no_grad()
    def outcomes(self, ids: Tensor, where: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Loss in nats and correctness of each prediction, `[n]` both; arguments as above."""
        table, bias = self.coupling.output_matrix(), self.coupling.bias
        return cross_entropy_outcomes(self.predicting_states(ids, where), table, bias, targets)

    def predicting_states(self, ids: Tensor, where: Tensor) -> Tensor:
        """What the output matrix is applied to at chosen positions, `[n, output_width]`."""
        last = self.states(ids)[-1]
        return self.coupling.head_states(last.flatten(0, 1)[where])

    def untie(self) -> None:
        """Give the output side a table of its own with the values of the shared one."""
        self.coupling.untie()
        untied = self.settings.coupling.model_copy(update={"tied": False})
        self.settings = self.settings.model_copy(update={"coupling": untied})

    @torch.no_grad()
    def initialize(self, seed: int) -> LanguageModel:
        """Give every parameter its initial value (`tiebench.model.initialization`)."""
        coupling, body = self.settings.coupling, self.settings.body
        for name, parameter in self.named_parameters():
            parameter.copy_(initial(name, parameter.shape, coupling, body, seed))
        if coupling.shared_initialization:
            self.coupling.untied_output_table.copy_(self.coupling.input_table)
        return self

    def parameter_counts(self) -> dict[str, int]:
        """Unique parameters by part; `fine_tuning` leaves out what only the head needs.

        RemBERT counts fine-tuning so: the output table and the head are dropped after
        pretraining (Chung et al. 2021, section 3), a tied table stays as the input's.
        """
        parts = dict.fromkeys(
            ("input_table", "output_table", "maps", "head", "positions", "body"), 0
        )
        for name, parameter in self.named_parameters():
            parts[_part_of(name)] += parameter.numel()
        total = sum(parts.values())
        dropped = parts["output_table"] + parts["head"]
        return {"pretraining": total, "fine_tuning": total - dropped, **parts}


def _part_of(name: str) -> str:
    if name == "body.position_table":
        return "positions"
    if name.startswith("body."):
        return "body"
    if name.startswith(("coupling.input_map", "coupling.input_operations")):
        return "maps"
    return {
        "coupling.input_table": "input_table",
        "coupling.untied_output_table": "output_table",
    }.get(name, "head")


def save_model(model: LanguageModel, folder: Path) -> None:
    """Write config.json and model.safetensors; each whole or not at all, the tensors first."""
    tensors = {name: p.detach().contiguous().cpu() for name, p in model.named_parameters()}
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    config = {"model_type": "tiebench", "format": FORMAT, "vocabulary": model.vocabulary}
    write_json(folder / "config.json", {**config, **model.settings.model_dump()})


def read_config(folder: Path) -> tuple[ModelSettings, int]:
    """The settings of the model in a folder, and its vocabulary.

    Raises:
        DataError: missing or damaged.
    """
    config = read_json(folder / "config.json", mend=_again(folder))
    known = {"model_type", "format", "vocabulary", "coupling", "body"}
    if set(config) != known or config["format"] != FORMAT:
        raise DataError(
            folder / "config.json",
            found=f"keys {sorted(config)}, format {config.get('format')}",
            expected=f"keys {sorted(known)}, format {FORMAT}",
            mend=_again(folder),
        )
    vocabulary = config["vocabulary"]
    if type(vocabulary) is not int or vocabulary < 1:
        raise DataError(
            f"{folder / 'config.json'}: vocabulary",
            found=repr(vocabulary),
            expected="a whole number above 0",
            mend=_again(folder),
        )
    parts = {name: config[name] for name in ("coupling", "body")}
    return validate(ModelSettings, parts, str(folder / "config.json")), vocabulary


def _again(folder: Path) -> str:
    return f"delete {folder} and make it again (`dvc repro`, or `tiebench import`)"


def load_model(folder: Path) -> LanguageModel:
    """Read a model folder.

    Raises:
        DataError: a file is missing or damaged, or the tensors are not those of the config.
    """
    settings, vocabulary = read_config(folder)
    with torch.device("meta"):
        model = LanguageModel(settings.coupling, settings.body, vocabulary)
    path = folder / "model.safetensors"
    wanted = {name: list(p.shape) for name, p in model.named_parameters()}
    try:
        with safe_open(path, framework="pt") as file:
            held = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(
            path, found=str(error), expected="a whole safetensors file", mend=_again(folder)
        ) from None
    if held != wanted:
        differing = sorted(k for k in held.keys() | wanted.keys() if held.get(k) != wanted.get(k))
        name = differing[0]
        raise DataError(
            f"{path}: {name}",
            found=f"shape {held[name]}" if name in held else "no such tensor",
            expected=f"shape {wanted[name]} as in config.json"
            if name in wanted
            else "no such tensor",
            mend=_again(folder),
        )
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float32:
            raise DataError(
                f"{path}: {name}",
                found=f"type {tensor.dtype}",
                expected=f"type {torch.float32}",
                mend=_again(folder),
            )
    model.load_state_dict(tensors, assign=True)
    return model
