"""The results of all tasks, and the memory that they hold from their start to their end."""

from __future__ import annotations

from headrace.policy.item import Item, Result
from headrace.policy.memory_shares import MemoryShares


class Results:
    """Which tasks run, what they made, and whose memory that is. The budget is never exceeded."""

    def __init__(self, budget: int, block: int) -> None:
        self.memory = MemoryShares(budget, block)
        self.running: dict[int, Result] = {}
        self._sending: dict[int, Result] = {}
        self._tickets = 0

    def start(self, item: Item, nbytes: int, now: float) -> Result:
        """Reserve memory for a task that starts now."""
        self._tickets += 1
        item.result = Result(ticket=self._tickets, item=item, nbytes=nbytes, started=now)
        item.state = "running"
        self.memory.take(item.visit.job, nbytes)
        self.running[item.result.ticket] = item.result
        return item.result

    def finish(self, ticket: int, nbytes: int) -> Result:
        """Keep what a task made, which needs no more than was reserved for it."""
        result = self.running.pop(ticket)
        self.memory.give_back(result.job, result.nbytes)
        result.nbytes = nbytes
        self.memory.take(result.job, nbytes)
        return result

    def end(self, ticket: int) -> Result:
        """Free the memory of a task that made nothing."""
        result = self.running.pop(ticket)
        result.item.result = None
        self.drop(result)
        return result

    def resume(self, result: Result, nbytes: int) -> None:
        """Reserve memory anew for a task that goes on, although it was ended."""
        result.item.result = result
        result.nbytes = nbytes
        self.memory.take(result.job, nbytes)
        self.running[result.ticket] = result

    def drop(self, result: Result) -> None:
        """Free the memory of what nobody wants."""
        self.memory.give_back(result.job, result.nbytes)

    def send(self, item: Item) -> int:
        """Keep what is on its way to a client; return its ticket."""
        assert item.result is not None
        self._sending[item.result.ticket] = item.result
        return item.result.ticket

    def sent(self, ticket: int) -> None:
        """Free what has left."""
        self.drop(self._sending.pop(ticket))
