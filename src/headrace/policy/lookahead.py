"""The consumer queue: which samples an agent prepares now, keeps, serves or leaves raw.

Here events are told apart and jobs come and go. Those that wait are ``requests``, what is made
for them ``tasks``, what they are told ``answers``; ``queue_state`` is what these share.

Events and the time go in, actions come out; nothing here waits or reads a clock. The
agent and the simulator call the same object.

Rules, in the order in which they win:

1. Memory is reserved before a task starts; the budget is never exceeded.
2. A job beyond its share of workers or memory yields to one below its own.
3. A sample that a request waits for comes before one that is only foreseen. It is
   started if it can still be made within the request's patience, else sent raw at once.
4. Foreseen samples start in order of slack: deadline minus estimated cost, so heavy ones
   start earlier. Those that would be late anyway come last, the least late first:
   an overloaded agent still makes what it can in time. A worker is given several short ones.
5. A job whose quota of bandwidth is used up takes no worker; the others go on. Its samples
   that a request waits for are waited for longer: their raw bytes would be held back too.
6. What is started for one job is made for all whose foreseen visits have the same content, and
   kept until the last of them has had it or does not want it any more.
7. Bytes that a running task, or a raw answer, reads and leaves a copy of, are not read by another
   task meanwhile: other samples go on, and those of other pipelines or seeds come when there is
   the copy.
"""

from __future__ import annotations

import math
from collections import Counter

from headrace.core.media import TierName
from headrace.policy.answers import Answers
from headrace.policy.lookahead_events import (
    Action,
    AskCancelled,
    Asked,
    Broken,
    Crashed,
    Event,
    FetchBegan,
    FetchEnded,
    Finished,
    GrowAsked,
    GuardDecided,
    JobChanged,
    JobRemoved,
    ModeChanged,
    PlanChanged,
    QuotasChanged,
    RawReadBegan,
    RawReadEnded,
    ReadAsked,
    ReadWithdrawn,
    Sent,
    Tick,
    Visit,
)
from headrace.policy.lookahead_limits import LookaheadLimits, LookaheadStatistics
from headrace.policy.memory_shares import MemoryShares
from headrace.policy.queue_state import QueueState
from headrace.policy.requests import Requests
from headrace.policy.results import Results
from headrace.policy.tasks import Tasks
from headrace.policy.throttle import Throttle
from headrace.policy.window import JobWindow


class Lookahead:
    """The state machine. Not thread-safe; one owner feeds it."""

    def __init__(self, limits: LookaheadLimits) -> None:
        self._window = limits.window
        jobs: dict[str, JobWindow] = {}
        memory = MemoryShares(limits.memory, limits.block)
        self._queue = QueueState(
            jobs=jobs,
            memory=memory,
            results=Results(memory, jobs),
            throttle=Throttle(limits.burst_s),
            allowed=limits.workers,
        )
        self._answers = Answers(self._queue)
        self._requests = Requests(self._queue, self._answers)
        self._tasks = Tasks(self._queue, self._answers, crashes=limits.crashes)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in one event and return what is to be done, in order.

        Raises:
            KeyError: the event names a job or ticket that does not exist.
        """
        actions = self._react(event, now)
        if self._queue.throttle.active:
            actions += self._queue.throttle.release(now)
        actions += self._tasks.start(now)
        actions += self._requests.expire(now)
        return actions

    def wake_at(self) -> float | None:
        """Return when a ``Tick`` is due although nothing happens [s]; None when never."""
        patience_ends, quota_is_free = self._requests.next_at(), self._queue.throttle.next_at()
        if patience_ends is None or quota_is_free is None:
            return quota_is_free if patience_ends is None else patience_ends
        return min(patience_ends, quota_is_free)

    def limits(self, job: str, tier: TierName | None = None) -> bool:
        """Return whether a job has a quota, on a tier or on any."""
        return self._queue.throttle.limits(job, tier)

    def holds_back(self, job: str) -> bool:
        """Return whether a job's quota keeps one of its reads from being made.

        A sample that it held back when it was looked at last counts as held until it is looked at
        again, which is when a worker is free.
        """
        known = self._queue.jobs.get(job)
        return self._queue.throttle.has_waiting(job) or (known is not None and known.held.is_on)

    def quotas(self) -> dict[str, dict[TierName, float]]:
        """Return the quotas in force: job → tier → bandwidth [B/s]."""
        return self._queue.throttle.quotas()

    def waiting(self) -> dict[str, int]:
        """Return how many samples of each job a request waits for and no task prepares yet."""
        return {name: job.waiting_count() for name, job in self._queue.jobs.items()}

    def upcoming(self, job: str) -> list[Visit]:
        """Return a job's visits that are foreseen and not started, those due first in front."""
        window = self._queue.jobs.get(job)
        return [] if window is None or window.raw_only else window.upcoming()

    def over(self, job: str) -> int:
        """Return the last step that a job will not ask for again; -1 for a job that is gone."""
        window = self._queue.jobs.get(job)
        return -1 if window is None else window.pace.over

    def due_at(self, job: str, step: int, now: float) -> float:
        """Return when a job's step is expected [s]; infinite if the job is gone, or fell silent."""
        window = self._queue.jobs.get(job)
        if window is None or window.is_silent(now):
            return math.inf
        return window.pace.deadline(step, now)

    def statistics(self) -> LookaheadStatistics:
        """Return counts; takes time in proportion to the samples held."""
        states: Counter[str] = Counter()
        waited = 0
        for job in self._queue.jobs.values():
            states.update(item.state for item in job.items.values())
            waited += sum(1 for item in job.items.values() if item.waiters)
        return LookaheadStatistics(
            jobs=len(self._queue.jobs),
            running=len(self._queue.results.running),
            waited=waited,
            ready=self._queue.results.ready,
            planned=states["planned"],
            memory_used_bytes=self._queue.memory.used,
            memory_budget_bytes=self._queue.memory.budget,
            counts={**self._queue.counts, "dropped": self._queue.results.dropped},
        )

    def _react(self, event: Event, now: float) -> list[Action]:  # noqa: PLR0911, PLR0912 - one per event
        match event:
            case Asked():
                return self._requests.asked(event, now)
            case Finished():
                return self._tasks.finished(event)
            case Sent():
                return self._queue.results.sent(event.ticket)
            case GuardDecided():
                return self._tasks.guard(event)
            case GrowAsked():
                return self._tasks.grow(event, now)
            case Broken():
                return self._tasks.broken(event)
            case Crashed():
                return self._tasks.crashed(event)
            case AskCancelled():
                self._requests.cancel(event)
            case JobChanged():
                return self._change(event, now)
            case PlanChanged():
                self._follow(event)
            case ModeChanged():
                return self._change_mode(event)
            case JobRemoved():
                return self._remove(event)
            case QuotasChanged():
                return list(self._queue.throttle.set_quotas(event.quotas, now))
            case ReadAsked():
                return list(self._queue.throttle.ask(event))
            case ReadWithdrawn():
                self._queue.throttle.withdraw(event.read)
            case RawReadBegan() | RawReadEnded():
                self._tasks.note_raw_read(event)
            case FetchBegan() | FetchEnded():
                self._fetch(event)
            case Tick():
                self._rest(now)
        return []

    # Jobs

    def _change(self, event: JobChanged, now: float) -> list[Action]:
        job = self._queue.jobs.get(event.job)
        if job is None:
            job = self._queue.jobs[event.job] = JobWindow(event, self._window, now)
        else:
            job.change(event, now)
        if job.raw_only:
            return self._empty(job, job.raw_only)
        self._queue.extend(job)
        return self._answers.release_over(job)

    def _follow(self, event: PlanChanged) -> None:
        job = self._queue.jobs[event.job]
        job.follow(event.plan)
        self._queue.extend(job)

    def _change_mode(self, event: ModeChanged) -> list[Action]:
        job = self._queue.jobs[event.job]
        job.raw_only = event.raw_only
        if job.raw_only:
            return self._empty(job, job.raw_only)
        self._queue.extend(job)
        return []

    def _remove(self, event: JobRemoved) -> list[Action]:
        job = self._queue.jobs[event.job]
        self._tasks.forget(event.job)
        actions = self._empty(job, "the job was removed from this agent")
        for item in job.items.values():
            self._queue.results.leave(item)  # those that run
        del self._queue.jobs[event.job]
        return actions

    def _rest(self, now: float) -> None:
        for job in self._queue.jobs.values():
            job.rest(now)

    def _empty(self, job: JobWindow, reason: str) -> list[Action]:
        """Answer everyone with raw bytes and keep nothing that was prepared."""
        actions: list[Action] = []
        for item in list(job.items.values()):
            actions += self._answers.raw_all(item, "raw-only", reason)
            actions += self._answers.discard(job, item)
        return actions

    def _fetch(self, event: FetchBegan | FetchEnded) -> None:
        job = self._queue.jobs.get(event.job)
        if job is None:
            return  # it was removed meanwhile
        if isinstance(event, FetchBegan):
            job.set_aside(event.visits)
        else:
            job.take_up(event.visits)
