"""Randomness of a sample: counter-based, so it does not matter where or when it is drawn.

The numbers depend on (seed, epoch, sample, op position, number of the value) alone. They
are made of BLAKE2b, not of a library's generator, so they stay the same across hosts,
Python and NumPy versions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

_WORDS = struct.Struct("<8Q")
_KEY = struct.Struct("<QQQQQ")
_TO_UNIT = 2.0**-53
_U64 = 0xFFFF_FFFF_FFFF_FFFF
_NUMBER_SHIFT = 32


@dataclass(frozen=True, slots=True)
class SampleKey:
    """Names one visit of one sample; all of its randomness follows from it."""

    seed: int
    """The job's seed."""

    epoch: int
    """Passes through the sample's source before this one (each of a mixture counts its own)."""

    sample: int
    """Global sample id."""


class Draws:
    """An endless sequence of numbers for one op on one visit of one sample."""

    __slots__ = ("_block", "_key", "_place", "_words")

    def __init__(self, key: SampleKey, position: int, number: int = 0) -> None:
        """Begin the sequence of one value.

        Args:
            key: The visit.
            position: That of the op in its pipeline.
            number: Which of several values of one field it is for.
        """
        self._key = key
        self._place = (position + (number << _NUMBER_SHIFT)) & _U64
        self._block = 0
        self._words: Iterator[int] = iter(())

    def word(self) -> int:
        """Return the next 64 random bits."""
        for word in self._words:
            return word
        key = self._key
        packed = _KEY.pack(key.seed & _U64, key.epoch, key.sample, self._place, self._block)
        digest = blake2b(packed, digest_size=64, person=b"headrace-draws").digest()
        self._words = iter(_WORDS.unpack(digest))
        self._block += 1
        return next(self._words)

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return a float in [low, high), with 53 random bits."""
        return low + (high - low) * ((self.word() >> 11) * _TO_UNIT)

    def integer(self, bound: int) -> int:
        """Return an integer in [0, bound); the bias is below bound / 2^64."""
        if bound <= 0:
            raise ValueError(f"bound must be positive, not {bound}")
        return (self.word() * bound) >> 64

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.uniform() < probability

    def permutation(self, count: int) -> list[int]:
        """Return the numbers 0 .. count-1 in random order."""
        items = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.integer(last + 1)
            items[last], items[other] = items[other], items[last]
        return items
