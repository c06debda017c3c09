"""Rounding to the digits of a printed number."""

import pytest

from tiebench.analysis.printed import agrees


@pytest.mark.parametrize(
    ("printed", "true", "unit", "wanted"),
    [
        (110, 105, 1, True), (110, 104.9, 1, False), (110, 115, 1, False),
        (335, 335.2, 1, True), (335, 335.6, 1, False),
        (1.9, 1.94, 1, True), (1.9, 1.96, 1, False), (2.0, 2.04, 1, True), (2.0, 2.06, 1, False),
        ("1.5", 1_549_999_999, 10**9, True), ("1.5", 1_557_611_200, 10**9, False),
        (30, 30.522, 1, True), (0.4, 0.38, 1, True),
    ],
)  # fmt: skip
def test_agreement_is_to_the_digits_printed(
    printed: float | str, true: float, unit: int, wanted: bool
) -> None:
    assert agrees(printed, true, unit) is wanted
