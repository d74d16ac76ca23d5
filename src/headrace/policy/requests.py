"""The requests of the consumer queue: what is answered at once, and what is waited for how long."""

from __future__ import annotations

from headrace.core.parts import WHOLE
from headrace.policy.answers import Answers
from headrace.policy.item import Item, Waiter
from headrace.policy.lookahead_events import Action, AskCancelled, Asked
from headrace.policy.patience import Patience
from headrace.policy.queue_state import TOO_LARGE, QueueState, stored_of
from headrace.policy.window import JobWindow

_LATE = ("late", "not ready in time")
_HELD_S = 0.25
"""A sample that its job's quota holds back is looked at again after this time [s]."""


class Requests:
    """Those that wait, and when their patience ends."""

    def __init__(self, queue: QueueState, answers: Answers) -> None:
        self._queue = queue
        self._answers = answers
        self._patience = Patience()

    def next_at(self) -> float | None:
        """Return when somebody's patience ends [s]; None when nobody waits."""
        return self._patience.next_at()

    def asked(self, event: Asked, now: float) -> list[Action]:
        """Answer what can be answered at once, and let the rest be waited for."""
        job = self._queue.jobs[event.job]
        job.report(event, now)
        actions = self._answers.release_over(job)
        queue_s = self._queue_s(now)
        parts = event.parts or (WHOLE,) * len(event.samples)
        for visit in zip(event.samples, event.epochs, parts, strict=True):
            item = job.add(event.step, job.plan.foresee(*visit))
            if not event.raw:
                self._queue.results.join(job, item)
            answer = self._answer_now(job, item, event)
            if answer is None and self._needs_s(item, queue_s, now) > event.wait_s:
                answer = self._answers.raw(job, item, event.request, *_LATE)
            if answer is not None:
                actions += answer
                continue
            if item.state == "planned":
                queue_s += item.cost_s / max(self._queue.allowed, 1)
            self._wait(job, item, event, now)
        self._queue.extend(job)
        return actions

    def _answer_now(self, job: JobWindow, item: Item, event: Asked) -> list[Action] | None:
        """Return the answer that can be given at once; None when the sample must be waited for."""
        request = event.request
        if event.raw:
            return self._answers.raw(
                job, item, request, "asked", "the client asked for encoded bytes"
            )
        if item.state == "ready":
            return self._answers.serve(job, item, request, ready=True)
        if item.state == "missing":
            job.forget(item)
            return self._answers.missing(item, request)
        refusal = self._refusal(job, item)
        return None if refusal is None else self._answers.raw(job, item, request, *refusal)

    def _refusal(self, job: JobWindow, item: Item) -> tuple[str, str] | None:
        if job.raw_only:
            return "raw-only", job.raw_only
        if not item.planned.prepare:
            return "asked", "the job's cut ships this kind encoded"
        if item.visit.sample in job.crashed:
            return "crashed", "workers died of this sample"
        return None if item.state == "running" else self._cannot_start(job, item)

    def _wait(self, job: JobWindow, item: Item, event: Asked, now: float) -> None:
        expiry = now + event.wait_s
        item.abandoned = False
        if item.held_before_s is None:
            item.held_before_s = job.held.total_s(now)
        job.wait(item, Waiter(request=event.request, expiry=expiry))
        self._watch(item, expiry)

    def cancel(self, event: AskCancelled) -> None:
        """Let nobody wait for a request that went away."""
        for job in self._queue.jobs.values():
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

    def expire(self, now: float) -> list[Action]:
        """Answer those with raw bytes whose patience ends."""
        actions: list[Action] = []
        for item in self._patience.due(now):
            last_call = now + (item.cost_s if item.state == "planned" else 0.0)
            late = [waiter for waiter in item.waiters if waiter.expiry <= last_call]
            if self._is_held_up(item, now):
                self._postpone(item, late, now)
                continue
            item.waiters = [waiter for waiter in item.waiters if waiter.expiry > last_call]
            actions += [self._answers.raw_action(item, waiter.request, *_LATE) for waiter in late]
            if late and not item.waiters:
                self._given_up(item)
        return actions

    def _is_held_up(self, item: Item, now: float) -> bool:
        """Return whether a sample's raw bytes would be waited for just as long."""
        if item.state != "planned" or not self._queue.throttle.active:
            return item.state == "fetching"
        job = self._queue.jobs[item.visit.job]
        return self._queue.throttle.would_wait(job.name, stored_of(job, item).tier, now)

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
            self._queue.jobs[item.visit.job].forget(item)

    def _needs_s(self, item: Item, queue_s: float, now: float) -> float:
        """Return how long until an item will be ready, by the estimates."""
        return queue_s + item.cost_s if item.result is None else item.result.remaining_s(now)

    def _queue_s(self, now: float) -> float:
        """Return how long until a worker is free for what is asked for next."""
        waited = sum(job.waited_cost_s() for job in self._queue.jobs.values())
        running = self._queue.results.running
        is_free = self._queue.allowed > running.busy
        busy_s = 0.0 if is_free else running.busy_s(now)
        return (waited + busy_s) / max(self._queue.allowed, 1)

    def _cannot_start(self, job: JobWindow, item: Item) -> tuple[str, str] | None:
        if not self._queue.transform:
            return "busy", self._queue.busy_reason
        if self._queue.is_too_large(job, item):
            return TOO_LARGE
        return None
