"""Items in order of a key; those that do not belong there any more are let go of."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from headrace.policy.item import Item

_SLACK_ENTRIES = 64


class ItemHeap:
    """Items by their keys, the least first. Not thread-safe.

    An item that does not belong here any more is skipped, and let go of before there are more
    such items than others, but for a few. One that belongs here again is pushed again.

    Args:
        belongs: Tells whether an item does now.
    """

    def __init__(self, belongs: Callable[[Item], bool]) -> None:
        self._belongs = belongs
        self._entries: list[tuple[float, int, Item]] = []
        """(key, tie-breaker, item)."""

        self._pushed = 0
        self._most = _SLACK_ENTRIES

    def __len__(self) -> int:
        """Return how many entries are held, those to be skipped included."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items that belong here, once for each time they were pushed."""
        return (item for _, _, item in self._entries if self._belongs(item))

    def push(self, key: float, item: Item) -> None:
        """Put an item in."""
        self._pushed += 1
        heapq.heappush(self._entries, (key, self._pushed, item))
        if len(self._entries) > self._most:
            self._entries = self._once_each()
            self._most = 2 * len(self._entries) + _SLACK_ENTRIES

    def top(self) -> tuple[float, Item] | None:
        """Return the least key and its item; None when there is none."""
        entries = self._entries
        while entries and not self._belongs(entries[0][2]):
            heapq.heappop(entries)
        return (entries[0][0], entries[0][2]) if entries else None

    def pop(self) -> None:
        """Take out what ``top`` returned."""
        heapq.heappop(self._entries)

    def clear(self) -> None:
        """Take out everything."""
        self._entries.clear()

    def _once_each(self) -> list[tuple[float, int, Item]]:
        """Return what belongs here in order: one put in several times at a key only once."""
        latest_first = sorted((e for e in self._entries if self._belongs(e[2])), reverse=True)
        first = {(entry[0], id(entry[2])): entry for entry in latest_first}
        return sorted(first.values())
