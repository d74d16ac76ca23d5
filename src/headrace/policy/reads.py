"""Which encoded samples tasks are reading, and which visits wait for a copy that they leave.

Jobs with other pipelines or seeds need other results of the same bytes. Where a cache keeps
what is read, the second of them waits for the first one's read instead of making another.
"""

from __future__ import annotations

from collections.abc import Container

from headrace.policy.lookahead_events import Encoded, Visit


class Reads:
    """The reads of running tasks, by ticket."""

    def __init__(self) -> None:
        self._tickets: dict[Encoded, int] = {}
        self._waiting: dict[int, list[Visit]] = {}

    def begin(self, encoded: Encoded, ticket: int) -> None:
        """Note that a task reads a sample's bytes, and leaves a copy when it ends."""
        self._tickets[encoded] = ticket

    def wait(self, encoded: Encoded, visit: Visit) -> bool:
        """Let a visit wait for the task that reads its sample's bytes, if there is one."""
        ticket = self._tickets.get(encoded)
        if ticket is None:
            return False
        self._waiting.setdefault(ticket, []).append(visit)
        return True

    def take_over(self, running: Container[int]) -> list[Visit]:
        """Forget the tasks that do not run any more; return the visits that waited for them."""
        over = [encoded for encoded, ticket in self._tickets.items() if ticket not in running]
        tickets = [self._tickets.pop(encoded) for encoded in over]
        return [visit for ticket in tickets for visit in self._waiting.pop(ticket, ())]
