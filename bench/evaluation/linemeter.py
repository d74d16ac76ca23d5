"""Watches the line between two sites: how much crossed in any second."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence

from testbed import Testbed

LOOK_S = 0.02
WINDOW_S = 1.0

Sample = tuple[float, int]
"""When, on the monotonic clock [s], and how much had crossed since the line was made [bytes]."""


class LineMeter:
    """Samples what comes out at the second site, as a context manager."""

    def __init__(self, bed: Testbed) -> None:
        self._bed = bed
        self._stop = threading.Event()
        self.samples: list[Sample] = []

    def __enter__(self) -> LineMeter:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.samples.append((time.monotonic(), self._bed.line_bytes().onwards))


def busiest_second(samples: Sequence[Sample]) -> float:
    """Return the most that crossed in any second [B/s].

    A window is at least a second long, from one look to another, and what crossed in it is
    divided by its length: looks are 20 ms apart or, on a busy machine, more.
    """
    times = [at_s for at_s, _ in samples]
    most = 0.0
    for at_s, nbytes in samples:
        end = bisect_left(times, at_s + WINDOW_S)
        if end == len(samples):
            break
        most = max(most, (samples[end][1] - nbytes) / (times[end] - at_s))
    return most
