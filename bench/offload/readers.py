"""Runs the plain reader beside a measurement and collects what it says."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from bench.offload.reading import Reading, rate_between
from headrace.core.errors import DeadlineError

START_TIMEOUT_S = 60.0
_POLL_S = 0.05


class RunningReader:
    """A reader that runs, and all it has said."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._readings: list[Reading] = []
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def wait_begun(self) -> None:
        """Wait until bytes come.

        Raises:
            DeadlineError: none came in a minute.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._readings or not self._readings[-1].bytes:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise DeadlineError(
                    f"the plain reader got no bytes within {START_TIMEOUT_S:g} s; its own words "
                    "are above"
                )
            time.sleep(_POLL_S)

    def rate(self, begin_s: float, end_s: float) -> float:
        """Return how many bytes a second came between two moments of the past [B/s]."""
        return rate_between(tuple(self._readings), begin_s, end_s)

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _collect(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._readings.append(msgspec.json.decode(line, type=Reading))


@contextmanager
def plain_reader(
    start: Callable[[Sequence[str]], subprocess.Popen[bytes]], url: str
) -> Iterator[RunningReader]:
    """Read from HDFS as fast as it goes while the block runs."""
    reader = RunningReader(start([sys.executable, "-m", "bench.offload.reading", url]))
    try:
        reader.wait_begun()
        yield reader
    finally:
        reader.stop()
