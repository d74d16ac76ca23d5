"""What the parts of the consumer queue share: jobs, memory, results, the guard's word."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from headrace.policy.choice import reservation
from headrace.policy.item import Item
from headrace.policy.lookahead_events import Stored
from headrace.policy.memory_shares import MemoryShares
from headrace.policy.results import Results
from headrace.policy.throttle import Throttle
from headrace.policy.window import JobWindow

TOO_LARGE = ("busy", "larger than the agent's whole memory budget")
"""Code and reason of a sample that will never be started."""


@dataclass(slots=True)
class QueueState:
    """One queue's. Its parts change it; ``Lookahead`` alone holds it."""

    jobs: dict[str, JobWindow]
    memory: MemoryShares
    results: Results
    throttle: Throttle
    allowed: int
    """Workers that may be busy at once."""

    transform: bool = True
    """Whether tasks may start at all."""

    busy_reason: str = ""
    """Why not."""

    counts: Counter[str] = field(default_factory=Counter)

    def extend(self, job: JobWindow) -> None:
        """Plan further steps of a job, with what others made where it is the same."""
        for item in job.extend():
            self.results.join(job, item)

    def is_too_large(self, job: JobWindow, item: Item) -> bool:
        """Whether an item needs more than the whole budget."""
        return reservation(job, item, self.memory.budget) > self.memory.budget


def stored_of(job: JobWindow, item: Item) -> Stored:
    """Return where an item would be read, and how much of its sample."""
    stored = job.plan.stored(item.visit.sample)
    return replace(stored, nbytes=item.visit.part.of(stored.nbytes))
