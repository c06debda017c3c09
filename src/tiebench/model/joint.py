"""What neither a coupling nor a body can see alone: settings that do nothing beside each other."""

from __future__ import annotations

from tiebench.errors import SettingsError
from tiebench.model.settings import BodySettings, CouplingSettings


def check_joint(coupling: CouplingSettings, body: BodySettings) -> None:
    """Check that a coupling suits a body, and that each does something beside the other.

    Raises:
        SettingsError: as `CouplingSettings.widths` and `BodySettings.position_width`; or an
            input scale where a norm follows, which divides it out again.
    """
    input_width = coupling.widths(body.width)[0]
    body.position_width(input_width)
    norm = _norm_after_lookup(body, mapped=input_width != body.width)
    if norm and coupling.input_factor(body.width) != 1:
        raise SettingsError(
            "coupling.input_scale",
            found=f"{coupling.input_scale} where nothing is added before {norm}, which divides "
            "the rows by their size",
            expected="1.0, since the scale would do nothing (up to the norm's epsilon)",
            mend="leave it out, or add positions before the norm (body.positions sinusoidal or "
            "learned)",
        )


def _norm_after_lookup(body: BodySettings, *, mapped: bool) -> str | None:
    """The norm that meets the looked-up rows with nothing added to them; None where there is none.

    The map from another width adds its bias.
    """
    mapped_first = mapped and body.embedding_width == "body"
    placed = body.kind == "transformer" and body.positions != "rotary"
    if mapped_first or placed:
        return None
    if body.embedding_norm:
        return "the embedding's norm"
    return "the last norm" if body.kind == "identity" and not mapped else None
