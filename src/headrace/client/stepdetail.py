"""Records the single requests and the slowest sample of some steps: of all, where these are few.

What is not recorded one by one is in the sums of its step.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from msgspec.structs import replace

from headrace.client.maker import Made
from headrace.client.member import Member
from headrace.policy.bucket import TokenBucket
from headrace.prepare.job import OpenJob
from headrace.trace.events import Event, Kind
from headrace.trace.recording import Recording, wall_ns

RATE = 100.0
"""Samples whose requests are recorded one by one, over all steps [samples/s]. A step of more is
recorded whole, and others afterwards are not."""

SAVED_S = 1.0
"""What was not used of it in this time is saved up [s]."""


class Fetch(NamedTuple):
    """One request to an agent that was answered."""

    member: Member
    begin: float
    """Monotonic [s]."""

    samples: int
    nbytes: int
    queued_s: float
    """Longest that one of its samples waited in the agent [s]."""


class StepDetails:
    """Decides which steps are recorded in detail. Thread-safe."""

    def __init__(self, recording: Recording | None, job: OpenJob, *, rank: int) -> None:
        self._recording = recording
        self._job = job
        self._rank = rank
        self._lock = threading.Lock()
        self._allowance = TokenBucket(RATE, RATE * SAVED_S, time.monotonic() - SAVED_S)

    def begin(self, step: int, epoch: int, *, samples: int) -> StepDetail | None:
        """Return what records a step of so many samples; None: only its sums are recorded."""
        if self._recording is None:
            return None
        with self._lock:
            if not self._allowance.take_nowait(samples, time.monotonic()):
                return None
        return StepDetail(self._recording, self._job, rank=self._rank, step=step, epoch=epoch)


class StepDetail:
    """Records one step. For one thread."""

    def __init__(
        self, recording: Recording, job: OpenJob, *, rank: int, step: int, epoch: int
    ) -> None:
        self._recording = recording
        self._job = job
        self._bare = Event(
            kind=Kind.REQUEST, begin_ns=0, job=job.spec.id, rank=rank, step=step, epoch=epoch
        )
        self._slowest: tuple[float, int, str | None] = (0.0, -1, None)

    def read(self, sample: int, begin: float, made: Made) -> None:
        """Record that a sample was read from storage here.

        Args:
            sample: Its id.
            begin: When its making began, monotonic [s].
            made: What it took.
        """
        file, offset = self._job.start(sample)
        self._recording.record(
            replace(
                self._bare,
                name="read",
                begin_ns=wall_ns(begin),
                duration_ns=_ns(made.throttled_s + made.read_s),
                queue_ns=_ns(made.throttled_s),
                sample=str(sample),
                file=file,
                offset=offset,
                bytes=made.storage_bytes,
                is_write=False,
            )
        )

    def fetched(self, fetch: Fetch) -> None:
        """Record that an agent has answered just now."""
        self._recording.record(
            replace(
                self._bare,
                name="fetch",
                begin_ns=wall_ns(fetch.begin),
                duration_ns=_ns(time.monotonic() - fetch.begin),
                queue_ns=_ns(fetch.queued_s),
                bytes=fetch.nbytes,
                replica=fetch.member.name,
                round_trips=1,
                is_write=False,
                counts={"samples": fetch.samples},
            )
        )

    def made(self, sample: int, seconds: float, agent: str | None = None) -> None:
        """Take note of how long a sample took to make, here or by an agent [s]."""
        if seconds > self._slowest[0]:
            self._slowest = (seconds, sample, agent)

    def end(self) -> None:
        """Record the slowest sample."""
        seconds, sample, agent = self._slowest
        if sample < 0:
            return
        file, offset = self._job.start(sample)
        self._recording.record(
            replace(
                self._bare,
                kind=Kind.LOAD,
                begin_ns=time.time_ns() - _ns(seconds),
                duration_ns=_ns(seconds),
                sample=str(sample),
                file=file,
                offset=offset,
                replica=agent,
            )
        )


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
