"""Short tasks that a worker is given together, and which of all tasks run.

With a message each way for every task, agent, worker and trainer together take an eighth more CPU
for a photograph: each wakes up, and what it needs has left the CPU's cache meanwhile. So a free
worker is given several at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.policy.item import Result

BUNDLE_S = 10e-3
"""What one worker is given at once, by the estimate [s]: so long may a sample wait behind one that
is due later, and longer ones are made alone."""

BUNDLE_TASKS = 4
"""Tasks that one worker is given at once. With eight, a photograph took 7 % more CPU than with
four, on all sides together."""


@dataclass(slots=True)
class Bundle:
    """What one free worker is given to make, one after another."""

    number: int = 0
    """Ticket of its first task; 0 while it has none."""

    tasks: int = 0
    cost_s: float = 0.0
    """What they take, by the estimate [s]."""

    def has_room(self, cost_s: float) -> bool:
        """Return whether it takes another task; one that is empty takes any."""
        return not self.tasks or (self.tasks < BUNDLE_TASKS and self.cost_s + cost_s <= BUNDLE_S)

    def add(self, ticket: int, cost_s: float) -> None:
        """Put a task behind the others."""
        self.number = self.number or ticket
        self.tasks += 1
        self.cost_s += cost_s


@dataclass(slots=True)
class _Worker:
    """One that makes a bundle."""

    left: int
    """Tasks that have not ended."""

    free_at: float
    """By the estimate [s]."""


class Running:
    """The results of tasks that run, by ticket, and how many workers make them."""

    def __init__(self) -> None:
        self._results: dict[int, Result] = {}
        self._workers: dict[int, _Worker] = {}

    def __len__(self) -> int:
        """Return how many tasks run, or wait in their bundle."""
        return len(self._results)

    def __contains__(self, ticket: object) -> bool:
        """Return whether a task runs."""
        return ticket in self._results

    @property
    def busy(self) -> int:
        """Workers that are not done with what they were given."""
        return len(self._workers)

    def busy_s(self, now: float) -> float:
        """Return how long workers will be busy in all, by the estimates [s]."""
        return sum(max(0.0, worker.free_at - now) for worker in self._workers.values())

    def add(self, result: Result) -> None:
        """Note that a task runs."""
        self._results[result.ticket] = result
        worker = self._workers.setdefault(result.bundle, _Worker(0, 0.0))
        worker.left += 1
        worker.free_at = max(worker.free_at, result.started + result.cost_s)

    def pop(self, ticket: int) -> Result:
        """Note that a task has ended.

        Raises:
            KeyError: it does not run.
        """
        result = self._results.pop(ticket)
        worker = self._workers[result.bundle]
        worker.left -= 1
        if not worker.left:
            del self._workers[result.bundle]
        return result
