"""Whether a number rounds to a printed one."""

from __future__ import annotations

from decimal import Decimal


def agrees(printed: str | float, true: float, unit: int = 1) -> bool:
    """Whether a number rounds to the digits of a printed one.

    Zeros at the end of a whole number are no digits of it: 110 stands for 105 up to 115.

    Args:
        printed: such as 1.5, 110 or "38.6".
        true: the number itself, in units of one.
        unit: what the printed number is given in, such as 10**6.
    """
    number = Decimal(str(printed))
    last = (number if "." in str(printed) else number.normalize()).as_tuple().exponent
    assert isinstance(last, int), "a printed number is finite"
    half = Decimal(unit).scaleb(last) / 2
    return -half <= Decimal(repr(true)) - number * unit < half
