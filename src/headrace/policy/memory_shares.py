"""Bytes that jobs hold of one budget, and who is beyond a fair share."""

from __future__ import annotations


class MemoryShares:
    """A ledger of reserved bytes, rounded up to the allocator's blocks.

    It never lends more than the budget. A job may use what others leave free, but what
    it holds beyond its share can be taken back by a job below its own.
    """

    def __init__(self, budget: int, block: int) -> None:
        self.budget = budget // block * block
        self._block = block
        self._held: dict[str, int] = {}
        self.used = 0

    def rounded(self, nbytes: int) -> int:
        """Return what ``nbytes`` occupy."""
        return -(-nbytes // self._block) * self._block

    def has_room(self, nbytes: int) -> bool:
        """Return whether ``nbytes`` are free."""
        return self.used + self.rounded(nbytes) <= self.budget

    def take(self, job: str, nbytes: int) -> None:
        """Record bytes as held.

        Raises:
            ValueError: the budget would be exceeded.
        """
        if not self.has_room(nbytes):
            raise ValueError(f"{nbytes} B do not fit: {self.used} of {self.budget} B are held")
        self._held[job] = self._held.get(job, 0) + self.rounded(nbytes)
        self.used += self.rounded(nbytes)

    def give_back(self, job: str, nbytes: int) -> None:
        """Record bytes as free again."""
        left = self._held[job] - self.rounded(nbytes)
        self.used -= self.rounded(nbytes)
        if left:
            self._held[job] = left
        else:
            del self._held[job]

    def held(self, job: str) -> int:
        """Return the bytes a job holds."""
        return self._held.get(job, 0)

    def excess(self, job: str, sharers: int) -> int:
        """Return the bytes a job holds beyond an equal share; negative below it.

        Args:
            job: Who holds them.
            sharers: How many jobs have a share; 0 when this one has none.
        """
        return self.held(job) - (self.budget // sharers if sharers else 0)
