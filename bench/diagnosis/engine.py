"""Time that jumps from event to event, and things that serve one after another."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from bench.diagnosis.setting import Spell

Process: TypeAlias = Generator["float | None", float, None]
"""Yields the moment at which it goes on, or None: somebody wakes it. Is sent the moment."""


class Engine:
    """Runs processes in the order of time; of those of one moment, the first that asked."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Process]] = []
        self._asked = 0
        self.current: Process
        """The one that runs: who parks leaves it with whom is to wake it."""

    def begin(self, at_s: float, process: Process) -> None:
        """Have a new process begin at a moment."""
        next(process)
        self.wake(at_s, process)

    def wake(self, at_s: float, process: Process) -> None:
        """Have a process go on at a moment."""
        self._asked += 1
        heapq.heappush(self._heap, (at_s, self._asked, process))

    def run(self, is_done: Callable[[], bool]) -> None:
        """Run until all is done, or nothing is left to do."""
        while self._heap and not is_done():
            now, _, self.current = heapq.heappop(self._heap)
            try:
                until = self.current.send(now)
            except StopIteration:
                continue
            if until is not None:
                self.wake(until, self.current)


class Server:
    """Serves one request after another, slower while others take their part."""

    def __init__(self, spells: Sequence[Spell] = ()) -> None:
        self._free_at = 0.0
        self._spells = spells

    def serve(self, now: float, service_s: float) -> tuple[float, float]:
        """Return when a request that arrives now is served, and how long it stood in line [s]."""
        begin = max(now, self._free_at)
        self._free_at = begin + service_s / left(self._spells, begin)
        return self._free_at, begin - now


class Pool:
    """Several alike, of which each takes the next in line."""

    def __init__(self, size: int, spells: Sequence[Spell] = ()) -> None:
        self._free_at = [0.0] * size
        self._spells = spells

    def serve(self, now: float, service_s: float) -> float:
        """Return when work that arrives now is done."""
        begin = max(now, heapq.heappop(self._free_at))
        end = begin + service_s / left(self._spells, begin)
        heapq.heappush(self._free_at, end)
        return end


def left(spells: Sequence[Spell], now: float) -> float:
    """Return which part others leave at a moment."""
    for spell in spells:
        if spell.begin_s <= now < spell.end_s:
            return spell.left
    return 1.0
