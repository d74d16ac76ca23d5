"""Threads of an agent share a few heaps of the C library."""

from __future__ import annotations

from pathlib import Path

from client_for_tests import Job, make_dataset

from headrace.agent.local import LocalAgent
from headrace.agent.raw import THREADS

HEAP_BYTES = 64 << 20
"""Address space that glibc reserves for a heap of threads, at a multiple of its size."""


def heaps_of_threads(pid: int) -> int:
    """Return how many heaps a process has beside that of its main thread."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    spans = [tuple(int(end, 16) for end in line[0].split("-")) for line in lines if len(line) == 5]
    ends = {end for _, end in spans}
    return sum(begin % HEAP_BYTES == 0 and begin + HEAP_BYTES in ends for begin, _ in spans)


def test_threads_that_read_for_raw_answers_share_heaps(tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "served", 24)
    with LocalAgent([tmp_path], options=["--workers", "0"]) as agent:
        job = Job(agent, dataset)
        job.register()
        assert len(job.fetch(*range(24))) == 24
        assert heaps_of_threads(agent.pid) < THREADS / 2
