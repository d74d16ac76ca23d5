"""The consumer queue: which samples an agent prepares now, keeps, serves or leaves raw.

Events and the time go in, actions come out; nothing here waits or reads a clock. The
agent and the simulator call the same object.

Rules, in the order in which they win:

1. Memory is reserved before a task starts; the budget is never exceeded.
2. A job beyond its share of workers or memory yields to one below its own.
3. A sample that a request waits for comes before one that is only foreseen. It is
   started if it can still be made within the request's patience, else sent raw at once.
4. Foreseen samples start in order of slack: deadline minus estimated cost, so heavy ones
   start earlier. Those that would be late anyway come last, the least late first:
   an overloaded agent still makes what it can in time.
5. A job whose quota of bandwidth is used up takes no worker; the others go on. Its samples
   that a request waits for are waited for longer: their raw bytes would be held back too.
6. What is started for one job is made for all whose foreseen visits have the same content, and
   kept until the last of them has had it or does not want it any more.
7. Bytes that a running task reads, and leaves a copy of, are not read by another meanwhile: other
   samples go on, and those of other pipelines or seeds come when there is the copy.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from headrace.core.media import TierName
from headrace.core.parts import WHOLE
from headrace.policy.choice import next_to_start, reservation
from headrace.policy.item import Item, Result, Waiter
from headrace.policy.lookahead_events import (
    Action,
    AskCancelled,
    Asked,
    Broken,
    Crashed,
    Encoded,
    Event,
    FetchBegan,
    FetchEnded,
    Finished,
    Grow,
    GrowAsked,
    GuardDecided,
    JobChanged,
    JobRemoved,
    ModeChanged,
    PlanChanged,
    QuotasChanged,
    ReadAsked,
    ReadWithdrawn,
    Refuse,
    Sent,
    Serve,
    ServeMissing,
    ServeRaw,
    Start,
    Stored,
    Tick,
    Visit,
)
from headrace.policy.lookahead_limits import LookaheadLimits, LookaheadStatistics
from headrace.policy.memory_shares import MemoryShares
from headrace.policy.patience import Patience
from headrace.policy.reads import Reads
from headrace.policy.results import Results
from headrace.policy.throttle import Throttle
from headrace.policy.window import JobWindow
from headrace.policy.worker_shares import WorkerShares

_LATE = ("late", "not ready in time")
_HELD_S = 0.25
"""A sample that its job's quota holds back is looked at again after this time [s]."""

_TOO_LARGE = ("busy", "larger than the agent's whole memory budget")


class Lookahead:
    """The state machine. Not thread-safe; one owner feeds it."""

    def __init__(self, limits: LookaheadLimits) -> None:
        self._limits = limits
        self._memory = MemoryShares(limits.memory, limits.block)
        self._workers = WorkerShares()
        self._allowed = limits.workers
        self._transform = True
        self._busy_reason = ""
        self._jobs: dict[str, JobWindow] = {}
        self._results = Results(self._memory, self._jobs)
        self._reads = Reads()
        self._patience = Patience()
        self._throttle = Throttle(limits.burst_s)
        self._counts: Counter[str] = Counter()

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take in one event and return what is to be done, in order.

        Raises:
            KeyError: the event names a job or ticket that does not exist.
        """
        actions = self._react(event, now)
        if self._throttle.active:
            actions += self._throttle.release(now)
        actions += self._start(now)
        actions += self._expire(now)
        return actions

    def wake_at(self) -> float | None:
        """Return when a ``Tick`` is due although nothing happens [s]; None when never."""
        patience_ends, quota_is_free = self._patience.next_at(), self._throttle.next_at()
        if patience_ends is None or quota_is_free is None:
            return quota_is_free if patience_ends is None else patience_ends
        return min(patience_ends, quota_is_free)

    def limits(self, job: str, tier: TierName | None = None) -> bool:
        """Return whether a job has a quota, on a tier or on any."""
        return self._throttle.limits(job, tier)

    def holds_back(self, job: str) -> bool:
        """Return whether a job's quota keeps one of its reads from being made.

        A sample that it held back when it was looked at last counts as held until it is looked at
        again, which is when a worker is free.
        """
        known = self._jobs.get(job)
        return self._throttle.has_waiting(job) or (known is not None and known.held.is_on)

    def quotas(self) -> dict[str, dict[TierName, float]]:
        """Return the quotas in force: job → tier → bandwidth [B/s]."""
        return self._throttle.quotas()

    def waiting(self) -> dict[str, int]:
        """Return how many samples of each job a request waits for and no task prepares yet."""
        return {name: job.waiting_count() for name, job in self._jobs.items()}

    def upcoming(self, job: str) -> list[Visit]:
        """Return a job's visits that are foreseen and not started, those due first in front."""
        window = self._jobs.get(job)
        return [] if window is None or window.raw_only else window.upcoming()

    def over(self, job: str) -> int:
        """Return the last step that a job will not ask for again; -1 for a job that is gone."""
        window = self._jobs.get(job)
        return -1 if window is None else window.pace.over

    def due_at(self, job: str, step: int, now: float) -> float:
        """Return when a job's step is expected [s]; infinite for a job that is gone."""
        window = self._jobs.get(job)
        return math.inf if window is None else window.pace.deadline(step, now)

    def statistics(self) -> LookaheadStatistics:
        """Return counts; takes time in proportion to the samples held."""
        states: Counter[str] = Counter()
        waited = 0
        for job in self._jobs.values():
            states.update(item.state for item in job.items.values())
            waited += sum(1 for item in job.items.values() if item.waiters)
        return LookaheadStatistics(
            jobs=len(self._jobs),
            running=len(self._results.running),
            waited=waited,
            ready=self._results.ready,
            planned=states["planned"],
            memory_used_bytes=self._memory.used,
            memory_budget_bytes=self._memory.budget,
            counts={**self._counts, "dropped": self._results.dropped},
        )

    def _react(self, event: Event, now: float) -> list[Action]:  # noqa: PLR0911, PLR0912 - one per event
        match event:
            case Asked():
                return self._asked(event, now)
            case Finished():
                return self._finished(event)
            case Sent():
                return self._results.sent(event.ticket)
            case GuardDecided():
                return self._guard(event)
            case GrowAsked():
                return self._grow(event, now)
            case Broken():
                return self._broken(event)
            case Crashed():
                return self._crashed(event)
            case AskCancelled():
                self._cancel(event)
            case JobChanged():
                return self._change(event, now)
            case PlanChanged():
                self._follow(event)
            case ModeChanged():
                return self._change_mode(event)
            case JobRemoved():
                return self._remove(event)
            case QuotasChanged():
                return list(self._throttle.set_quotas(event.quotas, now))
            case ReadAsked():
                return list(self._throttle.ask(event))
            case ReadWithdrawn():
                self._throttle.withdraw(event.read)
            case FetchBegan() | FetchEnded():
                self._fetch(event)
            case Tick():
                pass
        return []

    # Jobs

    def _change(self, event: JobChanged, now: float) -> list[Action]:
        job = self._jobs.get(event.job)
        if job is None:
            job = self._jobs[event.job] = JobWindow(event, self._limits.window, now)
        else:
            job.change(event, now)
        if job.raw_only:
            return self._empty(job, job.raw_only)
        self._extend(job)
        return self._release_over(job)

    def _follow(self, event: PlanChanged) -> None:
        job = self._jobs[event.job]
        job.follow(event.plan)
        self._extend(job)

    def _change_mode(self, event: ModeChanged) -> list[Action]:
        job = self._jobs[event.job]
        job.raw_only = event.raw_only
        if job.raw_only:
            return self._empty(job, job.raw_only)
        self._extend(job)
        return []

    def _remove(self, event: JobRemoved) -> list[Action]:
        job = self._jobs[event.job]
        self._workers.forget(event.job)
        actions = self._empty(job, "the job was removed from this agent")
        for item in job.items.values():
            self._results.leave(item)  # those that run
        del self._jobs[event.job]
        return actions

    def _empty(self, job: JobWindow, reason: str) -> list[Action]:
        """Answer everyone with raw bytes and keep nothing that was prepared."""
        actions: list[Action] = []
        for item in list(job.items.values()):
            actions += self._raw_all(item, "raw-only", reason)
            actions += self._discard(job, item)
        return actions

    def _fetch(self, event: FetchBegan | FetchEnded) -> None:
        job = self._jobs.get(event.job)
        if job is None:
            return  # it was removed meanwhile
        if isinstance(event, FetchBegan):
            job.set_aside(event.visits)
        else:
            job.take_up(event.visits)

    def _extend(self, job: JobWindow) -> None:
        for item in job.extend():
            self._results.join(job, item)

    def _release_over(self, job: JobWindow) -> list[Action]:
        return [action for item in job.over() for action in self._discard(job, item)]

    def _discard(self, job: JobWindow, item: Item) -> list[Action]:
        if item.state == "running":
            item.abandoned = True
            return []
        job.forget(item)
        return [] if item.result is None else self._results.settle(self._results.leave(item))

    # Requests

    def _asked(self, event: Asked, now: float) -> list[Action]:
        job = self._jobs[event.job]
        job.report(event, now)
        actions = self._release_over(job)
        queue_s = self._queue_s(now)
        parts = event.parts or (WHOLE,) * len(event.samples)
        for visit in zip(event.samples, event.epochs, parts, strict=True):
            item = job.add(event.step, job.plan.foresee(*visit))
            if not event.raw:
                self._results.join(job, item)
            answer = self._answer_now(job, item, event)
            if answer is None and self._needs_s(item, queue_s, now) > event.wait_s:
                answer = self._raw(job, item, event.request, *_LATE)
            if answer is not None:
                actions += answer
                continue
            if item.state == "planned":
                queue_s += item.cost_s / max(self._allowed, 1)
            self._wait(job, item, event, now)
        self._extend(job)
        return actions

    def _answer_now(self, job: JobWindow, item: Item, event: Asked) -> list[Action] | None:
        """Return the answer that can be given at once; None when the sample must be waited for."""
        request = event.request
        if event.raw:
            return self._raw(job, item, request, "asked", "the client asked for encoded bytes")
        if item.state == "ready":
            return self._serve(job, item, request, ready=True)
        if item.state == "missing":
            job.forget(item)
            return self._missing(item, request)
        refusal = self._refusal(job, item)
        return None if refusal is None else self._raw(job, item, request, *refusal)

    def _refusal(self, job: JobWindow, item: Item) -> tuple[str, str] | None:
        if job.raw_only:
            return "raw-only", job.raw_only
        if not item.planned.prepare:
            return "asked", "the job's cut ships this kind encoded"
        if item.visit.sample in job.crashed:
            return "crashed", "workers died of this sample"
        return None if item.state == "running" else self._cannot_start(job, item)

    def _cannot_start(self, job: JobWindow, item: Item) -> tuple[str, str] | None:
        if not self._transform:
            return "busy", self._busy_reason
        if reservation(job, item, self._memory.budget) > self._memory.budget:
            return _TOO_LARGE
        return None

    def _wait(self, job: JobWindow, item: Item, event: Asked, now: float) -> None:
        expiry = now + event.wait_s
        item.abandoned = False
        if item.held_before_s is None:
            item.held_before_s = job.held.total_s(now)
        job.wait(item, Waiter(request=event.request, expiry=expiry))
        self._watch(item, expiry)

    def _cancel(self, event: AskCancelled) -> None:
        for job in self._jobs.values():
            for item in job.waited():
                item.waiters = [w for w in item.waiters if w.request != event.request]
                if not item.waiters:
                    self._unwaited(job, item)

    def _unwaited(self, job: JobWindow, item: Item) -> None:
        over = item.visit.step <= job.pace.over
        if item.state == "running":
            item.abandoned = over
        elif over:
            job.forget(item)
        elif item.state == "planned":
            job.requeue(item)

    def _expire(self, now: float) -> list[Action]:
        actions: list[Action] = []
        for item in self._patience.due(now):
            last_call = now + (item.cost_s if item.state == "planned" else 0.0)
            late = [waiter for waiter in item.waiters if waiter.expiry <= last_call]
            if self._is_held_up(item, now):
                self._postpone(item, late, now)
                continue
            item.waiters = [waiter for waiter in item.waiters if waiter.expiry > last_call]
            actions += [self._raw_action(item, waiter.request, *_LATE) for waiter in late]
            if late and not item.waiters:
                self._given_up(item)
        return actions

    def _is_held_up(self, item: Item, now: float) -> bool:
        """Return whether a sample's raw bytes would be waited for just as long."""
        if item.state != "planned" or not self._throttle.active:
            return item.state == "fetching"
        job = self._jobs[item.visit.job]
        return self._throttle.would_wait(job.name, _stored(job, item).tier, now)

    def _postpone(self, item: Item, late: list[Waiter], now: float) -> None:
        for waiter in late:
            waiter.expiry = now + _HELD_S + item.cost_s
        if late:
            self._watch(item, now + _HELD_S + item.cost_s)

    def _watch(self, item: Item, expiry: float) -> None:
        self._patience.watch(item, expiry)
        if item.state == "planned":
            self._patience.watch(item, expiry - item.cost_s)

    def _given_up(self, item: Item) -> None:
        if item.state == "running":
            item.abandoned = True
        else:
            self._jobs[item.visit.job].forget(item)

    def _needs_s(self, item: Item, queue_s: float, now: float) -> float:
        """Return how long until an item will be ready, by the estimates."""
        return queue_s + item.cost_s if item.result is None else item.result.remaining_s(now)

    def _queue_s(self, now: float) -> float:
        """Return how long until a worker is free for what is asked for next."""
        waited = sum(job.waited_cost_s() for job in self._jobs.values())
        running = sum(result.remaining_s(now) for result in self._results.running.values())
        free = max(self._allowed - len(self._results.running), 0)
        return (waited + (0.0 if free else running)) / max(self._allowed, 1)

    # Answers

    def _serve(self, job: JobWindow, item: Item, request: int, *, ready: bool) -> list[Action]:
        job.forget(item)
        result = self._results.send(item)
        shared = result.visit.job != job.name
        self._counts["ready" if ready else "waited"] += 1
        self._counts["shared"] += shared
        return [
            Serve(
                request=request,
                visit=item.visit,
                ticket=result.ticket,
                ready=ready,
                shared=shared,
            )
        ]

    def _raw(
        self, job: JobWindow, item: Item, request: int, code: str, reason: str
    ) -> list[Action]:
        actions = [] if item.waiters else self._discard(job, item)
        return [*actions, self._raw_action(item, request, code, reason)]

    def _raw_all(self, item: Item, code: str, reason: str) -> list[Action]:
        waiters, item.waiters = item.waiters, []
        return [self._raw_action(item, waiter.request, code, reason) for waiter in waiters]

    def _raw_action(self, item: Item, request: int, code: str, reason: str) -> Action:
        self._counts[f"raw-{code}"] += 1
        return ServeRaw(request=request, visit=item.visit, code=code, reason=reason)

    def _missing(self, item: Item, request: int) -> list[Action]:
        self._counts[f"missing-{item.code}"] += 1
        return [ServeMissing(request=request, visit=item.visit, code=item.code, reason=item.reason)]

    # Tasks

    def _start(self, now: float) -> list[Action]:
        actions: list[Action] = []
        blocked: set[str] = set()
        self._end_reads()
        if self._throttle.active:
            self._throttle.begin_round()
        while self._transform and len(self._results.running) < self._allowed:
            chosen = next_to_start(self._jobs, self._workers, blocked=blocked, now=now)
            if chosen is None:
                break
            job, item = chosen
            nbytes = reservation(job, item, self._memory.budget)
            if nbytes > self._memory.budget:
                actions += self._abandon(job, item, *_TOO_LARGE)
                continue
            if self._waits_for_copy(job, item):
                continue
            if self._is_held(job, item, now):
                blocked.add(job.name)
                continue
            actions += self._results.make_room(item, nbytes, now)
            if self._memory.has_room(nbytes):
                actions.append(self._start_one(job, item, nbytes, now))
            else:
                blocked.add(job.name)
        return actions

    def _waits_for_copy(self, job: JobWindow, item: Item) -> bool:
        """Set an item aside whose bytes are being read, for another job or another visit."""
        encoded = _unkept(job, item)
        if encoded is None or not self._reads.wait(encoded, item.visit):
            return False
        item.state = "fetching"
        self._counts["behind"] += 1
        return True

    def _end_reads(self) -> None:
        """Let what waited for the reads of tasks that have ended be started."""
        for visit in self._reads.take_over(self._results.running):
            job = self._jobs.get(visit.job)
            if job is not None:
                job.take_up([visit])

    def _abandon(self, job: JobWindow, item: Item, code: str, reason: str) -> list[Action]:
        """Plan an item no more that cannot be started."""
        job.forget(item)
        return self._raw_all(item, code, reason)

    def _is_held(self, job: JobWindow, item: Item, now: float) -> bool:
        """Return whether a job's quota holds back its next sample; the others stay behind it."""
        is_limited = self._throttle.active and self._throttle.limits(job.name)
        stored = _stored(job, item) if is_limited else None
        if stored is None or not self._throttle.holds(job.name, stored, now):
            job.held.end(now)
            return False
        job.held.begin(now)
        if item.held_before_s is None:
            item.held_before_s = job.held.total_s(now)
        return True

    def _start_one(self, job: JobWindow, item: Item, nbytes: int, now: float) -> Action:
        before_s, item.held_before_s = item.held_before_s, None
        throttled_s = 0.0 if before_s is None else job.held.total_s(now) - before_s
        if self._throttle.active and self._throttle.limits(job.name):
            self._throttle.pay(job.name, _stored(job, item), now)
        encoded = _unkept(job, item)
        result = self._results.start(job, item, nbytes, now)
        if encoded is not None:
            self._reads.begin(encoded, result.ticket)
        self._workers.spend(job.name, item.cost_s, now)
        self._counts["started"] += 1
        return Start(ticket=result.ticket, visit=item.visit, nbytes=nbytes, throttled_s=throttled_s)

    def _finished(self, event: Finished) -> list[Action]:
        result = self._results.finish(event.ticket, event.nbytes)
        self._counts["finished"] += 1
        actions = [a for item in list(result.items) for a in self._made(item, event)]
        return actions + self._results.settle(result)

    def _made(self, item: Item, event: Finished) -> list[Action]:
        job = self._jobs[item.visit.job]
        if item.abandoned:
            job.forget(item)
            self._results.leave(item)
            return []
        job.learn(item.planned, seconds=event.seconds, nbytes=event.nbytes)
        return self._hand_over(job, item)

    def _hand_over(self, job: JobWindow, item: Item) -> list[Action]:
        if not item.waiters:
            return []
        first = item.waiters.pop(0)
        rest = self._raw_all(item, "late", "prepared once and asked for twice")
        return [*self._serve(job, item, first.request, ready=False), *rest]

    def _broken(self, event: Broken) -> list[Action]:
        items = self._results.end(event.ticket).items
        return [action for item in items for action in self._cannot_be_made(item, event)]

    def _cannot_be_made(self, item: Item, event: Broken) -> list[Action]:
        item.state, item.code, item.reason = "missing", event.code, event.reason
        waiters, item.waiters = item.waiters, []
        if waiters:
            self._jobs[item.visit.job].forget(item)
        return [action for waiter in waiters for action in self._missing(item, waiter.request)]

    def _crashed(self, event: Crashed) -> list[Action]:
        items = self._results.end(event.ticket).items
        self._counts["crashed"] += 1
        return [action for item in items for action in self._try_again(item, event.reason)]

    def _try_again(self, item: Item, reason: str) -> list[Action]:
        """Plan an item anew that took its worker down, unless it did so too often."""
        job = self._jobs[item.visit.job]
        item.crashes += 1
        if item.crashes >= self._limits.crashes:
            job.crash(item.visit.sample)
            job.forget(item)
            return self._raw_all(item, "crashed", reason)
        if item.abandoned:
            job.forget(item)
        else:
            job.requeue(item)
        return []

    def _grow(self, event: GrowAsked, now: float) -> list[Action]:
        result = self._results.end(event.ticket)
        drops: list[Action] = []
        for item in result.items:
            if item.abandoned or event.nbytes > self._memory.budget:
                continue
            planned = item.planned
            self._jobs[item.visit.job].estimates.learn_size(
                planned.kind, foreseen_bytes=planned.nbytes, nbytes=event.nbytes
            )
            drops += self._results.make_room(item, event.nbytes, now)
            if self._memory.has_room(event.nbytes):
                self._results.resume(result, event.nbytes)
                return [*drops, Grow(ticket=event.ticket, nbytes=event.nbytes)]
        return [*drops, *self._refuse(result)]

    def _refuse(self, result: Result) -> list[Action]:
        self._counts["refused"] += 1
        answers: list[Action] = []
        for item in result.items:
            self._jobs[item.visit.job].forget(item)
            answers += self._raw_all(item, "busy", "its result does not fit in the agent's memory")
        return [Refuse(ticket=result.ticket), *answers]

    # CPU

    def _guard(self, event: GuardDecided) -> list[Action]:
        self._allowed, self._transform = event.workers, event.transform
        self._busy_reason = event.reason
        if event.transform:
            return []
        actions: list[Action] = []
        for job in self._jobs.values():
            for item in job.waited():
                if item.state in ("planned", "fetching"):
                    actions += self._abandon(job, item, "busy", event.reason)
        return actions


def _unkept(job: JobWindow, item: Item) -> Encoded | None:
    """Return what names the bytes that an item's task would read and leave a copy of, if any."""
    return job.plan.unkept(item.visit.sample) if item.visit.part.is_whole else None


def _stored(job: JobWindow, item: Item) -> Stored:
    """Return where an item would be read, and how much of its sample."""
    stored = job.plan.stored(item.visit.sample)
    return replace(stored, nbytes=item.visit.part.of(stored.nbytes))
