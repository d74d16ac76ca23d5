"""When the samples that requests wait for must be looked at again."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from headrace.policy.item import Item


class Patience:
    """A queue of (time, item); an item that nobody waits for any more is passed over."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Item]] = []
        self._count = 0

    def watch(self, item: Item, at: float) -> None:
        """Have an item looked at when ``at`` is reached."""
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, item))

    def next_at(self) -> float | None:
        """Return the next time that matters; None when nobody waits."""
        while self._heap and not self._heap[0][2].waiters:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Item]:
        """Take out and yield the items whose time has come and that somebody still waits for."""
        while self._heap and self._heap[0][0] <= now:
            item = heapq.heappop(self._heap)[2]
            if item.waiters:
                yield item
