"""Settings of a model: the body, and the runs that put a coupling on it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tiebench.errors import SettingsError
from tiebench.model.coupling_settings import Activation as Activation
from tiebench.model.coupling_settings import ChannelShuffle as ChannelShuffle
from tiebench.model.coupling_settings import CouplingSettings as CouplingSettings
from tiebench.model.coupling_settings import HalfSwap as HalfSwap
from tiebench.model.coupling_settings import Linear as Linear
from tiebench.model.coupling_settings import LowRankAddition as LowRankAddition
from tiebench.model.coupling_settings import LowRankMultiplication as LowRankMultiplication
from tiebench.model.coupling_settings import Norm as Norm
from tiebench.model.coupling_settings import Operation as Operation
from tiebench.model.coupling_settings import Shift as Shift
from tiebench.model.coupling_settings import TableOperation as TableOperation
from tiebench.model.coupling_settings import UnitRows as UnitRows
from tiebench.model.coupling_settings import transform_width as transform_width
from tiebench.schema import Settings

Positive = Annotated[int, Field(gt=0, le=1_000_000)]


class RotaryScaling(Settings):
    """Slower rotation at long wavelengths, for longer texts than trained on (Llama 3.1)."""

    factor: Annotated[float, Field(gt=1)]
    """What the longest wavelengths are multiplied by."""
    low_frequency_factor: Annotated[float, Field(gt=0)]
    """Wavelengths above original_length over this are multiplied by `factor`."""
    high_frequency_factor: Annotated[float, Field(gt=0)]
    """Wavelengths below original_length over this stay; between the two it is interpolated."""
    original_length: Positive
    """Longest sequence before the extension."""

    @model_validator(mode="after")
    def _check(self) -> RotaryScaling:
        if self.high_frequency_factor <= self.low_frequency_factor:
            raise ValueError("high_frequency_factor above low_frequency_factor")
        return self


class BodySettings(Settings):
    """A Transformer body, an LSTM, or `identity` (the embedding goes straight to the last norm)."""

    option: str
    """Name of the file in conf/body/ that this came from."""
    kind: Literal["transformer", "lstm", "identity"] = "transformer"
    width: Positive
    """Width of the residual stream, or of the LSTM's state."""
    layers: Annotated[int, Field(ge=0)] = 0
    """Blocks, or LSTMs on top of each other; refused by the identity. A Transformer needs heads and
    feedforward_width too."""
    heads: Annotated[int, Field(ge=0)] = 0
    key_value_heads: Positive | None = None
    """Heads of keys and values, each shared by heads / key_value_heads queries (Ainslie et al.
    2023); null is `heads`."""
    feedforward_width: Annotated[int, Field(ge=0)] = 0
    causal: bool = False
    """Each position sees itself and those before it only."""
    norm_placement: Literal["pre", "post"] = "pre"
    """Before each branch and once at the end (pre), or after each branch (post)."""
    norm: Literal["layer_norm", "rms_norm"] = "layer_norm"
    norm_epsilon: Annotated[float, Field(gt=0)] = 1e-6
    embedding_norm: bool = False
    """A norm on the embedding before the first block, as in BERT."""
    embedding_width: Literal["body", "input"] = "body"
    """Where positions and the embedding's norm stand: at the body's width, after the map from the
    input table; or at the input table's width, before it (RemBERT)."""
    positions: Literal["learned", "sinusoidal", "rotary"] = "learned"
    maximum_length: Positive = 512
    """Longest sequence; rows of the position table when positions are learned."""
    rotary_base: Annotated[float, Field(gt=1)] = 10_000.0
    """Base of the wavelengths of rotary positions."""
    rotary_scaling: RotaryScaling | None = None
    feedforward: Literal["gelu", "swiglu"] = "gelu"
    bias: bool = True
    """Biases in the attention and feed-forward maps."""
    std: Annotated[float, Field(gt=0)] = 0.02
    """Standard deviation of the initial maps and learned positions."""
    distribution: Literal["normal", "uniform"] = "normal"
    """Shape of their initialization, with mean 0 and `std`."""
    branch: Literal["standard", "inverse_sqrt_depth", "zero", "deep_norm"] = "standard"
    """Initialization of the last map of every residual branch: as the others; divided by
    sqrt(2 layers) (Radford et al. 2019, section 2.3); zero. `deep_norm` (Wang et al. 2022, section
    3) is for the post-norm: norm(alpha x + branch(x)), with maps by Xavier's rule (`deep_norm`)."""

    @model_validator(mode="after")
    def _check(self) -> BodySettings:
        for name in REFUSED.get(self.kind, ()):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"no {name} with kind {self.kind}, where it would do nothing")
        if self.kind == "lstm":
            if not (self.layers and self.causal):
                raise ValueError("layers above 0 and causal true with kind lstm")
            return self
        if self.kind == "identity":
            if self.embedding_width == "input" and not self.embedding_norm:
                raise ValueError(NOTHING_THERE)
            return self
        if not (self.layers and self.heads and self.feedforward_width):
            raise ValueError("layers, heads and feedforward_width above 0 with kind transformer")
        if self.width % self.heads:
            raise ValueError(f"heads that divide the width ({self.width} / {self.heads})")
        shared = self.key_value_heads
        if shared is not None and (self.heads % shared or self.heads == shared):
            raise ValueError(
                f"key_value_heads that divide heads, and fewer ({self.heads} / {shared})"
            )
        placed = self.positions != "rotary" or self.embedding_norm
        if self.embedding_width == "input" and not placed:
            raise ValueError(NOTHING_THERE)
        for name in ("rotary_base", "rotary_scaling"):
            default = type(self).model_fields[name].default
            if self.positions != "rotary" and getattr(self, name) != default:
                raise ValueError(f"no {name} with {self.positions} positions")
        if self.positions == "rotary":
            self._check_rotary(self.width // self.heads)
        if self.positions == "sinusoidal" and self.embedding_width == "body" and self.width % 2:
            raise ValueError("an even width with sinusoidal positions")
        if self.branch == "deep_norm":
            self._check_deep_norm()
        return self

    def _check_deep_norm(self) -> None:
        if self.norm_placement == "pre":
            raise ValueError("norm_placement post with branch deep_norm, which scales its residual")
        if self.distribution != "normal":
            raise ValueError("distribution normal with branch deep_norm")
        default = type(self).model_fields["std"].default
        if self.positions != "learned" and self.std != default:
            raise ValueError("no std with branch deep_norm, whose maps start by Xavier's rule")

    def deep_norm(self) -> tuple[float, float]:
        """Alpha, the factor of the residual, and beta, the gain of value, output and feed-forward
        maps at the start, of an encoder or a decoder alone (Wang et al. 2022, figure 2)."""
        return (2 * self.layers) ** 0.25, (8 * self.layers) ** -0.25

    def _check_rotary(self, head: int) -> None:
        if head % 2:
            raise ValueError("an even width per head with rotary positions")
        if head == 2 and self.rotary_base != type(self).model_fields["rotary_base"].default:
            raise ValueError("no rotary_base with heads of width 2, whose one rate has no base")
        scaling = self.rotary_scaling
        if scaling is not None:
            slowest = self.rotary_base ** (2 / head - 1)
            turns = scaling.original_length * slowest / (2 * math.pi)
            if turns >= scaling.high_frequency_factor:
                raise ValueError(
                    "no rotary_scaling where every wavelength stays: in original_length the "
                    f"slowest turns {turns:.1f} times, high_frequency_factor is "
                    f"{scaling.high_frequency_factor:g}"
                )

    def position_width(self, input_width: int) -> int:
        """Width at which positions and the embedding's norm stand.

        Raises:
            SettingsError: the input table's, where that is the body's too, or is odd with
                sinusoidal positions.
        """
        if self.embedding_width == "body":
            return self.width
        if input_width == self.width:
            raise SettingsError(
                "body.embedding_width",
                found=f"'input' beside an input table of the body's width {self.width}",
                expected="body, since no map stands between them",
                mend="set it to body, or give coupling.input_width another width",
            )
        if self.positions == "sinusoidal" and input_width % 2:
            raise SettingsError(
                "coupling.input_width",
                found=f"{input_width}, at which sinusoidal positions stand",
                expected="an even width",
                mend="make it even, or set body.embedding_width to body",
            )
        return input_width


NOTHING_THERE = (
    "embedding_width body where neither added positions nor embedding_norm would stand at the "
    "input table's width"
)
MATCH_TOLERANCE = 0.01
"""Largest relative difference between parameter counts that are called equal."""
_OF_BLOCKS = (
    "heads", "key_value_heads", "feedforward_width", "norm_placement", "positions", "rotary_base",
    "rotary_scaling", "feedforward", "bias", "branch",
)  # fmt: skip
REFUSED = {
    "identity": ("layers", "std", "distribution", *_OF_BLOCKS),
    "lstm": (
        "norm", "norm_epsilon", "embedding_norm", "embedding_width", "maximum_length", *_OF_BLOCKS
    ),
}  # fmt: skip
"""By kind of body, the settings that would do nothing."""


class RunSettings(Settings):
    """One entry of a study: a coupling, what differs in the body, and whether it is trained."""

    coupling: CouplingSettings
    body: dict[str, Any] = {}
    """Keys of the family's body that this run replaces (`layers: 4`)."""
    training: dict[str, Any] = {}
    """Keys of the family's training that this run replaces (`tie_penalty: 0.1`)."""
    trained: bool = True
    """False: the untrained control, saved as initialized."""


class MatchSettings(Settings):
    """What a run is matched in: the comparison at equal parameters."""

    run: str
    """Name of the run whose count this one has."""
    parameters: Literal["pretraining", "fine_tuning"]
    """Which count is equal, within MATCH_TOLERANCE; fine-tuning drops output table and head."""


class MatchedRunSettings(RunSettings):
    """A run whose feed-forward width gives it the parameter count of another."""

    matches: MatchSettings
