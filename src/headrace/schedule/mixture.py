"""Interleaves weighted sources so that every stretch of the stream holds its due shares.

The sources are the leaves of a binary tree. At each node the stream is divided in two by
a cumulative quota: of the first ``m`` positions that reach a node, its left side gets
``floor((m * left + total // 2) / total)``. So any position can be asked for by itself, in
O(log sources), in exact integer arithmetic; and of any first ``n`` positions a source gets
``n`` times its share to within half a sample per level of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, isfinite, lcm

import numpy as np
import numpy.typing as npt

from headrace.core.errors import ConfigError
from headrace.core.mixing import Words, word

MAX_TOTAL = 1 << 48
"""Largest sum of integer weights that is used exactly; beyond, shares are rounded."""

ROUNDED_TOTAL = 1 << 40
"""Sum of the weights after rounding: a share is then off by less than 1e-12."""


class Mixture:
    """An endless interleaving of sources; immutable and free to share between threads."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.depth = (len(weights) - 1).bit_length()
        self._leaves = 1 << self.depth
        totals = [0] * self._leaves + list(weights) + [0] * (self._leaves - len(weights))
        for node in reversed(range(1, self._leaves)):
            totals[node] = totals[2 * node] + totals[2 * node + 1]
        self._totals = totals
        self._total = np.array(totals, dtype=np.uint64)
        self._limb = 62 - totals[1].bit_length()
        self._limbs = -(-totals[1].bit_length() // self._limb)

    def sources_at(self, positions: Words) -> tuple[npt.NDArray[np.intp], Words]:
        """Return the source at each position of the stream, and how many it gave before.

        Args:
            positions: ``uint64 [N]``.

        Returns:
            Source numbers ``intp [N]`` and ordinals ``uint64 [N]``.
        """
        nodes = np.ones(positions.size, dtype=np.intp)
        ordinals = positions
        for _ in range(self.depth):
            total, left = self._total[nodes], self._total[2 * nodes]
            before, goes_left = self._quota(ordinals, left, total)
            ordinals = np.where(goes_left, before, ordinals - before)
            nodes = 2 * nodes + ~goes_left
        return nodes - self._leaves, ordinals

    def positions_of(self, source: int, ordinals: Words) -> Words:
        """Return where in the stream a source's items are: the inverse of ``sources_at``."""
        node = source + self._leaves
        positions = ordinals
        while node > 1:
            weight, half, total = self._edge(node)
            periods = positions // word(weight)
            rest = positions - periods * word(weight)
            ahead, _ = self._divide(rest, word(total), word(total - 1 - half), word(weight))
            positions = periods * word(total) + ahead
            node //= 2
        return positions

    def count(self, source: int, positions: int) -> int:
        """Return how many of the stream's first ``positions`` are the source's."""
        leaf, count = source + self._leaves, positions
        for level in reversed(range(self.depth)):
            weight, half, total = self._edge(leaf >> level)
            count = (count * weight + half) // total
        return count

    def _edge(self, node: int) -> tuple[int, int, int]:
        """Return (weight, rounding, total) of the quota that a node gets from its parent."""
        weight, total = self._totals[node], self._totals[node // 2]
        half = total // 2
        return weight, (total - 1 - half if node % 2 else half), total

    def _quota(
        self, ordinals: Words, left: Words, total: Words
    ) -> tuple[Words, npt.NDArray[np.bool_]]:
        """Return how many went left before each ordinal, and whether it goes left itself."""
        periods = ordinals // total
        quotient, rest = self._divide(ordinals - periods * total, left, total // word(2), total)
        return periods * left + quotient, rest + left >= total

    def _divide(
        self, factor: Words, other: Words, plus: Words, divisor: Words
    ) -> tuple[Words, Words]:
        """Return quotient and rest of ``(factor * other + plus) / divisor``, exactly.

        The product may pass 64 bits, so it is divided limb by limb, as by hand. It holds that
        factor < divisor, and that all but the product are at most the sum of the weights.
        """
        limb, mask = word(self._limb), word((1 << self._limb) - 1)
        quotient = rest = np.zeros_like(factor)
        for number in reversed(range(self._limbs)):
            digit = (other >> word(number * self._limb)) & mask
            value = (rest << limb) + factor * digit
            value = value if number else value + plus
            digits = value // divisor
            quotient, rest = (quotient << limb) + digits, value - digits * divisor
        return quotient, rest


def integer_weights(weights: Sequence[float]) -> list[int]:
    """Return integers in the same proportions: exactly so for plain decimals and counts.

    Raises:
        ConfigError: a weight is not a positive number.
    """
    for number, weight in enumerate(weights):
        if not (isfinite(weight) and weight > 0):
            raise ConfigError(
                f"weight {weight} of source {number} must be a positive number; "
                "leave the source out if it is not wanted"
            )
    shares = [Fraction(repr(float(weight))) for weight in weights]
    scale = lcm(*(share.denominator for share in shares))
    exact = [int(share * scale) for share in shares]
    exact = [weight // gcd(*exact) for weight in exact]
    if sum(exact) <= MAX_TOTAL:
        return exact
    return [max(1, round(Fraction(weight * ROUNDED_TOTAL, sum(exact)))) for weight in exact]
