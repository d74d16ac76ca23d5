"""The results of all tasks: the memory that they hold, and the visits that each is for."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.policy.bundles import Bundle, Running
from headrace.policy.choice import job_to_yield
from headrace.policy.item import Content, Item, Result
from headrace.policy.lookahead_events import Action, Drop
from headrace.policy.memory_shares import MemoryShares
from headrace.policy.window import JobWindow


class Results:
    """Which tasks run, what they made, and whose memory that is. The budget is never exceeded.

    A result counts once, in equal parts for the jobs that need it.

    Args:
        memory: The budget, and what each job holds of it.
        jobs: All jobs of the queue, as they come and go.
    """

    def __init__(self, memory: MemoryShares, jobs: Mapping[str, JobWindow]) -> None:
        self.memory = memory
        self.running = Running()
        self.dropped = 0
        """Results that were made and served to nobody."""

        self._jobs = jobs
        self._made: dict[int, Result] = {}
        self._by_content: dict[Content, Result] = {}
        self._tickets = 0

    @property
    def ready(self) -> int:
        """Results that lie ready for at least one visit."""
        return sum(bool(result.items) for result in self._made.values())

    # Tasks

    def start(self, job: JobWindow, item: Item, nbytes: int, bundle: Bundle, now: float) -> Result:
        """Reserve memory for a task that starts now, also for other jobs' visits of its content."""
        self._tickets += 1
        begins = now + bundle.cost_s
        bundle.add(self._tickets, item.cost_s)
        result = Result(
            ticket=self._tickets,
            visit=item.visit,
            content=job.content(item),
            nbytes=nbytes,
            started=begins,
            cost_s=item.cost_s,
            bundle=bundle.number,
            jobs=(job.name,),
        )
        self._hold(result)
        self.running.add(result)
        self._share(result, item)
        self._offer(result)
        return result

    def finish(self, ticket: int, nbytes: int) -> Result:
        """Keep what a task made, which needs no more than was reserved for it."""
        result = self._made[ticket] = self.running.pop(ticket)
        self._free(result)
        result.nbytes = nbytes
        self._hold(result)
        for item in result.items:
            item.state = "ready"
        return result

    def end(self, ticket: int) -> Result:
        """Free the memory of a task that made nothing."""
        result = self.running.pop(ticket)
        self._free(result)
        for item in result.items:
            item.result = None
        return result

    def resume(self, result: Result, nbytes: int) -> None:
        """Reserve memory anew for a task that goes on after its end."""
        result.nbytes = nbytes
        self._hold(result)
        self.running.add(result)
        for item in result.items:
            item.result = result

    # Visits

    def join(self, job: JobWindow, item: Item) -> None:
        """Let an item that is not started have another job's result of its content, if any."""
        content = job.content(item) if item.is_unstarted else None
        result = None if content is None else self._by_content.get(content)
        if result is not None and result.visit.job != job.name:
            self._share(result, item)
            if item.state == "ready":
                job.keep_ready(item)

    def leave(self, item: Item) -> Result:
        """Note that an item does not need its result any more; return the result."""
        result = item.result
        assert result is not None
        item.result = None
        result.items.remove(item)
        self._count(result)
        return result

    def send(self, item: Item) -> Result:
        """Note that a result is on its way to an item's request; return it."""
        result = self.leave(item)
        result.sending += 1
        result.served = True
        return result

    def sent(self, ticket: int) -> list[Action]:
        """Note that a result has left for one request; drop it if that was the last."""
        result = self._made[ticket]
        result.sending -= 1
        return self.settle(result)

    def settle(self, result: Result) -> list[Action]:
        """Drop a result that was made and is not needed any more, or keep it for those left."""
        if not result.items and not result.sending:
            del self._made[result.ticket]
            self._free(result)
            self.dropped += not result.served
            return [Drop(ticket=result.ticket)]
        for item in result.items:
            self._jobs[item.visit.job].keep_ready(item)
        return []

    # Memory

    def make_room(self, item: Item, nbytes: int, now: float) -> list[Action]:
        """Drop what is less urgent than ``item`` until ``nbytes`` are free, or nothing is left."""
        actions: list[Action] = []
        while not self.memory.has_room(nbytes):
            owner = job_to_yield(self._jobs, self.memory, item, nbytes=nbytes, now=now)
            victim = owner.latest_ready() if owner else None
            if owner is None or victim is None or victim.result is None:
                break
            actions += self._evict(victim.result, owner)
        return actions

    def _evict(self, result: Result, owner: JobWindow) -> list[Action]:
        """Drop what lies ready for a job; other jobs' visits that share it are planned anew."""
        for item in list(result.items):
            self.leave(item)
            job = self._jobs[item.visit.job]
            if job is owner:
                job.forget(item)
            else:
                job.requeue(item)
        return self.settle(result)

    def _offer(self, result: Result) -> None:
        """Let other jobs' visits of its content have a result, where they are not started."""
        if result.content is None:
            return
        _, sample, epoch, part = result.content
        for job in self._jobs.values():
            item = None if job.name == result.visit.job else job.unstarted(sample, epoch, part)
            if item is not None and job.content(item) == result.content:
                self._share(result, item)

    def _share(self, result: Result, item: Item) -> None:
        item.result = result
        item.state = "running" if result.ticket in self.running else "ready"
        item.held_before_s = None
        result.items.append(item)
        self._count(result)

    def _count(self, result: Result) -> None:
        """Count a result for the jobs that need it now; the last one's until it was sent."""
        jobs = tuple(dict.fromkeys(item.visit.job for item in result.items))
        if jobs and jobs != result.jobs:
            self.memory.give_back(result.jobs, result.nbytes)
            result.jobs = jobs
            self.memory.take(jobs, result.nbytes)

    def _hold(self, result: Result) -> None:
        self.memory.take(result.jobs, result.nbytes)
        if result.content is not None:
            self._by_content.setdefault(result.content, result)

    def _free(self, result: Result) -> None:
        self.memory.give_back(result.jobs, result.nbytes)
        if result.content is not None and self._by_content.get(result.content) is result:
            del self._by_content[result.content]
