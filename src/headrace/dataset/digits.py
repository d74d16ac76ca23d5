"""Whole numbers written as digits."""

from __future__ import annotations


def whole_number(data: bytes) -> int:
    """Return the number that decimal digits say.

    Raises:
        ValueError: they say none, or one of more than 64 bits.
    """
    number = int(data)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} has more than 64 bits")
    return number
