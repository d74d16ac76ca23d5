"""What the kernel counts of processes' reads and writes, also of those that no hook sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.trace.events import Event, Kind

NAME = "process_io"
"""Of the events; their counts are the kernel's, by its names."""

_UNITS = {
    "rchar": "rchar_bytes",
    "wchar": "wchar_bytes",
    "syscr": "syscr",
    "syscw": "syscw",
    "read_bytes": "read_bytes",
    "write_bytes": "write_bytes",
}


@dataclass(frozen=True, slots=True)
class _Sample:
    at_ns: int
    counts: dict[str, int]


class ProcessSampler:
    """Samples ``/proc/PID/io``.

    ``rchar`` is what a process asked the kernel for, pipes and its own code included;
    ``read_bytes`` is what of it came from a disk.

    Args:
        record: Takes an event for each process and sample in which something moved.
    """

    def __init__(self, record: Callable[[Event], None]) -> None:
        self._record = record
        self._samples: dict[int, _Sample] = {}

    def sample(self, ranks: Mapping[int, int | None]) -> None:
        """Record what moved in some processes since their last sample; others are forgotten.

        Args:
            ranks: Of the processes, by their ids.
        """
        earlier, self._samples = self._samples, {}
        for pid, rank in ranks.items():
            sample = _sample_of(pid)
            if sample is not None:
                self._samples[pid] = sample
                if pid in earlier:
                    self._compare(pid, rank, earlier[pid], sample)

    def _compare(self, pid: int, rank: int | None, before: _Sample, after: _Sample) -> None:
        moved = {name: after.counts[name] - before.counts[name] for name in after.counts}
        if any(moved.values()):
            self._record(
                Event(
                    kind=Kind.CALL,
                    name=NAME,
                    begin_ns=before.at_ns,
                    duration_ns=after.at_ns - before.at_ns,
                    pid=pid,
                    rank=rank,
                    counts=moved,
                )
            )


def _sample_of(pid: int) -> _Sample | None:
    try:
        told = Path(f"/proc/{pid}/io").read_text()
    except OSError:  # it ended, or is another user's
        return None
    pairs = (line.split(": ") for line in told.splitlines())
    counts = {_UNITS[name]: int(number) for name, number in pairs if name in _UNITS}
    return _Sample(time.time_ns(), counts)
