"""A 64-bit mixer over arrays: the one hash that schedule and placement build on.

The same words come out on every host and in every NumPy version: it is integer
arithmetic modulo 2^64, nothing of a library's generator.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from headrace.core.digest import Buffer

Words: TypeAlias = npt.NDArray[np.uint64]
"""Unsigned 64-bit words; arithmetic wraps around."""


def word(value: int) -> Words:
    """Return one word as an array of no dimension, which NumPy combines with arrays fastest."""
    return np.array(value, dtype=np.uint64)


_GOLDEN = word(0x9E37_79B9_7F4A_7C15)
_FIRST = word(0xBF58_476D_1CE4_E5B9)
_SECOND = word(0x94D0_49BB_1331_11EB)
_SHIFTS = (word(30), word(27), word(31))


def mix64(values: Words) -> Words:
    """Return a bijective mix of each word: one flipped bit flips about half of the result's.

    Source: the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom
    Number Generators", 2014).
    """
    mixed = values + _GOLDEN
    mixed ^= mixed >> _SHIFTS[0]
    mixed *= _FIRST
    mixed ^= mixed >> _SHIFTS[1]
    mixed *= _SECOND
    mixed ^= mixed >> _SHIFTS[2]
    return mixed


def key_words(count: int, *parts: Buffer) -> Words:
    """Return ``count`` independent words that follow from the parts (BLAKE2b in counter mode)."""
    name = blake2b(person=b"headrace-keys")
    for part in parts:
        view = memoryview(part)
        name.update(view.nbytes.to_bytes(8, "little"))
        name.update(view)
    seed = name.digest()
    blocks = (blake2b(seed + block.to_bytes(8, "little")) for block in range(-(-count // 8)))
    return np.frombuffer(b"".join(block.digest() for block in blocks), dtype="<u8")[:count].copy()
