"""The thread that reports a loader's prefetch health, so that the training loop need not."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headrace.client.counts import Counts
from headrace.client.joining import join_all
from headrace.client.limiter import DirectLimiter
from headrace.client.pace import Pace
from headrace.client.reporting.figures import Figures, Latencies, of_moments
from headrace.client.reporting.forecast import Forecast
from headrace.client.reporting.moment import Moment
from headrace.client.reporting.standing import ControlStatistics
from headrace.client.reporting.voice import Voice
from headrace.core.errors import HeadraceError
from headrace.prepare.job import OpenJob
from headrace.wire.control import HealthAnswer, JobAnnounced
from headrace.wire.endpoint import Endpoint

logger = logging.getLogger("headrace.client")

LEAST_S = 0.2
"""Least time between two times that a rank speaks; faster steps are told together [s]."""

STALL_EVERY_S = 1.0
"""A step that is waited for is told of before it comes, as often as this, or as the controller
says [s]."""

HELD_S = 30.0
"""Longest wait for a step that the job's quota holds up before people are told, once [s]."""

MOST_MOMENTS = 4096
"""Steps that may wait for the thread; of more, the oldest are not told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobShape:
    """What is told of a job, beside its schedule."""

    rank: int
    world: int
    ranks_here: int
    """Ranks of it on this host."""

    title: str
    weight: float
    storage_tier: str | None
    """Tier that its ranks read by themselves; None: not known."""


class Reporter:
    """Tells the controller of one loader's steps, and holds its direct reads to what is answered.

    ``note`` is for the training thread and never waits; the rest may be called by any thread.
    """

    def __init__(
        self,
        job: OpenJob,
        endpoint: Endpoint,
        shape: JobShape,
        *,
        pace: Pace,
        limiter: DirectLimiter,
        queue_capacity: Callable[[], int],
    ) -> None:
        self._job = job
        self._endpoint = endpoint
        self._shape = shape
        self._pace = pace
        self._limiter = limiter
        self._queue_capacity = queue_capacity
        self._forecast = Forecast(job, rank=shape.rank, world=shape.world)
        self._latencies = Latencies()
        self._moments: deque[Moment] = deque(maxlen=MOST_MOMENTS)
        self._iterations = 0
        self._told, self._told_at = -1, 0.0
        self._told_bytes = 0
        self._asked: tuple[int, float] | None = None
        """The step that the loop waits for, and since when."""

        self._has_told_held = False
        self._first_step = 0
        self._announced_step: int | None = None
        self._voice: Voice | None = None
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waits_for_steps = False
        """Whether the thread has to be woken at the next step; else it wakes by itself soon."""

        self._closed = False
        self._thread = threading.Thread(target=self._work, name="headrace-report", daemon=True)

    def start(self, first_step: int) -> None:
        """Announce the job, which will go on from ``first_step``; does not wait for that."""
        self._first_step = first_step
        if self._thread.ident is None:
            self._thread.start()
        self._ring()

    def ask(self, step: int) -> None:
        """Leave word that the loop waits for a step from now on. For the training thread."""
        self._asked = (step, time.monotonic())

    def stop_asking(self) -> None:
        """Leave word that the loop gave up waiting. For the training thread."""
        self._asked = None

    def note(self, *, step: int, wait_s: float, ready_steps: int, counts: Counts) -> None:
        """Leave word of a step that was handed over. For the training thread."""
        self._asked = None
        self._moments.append(Moment(self._iterations, step, wait_s, ready_steps, counts))
        self._iterations += 1
        if self._waits_for_steps:
            self._waits_for_steps = False
            self._ring()

    def statistics(self) -> ControlStatistics:
        """Describe how the loader and its controller stand."""
        voice, limiter = self._voice, self._limiter
        known = ControlStatistics(
            controller=self._endpoint.address,
            speaks=voice is not None and voice.speaks,
            direct_bytes_per_s=limiter.bytes_per_s,
            direct_bytes=limiter.read_bytes,
        )
        return known if voice is None else known.with_word(voice.word, time.monotonic())

    def close(self, timeout_s: float) -> None:
        """Say goodbye, for ``timeout_s`` at most."""
        if self._closed:
            return
        self._ring_to_close()
        if self._thread.ident is not None:
            join_all([self._thread], timeout_s)
        if not self._thread.is_alive():  # else the number may be another file's when it wakes up
            os.close(self._bell)

    def _ring_to_close(self) -> None:
        self._closed = True
        os.eventfd_write(self._bell, 1)

    def _ring(self) -> None:
        if not self._closed:
            os.eventfd_write(self._bell, 1)

    def _work(self) -> None:
        try:
            with contextlib.closing(self._new_voice()) as voice:
                self._voice = voice
                while not self._closed:
                    self._turn(voice)
                    self._wait(voice)
                voice.leave()
        except (HeadraceError, OSError) as error:
            logger.warning("%s; training goes on, and the controller hears no more of it", error)

    def _new_voice(self) -> Voice:
        return Voice(
            self._job.spec.id,
            self._endpoint,
            self._announcement,
            ranks=self._shape.ranks_here,
            storage_tier=self._shape.storage_tier,
            now=time.monotonic(),
        )

    def _turn(self, voice: Voice) -> None:
        now = time.monotonic()
        voice.hear(now)
        if self._announced_step != self._first_step:
            self._announced_step = self._first_step
            voice.announce(now)
        if min(self._steps_in(now), self._stall_in(now)) == 0:
            voice.say(self._figures(now), now)
        voice.turn(now)
        self._obey(voice)

    def _wait(self, voice: Voice) -> None:
        now = time.monotonic()
        self._waits_for_steps = True
        steps_s = self._steps_in(now)  # only now: a step that comes from here on rings
        self._waits_for_steps = steps_s == math.inf
        wait_s = min(voice.due_in(now), self._stall_in(now), steps_s)
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(voice.fileno(), select.POLLIN)
        if any(number == self._bell for number, _ in poll.poll(wait_s * 1000)):
            os.eventfd_read(self._bell)

    def _steps_in(self, now: float) -> float:
        """Return the time until steps have to be told of [s]; infinite: not before the next."""
        if not self._moments or self._moments[-1].iteration < self._told + self._every():
            return math.inf
        return max(0.0, self._told_at + LEAST_S - now)

    def _stall_in(self, now: float) -> float:
        """Return the time until it has to be told that no step comes, or to look again [s]."""
        asked, answer = self._asked, self._answer()
        every_s = STALL_EVERY_S if answer is None else answer.stall_every_s
        return every_s if asked is None else max(0.0, max(asked[1], self._told_at) + every_s - now)

    def _every(self) -> int:
        answer = self._answer()
        return 1 if answer is None else answer.every

    def _answer(self) -> HealthAnswer | None:
        return None if self._voice is None else self._voice.word.answer

    def _figures(self, now: float) -> Figures:
        moments = [self._moments.popleft() for _ in range(len(self._moments))]
        if moments:
            self._told = moments[-1].iteration
            unready = moments[-1].step + max(moments[-1].ready_steps, 1)
        else:
            moments = [self._stall(now)]
            unready = moments[-1].step
        self._told_at, told_bytes = now, self._told_bytes
        self._told_bytes = self._limiter.read_bytes
        return of_moments(
            moments,
            latencies=self._latencies,
            step_time_s=self._pace.read().step_time_s,
            queue_capacity=self._queue_capacity(),
            upcoming_bytes=self._forecast.of_rank(unready),
            direct_bytes=self._told_bytes - told_bytes,
        )

    def _stall(self, now: float) -> Moment:
        """Return what there is to tell of a step that is still waited for."""
        step, since = self._asked or (self._next_step(), now)
        waited_s = now - since
        is_held = self._limiter.held.is_on()
        if is_held and waited_s > HELD_S and not self._has_told_held:
            self._has_told_held = True
            logger.warning(
                "step %d has not come for %.0f s: the job's quota holds its reads back; "
                "`headrace jobs` shows what others have, and `loader.summary()` adds up the wait",
                step,
                waited_s,
            )
        counts = Counts(throttled_s=waited_s if is_held else 0.0)
        return Moment(self._iterations, step, waited_s, 0, counts)

    def _obey(self, voice: Voice) -> None:
        """Hold direct reads to this process's part of what the controller said last."""
        word = voice.word
        if word.answer is None:
            return
        quota = word.answer.quotas.get(word.tier)
        rate = None if quota is None else quota / max(word.ranks, 1)
        if rate != self._limiter.bytes_per_s:
            self._limiter.set_rate(rate)

    def _announcement(self, host: str, boot: str, iteration: int) -> JobAnnounced:
        shape = self._shape
        return JobAnnounced(
            host=host,
            boot=boot,
            world=shape.world,
            hosts=math.ceil(shape.world / shape.ranks_here),
            title=shape.title,
            data_path=self._job.spec.data_path,
            weight=shape.weight,
            step_time_s=self._pace.read().step_time_s,
            upcoming_bytes=self._forecast.of_job(self._next_step()),
            iteration=iteration,
        )

    def _next_step(self) -> int:
        return max(self._pace.read().consumed_step + 1, self._first_step)
