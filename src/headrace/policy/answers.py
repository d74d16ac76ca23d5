"""What the consumer queue answers to requests, and counts of it."""

from __future__ import annotations

from headrace.policy.item import Item
from headrace.policy.lookahead_events import Action, Serve, ServeMissing, ServeRaw
from headrace.policy.queue_state import QueueState
from headrace.policy.window import JobWindow


class Answers:
    """Turns items into answers; each request gets one for each of its samples."""

    def __init__(self, queue: QueueState) -> None:
        self._queue = queue

    def discard(self, job: JobWindow, item: Item) -> list[Action]:
        """Keep nothing for an item; one that runs goes on, for nobody."""
        if item.state == "running":
            item.abandoned = True
            return []
        job.forget(item)
        if item.result is None:
            return []
        return self._queue.results.settle(self._queue.results.leave(item))

    def release_over(self, job: JobWindow) -> list[Action]:
        """Keep nothing for steps that a job will not ask for again."""
        return [action for item in job.over() for action in self.discard(job, item)]

    def abandon(self, job: JobWindow, item: Item, code: str, reason: str) -> list[Action]:
        """Plan an item no more that cannot be started."""
        job.forget(item)
        return self.raw_all(item, code, reason)

    def hand_over(self, job: JobWindow, item: Item) -> list[Action]:
        """Serve a sample that was made to the request that waited longest for it."""
        if not item.waiters:
            return []
        first = item.waiters.pop(0)
        rest = self.raw_all(item, "late", "prepared once and asked for twice")
        return [*self.serve(job, item, first.request, ready=False), *rest]

    def serve(self, job: JobWindow, item: Item, request: int, *, ready: bool) -> list[Action]:
        """Send what was made to a request."""
        job.forget(item)
        result = self._queue.results.send(item)
        shared = result.visit.job != job.name
        self._queue.counts["ready" if ready else "waited"] += 1
        self._queue.counts["shared"] += shared
        return [
            Serve(
                request=request,
                visit=item.visit,
                ticket=result.ticket,
                ready=ready,
                shared=shared,
            )
        ]

    def raw(self, job: JobWindow, item: Item, request: int, code: str, reason: str) -> list[Action]:
        """Answer a request with raw bytes, and keep nothing for it unless another waits."""
        actions = [] if item.waiters else self.discard(job, item)
        return [*actions, self.raw_action(item, request, code, reason)]

    def raw_all(self, item: Item, code: str, reason: str) -> list[Action]:
        """Answer all requests that wait for an item with raw bytes."""
        waiters, item.waiters = item.waiters, []
        return [self.raw_action(item, waiter.request, code, reason) for waiter in waiters]

    def raw_action(self, item: Item, request: int, code: str, reason: str) -> Action:
        """Return the answer of raw bytes to one request."""
        self._queue.counts[f"raw-{code}"] += 1
        return ServeRaw(request=request, visit=item.visit, code=code, reason=reason)

    def missing(self, item: Item, request: int) -> list[Action]:
        """Tell a request that its sample cannot be made."""
        self._queue.counts[f"missing-{item.code}"] += 1
        return [ServeMissing(request=request, visit=item.visit, code=item.code, reason=item.reason)]
