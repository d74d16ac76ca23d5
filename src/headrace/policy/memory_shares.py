"""Bytes that jobs hold of one budget, and who is beyond a fair share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class MemoryShares:
    """A ledger of reserved bytes, rounded up to the allocator's blocks.

    It never lends more than the budget. A job may use what others leave free, but what
    it holds beyond its share can be taken back by a job below its own. Bytes that several
    jobs hold together count once, in equal parts for each of them.
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

    def take(self, jobs: Sequence[str], nbytes: int) -> None:
        """Record bytes as held by jobs together.

        Raises:
            ValueError: the budget would be exceeded.
        """
        if not self.has_room(nbytes):
            raise ValueError(f"{nbytes} B do not fit: {self.used} of {self.budget} B are held")
        self.used += self.rounded(nbytes)
        for job, part in self._parts(jobs, nbytes):
            self._held[job] = self._held.get(job, 0) + part

    def give_back(self, jobs: Sequence[str], nbytes: int) -> None:
        """Record bytes as free again that these jobs took together."""
        self.used -= self.rounded(nbytes)
        for job, part in self._parts(jobs, nbytes):
            left = self._held.pop(job, 0) - part
            if left:
                self._held[job] = left

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

    def _parts(self, jobs: Sequence[str], nbytes: int) -> Iterator[tuple[str, int]]:
        """Return what counts for each job; what does not divide counts for the first."""
        part, rest = divmod(self.rounded(nbytes), len(jobs))
        for place, job in enumerate(jobs):
            yield job, part if place else part + rest
