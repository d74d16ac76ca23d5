"""The tasks of the consumer queue: which start, and what becomes of those that end."""

from __future__ import annotations

from headrace.policy.answers import Answers
from headrace.policy.bundles import Bundle
from headrace.policy.choice import next_to_start, reservation
from headrace.policy.item import Item, Result
from headrace.policy.lookahead_events import (
    Action,
    Broken,
    Crashed,
    Encoded,
    Finished,
    Grow,
    GrowAsked,
    GuardDecided,
    RawReadBegan,
    RawReadEnded,
    Refuse,
    Start,
)
from headrace.policy.queue_state import TOO_LARGE, QueueState, stored_of
from headrace.policy.reads import Reads
from headrace.policy.window import JobWindow
from headrace.policy.worker_shares import WorkerShares


class Tasks:
    """Starts tasks while there are workers and memory.

    Args:
        queue: What the queue's parts share.
        answers: To those who wait for what tasks make.
        crashes: Tasks that a sample may take down before it is only sent raw.
    """

    def __init__(self, queue: QueueState, answers: Answers, *, crashes: int) -> None:
        self._queue = queue
        self._answers = answers
        self._crashes = crashes
        self._workers = WorkerShares()
        self._reads = Reads()

    def forget(self, job: str) -> None:
        """Drop a job that is gone."""
        self._workers.forget(job)

    def start(self, now: float) -> list[Action]:
        """Start what is to be started now, dealt out among free workers."""
        actions: list[Action] = []
        free = [Bundle() for _ in range(self._queue.allowed - self._queue.results.running.busy)]
        blocked: set[str] = set()
        self._end_reads()
        if self._queue.throttle.active:
            self._queue.throttle.begin_round()
        while self._queue.transform and free:
            chosen = next_to_start(self._queue.jobs, self._workers, blocked=blocked, now=now)
            if chosen is None:
                break
            job, item = chosen
            bundle = min(free, key=lambda one: one.cost_s)
            if not bundle.has_room(item.cost_s):
                break
            nbytes = reservation(job, item, self._queue.memory.budget)
            if nbytes > self._queue.memory.budget:
                actions += self._answers.abandon(job, item, *TOO_LARGE)
                continue
            if self._waits_for_copy(job, item):
                continue
            if self._is_held(job, item, now):
                blocked.add(job.name)
                continue
            actions += self._queue.results.make_room(item, nbytes, now)
            if self._queue.memory.has_room(nbytes):
                actions.append(self._start_one(job, item, nbytes, bundle, now))
            else:
                blocked.add(job.name)
        return actions

    def _waits_for_copy(self, job: JobWindow, item: Item) -> bool:
        """Set an item aside whose bytes are being read, for another job or another visit."""
        encoded = _unkept(job, item)
        if encoded is None or not self._reads.wait(encoded, item.visit):
            return False
        item.state = "fetching"
        self._queue.counts["behind"] += 1
        return True

    def _end_reads(self) -> None:
        """Let what waited for the reads of tasks that have ended be started."""
        for visit in self._reads.take_over(self._queue.results.running):
            job = self._queue.jobs.get(visit.job)
            if job is not None:
                job.take_up([visit])

    def _is_held(self, job: JobWindow, item: Item, now: float) -> bool:
        """Return whether a job's quota holds back its next sample; the others stay behind it."""
        is_limited = self._queue.throttle.active and self._queue.throttle.limits(job.name)
        stored = stored_of(job, item) if is_limited else None
        if stored is None or not self._queue.throttle.holds(job.name, stored, now):
            job.held.end(now)
            return False
        job.held.begin(now)
        if item.held_before_s is None:
            item.held_before_s = job.held.total_s(now)
        return True

    def _start_one(
        self, job: JobWindow, item: Item, nbytes: int, bundle: Bundle, now: float
    ) -> Action:
        before_s, item.held_before_s = item.held_before_s, None
        throttled_s = 0.0 if before_s is None else job.held.total_s(now) - before_s
        if self._queue.throttle.active and self._queue.throttle.limits(job.name):
            self._queue.throttle.pay(job.name, stored_of(job, item), now)
        encoded = _unkept(job, item)
        result = self._queue.results.start(job, item, nbytes, bundle, now)
        if encoded is not None:
            self._reads.begin(encoded, result.ticket)
        self._workers.spend(job.name, item.cost_s, now)
        self._queue.counts["started"] += 1
        return Start(
            ticket=result.ticket,
            visit=item.visit,
            nbytes=nbytes,
            throttled_s=throttled_s,
            bundle=result.bundle,
        )

    def note_raw_read(self, event: RawReadBegan | RawReadEnded) -> None:
        """Let tasks wait for the copy that an answer of raw bytes leaves, or wait no more."""
        if isinstance(event, RawReadBegan):
            self._reads.begin_raw(event.encoded, event.read)
        else:
            self._reads.end_raw(event.read)

    def finished(self, event: Finished) -> list[Action]:
        """Hand over what a task made."""
        result = self._queue.results.finish(event.ticket, event.nbytes)
        self._queue.counts["finished"] += 1
        actions = [a for item in list(result.items) for a in self._made(item, event)]
        return actions + self._queue.results.settle(result)

    def _made(self, item: Item, event: Finished) -> list[Action]:
        job = self._queue.jobs[item.visit.job]
        if item.abandoned:
            job.forget(item)
            self._queue.results.leave(item)
            return []
        job.learn(item.planned, seconds=event.seconds, nbytes=event.nbytes)
        return self._answers.hand_over(job, item)

    def broken(self, event: Broken) -> list[Action]:
        """Tell those who wait that a sample cannot be made."""
        items = self._queue.results.end(event.ticket).items
        return [action for item in items for action in self._cannot_be_made(item, event)]

    def _cannot_be_made(self, item: Item, event: Broken) -> list[Action]:
        item.state, item.code, item.reason = "missing", event.code, event.reason
        waiters, item.waiters = item.waiters, []
        if waiters:
            self._queue.jobs[item.visit.job].forget(item)
        return [
            action for waiter in waiters for action in self._answers.missing(item, waiter.request)
        ]

    def crashed(self, event: Crashed) -> list[Action]:
        """Plan anew what took its worker down."""
        items = self._queue.results.end(event.ticket).items
        self._queue.counts["crashed"] += 1
        return [action for item in items for action in self._try_again(item, event.reason)]

    def _try_again(self, item: Item, reason: str) -> list[Action]:
        """Plan an item anew that took its worker down, unless it did so too often."""
        job = self._queue.jobs[item.visit.job]
        item.crashes += 1
        if item.crashes >= self._crashes:
            job.crash(item.visit.sample)
            job.forget(item)
            return self._answers.raw_all(item, "crashed", reason)
        if item.abandoned:
            job.forget(item)
        else:
            job.requeue(item)
        return []

    def grow(self, event: GrowAsked, now: float) -> list[Action]:
        """Give a task the memory that its result needs, or let it give up."""
        result = self._queue.results.end(event.ticket)
        drops: list[Action] = []
        for item in result.items:
            if item.abandoned or event.nbytes > self._queue.memory.budget:
                continue
            planned = item.planned
            self._queue.jobs[item.visit.job].estimates.learn_size(
                planned.kind, foreseen_bytes=planned.nbytes, nbytes=event.nbytes
            )
            drops += self._queue.results.make_room(item, event.nbytes, now)
            if self._queue.memory.has_room(event.nbytes):
                self._queue.results.resume(result, event.nbytes)
                return [*drops, Grow(ticket=event.ticket, nbytes=event.nbytes)]
        return [*drops, *self._refuse(result)]

    def _refuse(self, result: Result) -> list[Action]:
        self._queue.counts["refused"] += 1
        answers: list[Action] = []
        for item in result.items:
            self._queue.jobs[item.visit.job].forget(item)
            answers += self._answers.raw_all(
                item, "busy", "its result does not fit in the agent's memory"
            )
        return [Refuse(ticket=result.ticket), *answers]

    def guard(self, event: GuardDecided) -> list[Action]:
        """Follow the CPU guard; what it stops is sent raw."""
        self._queue.allowed, self._queue.transform = event.workers, event.transform
        self._queue.busy_reason = event.reason
        if event.transform:
            return []
        actions: list[Action] = []
        for job in self._queue.jobs.values():
            for item in job.waited():
                if item.state in ("planned", "fetching"):
                    actions += self._answers.abandon(job, item, "busy", event.reason)
        return actions


def _unkept(job: JobWindow, item: Item) -> Encoded | None:
    """Return what names the bytes that an item's task would read and leave a copy of, if any."""
    return job.plan.unkept(item.visit.sample) if item.visit.part.is_whole else None
