"""Whole numbers, and how large they may be."""

from __future__ import annotations


def whole_number(data: bytes) -> int:
    """Return the number that decimal digits say.

    Raises:
        ValueError: they say none, or one of more than 64 bits.
    """
    return in_64_bits(int(data))


def in_64_bits(number: int) -> int:
    """Return a number that columns of batches and frames can hold.

    Raises:
        ValueError: it has more than 64 bits, its sign included.
    """
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} has more than 64 bits")
    return number
