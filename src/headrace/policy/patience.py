"""When the samples that requests wait for must be looked at again."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.policy.item import Item
from headrace.policy.itemheap import ItemHeap


class Patience:
    """A queue of (time, item); an item that nobody waits for any more is passed over."""

    def __init__(self) -> None:
        self._heap = ItemHeap(lambda item: bool(item.waiters))

    def watch(self, item: Item, at: float) -> None:
        """Have an item looked at when ``at`` is reached."""
        self._heap.push(at, item)

    def next_at(self) -> float | None:
        """Return the next time that matters; None when nobody waits."""
        first = self._heap.top()
        return None if first is None else first[0]

    def due(self, now: float) -> Iterator[Item]:
        """Take out and yield the items whose time has come and that somebody still waits for."""
        while (first := self._heap.top()) is not None and first[0] <= now:
            self._heap.pop()
            yield first[1]
