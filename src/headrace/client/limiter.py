"""Holds what a trainer reads from storage by itself to the quota of its job."""

from __future__ import annotations

import threading

from headrace.client.held import SIGN_S, Held
from headrace.core.clock import Clock, SystemClock
from headrace.policy.bucket import TokenBucket

BURST_S = 0.25
"""What may be saved up, as time at the quota [s]."""

LONGEST_S = 10.0
"""Longest that one sample waits; then it is read although the quota does not allow it [s]."""


class DirectLimiter:
    """One budget for all threads that read from storage. Thread-safe; no limit until one is set."""

    def __init__(self, held: Held, clock: Clock | None = None) -> None:
        self.held = held
        """Who is told while the quota holds something back."""

        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._bucket: TokenBucket | None = None
        self._closed = False
        self._read_bytes = 0

    @property
    def read_bytes(self) -> int:
        """What was let through since the start [bytes]."""
        return self._read_bytes

    @property
    def bytes_per_s(self) -> float | None:
        """The quota in force [B/s]; None: not limited."""
        return None if self._bucket is None else self._bucket.rate

    def wait(self, nbytes: int) -> float:
        """Wait until ``nbytes`` may be read, and return how long that took [s].

        Returns at once where nothing limits, or after ``close``; after ``LONGEST_S`` at the latest.
        """
        with self._changed:
            self._read_bytes += nbytes
            if self._bucket is None:
                return 0.0
            begin = self._clock.now()
            self._wait_for(nbytes, begin + LONGEST_S)
            return self._clock.now() - begin

    def set_rate(self, bytes_per_s: float | None) -> None:
        """Limit to ``bytes_per_s`` from now on; None lifts the limit. Those who wait notice."""
        with self._changed:
            if bytes_per_s is None:
                self._bucket = None
            elif self._bucket is None:
                self._bucket = TokenBucket(bytes_per_s, bytes_per_s * BURST_S, self._clock.now())
            else:
                self._bucket.set_rate(bytes_per_s, bytes_per_s * BURST_S, self._clock.now())
            self._changed.notify_all()

    def close(self) -> None:
        """Let everybody through from now on: the loader ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _wait_for(self, nbytes: int, deadline: float) -> None:
        while not self._closed and self._bucket is not None:
            now = self._clock.now()
            if self._bucket.take_nowait(nbytes, now):
                return
            if now >= deadline:
                self._bucket.charge(nbytes, now)
                return
            self.held.note()
            self._changed.wait(min(self._bucket.free_at(now) - now, deadline - now, SIGN_S))
