"""What tasks make, in memory that is shared with the workers, by their tickets."""

from __future__ import annotations

from headrace.agent.arena import Arena, Extent
from headrace.agent.tasks import Done
from headrace.agent.usage import Reading
from headrace.core.digest import Buffer


class Prepared:
    """The samples of tasks that run or lie ready. Used from the event loop's thread only.

    Args:
        arena: Shared with every worker.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._extents: dict[int, tuple[Extent, ...]] = {}
        self._results: dict[int, Done] = {}
        self._readings: dict[int, Reading] = {}

    def __contains__(self, ticket: int) -> bool:
        """Return whether a task has memory."""
        return ticket in self._extents

    def begin(self, ticket: int, nbytes: int, reading: Reading) -> tuple[Extent, ...]:
        """Return the memory of a task that starts."""
        self._readings[ticket] = reading
        self._extents[ticket] = self._arena.reserve(nbytes)
        return self._extents[ticket]

    def grow(self, ticket: int, nbytes: int) -> tuple[Extent, ...]:
        """Return other memory for a task whose result is larger than foreseen."""
        self._arena.free(self._extents.pop(ticket))
        self._extents[ticket] = self._arena.reserve(nbytes)
        return self._extents[ticket]

    def finish(self, done: Done) -> Reading:
        """Keep what a task made, and return what it read for that."""
        self._extents[done.ticket] = self._arena.shrink(self._extents[done.ticket], done.nbytes)
        self._results[done.ticket] = done
        return self._readings[done.ticket]

    def result(self, ticket: int) -> tuple[Done, list[Buffer]]:
        """Return a finished sample's description and its bytes in the arena."""
        done = self._results[ticket]
        return done, self._arena.read(self._extents[ticket], done.nbytes)

    def reading(self, ticket: int) -> Reading:
        """Return what was read for a sample."""
        return self._readings[ticket]

    def free(self, ticket: int) -> None:
        """Free a sample that was sent, or that is not needed any more."""
        self._arena.free(self._extents.pop(ticket))
        self._results.pop(ticket, None)
        self._readings.pop(ticket, None)

    def give_back(self) -> None:
        """Give the system the memory that no sample needed since this was called last."""
        self._arena.give_back()
