"""A plain reader of HDFS: ``python -m bench.offload.reading URL``, until its input is closed.

Reads the large files in the dataset over and over, a few at once, and says a few times a
second how many bytes it has got, as JSON lines of (monotonic time, bytes).
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from headrace.storage.opening import open_storage
from headrace.storage.port import FileInfo, Storage

READERS = 3
PIECE_BYTES = 4 << 20
REPORT_S = 0.2
SMALLEST_BYTES = 8 << 20
"""Files below this are left out: here it is the DataNodes that are measured, not the NameNode."""


class Reader:
    """Reads files round and round on one thread each, and counts."""

    def __init__(self, storage: Storage, files: Sequence[FileInfo]) -> None:
        self._storage = storage
        self._pieces = itertools.cycle(list(_pieces(files)))
        self._lock = threading.Lock()
        self.bytes = 0

    def run(self) -> None:
        """Read until the process ends."""
        while True:
            with self._lock:
                path, offset, length = next(self._pieces)
            data = self._storage.read(path, offset, length)
            with self._lock:
                self.bytes += len(data)


def _pieces(files: Sequence[FileInfo]) -> Iterator[tuple[str, int, int]]:
    for file in files:
        for offset in range(0, file.size, PIECE_BYTES):
            yield file.path, offset, min(PIECE_BYTES, file.size - offset)


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """One line."""

    at_s: float
    """On the machine's monotonic clock [s]."""

    bytes: int


def rate_between(readings: Sequence[Reading], begin_s: float, end_s: float) -> float:
    """Return how many bytes a second came between two moments [B/s]."""
    at = [one.at_s for one in readings]
    low, high = np.interp([begin_s, end_s], at, [float(one.bytes) for one in readings])
    return float(high - low) / (end_s - begin_s)


def main(url: str) -> None:
    """Read until standard input is closed."""
    storage = open_storage(url)
    reader = Reader(storage, [file for file in storage.list() if file.size >= SMALLEST_BYTES])
    for _ in range(READERS):
        threading.Thread(target=reader.run, daemon=True).start()
    threading.Thread(target=_leave_with_input, daemon=True).start()
    while True:
        line = msgspec.json.encode(Reading(time.monotonic(), reader.bytes))
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()
        time.sleep(REPORT_S)


def _leave_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
