"""Parts of one sample that are made apart from each other, as groups of pictures of a long clip."""

from __future__ import annotations

import msgspec

MOST_PARTS = 16
"""Most parts of one sample."""


class SamplePart(msgspec.Struct, frozen=True, array_like=True):
    """One of ``count`` parts of a sample, the first is number 0. A whole is its only part."""

    number: int
    count: int

    @property
    def is_whole(self) -> bool:
        """Whether it is no part but the whole sample."""
        return self.count == 1

    @property
    def is_valid(self) -> bool:
        """Whether there is such a part: false for nonsense that came from elsewhere."""
        return 0 <= self.number < self.count <= MOST_PARTS

    def of(self, total: int) -> int:
        """Return this part's share of a whole number: the shares of all parts add up to it."""
        return total * (self.number + 1) // self.count - total * self.number // self.count


WHOLE = SamplePart(0, 1)


def parts_of(count: int) -> tuple[SamplePart, ...]:
    """Return all parts of a sample that is made in ``count`` of them."""
    return tuple(SamplePart(number, count) for number in range(count))
