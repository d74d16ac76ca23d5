"""A cache that knows the future: it gives up what is needed again last.

Training jobs read by a schedule, so the next use of everything that is kept is known. What
is offered is kept only if it is needed before something that would have to go for it; so a
job that loops over more than fits keeps a part of it and never thrashes.

Pure bookkeeping: keys, sizes and uses go in, keys to be removed come out.

Source: L. A. Belady, "A study of replacement algorithms for a virtual-storage computer",
IBM Systems Journal 5(2), 1966 (the MIN algorithm, here with bypass).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from headrace.core.errors import ConfigError

K = TypeVar("K", bound=Hashable)


class Use(NamedTuple):
    """One visit to come."""

    job: str
    step: int


When = Callable[[Use], float]
"""Returns the time at which a use is expected, on any one scale; infinite for one that never is."""

_FEWEST_REBUILT = 64


@dataclass(frozen=True, slots=True)
class _Entry:
    nbytes: int
    use: Use | None
    number: int


class NextUseCache(Generic[K]):
    """What is kept, by the job that needs each next. Not thread-safe.

    Uses of one job are compared by their steps, uses of different jobs by ``when``: a job whose
    pace changes keeps the order of its own.

    Args:
        budget: Most bytes kept [bytes].
        when: Asked about the furthest use of each job whenever room is needed.
    """

    def __init__(self, budget: int, when: When) -> None:
        if budget < 0:
            raise ConfigError(f"a cache of {budget} bytes is not possible; give 0 or more")
        self.budget = budget
        self.used = 0
        """Bytes kept [bytes]."""

        self._when = when
        self._entries: dict[K, _Entry] = {}
        self._furthest: dict[str, list[tuple[int, int, K]]] = {}
        self._idle: dict[K, None] = {}
        self._numbers = 0

    def __len__(self) -> int:
        """Return how many keys are kept."""
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        """Return whether a key is kept."""
        return key in self._entries

    def offer(self, key: K, nbytes: int, use: Use) -> list[K] | None:
        """Keep a new key if it is needed before what would have to go for it.

        Returns:
            The keys that went, already forgotten here; None when the key itself is not kept.

        Raises:
            ConfigError: the key is kept already.
        """
        if key in self._entries:
            raise ConfigError(f"{key!r} is kept already; move it to its next use instead")
        victims = self._give_up_for(nbytes, use)
        if victims is not None:
            self._file(key, nbytes, use)
        return victims

    def move(self, key: K, use: Use | None) -> None:
        """Note when a kept key is needed next; None: never again, so it goes before all others.

        Raises:
            KeyError: it is not kept.
        """
        entry = self._take_out(key)
        self._file(key, entry.nbytes, use)

    def remove(self, key: K) -> None:
        """Forget a key.

        Raises:
            KeyError: it is not kept.
        """
        self._take_out(key)

    def kept_for(self, job: str) -> list[K]:
        """Return the keys whose next use is this job's."""
        return [key for key, entry in self._entries.items() if entry.use and entry.use.job == job]

    def rotate(self, count: int) -> list[tuple[K, Use | None]]:
        """Return so many keys with their next uses: those that were not touched for longest.

        They count as touched then, so that one call after another comes to all.
        """
        oldest = list(islice(self._entries.items(), count))
        for key, entry in oldest:
            del self._entries[key]
            self._entries[key] = entry
        return [(key, entry.use) for key, entry in oldest]

    def _give_up_for(self, nbytes: int, use: Use) -> list[K] | None:
        """Forget what is needed later than ``use`` until ``nbytes`` fit, or nothing at all."""
        if nbytes > self.budget:
            return None
        at = self._when(use)
        given_up: list[tuple[K, _Entry]] = []
        while self.used + nbytes > self.budget:
            victim = self._furthest_beyond(use, at)
            if victim is None:
                for key, entry in given_up:
                    self._file(key, entry.nbytes, entry.use)
                return None
            given_up.append((victim, self._take_out(victim)))
        return [key for key, _ in given_up]

    def _furthest_beyond(self, use: Use, at: float) -> K | None:
        if self._idle:
            return next(iter(self._idle))
        latest: tuple[float, K] | None = None
        for job in list(self._furthest):
            head = self._head(job)
            if head is None or (job == use.job and -head[0] <= use.step):
                continue
            expected = self._when(Use(job, -head[0]))
            if job != use.job and not expected > at:
                continue
            if latest is None or expected > latest[0]:
                latest = expected, head[2]
        return None if latest is None else latest[1]

    def _head(self, job: str) -> tuple[int, int, K] | None:
        heap = self._furthest[job]
        while heap and not self._is_live(heap[0]):
            heapq.heappop(heap)
        if heap:
            return heap[0]
        del self._furthest[job]
        return None

    def _is_live(self, item: tuple[int, int, K]) -> bool:
        entry = self._entries.get(item[2])
        return entry is not None and entry.number == item[1]

    def _file(self, key: K, nbytes: int, use: Use | None) -> None:
        self._numbers += 1
        self._entries[key] = _Entry(nbytes, use, self._numbers)
        self.used += nbytes
        if use is None or math.isinf(self._when(use)):
            self._idle[key] = None
            return
        heap = self._furthest.setdefault(use.job, [])
        heapq.heappush(heap, (-use.step, self._numbers, key))
        if len(heap) > 2 * len(self._entries) + _FEWEST_REBUILT:
            heap[:] = [item for item in heap if self._is_live(item)]
            heapq.heapify(heap)

    def _take_out(self, key: K) -> _Entry:
        entry = self._entries.pop(key)
        self._idle.pop(key, None)
        self.used -= entry.nbytes
        return entry
