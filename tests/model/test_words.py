"""A coupling in words, by which the page tells the runs apart."""

from tests.couplings import COUPLINGS, composed_coupling
from tiebench.model.settings import CouplingSettings
from tiebench.model.words import head_words, table_words


def test_couplings_of_conf_are_told_apart() -> None:
    said = {}
    for path in COUPLINGS:
        held = composed_coupling(path)
        key = (
            held.tied,
            held.widths(16),
            head_words(held, 16, 50),
            table_words(held, 16, 50),
        )
        assert key not in said, (path.stem, said.get(key))
        said[key] = path.stem


def test_a_plain_head_and_what_differs_from_it() -> None:
    head = [{"kind": "linear"}, {"kind": "gelu"}, {"kind": "layer_norm"}]
    plain = CouplingSettings(option="t", tied=True, transform=head)
    assert head_words(plain, 16, 50) == "linear to 16, gelu, layer_norm, bias"
    assert table_words(plain, 16, 50) == "normal, std 0.02"
    frozen = {"kind": "linear", "bias": False, "initialization": "orthogonal", "trained": False}
    other = CouplingSettings(
        option="t", tied=True, bias=False, logit_scale="inverse_sqrt_width", input_scale=2,
        transform=[frozen, {"kind": "half_swap"}, {"kind": "gelu"}, {"kind": "channel_shuffle", "groups": 4}],
        distribution="truncated_normal", std="inverse_sqrt_width",
        input_operations=[{"kind": "low_rank_addition", "rank": 3}, {"kind": "shift"}],
    )  # fmt: skip
    assert head_words(other, 16, 50) == (
        "frozen orthogonal linear to 16 without bias, half_swap, gelu, channel_shuffle in 4 groups, "
        "times 0.25"
    )
    assert table_words(other, 16, 50) == (
        "truncated normal, std 0.25; input side low-rank addition of rank 3, shift; looked-up rows "
        "times 2"
    )
    assert head_words(CouplingSettings(option="t", tied=True, bias=False), 16, 50) == "none"


def test_two_widths_may_have_two_stds() -> None:
    wide = CouplingSettings(
        option="t", tied=False, output_width=64, transform=[{"kind": "linear"}],
        std="inverse_sqrt_width", shared_initialization=False,
    )  # fmt: skip
    assert table_words(wide, 16, 50) == "normal, std 0.125 and 0.25"
